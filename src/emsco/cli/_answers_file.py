"""Answers of people or programs to an ask file: accepted as a whole, or refused by line."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from emsco.cli._label_words import LabelWords
from emsco.cli._table_file import CsvFile, check_columns
from emsco.exceptions import BatchError
from emsco.rows.arrow_columns import as_objects

_MOST = 5  # faults of a kind that are named


class AnswersColumns(NamedTuple):
    """What the columns of an answers file are called."""

    row: str
    label: str


def read_answers_file(
    path: Path,
    columns: AnswersColumns,
    sent: Sequence[str],
    words: LabelWords,
    *,
    failed: str | None,
    newlines_in_cells: bool,
) -> list[Any]:
    """Return the answer to each of the rows that were sent, in their order; None where it failed.

    Every row must be answered once, by a known label, exactly as written.
    """
    rows = CsvFile(path, newlines_in_cells=newlines_in_cells)
    check_columns(rows, columns)
    table = rows.table(columns)
    keys, labels = (as_objects(table.column(name)).tolist() for name in columns)
    places: dict[str, list[int]] = {}
    for place, key in enumerate(keys):
        places.setdefault(key, []).append(place)
    line = _Lines(path, rows.delimiter)
    wanted = set(sent)
    faults = [
        _fault("no answer to row {}", [repr(key) for key in sent if key not in places]),
        _fault("row {}, which was not sent", [f"{key!r} in line {line(found[0])}"
               for key, found in places.items() if key not in wanted]),
        _fault("more than one answer to row {}",
               [f"{key!r} (lines {', '.join(str(line(place)) for place in found[:_MOST])})"
                for key, found in places.items() if key in wanted and len(found) > 1]),
        _fault("no label in line {}", [str(line(place)) for place, label in enumerate(labels)
                                       if label == ""]),
        *_unknown(labels, words, failed, line),
    ]  # fmt: skip
    found = [fault for fault in faults if fault]
    if found:
        raise BatchError(f"{path} is refused, and nothing of it was recorded: {'; '.join(found)}.")
    by_key = dict(zip(keys, labels, strict=True))
    return [None if by_key[key] == failed else words.label(by_key[key]) for key in sent]


def _fault(what: str, cases: Sequence[str]) -> str:
    """Name the first few cases of a fault."""
    if not cases:
        return ""
    more = f" and {len(cases) - _MOST:,} more" if len(cases) > _MOST else ""
    return what.format(", ".join(cases[:_MOST]) + more)


def _unknown(
    labels: Iterable[str], words: LabelWords, failed: str | None, line: Callable[[int], int]
) -> list[str]:
    """Name each unknown label once, with the line of the first."""
    first: dict[str, int] = {}
    for place, label in enumerate(labels):
        if label not in ("", failed):
            first.setdefault(label, place)
    found = [
        f"{fault.rstrip('.?')} in line {line(first[label])}"
        for label in first
        if (fault := words.unknown(label)) is not None
    ]
    if not found:
        return []
    return [*found[:_MOST], "a label that is right although no earlier answer has it is declared "
            "by --new-label, and the word for a row that has none by --failed"]  # fmt: skip


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
