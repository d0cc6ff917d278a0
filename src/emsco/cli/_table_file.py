"""Files of rows, CSV or Parquet, read in blocks or all at once."""

from __future__ import annotations

import codecs
import csv
import io
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.csv

from emsco.arrow import BatchReader, is_url, open_dataset, parts_of
from emsco.cli._csv_quotes import QuoteCheck, QuotedCells, broken, unclosed
from emsco.cli._errors import note
from emsco.exceptions import ArtifactError, nearest
from emsco.rows.dataset_parts import BatchPart, check_names

STDIN = Path("-")
COPIES = "emsco-log-"  # prefix of temporary folders with copies of a log
CSV_ENDINGS = (".csv", ".tsv", ".txt")
PARQUET_ENDINGS = (".parquet", ".pq")
_COMPRESSED = (".gz", ".bz2", ".zst", ".lz4")
_SPREADSHEETS = (".xlsx", ".xls", ".xlsm", ".ods", ".numbers")
_DELIMITERS = ",;\t|"
_DECLARED = re.compile(rf"sep=([{_DELIMITERS}])\s*")  # a first line for Excel
_RAGGED = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+): (.*)", re.DOTALL)
_MARKS = {  # byte order marks, longer ones first
    codecs.BOM_UTF32_LE: "UTF-32", codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16", codecs.BOM_UTF16_BE: "UTF-16",
}  # fmt: skip
_EXCERPT = 80  # characters shown of a faulty row
_BLOCK_BYTES = 2**22  # bytes of CSV read at a time
_BLOCK_ROWS = 2**15  # rows of Parquet decided at a time


def open_rows(
    path: Path | str,
    *,
    stdin: bool = False,
    private: bool = False,
    newlines_in_cells: bool = False,
) -> TableFile:
    """Open a file by its extension, or a folder or URL as a Parquet dataset.

    With `stdin`, `-` is CSV from standard input. With `private`, no message shows the values of a
    row.
    """
    if is_url(path):
        return ParquetFiles(path, private=private)
    path = Path(path)
    endings = [ending.lower() for ending in path.suffixes]
    if endings[-1:] and endings[-1] in _COMPRESSED:
        endings.pop()
    ending = endings[-1] if endings else ""
    if stdin and path == STDIN:
        return CsvFile(path, private=private, newlines_in_cells=newlines_in_cells)
    if path.is_dir():
        return ParquetFiles(path, private=private)
    if not path.is_file():
        beside = [known.name for known in path.parent.glob("*")] if path.parent.is_dir() else []
        raise ArtifactError(f"There is no file {path}" + nearest(path.name, beside))
    if ending in CSV_ENDINGS:
        return CsvFile(path, private=private, newlines_in_cells=newlines_in_cells)
    if ending in PARQUET_ENDINGS:
        return ParquetFiles(path, private=private)
    if ending in _SPREADSHEETS:
        raise _spreadsheet(path)
    known = ", ".join((*CSV_ENDINGS, *PARQUET_ENDINGS))
    raise ArtifactError(f"The name of {path} must end in one of {known}, which sets its format.")


def check_columns(rows: TableFile, wanted: Sequence[str]) -> None:
    """Refuse a file that lacks a column, and suggest the nearest name."""
    hint = " Does its first line name the columns?" if len(rows.names) == 1 else ""
    check_names(rows.names, wanted, rows.path, hint)


def report_rows(path: Path | str, n_rows: int) -> None:
    """Report the number of rows read, because only the user knows how many there should be."""
    if is_url(path):
        note(f"Read: {n_rows:,} rows.")  # a URL may contain credentials
    elif path == STDIN:
        note(f"Read: {n_rows:,} rows of standard input.")
    elif not Path(path).parent.name.startswith(COPIES):  # copies were reported when made
        note(f"Read: {n_rows:,} rows of {path}.")


@contextmanager
def _reading(path: Path, *, private: bool = False) -> Iterator[None]:
    """Raise named errors for a file that cannot be read."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise _not_utf8(path) from error
    except (pa.ArrowException, OSError, csv.Error) as error:
        # Arrow has one class for all of these, and says which only in its text.
        if "invalid UTF8" in str(error):
            raise _not_utf8(path) from error
        ragged = _RAGGED.search(str(error))
        if ragged:
            row, wanted, got, text = ragged.groups()
            excerpt = ""
            if not private:
                text = text.splitlines()[0]
                excerpt = f", {text if len(text) <= _EXCERPT else f'{text[:_EXCERPT]}...'!r}"
            raise ArtifactError(
                f"{path} has {wanted} columns, but row {int(row) - 1} (line {int(row) + 1}) has "
                f"{got} cells{excerpt}. Put cells that contain the "
                "separator in double quotes; an unclosed quote joins lines."
            ) from error
        if "new-line character" in str(error):
            raise ArtifactError(
                f"{path} ends its lines with carriage returns only; convert it (tr '\\r' '\\n')."
            ) from error
        if "straddl" in str(error):
            raise _too_long(path, "has a row") from error
        compressed = " Is it really compressed?" if "inflate failed" in str(error) else ""
        why = str(error).rstrip(".")
        raise ArtifactError(f"{path} cannot be read: {why}.{compressed}") from error


def _not_utf8(path: Path, encoding: str | None = None) -> ArtifactError:
    """Make the error for text in another encoding; None: the encoding is unknown."""
    guess = "" if encoding else " (in Western Europe ISO-8859-1 or WINDOWS-1252 is likely)"
    return ArtifactError(
        f"{path} is not UTF-8 text; convert it with "
        f"`iconv -f {encoding or 'ISO-8859-1'} -t UTF-8 {path.name} > utf8.csv`{guess}."
    )


def _spreadsheet(path: Path) -> ArtifactError:
    return ArtifactError(f"{path} is a spreadsheet; open it and save the sheet as CSV (UTF-8).")


def _refuse_other_formats(path: Path, begin: bytes) -> None:
    """Refuse files that are not UTF-8 text, recognized by their first bytes."""
    for mark, name in _MARKS.items():
        if begin.startswith(mark):
            raise _not_utf8(path, name)
    if begin.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
        raise _spreadsheet(path)
    if begin.startswith(b"\x1f\x8b"):
        raise ArtifactError(f"{path} is compressed; add .gz to its name.")
    if begin.startswith(b"PAR1"):
        raise ArtifactError(f"{path} is Parquet; rename it so that it ends in .parquet.")
    if b"\0" in begin[:4]:  # no mark, but every other byte is zero
        raise _not_utf8(path, "UTF-16BE" if begin[0] == 0 else "UTF-16LE")


def _too_long(path: Path, what: str) -> ArtifactError:
    return ArtifactError(
        f"{path} {what} longer than {_BLOCK_BYTES // 2**20} MB; is a quote left open?"
    )


class CsvFile:
    """Rows of CSV, with every cell as text: the model determines what cells mean."""

    def __init__(
        self, path: Path, *, private: bool = False, newlines_in_cells: bool = False
    ) -> None:
        self.path, self.private = path, private
        self._newlines_in_cells = newlines_in_cells
        with _reading(path, private=private):
            self._stream: Any = sys.stdin.buffer
            if path != STDIN:
                native = pa.input_stream(str(path), compression="detect", buffer_size=2**16)
                self._stream = io.BufferedReader(native, 2**16)
            begin = self._stream.readline(_BLOCK_BYTES)
            _refuse_other_formats(path, begin)
            number, line = 1, begin.decode("utf-8-sig")
            declared = _DECLARED.fullmatch(line)
            while begin and (declared or not line.strip()):  # blank, or Excel's "sep=;"
                begin = self._stream.readline(_BLOCK_BYTES)
                number, line = number + 1, begin.decode()
                if line.strip():
                    break
            # The first delimiter wins a tie.
            self.delimiter = declared[1] if declared else max(_DELIMITERS, key=line.count)
            if len(begin) == _BLOCK_BYTES:
                raise _too_long(path, "begins with a line")
            head = self._whole_head(line.encode(), number)
            self._next_line = number + head.count(b"\n")
            self.names = next(csv.reader([head.decode()], delimiter=self.delimiter), [])
        if not any(self.names):
            raise ArtifactError(f"{path} must begin with a line that names its columns.")
        self.types = dict.fromkeys(self.names, pa.string())

    def _whole_head(self, head: bytes, number: int) -> bytes:
        """Read the rest of the header if a column name contains line breaks."""
        cells = QuotedCells(self.delimiter)
        while any(end is None for _, end in cells.broken(head)):
            if not self._newlines_in_cells:
                raise broken(self.path, number)
            more = self._stream.readline(_BLOCK_BYTES)
            if not more:
                raise unclosed(self.path, number)
            head += more
        return head

    def blocks(self, names: Sequence[str]) -> Iterator[BatchReader]:
        """Yield the rows in blocks with these columns."""
        return map(BatchPart, self._batches(names))

    def table(self, names: Sequence[str]) -> pa.Table:
        """Read columns of all rows at once."""
        schema = pa.schema([(name, pa.string()) for name in names])
        return pa.Table.from_batches(list(self._batches(names)), schema)

    def _batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with _reading(self.path, private=self.private):
            if not self._stream.peek(1):
                return  # a header alone
            reader = pa.csv.open_csv(
                QuoteCheck(
                    self._stream,
                    self.path,
                    self.delimiter,
                    line=self._next_line,
                    newlines_in_cells=self._newlines_in_cells,
                ),
                # With threads, Arrow cannot name the faulty row, and is no faster.
                read_options=pa.csv.ReadOptions(
                    column_names=self.names, block_size=_BLOCK_BYTES, use_threads=False
                ),
                parse_options=pa.csv.ParseOptions(
                    delimiter=self.delimiter,
                    newlines_in_values=self._newlines_in_cells,
                    # With a single column, a blank line is a row without a value.
                    ignore_empty_lines=len(self.names) > 1,
                ),
                convert_options=pa.csv.ConvertOptions(
                    column_types=dict.fromkeys(names, pa.string()), include_columns=list(names)
                ),
            )
        while True:
            with _reading(self.path, private=self.private):
                try:
                    batch = reader.read_next_batch()
                except StopIteration:
                    return
            yield batch


class ParquetFiles:
    """Rows of Parquet; a column of a row group is read when a row first needs it."""

    def __init__(self, path: Path | str, *, private: bool) -> None:
        self.path, self.private = path, private
        self._dataset = open_dataset(path)
        self.names: list[str] = self._dataset.schema.names
        self.types = {field.name: field.type for field in self._dataset.schema}

    def blocks(self, names: Sequence[str]) -> Iterator[BatchReader]:
        """Yield the rows in blocks with these columns."""
        for part in parts_of(self._dataset):
            yield from part.readers(names, rows=_BLOCK_ROWS)

    def table(self, names: Sequence[str]) -> pa.Table:
        """Read columns of all rows at once."""
        with _reading(Path(self.path)):
            return self._dataset.to_table(columns=list(names))


TableFile: TypeAlias = CsvFile | ParquetFiles
