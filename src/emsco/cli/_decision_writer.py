"""Decisions as the bytes of a CSV or Parquet file, part by part."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from emsco._utils.atomic_write import is_as_it_is
from emsco.cli._table_file import CSV_ENDINGS, PARQUET_ENDINGS
from emsco.exceptions import ArtifactError

Parts: TypeAlias = Callable[[pa.Schema, Iterable[pa.RecordBatch]], Iterator[bytes]]
_Batch = TypeVar("_Batch", pa.RecordBatch, pa.Table)

_GROUP_ROWS = 2**17  # rows of a Parquet row group
_FEW = {"exit_stage", "cost", "latency"}  # columns with few distinct values


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
