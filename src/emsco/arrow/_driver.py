"""The decision loop driven over Arrow columns: a stage's columns are read when it is reached."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from emsco.arrow.batch_reader import BatchReader
from emsco.cascade import Decider
from emsco.cascade.decision_loop import Answer, Ask, decide_rows, drive
from emsco.core.decisions import ACCEPTED, LOW_CONFIDENCE, Decisions
from emsco.exceptions import DecisionsError
from emsco.rows.arrow_columns import (
    Respell,
    TextColumn,
    python_values,
    read_column,
    read_labels,
)
from emsco.rows.columns import refuse_invalid
from emsco.rows.dataset_parts import check_names, whole
from emsco.rows.encoding import Category, Codes


class Driver:
    """Answers the decision loop out of readers."""

    def __init__(self, decider: Decider) -> None:
        self._decider = decider
        self._readers = dict(decider.readers)
        # Labels as their places: Arrow takes those, instead of reading text back from Python.
        self._plan = replace(decider.plan, classes=np.arange(len(decider.classes)))
        self._labels = pa.array(decider.classes.tolist())

    def decide(self, reader: BatchReader, first_row: int) -> Decisions:
        """Decide the rows of a reader; labels are given as their places."""
        n_rows = int(reader.num_rows)
        respell: Callable[..., pa.Array] | None = getattr(reader, "respell", None)

        def answer(ask: Ask) -> Answer:
            some = None if ask.rows.size == n_rows else ask.rows
            columns = read_named(reader, ask.features, some, ask.rows.size)
            rows = first_row + ask.rows
            requested = [
                (name, column, None if respell is None else partial(respell, name=name))
                for name, column in zip(ask.features, columns, strict=True)
            ]
            if self._decider.guard is None:
                return Answer([self._checked(*one, rows) for one in requested])
            found = {name: self._values(name, column, own) for name, column, own in requested}
            return Answer(list(found.values()), self._decider.reasons(found))

        return drive(decide_rows(self._plan, n_rows), answer)

    def column(self, decisions: Decisions, name: str) -> pa.Array:
        """Give a field of decisions as a column."""
        if name == "label":
            return self._labels.take(pa.array(decisions.label))
        if name == "reason" and self._decider.guard is None:
            return pc.if_else(pa.array(decisions.accepted), ACCEPTED, LOW_CONFIDENCE)
        return pa.array(getattr(decisions, name))

    def _checked(
        self, name: str, column: pa.Array, respell: Respell | None, rows: NDArray[np.intp]
    ) -> NDArray[Any]:
        """Read a column as its stage takes it, text as codes; refuse what cannot be judged.

        A final model takes text as text, and where it is only what was logged, its answers.
        """
        reader = self._readers.get(name)
        if reader is None:
            return read_labels(column, name, self._decider.classes)
        encoding = reader.encoding if self._decider.final is None else None
        places: NDArray[np.intp] | None = None
        if isinstance(encoding, Category):
            values, places = TextColumn.read(column, encoding.levels)
        else:
            values = self._values(name, column, respell)
            if values.dtype.kind == "f" and _is_whole(column):
                return values  # finite, without looking at each
        bad = reader.invalid(values)
        if bad is not None and places is not None:
            bad = bad[places]
        if bad is not None and bad.any():
            at = int(np.argmax(bad))
            value = values[at : at + 1] if places is None else values[places[at : at + 1]]
            seen, row = reader.missing_seen, int(rows[at])
            raw = python_values(column.slice(at, 1))
            refuse_invalid(value, name, missing_seen=seen, first_row=row, raw=raw)
        if isinstance(encoding, Category):
            return encoding.codes(values)[places].view(Codes)
        return values

    def _values(self, name: str, column: pa.Array, respell: Respell | None) -> NDArray[Any]:
        """Read a column as what it held in training."""
        return read_column(column, self._readers[name], respell)


def _is_whole(column: pa.Array) -> bool:
    """Say whether a column holds whole numbers or flags alone, and no value is missing."""
    is_whole = pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)
    return bool(is_whole and not column.null_count)


def read_named(
    reader: BatchReader, names: Sequence[str], rows: NDArray[np.intp] | None, n_rows: int
) -> list[pa.Array]:
    """Read columns of a reader by name, and refuse what it must not answer."""
    found = reader.read(list(names), rows)
    check_names(found.schema, names, f"What {type(reader).__name__}.read returned")
    if found.num_rows != n_rows:
        raise DecisionsError(
            f"{type(reader).__name__}.read returned {found.num_rows} rows for {n_rows}."
        )
    columns = [found.column(name) for name in names]
    return [whole(one) if isinstance(one, pa.ChunkedArray) else one for one in columns]
