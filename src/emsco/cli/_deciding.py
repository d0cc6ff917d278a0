"""The decision loop driven over blocks of a file: a stage's columns are read when it is reached."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from emsco.cascade import Decider
from emsco.cascade.loop import Answer, Ask, decide_rows, drive
from emsco.cli._decimals import DecimalCommas
from emsco.cli._tables import Block, Rows, check_columns
from emsco.exceptions import ColumnsError
from emsco.rows.arrow import Texts, read_column, read_labels, read_unknown
from emsco.rows.columns import refuse_invalid
from emsco.rows.encoding import Category, Codes
from emsco.rows.reading import NUMBER, TEXT, UNKNOWN
from emsco.words.decisions import ACCEPTED, LOW_CONFIDENCE, Decisions

ROW = "row"
FIELDS = {
    "label": pa.string(),
    "accepted": pa.bool_(),
    "exit_stage": pa.int64(),
    "confidence": pa.float64(),
    "cost": pa.float64(),
    "reason": pa.string(),
}


@dataclass
class Tally:
    """What was decided so far, for the last line."""

    rows: int = 0
    accepted: int = 0
    paid: float = 0.0

    def add(self, decisions: Decisions) -> None:
        """Count a block."""
        self.rows += len(decisions)
        self.accepted += int(decisions.accepted.sum())
        self.paid += float(decisions.cost.sum())

    def sentence(self, unit: str) -> str:
        """Say it."""
        if not self.rows:
            return "There were no rows."
        price = f"{self.paid / self.rows:.4g} {unit}".rstrip()
        return f"{self.rows:,} rows, {self.accepted / self.rows:.1%} accepted, {price} per row."


def schema_of(decider: Decider, rows: Rows, keep: Sequence[str]) -> pa.Schema:
    """Name the columns of decisions; those kept come first, or else the number of the row."""
    check_columns(rows, [*decider.columns_read, *keep])
    begin = {name: rows.types[name] for name in keep} or {ROW: pa.int64()}
    fields = FIELDS | {"label": pa.array(decider.classes.tolist()).type}
    if decider.plan.latencies is not None:
        fields |= {"latency": pa.float64()}
    clash = [name for name in keep if name in fields]
    if clash:
        raise ColumnsError(
            f"--keep {clash[0]}: decisions already have a column of that name; rename your column."
        )
    return pa.schema(begin | fields)


def decided(
    decider: Decider, rows: Rows, keep: Sequence[str], schema: pa.Schema, tally: Tally
) -> Iterator[pa.RecordBatch]:
    """Decide a file, block by block."""
    driver = Driver(decider, DecimalCommas(rows.path))
    for block in rows.blocks(list(dict.fromkeys([*decider.columns_read, *keep]))):
        decisions = driver.decide(block)
        tally.add(decisions)
        begin = block.columns(keep) or [pa.array(np.arange(block.n_rows) + block.first_row)]
        told = [driver.column(decisions, name) for name in schema.names[len(begin) :]]
        yield pa.RecordBatch.from_arrays([*begin, *told], schema=schema)


class Driver:
    """Answers the decision loop out of blocks."""

    def __init__(self, decider: Decider, commas: DecimalCommas) -> None:
        self._decider, self._commas = decider, commas
        self._readers = dict(decider.readers)
        # Labels as their places: Arrow takes those, instead of reading text back from Python.
        self._plan = replace(decider.plan, classes=np.arange(len(decider.classes)))
        self._labels = pa.array(decider.classes.tolist())

    def decide(self, block: Block) -> Decisions:
        """Decide the rows of a block."""

        def answer(ask: Ask) -> Answer:
            columns = block.columns(ask.features)
            if ask.rows.size < block.n_rows:
                columns = [column.take(pa.array(ask.rows)) for column in columns]
            rows = block.first_row + ask.rows
            asked = zip(ask.features, columns, strict=True)
            if self._decider.guard is None:
                return Answer([self._checked(name, column, rows, block) for name, column in asked])
            found = {name: self._values(name, column, block) for name, column in asked}
            return Answer(list(found.values()), self._decider.reasons(found))

        return drive(decide_rows(self._plan, block.n_rows), answer)

    def column(self, decisions: Decisions, name: str) -> pa.Array:
        """Give a field of decisions as a column."""
        if name == "label":
            return self._labels.take(pa.array(decisions.label))
        if name == "reason" and self._decider.guard is None:
            return pc.if_else(pa.array(decisions.accepted), ACCEPTED, LOW_CONFIDENCE)
        return pa.array(getattr(decisions, name))

    def _checked(
        self, name: str, column: pa.Array, rows: NDArray[np.intp], block: Block
    ) -> NDArray[Any]:
        """Read a column as its stage takes it, text as codes; refuse what cannot be judged.

        A final model takes text as text, and where it is only what was logged, its answers.
        """
        reader = self._readers.get(name)
        if reader is None:
            return read_labels(column, name, self._decider.classes)
        encoding = reader.encoding if self._decider.final is None else None
        if isinstance(encoding, Category):
            texts = Texts.read(column, encoding.levels)
            values, places = texts.words, texts.places
        else:
            values, places = self._values(name, column, block), np.arange(len(rows))
        bad = reader.invalid(values)
        if bad is not None and bad[places].any():
            at = int(np.argmax(bad[places]))
            value, given = values[places[at : at + 1]], [column[at].as_py()]
            seen, row = reader.missing_seen, int(rows[at])
            refuse_invalid(value, name, missing_seen=seen, first_row=row, given=given)
        if isinstance(encoding, Category):
            return encoding.codes(values)[places].view(Codes)
        return values

    def _values(self, name: str, column: pa.Array, block: Block) -> NDArray[Any]:
        """Read a column as what it held in training."""
        reader = self._readers[name]
        if reader.encoding is not None or reader.kind != UNKNOWN:
            others = partial(block.columns, self._decider.columns_read)
            respell = partial(self._commas.respelled, name=name, others=others)
            return read_column(column, reader, respell)
        # An early file does not tell what the column is: as the first block has it.
        values = read_unknown(column)
        kind = TEXT if values.dtype.kind == "O" else NUMBER
        self._readers[name] = replace(reader, kind=kind)
        return values
