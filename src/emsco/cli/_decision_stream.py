"""Stream of decisions for `emsco decide`, with decimal commas, row numbers and a summary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from emsco.arrow import FIELDS as FIELDS
from emsco.arrow import BatchReader, decide_batches, decision_schema
from emsco.cascade import Decider
from emsco.cli._decimal_comma import DecimalCommas
from emsco.cli._table_file import TableFile, check_columns, report_rows
from emsco.exceptions import ColumnsError


@dataclass
class DecisionCounter:
    """Totals of the decisions so far, for the summary."""

    rows: int = 0
    accepted: int = 0
    paid: float = 0.0

    def add(self, decided: pa.RecordBatch) -> None:
        """Count a batch of decisions."""
        self.rows += decided.num_rows
        self.accepted += pc.sum(decided.column("accepted")).as_py() or 0
        self.paid += pc.sum(decided.column("cost")).as_py() or 0.0

    def sentence(self, unit: str) -> str:
        """Format the totals as a sentence."""
        if not self.rows:
            return "There were no rows."
        price = f"{self.paid / self.rows:.4g} {unit}".rstrip()
        return f"{self.rows:,} rows, {self.accepted / self.rows:.1%} accepted, {price} per row."


@dataclass(frozen=True)
class DecimalCommaBlock:
    """A block of a file whose numbers may have decimal commas."""

    reader: BatchReader
    commas: DecimalCommas
    names: Sequence[str]

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return self.reader.num_rows

    def read(
        self, columns: Sequence[str], rows: NDArray[np.intp] | None
    ) -> pa.RecordBatch | pa.Table:
        """Read columns of some rows."""
        return self.reader.read(columns, rows)

    def respell(self, column: pa.Array, name: str) -> pa.Array:
        """Return numbers with decimal points; other columns may show what a comma means."""
        return self.commas.respelled(column, name, self._columns)

    def _columns(self) -> list[pa.Array]:
        found: list[pa.Array] = self.reader.read(self.names, None).columns
        return found


def schema_of(decider: Decider, rows: TableFile, keep: Sequence[str]) -> pa.Schema:
    """Return the schema of the decisions; columns to keep come first, or else the row number."""
    check_columns(rows, [*decider.columns_read, *keep])
    taken = decision_schema(decider).names
    for name in keep:
        if name in taken:
            raise ColumnsError(
                f"--keep {name}: decisions already have a column with that name; rename your "
                "column."
            )
    input_schema = pa.schema([(name, rows.types[name]) for name in keep])
    return decision_schema(decider, input_schema, keep=keep, numbered=not keep)


def decided(
    decider: Decider, rows: TableFile, keep: Sequence[str], tally: DecisionCounter
) -> Iterator[pa.RecordBatch]:
    """Decide a file, block by block."""
    names, commas = decider.columns_read, DecimalCommas(rows.path)
    blocks = rows.blocks(list(dict.fromkeys([*names, *keep])))
    readers = (DecimalCommaBlock(block, commas, names) for block in blocks)
    for batch in decide_batches(decider, readers, keep=keep, numbered=not keep):
        tally.add(batch)
        yield batch
    report_rows(rows.path, tally.rows)
