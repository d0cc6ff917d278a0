"""Check of CSV quotes during reading: an unclosed quote would silently join rows.

A quote at the beginning of a cell opens it, and a line break before the next single quote is part
of the cell; anywhere else a quote is an ordinary character. Arrow reads CSV in the same way.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from emsco.exceptions import ArtifactError

_QUOTE, _BREAKS = b'"', b"\n\r"


class QuoteCheck:
    """A stream that raises an error, with the line number, for an unclosed quote.

    With `newlines_in_cells`, a quoted cell may contain line breaks; it must still be closed.
    """

    closed = False  # Arrow requires this attribute and `read`

    def __init__(
        self, stream: Any, path: Path, delimiter: str, *, line: int, newlines_in_cells: bool
    ) -> None:
        self._stream, self._path = stream, path
        self._cells = QuotedCells(delimiter)
        self._line, self._newlines_in_cells = line, newlines_in_cells  # the line read next
        self._rest = b""  # the beginning of a cell or line that continues in the next read

    def read(self, size: int = -1) -> bytes:
        """Read at most `size` bytes."""
        read: bytes = self._stream.read(size)
        if _QUOTE not in read and _QUOTE not in self._rest:  # the usual case, without a copy
            self._line += _count_lines(read)
            self._rest = read[read.rfind(b"\n") + 1 :]  # the last character of a line is enough
            return read
        text = self._rest + read
        end = text.rfind(b"\n") + 1 if read else len(text)
        lines, self._rest = text[:end], text[end:]
        start = self._open_cell(lines, ended=not read)
        if start is not None:
            lines, self._rest = text[:start], text[start:]
        self._line += _count_lines(lines)
        return read

    def _open_cell(self, text: bytes, *, ended: bool) -> int | None:
        """Return where a cell begins that is still open at the end of a text, if any."""
        for start, end in self._cells.broken(text):
            if end is None and ended:
                raise unclosed(self._path, self._line + text.count(b"\n", 0, start))
            if not self._newlines_in_cells:
                raise broken(self._path, self._line + text.count(b"\n", 0, start))
            if end is None:
                return start
        return None


class QuotedCells:
    """Finds quoted cells with line breaks."""

    def __init__(self, delimiter: str) -> None:
        begins = _BREAKS + delimiter.encode()
        self._may_precede = np.zeros(256, dtype=np.bool_)
        self._may_precede[list(begins + _QUOTE)] = True
        self._cell = re.compile(rb'(?:\A|(?<=[%b]))"[^"]*(?:""[^"]*)*("?)' % re.escape(begins))

    def broken(self, text: bytes) -> list[tuple[int, int | None]]:
        """Return the start and end of each cell with line breaks; the end is None if cut off.

        The text must begin with a cell. A cell that is cut off counts as one with a line break.
        """
        if self._has_none(text):
            return []
        return [
            (found.start(), found.end() if found[1] else None)
            for found in self._cell.finditer(text)
            if not found[1] or b"\n" in found[0] or b"\r" in found[0]
        ]

    def _has_none(self, text: bytes) -> bool:
        """Return True only if no cell has a line break; False is inconclusive.

        Much faster than finding cells. Quotes are taken to open and close cells alternately. If
        each opening quote is where a cell can begin, or doubles the quote before it, then no quote
        is an ordinary character, as in 5" for inches, and every second quote closes a cell.
        """
        codes = np.frombuffer(text, dtype=np.uint8)
        marks = (codes == _QUOTE[0]) | (codes == _BREAKS[0])
        if _BREAKS[1:] in text:
            marks |= codes == _BREAKS[1]
        places = np.flatnonzero(marks)
        is_quote = codes[places] == _QUOTE[0]
        is_inside = np.cumsum(is_quote, dtype=np.int32) % 2 == 1
        if not len(places) or is_inside[-1] or is_inside[~is_quote].any():
            return not len(places)
        opening = places[is_quote][::2]
        return bool(self._may_precede[codes[opening[opening > 0] - 1]].all())


def _count_lines(text: bytes) -> int:
    return int(np.count_nonzero(np.frombuffer(text, dtype=np.uint8) == _BREAKS[0]))


def broken(path: Path, line: int) -> ArtifactError:
    """Make the error for a cell that continues on the next line."""
    return ArtifactError(
        f"{path} has a quote in line {line} that is not closed there, so the lines after it would "
        "be read as one cell; close the quote, or use --newlines-in-cells if cells contain line "
        "breaks."
    )


def unclosed(path: Path, line: int) -> ArtifactError:
    """Make the error for a quote that is never closed."""
    return ArtifactError(
        f"{path} ends inside a quote that begins in line {line}; close it, or double it if it "
        "belongs to the text."
    )
