"""Arrow record batches in, decisions out: the seam that every engine can call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from emsco.cascade import Decider, decider_of
from emsco.cascade.decision_loop import Answer, Ask, decide_rows, drive
from emsco.core.decisions import ACCEPTED, LOW_CONFIDENCE, SHARE, Decisions
from emsco.exceptions import ColumnsError, DecisionsError
from emsco.rows.arrow_columns import Respell, TextColumn, python_values, read_column, read_labels
from emsco.rows.column_reader import ColumnReader
from emsco.rows.columns import is_dataset, refuse_invalid
from emsco.rows.dataset_parts import (
    BLOCK_ROWS,
    BatchPart,
    BatchReader,
    DatasetPart,
    check_names,
    parts_of,
    whole,
)
from emsco.rows.encoding import Category, Codes

ROW = "row"
FIELDS = {
    "label": pa.string(),
    "accepted": pa.bool_(),
    "exit_stage": pa.int64(),
    "confidence": pa.float64(),
    "cost": pa.float64(),
    "reason": pa.string(),
}


def decide_batches(
    cascade: Any,
    batches: Any,
    *,
    keep: Sequence[str] = (),
    numbered: bool = False,
    first_row: int = 0,
) -> Iterator[pa.RecordBatch]:
    """Decide rows that come in Arrow record batches, and give the decisions as record batches.

    Decisions are the same, bit for bit, as those of `cascade.decide` on all rows at once, however
    the rows are divided into batches. Columns that belong to no source are ignored.

    Parameters
    ----------
    cascade : CascadeClassifier, CascadeSearchCV or Decider
        What decides.
    batches : record batch, table, RecordBatchReader, data set, DatasetPart, or an iterable
        The rows. Items of an iterable are record batches, tables or readers: objects with
        `num_rows` and `read(columns, rows)`, which returns a record batch or a table. `rows` are
        positions in ascending order, or None for all rows. A reader is asked for the columns of a
        stage only while rows of it are undecided, and only for those rows. Of a data set of Parquet
        files, columns of later stages are read only for row groups with undecided rows.
    keep : sequence of str, default=()
        Columns to copy to the front of each decision.
    numbered : bool, default=False
        Whether the first column, `row`, numbers the rows.
    first_row : int, default=0
        The number of the first row, for `row` and for errors.

    Yields
    ------
    pyarrow.RecordBatch
        Decisions with the columns of `decision_schema`, in the order of the rows. A reader gives
        one batch; a record batch of more than 32,768 rows gives several.

    Raises
    ------
    ValuesError
        For a value that cannot be judged, if the cascade has no guard.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from sklearn.datasets import load_iris
    >>> from emsco import CascadeClassifier, StageDesign
    >>> from emsco.arrow import decide_batches
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> X.columns = ["sepal_length", "sepal_width", "petal_length", "petal_width"]
    >>> cascade = CascadeClassifier(design=StageDesign([1, 1, 0, 0])).fit(X, y)
    >>> table = pa.Table.from_pandas(X)
    >>> (decided,) = decide_batches(cascade, table.to_batches())
    >>> decided.schema.names
    ['label', 'accepted', 'exit_stage', 'confidence', 'cost', 'reason']
    >>> decided.column("label")[:3].to_pylist()
    [0, 0, 0]
    """
    decider = decider_of(cascade)
    driver, keep = _Driver(decider), list(dict.fromkeys(keep))
    names = list(dict.fromkeys([*decider.columns_read, *keep]))
    for reader in _readers(batches, names):
        n_rows = int(reader.num_rows)
        inputs = _read_named(reader, keep, None, n_rows) if keep else []
        decisions = driver.decide(reader, first_row)
        numbers = [pa.array(np.arange(first_row, first_row + n_rows))] if numbered else []
        types = pa.schema([(name, one.type) for name, one in zip(keep, inputs, strict=True)])
        schema = decision_schema(decider, types, keep=keep, numbered=numbered)
        begin = [*numbers, *inputs]
        fields = [driver.column(decisions, name) for name in schema.names[len(begin) :]]
        yield pa.RecordBatch.from_arrays([*begin, *fields], schema=schema)
        first_row += n_rows


def decision_schema(
    cascade: Any,
    schema: pa.Schema | None = None,
    *,
    keep: Sequence[str] = (),
    numbered: bool = False,
) -> pa.Schema:
    """Return the columns of decisions, as `decide_batches` gives them.

    Parameters
    ----------
    cascade : CascadeClassifier, CascadeSearchCV or Decider
        What decides.
    schema : pyarrow.Schema, default=None
        The columns of the rows; needed only if some of them are kept.
    keep, numbered
        As for `decide_batches`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from emsco import CascadeClassifier
    >>> from emsco.arrow import decision_schema
    >>> cascade = CascadeClassifier().fit(*load_iris(return_X_y=True))
    >>> decision_schema(cascade, numbered=True).names[:3]
    ['row', 'label', 'accepted']
    """
    decider = decider_of(cascade)
    keep = list(dict.fromkeys(keep))
    inputs = pa.schema([]) if schema is None else schema
    check_names(inputs.names, keep)
    fields = FIELDS | {"label": pa.array(decider.classes.tolist()).type}
    if not decider.plan.rule.is_equal:
        names = list(fields)
        names.insert(names.index("confidence") + 1, SHARE)
        fields = {name: fields.get(name, pa.float64()) for name in names}
    if decider.plan.latencies is not None:
        fields |= {"latency": pa.float64()}
    begin = {ROW: pa.int64()} if numbered else {}
    for name in keep:
        if name in fields or name in begin:
            raise ColumnsError(
                f"`keep` names {name!r}, but decisions already have a column of that name; rename "
                "your column."
            )
        begin[name] = inputs.field(name).type
    return pa.schema(begin | fields)


def _readers(batches: Any, names: Sequence[str]) -> Iterator[BatchReader]:
    """Give whatever holds rows as readers."""
    if is_dataset(batches):
        check_names(batches.schema.names, names)
        batches = chain.from_iterable(part.readers(names) for part in parts_of(batches))
    elif isinstance(batches, DatasetPart):
        batches = batches.readers(names)
    elif isinstance(batches, pa.RecordBatch | pa.Table) or hasattr(batches, "num_rows"):
        batches = [batches]
    elif not isinstance(batches, Iterable):
        raise ColumnsError(
            "`batches` must be record batches, a table, a data set or readers, got "
            f"{type(batches).__name__}."
        )
    for item in batches:
        if isinstance(item, pa.Table):
            yield from map(BatchPart, item.to_batches(max_chunksize=BLOCK_ROWS))
        elif isinstance(item, pa.RecordBatch):
            for start in range(0, max(item.num_rows, 1), BLOCK_ROWS):
                yield BatchPart(item.slice(start, BLOCK_ROWS))
        elif isinstance(item, DatasetPart):
            yield from item.readers(names)
        elif hasattr(item, "read") and hasattr(item, "num_rows"):
            yield item
        else:
            raise ColumnsError(
                "`batches` must hold record batches, tables or readers with `num_rows` and "
                f"`read(columns, rows)`, got {type(item).__name__}."
            )


class _Driver:
    """Answers the decision loop out of readers."""

    def __init__(self, decider: Decider) -> None:
        self._decider = decider
        # Labels as their places: Arrow takes those, instead of reading text back from Python.
        self._plan = replace(decider.plan, classes=np.arange(len(decider.classes)))
        self._labels = pa.array(decider.classes.tolist())

    def decide(self, reader: BatchReader, first_row: int) -> Decisions:
        """Decide the rows of a reader; labels are given as their places."""
        n_rows = int(reader.num_rows)
        respell: Callable[..., pa.Array] | None = getattr(reader, "respell", None)

        def answer(ask: Ask) -> Answer:
            some = None if ask.rows.size == n_rows else ask.rows
            columns = _read_named(reader, ask.features, some, ask.rows.size)
            rows = first_row + ask.rows
            requested = [
                (name, column, None if respell is None else partial(respell, name=name))
                for name, column in zip(ask.features, columns, strict=True)
            ]
            if self._decider.guard is None:
                return Answer([self._checked(*one, rows) for one in requested])
            found = {name: self._values(name, column, own) for name, column, own in requested}
            return Answer(list(found.values()), self._decider.reasons(found))

        return drive(decide_rows(self._plan, n_rows, stakes=self._stakes(reader)), answer)

    def _stakes(self, reader: BatchReader) -> Any:
        """Read the stakes of all rows, if the cascade has a cap."""
        cap, n_rows = self._plan.cap, int(reader.num_rows)
        if cap is None:
            return None
        (column,) = _read_named(reader, (cap.column,), None, n_rows)
        return column.to_pylist()

    def column(self, decisions: Decisions, name: str) -> pa.Array:
        """Give a field of decisions as a column."""
        if name == "label":
            return self._labels.take(pa.array(decisions.label))
        if name == "reason" and self._decider.guard is None and self._plan.cap is None:
            return pc.if_else(pa.array(decisions.accepted), ACCEPTED, LOW_CONFIDENCE)
        return pa.array(getattr(decisions, name))

    def _checked(
        self, name: str, column: pa.Array, respell: Respell | None, rows: NDArray[np.intp]
    ) -> NDArray[Any]:
        """Read a column as its stage takes it, text as codes; refuse what cannot be judged.

        A final model takes text as text, and where it is only what was logged, its answers.
        """
        reader = self._decider.readers.get(name)
        if reader is None:
            return read_labels(column, name, self._decider.classes)
        is_plain = self._decider.final is None and reader.type is None
        if is_plain and isinstance(reader.encoding, Category):
            words, places = TextColumn.read(column, reader.encoding.levels)
            bad = reader.invalid(words)  # a word that the block may have in no row
            if bad is not None and bad[places].any():
                _refuse(words[places], name, column, reader, rows)
            return reader.encoding.codes(words)[places].view(Codes)
        values = self._values(name, column, respell)
        is_finite = values.dtype.kind == "f" and _is_whole(column)
        if not is_finite and reader.invalid(values) is not None:
            _refuse(values, name, column, reader, rows)
        return values

    def _values(self, name: str, column: pa.Array, respell: Respell | None) -> NDArray[Any]:
        """Read a column as what it held in training."""
        return read_column(column, self._decider.readers[name], respell)


def _refuse(
    values: NDArray[Any], name: str, column: pa.Array, reader: ColumnReader, rows: NDArray[np.intp]
) -> None:
    """Raise an error that names the first value that cannot be judged, as the column has it."""
    raw = python_values(column)
    refuse_invalid(values, name, missing_seen=reader.missing_seen, rows=rows, raw=raw)


def _is_whole(column: pa.Array) -> bool:
    """Say whether a column holds whole numbers or flags alone, and no value is missing."""
    is_whole = pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)
    return bool(is_whole and not column.null_count)


def _read_named(
    reader: BatchReader, names: Sequence[str], rows: NDArray[np.intp] | None, n_rows: int
) -> list[pa.Array]:
    """Read columns of a reader by name, and refuse what it must not answer."""
    found = reader.read(list(names), rows)
    check_names(found.schema.names, names, f"What {type(reader).__name__}.read returned")
    if found.num_rows != n_rows:
        raise DecisionsError(
            f"{type(reader).__name__}.read returned {found.num_rows} rows for {n_rows}."
        )
    columns = [found.column(name) for name in names]
    return [whole(one) if isinstance(one, pa.ChunkedArray) else one for one in columns]
