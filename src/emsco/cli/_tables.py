"""Files of rows, CSV or Parquet: what columns they have, in blocks for deciding or all at once."""

from __future__ import annotations

import csv
import io
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from emsco.exceptions import ArtifactError, ColumnsError, nearest, quoted

STDIN = Path("-")
CSV_ENDINGS = (".csv", ".tsv", ".txt")
PARQUET_ENDINGS = (".parquet", ".pq")
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
_DELIMITERS = ",;\t|"
_BLOCK_BYTES = 2**22  # of CSV read at a time
_BLOCK_ROWS = 2**15  # of Parquet decided at a time


class Block(Protocol):
    """Some consecutive rows of a file."""

    @property
    def first_row(self) -> int:
        """The number of the first of them."""

    @property
    def n_rows(self) -> int:
        """How many there are."""

    def columns(self, names: Sequence[str]) -> list[pa.Array]:
        """Give columns; those of a Parquet file are read only now."""


class Rows(Protocol):
    """A file of rows."""

    @property
    def path(self) -> Path:
        """Where it is."""

    @property
    def types(self) -> Mapping[str, pa.DataType]:
        """What each column holds."""

    @property
    def names(self) -> Sequence[str]:
        """Every column; a file may name one twice."""

    def blocks(self, names: Sequence[str]) -> Iterator[Block]:
        """Give the rows in blocks that have these columns."""

    def table(self, names: Sequence[str]) -> pa.Table:
        """Read columns of all rows at once."""


def open_rows(path: Path, *, stdin: bool = False) -> Rows:
    """Open a file of rows by its ending; where `stdin` is allowed, `-` is CSV from there."""
    endings = [ending.lower() for ending in path.suffixes]
    if endings[-1:] and endings[-1] in _COMPRESSED:
        endings.pop()
    ending = endings[-1] if endings else ""
    if stdin and path == STDIN:
        return CsvRows(path)
    if not path.is_file():
        beside = [known.name for known in path.parent.glob("*")] if path.parent.is_dir() else []
        raise ArtifactError(f"There is no file {path}" + nearest(path.name, beside))
    if ending in CSV_ENDINGS:
        return CsvRows(path)
    if ending in PARQUET_ENDINGS:
        return ParquetRows(path)
    known = ", ".join((*CSV_ENDINGS, *PARQUET_ENDINGS))
    raise ArtifactError(f"{path} must end in one of {known}, to tell how it is to be read.")


def check_columns(rows: Rows, wanted: Sequence[str]) -> None:
    """Refuse a file that lacks a column, and name the nearest one it has."""
    counts = Counter(rows.names)
    for name in wanted:
        if name not in counts:
            raise ColumnsError(
                f"{rows.path} has no column {name!r}{nearest(name, rows.names)} It has "
                f"{quoted(rows.names)}."
            )
        if counts[name] > 1:
            raise ColumnsError(f"{rows.path} has more than one column {name!r}; rename them.")


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Say which file cannot be read, and why."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise ArtifactError(f"{path} is not text in UTF-8; convert it (iconv -t UTF-8).") from error
    except (pa.ArrowException, OSError, csv.Error) as error:
        if "new-line character" in str(error):
            raise ArtifactError(
                f"{path} ends its lines by carriage returns alone; convert it (tr '\\r' '\\n')."
            ) from error
        if "straddl" in str(error):
            raise _too_long(path, "has a row") from error
        raise ArtifactError(f"{path} cannot be read: {str(error).rstrip('.')}.") from error


def _too_long(path: Path, what: str) -> ArtifactError:
    return ArtifactError(
        f"{path} {what} longer than {_BLOCK_BYTES // 2**20} MB; is a quote left open?"
    )


class CsvRows:
    """Rows of CSV, every cell as text: what a cell means is for the model to say."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with _reading(path):
            self._stream: Any = sys.stdin.buffer
            if path != STDIN:
                native = pa.input_stream(str(path), compression="detect", buffer_size=2**16)
                self._stream = io.BufferedReader(native, 2**16)
            begin = self._stream.readline(_BLOCK_BYTES)
            line = begin.decode("utf-8-sig")
            self._delimiter = max(_DELIMITERS, key=line.count)  # the first of equals
            lines = chain([line], (more.decode() for more in self._stream))
            self.names = next(csv.reader(lines, delimiter=self._delimiter), [])
            if len(begin) == _BLOCK_BYTES:
                raise _too_long(path, "begins with a line")
        if not any(self.names):
            raise ArtifactError(f"{path} must begin with a line that names its columns.")
        self.types = dict.fromkeys(self.names, pa.string())

    def blocks(self, names: Sequence[str]) -> Iterator[Block]:
        """Give the rows in blocks that have these columns."""
        first_row = 0
        for batch in self._batches(names):
            yield CsvBlock(first_row, batch)
            first_row += batch.num_rows

    def table(self, names: Sequence[str]) -> pa.Table:
        """Read columns of all rows at once."""
        schema = pa.schema([(name, pa.string()) for name in names])
        return pa.Table.from_batches(list(self._batches(names)), schema)

    def _batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with _reading(self.path):
            if not self._stream.peek(1):
                return  # a header alone
            reader = pa.csv.open_csv(
                self._stream,
                read_options=pa.csv.ReadOptions(column_names=self.names, block_size=_BLOCK_BYTES),
                parse_options=pa.csv.ParseOptions(
                    delimiter=self._delimiter, newlines_in_values=True
                ),
                convert_options=pa.csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()), include_columns=list(names)
                ),
            )
        while True:
            with _reading(self.path):
                try:
                    batch = reader.read_next_batch()
                except StopIteration:
                    return
            yield batch


class CsvBlock(NamedTuple):
    """A block of CSV: its cells are in memory."""

    first_row: int
    batch: pa.RecordBatch

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return int(self.batch.num_rows)

    def columns(self, names: Sequence[str]) -> list[pa.Array]:
        """Give columns."""
        return [self.batch.column(name) for name in names]


class ParquetRows:
    """Rows of Parquet: a column is read for a row group when the first of its rows needs it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with _reading(path):
            self._file = pa.parquet.ParquetFile(path)
        schema = self._file.schema_arrow
        self.names: list[str] = schema.names
        self.types = {field.name: field.type for field in schema}

    def blocks(self, names: Sequence[str]) -> Iterator[Block]:  # noqa: ARG002  # read when needed
        """Give the rows in blocks that have these columns."""
        first_row = 0
        for number in range(self._file.num_row_groups):
            group = RowGroup(self, number)
            for start in range(0, group.n_rows, _BLOCK_ROWS):
                n_rows = min(_BLOCK_ROWS, group.n_rows - start)
                yield ParquetBlock(first_row + start, n_rows, group, start)
            first_row += group.n_rows

    def table(self, names: Sequence[str]) -> pa.Table:
        """Read columns of all rows at once."""
        with _reading(self.path):
            return self._file.read(columns=list(names))

    def read(self, number: int, names: Sequence[str]) -> pa.Table:
        """Read columns of a row group."""
        with _reading(self.path):
            return self._file.read_row_group(number, columns=list(names))

    def count(self, number: int) -> int:
        """Count the rows of a row group."""
        return int(self._file.metadata.row_group(number).num_rows)


class RowGroup:
    """A row group, and the columns of it that were needed so far."""

    def __init__(self, rows: ParquetRows, number: int) -> None:
        self._rows, self._number = rows, number
        self._held: dict[str, pa.Array] = {}

    @cached_property
    def n_rows(self) -> int:
        """How many rows there are."""
        return self._rows.count(self._number)

    def columns(self, names: Sequence[str]) -> list[pa.Array]:
        """Give columns, reading those that are not held yet."""
        lacking = [name for name in names if name not in self._held]
        if lacking:
            table = self._rows.read(self._number, lacking)
            self._held |= {name: _whole(table.column(name)) for name in lacking}
        return [self._held[name] for name in names]


class ParquetBlock(NamedTuple):
    """A part of a row group."""

    first_row: int
    n_rows: int
    group: RowGroup
    start: int

    def columns(self, names: Sequence[str]) -> list[pa.Array]:
        """Give columns."""
        return [column.slice(self.start, self.n_rows) for column in self.group.columns(names)]


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
