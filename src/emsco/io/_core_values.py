"""Write prices, designs, labels, encodings and candidates to a file, and read them back.

A file may be forged, so reading checks everything that the classes do not check themselves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import Field, fields, replace
from math import inf, isfinite
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from emsco.core.costs import Costs, Review, Source
from emsco.core.design import StageDesign
from emsco.core.evaluation import Evaluation
from emsco.core.front import Candidate, ParetoFront
from emsco.core.threshold import freeze
from emsco.exceptions import ArtifactError
from emsco.io._json import from_plain, to_plain
from emsco.io._members import MemberReader, MemberWriter
from emsco.rows.columns import is_level
from emsco.rows.encoding import Category, ColumnEncoding, Number

Data = dict[str, Any]
Kind = TypeVar("Kind")

_LABELS = re.compile(r"[<|][biuf][1248]|<U\d{1,4}|\|O")
_MOST_LABELS = 2**25  # bytes
_TOTALS = ("rows", "accepted", "right", "paid", "waited", "worst_latency")
_BY_CLASS = ("class_rows", "class_accepted", "class_right")
# Stored if they are known for a candidate.
_OPTIONAL = ("label_accepted", "class_reference", "class_both")
# The same counts again, of rows and of squares, if they are of stakes.
_MOMENTS = ("by_row", "squares")


def expect(value: Any, kind: type[Kind]) -> Kind:
    """Return a value that must be of this type, or refuse the file."""
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        raise ArtifactError(f"it holds {value!r:.80} where {kind.__name__} is expected")
    return value


def expect_place(value: Any, length: int) -> int:
    """Return a position that must be valid in a list of this length."""
    place = expect(value, int)
    if not 0 <= place < length:
        raise ArtifactError(f"it holds {place!r:.80} where 0 to {length - 1} is expected")
    return place


def expect_texts(values: Any) -> list[str]:
    """Return a list that must hold only text."""
    return [expect(value, str) for value in expect(values, list)]


def expect_keys(data: Any, *names: str) -> Data:
    """Return an object that must have exactly these keys."""
    if expect(data, dict).keys() != set(names):
        raise ArtifactError(
            f"it has the keys {sorted(data)!r:.80} where {sorted(names)} are expected"
        )
    found: Data = data
    return found


def values_of(data: Any, **kinds: type[Any]) -> list[Any]:
    """Return the values of an object that must have exactly these keys; `object` is any value."""
    expect_keys(data, *kinds)
    return [
        data[name] if kind is object else expect(data[name], kind) for name, kind in kinds.items()
    ]


def expect_fields(data: Any, kind: Any) -> Data:
    """Return an object that must have exactly the fields of this class."""
    return expect_keys(data, *(field.name for field in fields(kind)))


def labels_to(classes: NDArray[Any]) -> Data:
    """Store labels and their numpy type."""
    if classes.dtype.kind not in "Ubiuf" and classes.dtype != object:
        raise ArtifactError(f"labels must be text, numbers or booleans, got {classes.dtype}")
    _check_room(classes.dtype, len(classes))
    dtype = classes.dtype.newbyteorder("<").str
    return {"dtype": dtype, "labels": to_plain(classes.tolist(), "a label")}


def labels_from(data: Data) -> NDArray[Any]:
    """Read the labels back."""
    dtype, plain = values_of(data, dtype=str, labels=list)
    labels = from_plain(plain)
    if not _LABELS.fullmatch(dtype) or len(labels) < 2 or len(set(labels)) != len(labels):
        raise ArtifactError(
            "it must have at least two different labels of text, numbers or booleans"
        )
    _check_room(np.dtype(dtype), len(labels))
    classes = np.empty(len(labels), dtype=dtype)
    classes[:] = labels
    if classes.tolist() != labels:
        raise ArtifactError(f"its labels are not of the type {dtype}")
    if not (classes[:-1] < classes[1:]).all():
        raise ArtifactError("its labels are not sorted")
    return classes


def _check_room(dtype: np.dtype[Any], n_labels: int) -> None:
    """Refuse labels for which numpy would allocate too much memory."""
    if dtype.itemsize * n_labels > _MOST_LABELS:
        raise ArtifactError(f"its labels would take more than {_MOST_LABELS // 2**20} MB")


def costs_to(costs: Costs) -> Data:
    """Store all prices."""
    return {
        "sources": [_fields_to(source) for source in costs.sources],
        "setups": dict(costs.setups),
        "review": None if costs.review is None else _fields_to(costs.review),
        "unit": costs.unit,
        **({"skipped": list(costs.skipped)} if costs.skipped else {}),
        **({"descriptions": dict(costs.descriptions)} if costs.descriptions else {}),
        **({"errors": to_plain(dict(costs.errors), "`errors`")} if costs.errors else {}),
    }


def costs_from(data: Data) -> Costs:
    """Read the prices back."""
    later = {"skipped": list, "descriptions": dict, "errors": dict}
    own = {name: kind for name, kind in later.items() if name in expect(data, dict)}
    sources, setups, review, unit, *_ = values_of(
        data, sources=list, setups=dict, review=object, unit=str, **own
    )
    review = None if review is None else Review(**expect_fields(review, Review))
    return Costs(
        [_source_from(s) for s in sources],
        setups=setups,
        review=review,
        unit=unit,
        skipped=expect_texts(data.get("skipped", [])),
        errors=expect(from_plain(data.get("errors", {"dict": {}})), dict),
        descriptions=data.get("descriptions", {}),
    )


def _source_from(data: Any) -> Source:
    names = [f.name for f in fields(Source) if f.name in expect(data, dict) or not _is_later(f)]
    expect_texts(expect_keys(data, *names)["features"])
    expect_texts(data["requires"])
    if data["setup"] is not None:
        expect(data["setup"], str)
    expect(data.get("description", ""), str)
    return Source(**data)


def _fields_to(value: Source | Review) -> Data:
    items = {
        field.name: getattr(value, field.name)
        for field in fields(value)
        if not _is_later(field) or getattr(value, field.name) != field.default
    }
    return {name: _plain(item) for name, item in items.items()}


def _plain(item: Any) -> Any:
    """Return what JSON can hold."""
    if isinstance(item, tuple):
        return list(item)
    return dict(item) if isinstance(item, Mapping) else item


def _is_later(field: Field[Any]) -> bool:
    """Return whether early files lack a field; later ones have it only if it is set."""
    return bool(field.metadata.get("later"))


def design_from(data: Any, costs: Costs) -> StageDesign:
    """Read which sources each stage of a design buys, over the sources of `costs`."""
    stages = [expect_texts(stage) for stage in expect(data, list)]
    stage_of = {source: number for number, stage in enumerate(stages) for source in stage}
    if len(stage_of) != sum(map(len, stages)) or not stage_of.keys() <= set(costs.names):
        raise ArtifactError("its stages buy a source twice, or one that has no price")
    assignment = [stage_of.get(name, -1) for name in costs.names]
    return StageDesign(np.array(assignment, dtype=np.int64), costs.names).align(costs)


def encoding_to(encoding: ColumnEncoding, name: str) -> Data:
    """Store how a column is encoded."""
    if isinstance(encoding, Number):
        numbers = {"centre": encoding.centre, "scale": encoding.scale, "median": encoding.median}
        return {key: None if value is None else float(value) for key, value in numbers.items()}
    levels = to_plain(list(encoding.levels), f"column {name!r}")
    return {"levels": levels, "pooled": encoding.pooled, "missing": encoding.missing_seen}


def encoding_from(data: Data) -> ColumnEncoding:
    """Read the encoding of a column back."""
    if "levels" in expect(data, dict):
        plain, pooled, missing = values_of(data, levels=list, pooled=bool, missing=bool)
        levels = tuple(from_plain(plain))
        if not all(map(is_level, levels)) or len(set(levels)) != len(levels):
            raise ArtifactError("it has a repeated or invalid category")
        return Category(levels, pooled, missing)
    centre, scale, median = values_of(data, centre=float, scale=float, median=object)
    number = Number(centre, scale, None if median is None else expect(median, float))
    if not 0 < number.scale < inf or not isfinite(number.centre):
        raise ArtifactError(
            f"it has a column with the scale {number.scale} and the centre {number.centre}"
        )
    return number


def candidates_to(writer: MemberWriter, candidates: Sequence[Candidate], costs: Costs) -> Data:
    """Store candidates as a table with one column per count."""
    designs = [candidate.design.align(costs).assignment for candidate in candidates]
    evaluations = [candidate.evaluation for candidate in candidates]
    assignments = np.array(designs, dtype=np.int16).reshape(len(designs), len(costs.names))
    data: Data = {
        "assignment": writer.array(assignments),
        "threshold": writer.column([c.threshold for c in candidates], "a threshold"),
    }
    # Each label is stored once; 1, 1.0 and True are equal, but different labels.
    labels: dict[tuple[type, Any], int] = {}
    named = [
        [labels.setdefault((type(label), label), len(labels)) for label in e.class_rows]
        for e in evaluations
    ]
    data["label"] = writer.column(named, "a label")
    data["labels"] = to_plain([label for _, label in labels], "a label")
    data |= _counts_to(writer, evaluations)
    if evaluations and all(e.is_by_stake for e in evaluations):
        for moment in _MOMENTS:
            data[moment] = _counts_to(writer, [getattr(e, moment) for e in evaluations])
    if any(candidate.learner for candidate in candidates):
        data["learner"] = [candidate.learner for candidate in candidates]
    return data


def _counts_to(writer: MemberWriter, evaluations: Sequence[Evaluation]) -> Data:
    """Store evaluations as a table with one column per count."""
    data: Data = {}
    for name in _TOTALS:
        data[name] = writer.column([getattr(e, name) for e in evaluations], f"`{name}`")
    for name in _BY_CLASS:
        counts = [[getattr(e, name)[label] for label in e.class_rows] for e in evaluations]
        data[name] = writer.column(counts, f"`{name}`")
    for name in _OPTIONAL:
        # An empty list if there is no comparison, as for all sources at once.
        counts = [
            [known[label] for label in e.class_rows] if known.keys() == e.class_rows.keys() else []
            for e in evaluations
            for known in [getattr(e, name)]
        ]
        if any(counts):
            data[name] = writer.column(counts, f"`{name}`")
    return data


def measured_to(front: ParetoFront) -> Data:
    """Store what a front was measured on, and what is known about its luck."""
    repeats = float(front.repeats)
    return {"measured_on": front.measured_on, "luck": front.luck, "repeats": repeats}


MEASURED = ("measured_on", "luck", "repeats")


def candidates_from(reader: MemberReader, data: Data, costs: Costs) -> list[Candidate]:
    """Read the candidates back."""
    later = {"learner", *_MOMENTS} & data.keys()
    known = {name for name in _OPTIONAL if name in data}
    expect_keys(
        data, "assignment", "threshold", "labels", "label", *_TOTALS, *_BY_CLASS, *known, *later
    )
    assignments = reader.array(data["assignment"], None, len(costs.names))
    if assignments.dtype.kind not in "iu":
        raise ArtifactError("its candidates must assign sources to stages by whole numbers")
    labels = from_plain(expect(data["labels"], list))
    thresholds = reader.column(data["threshold"])
    learners = expect_texts(data.get("learner", [""] * len(assignments)))
    named = [
        [labels[expect_place(place, len(labels))] for place in places]
        for places in reader.column(data["label"])
    ]
    if any(len(column) != len(assignments) for column in (named, thresholds, learners)):
        raise ArtifactError("the columns of its candidates differ in length")
    evaluations = _evaluations_from(reader, data, named)
    if later & {*_MOMENTS}:
        rows, squares = (
            _evaluations_from(reader, _counts_of(data.get(moment)), named) for moment in _MOMENTS
        )
        evaluations = [
            replace(one, by_row=of_rows, squares=square)
            for one, of_rows, square in zip(evaluations, rows, squares, strict=True)
        ]
    designs = [StageDesign(row.astype(np.int64), costs.names) for row in assignments]
    return list(map(Candidate, designs, thresholds, evaluations, learners))


def _counts_of(data: Any) -> Data:
    """Return a table of counts, or refuse the file if it is not complete."""
    known = {name for name in _OPTIONAL if name in expect(data, dict)}
    return expect_keys(data, *_TOTALS, *_BY_CLASS, *known)


def _evaluations_from(
    reader: MemberReader, data: Data, named: Sequence[Sequence[Any]]
) -> list[Evaluation]:
    """Read a table of counts back; `named` has the classes of each evaluation."""
    by_class = (*_BY_CLASS, *(name for name in _OPTIONAL if name in data))
    table = {name: reader.column(data[name]) for name in (*_TOTALS, *by_class)}
    if any(len(column) != len(named) for column in table.values()):
        raise ArtifactError("the columns of its candidates differ in length")
    evaluations = []
    for i, labels in enumerate(named):
        counts: Data = {name: table[name][i] for name in _TOTALS}
        for name in by_class:
            by_label = table[name][i]
            if by_label or name in _BY_CLASS:
                counts[name] = dict(zip(labels, by_label, strict=True))
        evaluations.append(Evaluation(**counts))
    return evaluations


def front_from(candidates: Sequence[Candidate], costs: Costs, data: Data) -> ParetoFront:
    """Read a front back and check it; `data` holds what it was measured on, and its luck."""
    luck = None if data["luck"] is None else expect(data["luck"], float)
    note, repeats = expect(data["measured_on"], str), expect(data["repeats"], float)
    front = ParetoFront(candidates, costs, note, luck=luck, repeats=repeats)
    if list(front) != list(candidates):
        raise ArtifactError("its candidates do not form a front")
    return front


def records_to(writer: MemberWriter, records: Sequence[Mapping[str, Any]], what: str) -> Data:
    """Store records, such as the steps of a search, as a table with one column per key.

    Records may have different keys; `what` names them in error messages.
    """
    shapes: dict[tuple[str, ...], int] = {}
    which = [shapes.setdefault(tuple(record), len(shapes)) for record in records]
    words = dict.fromkeys(word for shape in shapes for word in shape)
    columns = {word: [record[word] for record in records if word in record] for word in words}
    return {
        "words": [list(shape) for shape in shapes],
        "which": writer.column(which, what),
        "told": {w: writer.column(values, f"{w!r} of {what}") for w, values in columns.items()},
    }


def records_from(reader: MemberReader, data: Any) -> list[dict[str, Any]]:
    """Read records back."""
    words, which, columns = values_of(data, words=list, which=object, told=dict)
    shapes = [expect_texts(shape) for shape in words]
    values = {word: iter(reader.column(column)) for word, column in columns.items()}
    records = [
        {word: _frozen(word, next(values[word])) for word in shapes[number]}
        for number in reader.column(which)
    ]
    if any(True for rest in values.values() for _ in rest):
        raise ArtifactError("one of its tables has more values than records")
    return records


def _frozen(word: str, value: Any) -> Any:
    """Return a threshold as a search reports it."""
    return freeze(value) if word == "threshold" and isinstance(value, dict | tuple) else value
