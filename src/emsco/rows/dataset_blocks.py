"""A data set to fit on, larger than memory: its labels, a sample, and how its columns are read.

Whatever is learned is a sum over chunks of parts. The sums of a chunk are a pure function of the
chunk and of shared parameters, so an engine may compute them where the data are. Chunks depend only
on the data set, and their results are merged in order, so every engine gives the same result.

To draw a sample, every row has a random key, made from a seed and the row's number. Of each class,
the rows with the smallest keys are drawn: the same in any order of reading and for any division
into files and blocks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from emsco.exceptions import ClassesError, ColumnsError, ValuesError
from emsco.rows.arrow_columns import (
    TEXT_LABELS,
    Labels,
    as_numbers,
    is_text_type,
    read_labels,
    value_type,
)
from emsco.rows.column_reader import CATEGORY, NUMERIC_CATEGORY, TEXT, ColumnReader
from emsco.rows.column_summary import (
    WIDEST,
    CategorySummary,
    Interval,
    IntervalCounts,
    NumberSummary,
    Summary,
    count_between,
    kind_of_type,
    narrow_median,
    refuse_identifier,
    value_of,
)
from emsco.rows.dataset_parts import DatasetPart, check_names, parts_of
from emsco.rows.encoding import Array
from emsco.rows.row_hashes import COUNTER_STEP, finalise

MOST_CHUNKS = 64  # all their results are held at the same time

Chunk: TypeAlias = tuple[DatasetPart, ...]
Result = TypeVar("Result")


class ColumnRoles(NamedTuple):
    """Which columns hold labels and weights."""

    label: str
    weight: str | None = None

    @property
    def names(self) -> list[str]:
        """The names of these columns."""
        return [self.label] if self.weight is None else [self.label, self.weight]

    def read_weight(self, batch: pa.RecordBatch, first_row: int) -> Array | None:
        """Read how much each row counts; None if all count 1."""
        if self.weight is None:
            return None
        try:
            weight = as_numbers(batch.column(self.weight))
        except pa.ArrowInvalid as error:
            raise ValuesError(
                f"Column {self.weight!r} cannot be weights, because it holds {error}.",
                column=self.weight,
            ) from error
        bad = ~((weight >= 0) & np.isfinite(weight))
        if bad.any():
            row = first_row + int(np.argmax(bad))
            raise ValuesError(
                f"Row {row} of the weights in {self.weight!r} must be a number >= 0, got "
                f"{weight[np.argmax(bad)]}.",
                row=row,
                column=self.weight,
            )
        return weight


class DatasetSample(NamedTuple):
    """Rows drawn from a data set."""

    table: pa.Table
    labels: NDArray[Any]
    weight: Array | None


@dataclass(frozen=True, eq=False)
class Blocks:
    """A data set to fit on, in chunks of parts, of which an engine computes sums."""

    chunks: tuple[Chunk, ...]
    schema: pa.Schema
    roles: ColumnRoles
    engine: Any = None  # None: this process, chunk by chunk

    @classmethod
    def of(cls, dataset: Any, label: Any, weight: Any = None, engine: Any = None) -> Blocks:
        """Divide a data set; labels and weights are given by the names of their columns."""
        for what, name in (("y", label), ("sample_weight", weight)):
            if not isinstance(name, str) and not (what == "sample_weight" and name is None):
                raise ColumnsError(
                    f"With a data set, `{what}` must be the name of a column, got "
                    f"{type(name).__name__}."
                )
        roles = ColumnRoles(label, weight)
        check_names(dataset.schema.names, roles.names)
        parts = parts_of(dataset)
        if not parts:
            raise ColumnsError("The data set has no rows.")
        size = -(-len(parts) // MOST_CHUNKS)
        chunks = tuple(tuple(parts[i : i + size]) for i in range(0, len(parts), size))
        return cls(chunks, dataset.schema, roles, engine)

    def map(self, function: Callable[[Chunk, Any], Result], shared: Any) -> list[Result]:
        """Return `function(chunk, shared)` for every chunk, in order."""
        if self.engine is None:
            return [function(chunk, shared) for chunk in self.chunks]
        results: list[Result] = self.engine.map(function, self.chunks, shared=shared)
        return results

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        last = self.chunks[-1][-1]
        return last.first_row + last.n_rows

    @property
    def names(self) -> list[str]:
        """The columns without those of labels and weights."""
        return [name for name in self.schema.names if name not in self.roles.names]

    @cached_property
    def counts(self) -> dict[Any, int]:
        """The number of rows of each class, in the order of labels."""
        found: Counter[Any] = Counter()
        for counted in self.map(_count_labels, self.roles):
            found.update(counted)
        classes = np.unique(np.array(list(found), dtype=self._label_dtype)).tolist()
        if len(classes) < 2:
            raise ClassesError(f"`y` must have at least 2 classes, got 1 class: {classes[0]!r}.")
        return {label: found[label] for label in classes}

    @property
    def classes(self) -> NDArray[Any]:
        """The labels, sorted."""
        return np.array(list(self.counts), dtype=self._label_dtype)

    @property
    def _label_dtype(self) -> Any:
        kind = value_type(self.schema.field(self.roles.label).type)
        return object if is_text_type(kind) else kind.to_pandas_dtype()

    def sample(
        self, n_rows: int, seed: int, names: Sequence[str], *, every_class: bool = False
    ) -> DatasetSample:
        """Draw rows with classes in proportion, in the order of the data set.

        With `every_class`, it is an error if a class has no row among them.
        """
        quotas = share_out(self.counts, n_rows)
        lost = [label for label, quota in quotas.items() if not quota]
        if lost and every_class:
            raise ClassesError(
                f"max_rows={n_rows} leaves no row of the class {lost[0]!r}; allow more."
            )
        parts = self.map(_draw, (self.roles, quotas, seed))
        drawn = [
            merge_drawn([part[label] for part in parts], quotas[label]).rows for label in quotas
        ]
        rows = np.sort(np.concatenate(drawn))
        columns = list(dict.fromkeys([*names, *self.roles.names]))
        taken = self.map(_take, (columns, rows))
        batches = [batch for some in taken for batch in some]
        table = pa.Table.from_batches(batches).combine_chunks()
        (batch,) = table.to_batches() or [None]
        texts = TEXT_LABELS if self._label_dtype is object else None
        labels = read_labels(batch.column(self.roles.label), self.roles.label, texts)
        return DatasetSample(table.select(list(names)), labels, self.roles.read_weight(batch, 0))

    def readers(self, names: Sequence[str]) -> dict[str, ColumnReader]:
        """Learn how columns are read and encoded."""
        kinds = {name: kind_of_type(self.schema.field(name).type, name) for name in names}
        summaries: dict[str, Summary] = self._merged(_summarise, (self.roles, kinds))
        medians = self._medians(summaries)
        readers = {}
        for name, kind in kinds.items():
            encoding = summaries[name].encoding(medians.get(name))
            readers[name] = ColumnReader(kind, encoding.missing_seen, encoding)
        return readers

    def _merged(self, function: Callable[[Chunk, Any], dict[str, Any]], shared: Any) -> Any:
        """Return what a function finds of each column, merged over all chunks."""
        found: dict[str, Any] = {}
        for part in self.map(function, shared):
            for name, more in part.items():
                _add(found, name, more)
        return found

    def _medians(self, summaries: Mapping[str, Summary]) -> dict[str, float]:
        """Find the exact lower medians of numbers that may be missing, by further passes."""
        halves = {
            name: summary.weight / 2
            for name, summary in summaries.items()
            if isinstance(summary, NumberSummary) and summary.has_missing
        }
        # As for rows in memory, the median of a column without any value is 0.
        medians = {name: 0.0 for name, half in halves.items() if not half}
        intervals = {name: WIDEST for name in halves if name not in medians}
        while intervals:
            counted: dict[str, IntervalCounts] = self._merged(_count, (self.roles, intervals))
            for name, found in counted.items():
                intervals[name] = narrow_median(intervals[name], found, halves[name])
                value = value_of(intervals[name])
                if value is not None:
                    medians[name] = value
                    del intervals[name]
        return medians


def row_keys(first_row: int, n_rows: int, seed: int) -> NDArray[np.uint64]:
    """Return the random key of each row, made from the seed and the row's number."""
    numbers = np.arange(first_row + 1, first_row + n_rows + 1, dtype=np.uint64)
    with np.errstate(over="ignore"):
        start = np.uint64(seed) * np.uint64(0xD1342543DE82EF95)
    return finalise((numbers + start) * COUNTER_STEP)


class ClassSample(NamedTuple):
    """Rows of one class that have the smallest keys so far."""

    keys: NDArray[np.uint64]
    rows: NDArray[np.int64]


def merge_drawn(parts: Sequence[ClassSample], n: int) -> ClassSample:
    """Merge rows drawn from several parts; keep the n smallest keys, the earlier of equal ones."""
    keys = np.concatenate([part.keys for part in parts])
    rows = np.concatenate([part.rows for part in parts])
    order = np.lexsort((rows, keys))[:n] if len(keys) > n else slice(None)
    return ClassSample(keys[order], rows[order])


def share_out(counts: Mapping[Any, int], n_rows: int) -> dict[Any, int]:
    """Divide rows among classes in proportion to their counts, by largest remainders."""
    total = sum(counts.values())
    if n_rows >= total:
        return dict(counts)
    whole = {label: count * n_rows // total for label, count in counts.items()}
    rest = sorted(counts, key=lambda label: -(counts[label] * n_rows % total))  # stable: ties stay
    for label in rest[: n_rows - sum(whole.values())]:
        whole[label] += 1
    return whole


def sample_rows(
    dataset: Any, y: str, max_rows: int, *, random_state: int = 0
) -> tuple[Any, NDArray[Any]]:
    """Draw rows from a data set, with classes in proportion, as a pandas frame and labels.

    Every row has a random key, made of the seed and its number, and the smallest keys of each class
    are drawn. So the sample depends on the order of the rows, but not on files and row groups.

    Parameters
    ----------
    dataset : pyarrow.dataset.Dataset
        The data set.
    y : str
        The column of labels.
    max_rows : int
        The maximum number of rows.
    random_state : int, default=0
        The seed.

    Returns
    -------
    X : pandas.DataFrame
        The rows, in the order of the data set, without the labels.
    y : array
        Their labels.

    Examples
    --------
    >>> import pyarrow as pa, pyarrow.dataset
    >>> from emsco.arrow import sample_rows
    >>> table = pa.table({"age": range(1000), "sick": [i % 4 == 0 for i in range(1000)]})
    >>> X, y = sample_rows(pa.dataset.dataset(table), "sick", 100)
    >>> X.shape, int(y.sum())
    ((100, 1), 25)
    """
    blocks = Blocks.of(dataset, y)
    sample = blocks.sample(max_rows, random_state, blocks.names, every_class=True)
    return sample.table.to_pandas(), sample.labels


def batches_of(chunk: Chunk, columns: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the batches of a chunk, each with the number of its first row."""
    for part in chunk:
        first_row = part.first_row
        for batch in part.batches(list(dict.fromkeys(columns))):
            yield first_row, batch
            first_row += batch.num_rows


def _count_labels(chunk: Chunk, roles: ColumnRoles) -> Counter[Any]:
    found: Counter[Any] = Counter()
    for first_row, batch in batches_of(chunk, roles.names):
        labels = Labels.read(batch.column(roles.label), roles.label, first_row)
        roles.read_weight(batch, first_row)
        counts = np.bincount(labels.places, minlength=len(labels.words)).tolist()
        found.update({w: n for w, n in zip(labels.words, counts, strict=True) if n})
    return found


def _draw(chunk: Chunk, shared: tuple[ColumnRoles, dict[Any, int], int]) -> dict[Any, ClassSample]:
    """Find the rows of each class with the smallest keys."""
    roles, quotas, seed = shared
    nothing = ClassSample(np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64))
    drawn = dict.fromkeys(quotas, nothing)
    classes = np.array(list(quotas), dtype=object)
    for first_row, batch in batches_of(chunk, [roles.label]):
        labels = Labels.read(batch.column(roles.label), roles.label, first_row)
        codes, keys = labels.codes(classes), row_keys(first_row, batch.num_rows, seed)
        for code, (label, quota) in enumerate(quotas.items()):
            own = np.flatnonzero(codes == code)
            held = drawn[label]
            if len(held.keys) >= quota:  # most keys are larger than those held
                own = own[keys[own] < held.keys.max(initial=0)]
            if own.size:
                drawn[label] = merge_drawn([held, ClassSample(keys[own], first_row + own)], quota)
    return drawn


def _take(chunk: Chunk, shared: tuple[list[str], NDArray[np.int64]]) -> list[pa.RecordBatch]:
    columns, rows = shared
    return [batch for part in chunk for batch in part.take(columns, rows)]


def _summarise(chunk: Chunk, shared: tuple[ColumnRoles, dict[str, str]]) -> dict[str, Summary]:
    roles, kinds = shared
    summaries: dict[str, Summary] = {}
    for first_row, batch in batches_of(chunk, [*kinds, *roles.names]):
        weight = roles.read_weight(batch, first_row)
        for name, kind in kinds.items():
            is_category = kind in (TEXT, CATEGORY, NUMERIC_CATEGORY)
            summary = CategorySummary if is_category else NumberSummary
            _add(summaries, name, summary.of(batch.column(name), name, weight, first_row))
    return summaries


def _count(
    chunk: Chunk, shared: tuple[ColumnRoles, dict[str, Interval]]
) -> dict[str, IntervalCounts]:
    roles, intervals = shared
    counted: dict[str, IntervalCounts] = {}
    for first_row, batch in batches_of(chunk, [*intervals, *roles.names]):
        weight = roles.read_weight(batch, first_row)
        for name, interval in intervals.items():
            _add(counted, name, count_between(batch.column(name), interval, weight))
    return counted


def _add(found: dict[str, Any], name: str, more: Summary | IntervalCounts) -> None:
    """Merge what was found of a column in other rows."""
    found[name] = found[name].merge(more) if name in found else more
    refuse_identifier(found[name], name)
