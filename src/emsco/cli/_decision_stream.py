"""Decisions block by block, and as the bytes of a CSV or Parquet file, part by part."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from emsco._utils.atomic_write import is_as_it_is
from emsco.arrow import BatchReader, decide_batches, decision_schema
from emsco.cascade import Decider
from emsco.cli._decimal_comma import DecimalCommas
from emsco.cli._table_file import (
    CSV_ENDINGS,
    PARQUET_ENDINGS,
    TableFile,
    check_columns,
    report_rows,
)
from emsco.exceptions import ArtifactError, ColumnsError

Parts: TypeAlias = Callable[[pa.Schema, Iterable[pa.RecordBatch]], Iterator[bytes]]
_Batch = TypeVar("_Batch", pa.RecordBatch, pa.Table)

_GROUP_ROWS = 2**17  # rows of a Parquet row group
_FEW = {"exit_stage", "cost", "latency"}  # columns with few distinct values


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


def parts_for(path: Path) -> Parts:
    """Choose the format by the file extension; /dev/null and /dev/stdout get CSV."""
    if path.suffix.lower() in PARQUET_ENDINGS:
        return parquet_parts
    if path.suffix.lower() == CSV_ENDINGS[0] or is_as_it_is(path):
        return csv_parts
    known = ", ".join((CSV_ENDINGS[0], *PARQUET_ENDINGS))
    raise ArtifactError(f"The name of {path} must end in one of {known}, which sets its format.")


def csv_parts(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """Write CSV with a header; cells are quoted only in blocks that need quotes."""
    header = io.StringIO()
    csv.writer(header, lineterminator="\n").writerow(schema.names)
    parts = _ahead(_csv, batches)
    yield header.getvalue().encode() + next(
        parts, b""
    )  # if the first batch fails, nothing is written
    yield from parts


def _ahead(write: Callable[[_Batch], bytes], batches: Iterable[_Batch]) -> Iterator[bytes]:
    """Write each batch in a thread while the next one is decided."""
    with ThreadPoolExecutor(1) as pool:
        before: Future[bytes] | None = None
        for batch in batches:
            writing = pool.submit(write, batch)
            if before is not None:
                yield before.result()
            before = writing
        if before is not None:
            yield before.result()


def _csv(batch: pa.RecordBatch) -> bytes:
    try:
        return _written(_few_printed(batch), "none")
    except pa.ArrowInvalid:  # a comma, a quote or the end of a line in some cell
        return _written(batch, "needed")


def _written(batch: pa.RecordBatch, quotes: str) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.csv.WriteOptions(include_header=False, quoting_style=quotes)
    pa.csv.write_csv(batch, sink, options)
    return bytes(sink.getvalue())


def _few_printed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Convert each distinct number of a column to text once, not once per row."""
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    for name in _FEW & columns.keys():
        encoded = columns[name].dictionary_encode()
        columns[name] = encoded.dictionary.cast(pa.string()).take(encoded.indices)
    return pa.RecordBatch.from_pydict(columns)


def parquet_parts(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """Write Parquet in row groups of equal size."""
    sink = _Parts()
    with pa.parquet.ParquetWriter(sink, schema) as writer:

        def written(group: pa.Table) -> bytes:
            writer.write_table(group)
            return sink.taken()

        yield from _ahead(written, _groups(batches))
    yield sink.taken()  # the footer


def _groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Join batches into tables of one row group each."""
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(part.num_rows for part in held) >= _GROUP_ROWS:
            yield pa.Table.from_batches(held)
            held = []
    if held:
        yield pa.Table.from_batches(held)


class _Parts(io.RawIOBase):
    """An append-only file whose contents are taken out part by part."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self._parts.append(bytes(data))
        return len(data)

    def taken(self) -> bytes:
        taken = b"".join(self._parts)
        self._parts.clear()
        return taken
