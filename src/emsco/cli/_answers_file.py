"""Answers of a person or a program to an ask file: accepted as a whole, or refused by line."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from emsco.cli._label_words import LabelWords
from emsco.cli._spreadsheet import CODE, SentRows, is_header_of
from emsco.cli._table_file import CsvFile, check_columns
from emsco.exceptions import BatchError, quoted
from emsco.rows.arrow_columns import as_objects

_MOST = 5  # faults of a kind that are named


class AnswersColumns(NamedTuple):
    """What the columns of an answers file are called."""

    row: str
    label: str


@dataclass(frozen=True)
class AnswersReader:
    """Reads files of answers to the rows of a round.

    Parameters
    ----------
    columns : AnswersColumns
        What their columns are called.
    sent : SentRows
        The rows that were sent.
    words : LabelWords
        The labels that are known.
    failed : str or None
        The word that stands for no answer.
    newlines_in_cells : bool
        Whether cells may hold line breaks.
    """

    columns: AnswersColumns
    sent: SentRows
    words: LabelWords
    failed: str | None
    newlines_in_cells: bool

    def read(self, path: Path, *, whole: bool) -> dict[int, str | None]:
        """Return the label of each row that is answered, by its place; None where it failed.

        Each label must be known, exactly as written, and no row may be there twice. If the file is
        to be `whole`, every row must be answered.
        """
        rows = CsvFile(path, newlines_in_cells=self.newlines_in_cells)
        keys, codes, labels = _cells(rows, self.columns)
        labels = list(map(self.words.read, labels))
        line = _Lines(path, rows.delimiter)
        lines_of: dict[int, list[int]] = {}
        strange = []
        for number, (key, code, label) in enumerate(zip(keys, codes, labels, strict=True)):
            if not (key or code or label):
                continue  # left behind by a spreadsheet
            place = self.sent.find(key, code)
            if isinstance(place, str):
                strange.append(f"{key!r} in line {line(number)}, {place}")
            else:
                lines_of.setdefault(place, []).append(number)
        name = self.sent.keys
        faults = [
            _fault("no answer to row {}", [
                repr(key) for place, key in enumerate(name) if whole and place not in lines_of]),
            _fault("row {}", strange),
            _fault("more than one answer to row {}", [
                f"{name[place]!r} (lines {', '.join(str(line(one)) for one in found[:_MOST])})"
                for place, found in lines_of.items() if len(found) > 1]),
            _fault("row {}", [] if strange else self._doubts(keys, codes, lines_of, line)),
            _fault("no label in line {}", [
                str(line(found[0])) for found in lines_of.values()
                if whole and not labels[found[0]]]),
            *self._unknown(labels, line),
        ]  # fmt: skip
        found = [fault for fault in faults if fault]
        if found:
            raise refused([path], found)
        said = {place: labels[lines[0]] for place, lines in lines_of.items()}
        return {
            place: None if text == self.failed else text for place, text in said.items() if text
        }

    def _doubts(
        self,
        keys: Sequence[str],
        codes: Sequence[str],
        lines_of: dict[int, list[int]],
        line: Callable[[int], int],
    ) -> list[str]:
        """Name rows whose keys may be what a spreadsheet made of the keys of rows that are missing.

        Where 7 and 007 were sent and a file has only 7, nobody can tell which one it is.
        """
        found = []
        for numbers in lines_of.values():
            key = keys[numbers[0]]
            others = sorted(self.sent.candidates(key) - lines_of.keys())
            if others and not codes[numbers[0]]:
                found.append(
                    f"{key!r} in line {line(numbers[0])}, which a spreadsheet may have made of "
                    f"{self.sent.keys[others[0]]!r}: keep the column {CODE}, or answer both"
                )
        return found

    def _unknown(self, labels: Iterable[str], line: Callable[[int], int]) -> list[str]:
        """Name each unknown label once, with the line of the first."""
        first: dict[str, int] = {}
        for place, label in enumerate(labels):
            if label not in ("", self.failed):
                first.setdefault(label, place)
        found = [
            f"{fault.rstrip('.?')} in line {line(first[label])}"
            for label in first
            if (fault := self.words.unknown(label)) is not None
        ]
        if not found:
            return []
        advice = (
            "a label that is right although no earlier answer has it is declared by --new-label, "
            "and the word for a row that has none by --failed"
        )
        return [*found[:_MOST], advice]


def refused(paths: Sequence[Path], faults: Sequence[str]) -> BatchError:
    """Make the error for files of which nothing is recorded."""
    verb = "is" if len(paths) == 1 else "are"
    what = "it" if len(paths) == 1 else "them"
    return BatchError(
        f"{' and '.join(map(str, paths))} {verb} refused, and nothing of {what} was recorded: "
        f"{'; '.join(faults)}."
    )


def unanswered(keys: Sequence[str]) -> list[str]:
    """Name rows that nobody answered, as faults."""
    fault = _fault("no answer to row {}", [repr(key) for key in keys])
    return [fault] if fault else []


def _cells(rows: CsvFile, columns: AnswersColumns) -> tuple[list[str], list[str], list[str]]:
    """Return keys, codes and labels; keys may be missing if there are codes."""
    noted = [name for name in rows.names if is_header_of(name, columns.label)]
    if not noted:
        noted = [columns.label]
    named = [name for name in (columns.row, CODE) if name in rows.names] or [columns.row]
    check_columns(rows, [*named, *noted])
    table = rows.table([*named, *noted])
    by_name = {name: as_objects(table.column(name)).tolist() for name in table.column_names}
    filled = [name for name in noted if any(by_name[name])] or noted[:1]
    if len(filled) > 1:
        raise BatchError(
            f"{rows.path} has answers in {quoted(filled)}; put all into one of these columns."
        )
    nothing = [""] * table.num_rows
    return by_name.get(columns.row, nothing), by_name.get(CODE, nothing), by_name[filled[0]]


def _fault(what: str, cases: Sequence[str]) -> str:
    """Name the first few cases of a fault."""
    if not cases:
        return ""
    more = f" and {len(cases) - _MOST:,} more" if len(cases) > _MOST else ""
    return what.format(", ".join(cases[:_MOST]) + more)


class _Lines:
    """The line of each row of a CSV file, counted only when one is to be named."""

    def __init__(self, path: Path, delimiter: str) -> None:
        self._path, self._delimiter = path, delimiter
        self._lines: list[int] | None = None

    def __call__(self, place: int) -> int:
        """Return the line, from 1, in which a row begins."""
        if self._lines is None:
            self._lines = self._count()
        return self._lines[place] if place < len(self._lines) else place + 2

    def _count(self) -> list[int]:
        with pa.input_stream(str(self._path), compression="detect") as stream:
            text = stream.read().decode("utf-8-sig", "replace")
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=self._delimiter)
        lines, begin = [], 1
        with suppress(csv.Error):  # a cell of more than 128 kB
            for record in reader:
                if record:
                    lines.append(begin)
                begin = reader.line_num + 1
        return lines[2 if text.startswith("sep=") else 1 :]  # without the names
