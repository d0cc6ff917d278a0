"""What spreadsheets do to cells: what is written so that it comes back, and what they changed."""

from __future__ import annotations

import hmac
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import floor, isfinite, log10

import pyarrow as pa
import pyarrow.compute as pc

from emsco.rows.arrow_columns import as_objects, is_text

CODE = "row_code"  # the column of what a spreadsheet leaves as it is, where it may change keys
_LETTERS = "bcdfghjkmnpqrstvwxyz"  # no word, number or date is spelled with these
_CODE_LENGTH = 14  # two of a million rows have the same code with a probability of 3e-7
_PLAIN = re.compile(r"0|[1-9]\d{0,10}")  # longer numbers become 1.23E+11
_NUMBER = r"^\s*[+-]?(\d+([.,]\d*)*|[.,]\d+)([eE][+-]?\d+)?\s*%?\s*$"
_FORMULA = r"(?s)^\s*[=+\-@\x{ff1d}\x{ff0b}\x{ff0d}\x{ff20}\t\r].*\S"  # the wide ones: Japan
_LATER = r"([;\t]\s*)([=+\-@])"  # the beginning of a cell, if these separate cells
_ALL_DIGITS = 1e15  # from here on a spreadsheet forgets digits
_MOST_NOTED = 200  # characters of labels in a header


def without_formulas(table: pa.Table) -> pa.Table:
    """Return a table with an apostrophe before whatever a spreadsheet would run as a formula.

    Numbers stay as they are. Names of columns are treated like cells.
    """
    columns = [_inert(column) if is_text(column) else column for column in table.columns]
    return pa.table(columns, names=_inert_texts(table.column_names))


def _inert_texts(texts: Sequence[str]) -> list[str]:
    return list(as_objects(_inert(pa.array(texts, pa.string()))).tolist())


def _inert(column: pa.ChunkedArray) -> pa.ChunkedArray:
    column = pc.replace_substring_regex(column, _LATER, r"\1'\2")
    is_formula = pc.and_not(
        pc.match_substring_regex(column, _FORMULA), pc.match_substring_regex(column, _NUMBER)
    )
    return pc.if_else(is_formula, pc.replace_substring_regex(column, "(?s)^(.)", r"'\1"), column)


def needs_codes(keys: Iterable[str]) -> bool:
    """Return whether a spreadsheet may change one of these keys: 007, 1e5, 3-4, or 12 digits."""
    return not all(map(_PLAIN.fullmatch, keys))


def row_codes(secret: bytes, rows: Iterable[int]) -> list[str]:
    """Return a name for each row that no spreadsheet changes and nobody can guess."""
    found = []
    for row in rows:
        digest = hmac.digest(secret, b"row code" + row.to_bytes(8, "big"), "sha256")
        number = int.from_bytes(digest, "big")
        letters = []
        for _ in range(_CODE_LENGTH):
            number, place = divmod(number, len(_LETTERS))
            letters.append(_LETTERS[place])
        found.append("".join(letters))
    return found


def header_with_labels(label: str, texts: Iterable[str]) -> str:
    """Return the header of the column to fill in, which names the labels that are allowed.

    Examples
    --------
    >>> from emsco.cli._spreadsheet import header_with_labels
    >>> header_with_labels("label", ["Yes", "No"])
    'label (No / Yes)'
    """
    named: list[str] = []
    listed = sorted(text for text in texts if text.isprintable())
    for text in listed:
        if sum(map(len, named)) + len(text) > _MOST_NOTED:
            named.append(f"{len(listed) - len(named):,} more")
            break
        named.append(text)
    return f"{label} ({' / '.join(named)})"


def is_header_of(name: str, label: str) -> bool:
    """Return whether a column is to be filled in: its name is the label's, maybe with a note."""
    return name == label or (name.startswith(f"{label} (") and name.endswith(")"))


class SentRows:
    """Recognises rows by what a spreadsheet has left of their keys and codes.

    Parameters
    ----------
    keys : sequence of str
        The key of each row that was sent.
    codes : sequence of str
        The code of each row.
    """

    def __init__(self, keys: Sequence[str], codes: Sequence[str]) -> None:
        self.keys = keys
        self._by_code = {code: place for place, code in enumerate(codes)}
        self._by_text: Mapping[str, set[int]] = defaultdict(set)
        for place, texts in enumerate(zip(keys, _inert_texts(keys), strict=True)):
            for text in texts:
                self._by_text[text].add(place)
        numbers = [(number, place) for place, key in enumerate(keys)
                   if (number := number_of(key)) is not None]  # fmt: skip
        self._places = [place for _, place in sorted(numbers)]
        self._numbers = sorted(number for number, _ in numbers)

    def find(self, key: str, code: str) -> int | str:
        """Return the place of a row, or what is wrong with it."""
        by_key = self._by_text.get(key, set())
        if code:
            place = self._by_code.get(code)
            if place is None:
                return f"with the {CODE} {code!r}, which was not sent"
            if by_key - {place} and place not in self.candidates(key):
                return f"whose {CODE} is that of row {self.keys[place]!r}"
            return place
        if len(by_key) == 1:
            return next(iter(by_key))
        likely = sorted(by_key or self.candidates(key))
        if not likely:
            return "which was not sent"
        others = " or ".join(repr(self.keys[place]) for place in likely[:3])
        return (
            f"which was not sent; a spreadsheet may have made it of {others}: keep the column "
            f"{CODE}, or read the keys as text"
        )

    def candidates(self, key: str) -> set[int]:
        """Return the rows of whose keys a spreadsheet may have made this one."""
        found = set(self._by_text.get(key, ()))
        number = number_of(key)
        if number is None:
            return found
        width = _width(key, number)
        begin = bisect_left(self._numbers, number - width)
        end = bisect_right(self._numbers, number + width)
        is_shorter = width > 0
        for place, other in zip(self._places[begin:end], self._numbers[begin:end], strict=True):
            if other == number or (is_shorter and _n_digits(self.keys[place]) > _n_digits(key)):
                found.add(place)
        return found


def number_of(text: str) -> float | None:
    """Return the number that a spreadsheet makes of a text, with a point or a comma, if any."""
    try:
        number = float(text.strip().replace(",", "."))
    except ValueError:
        return None
    return number if isfinite(number) else None


def _width(text: str, number: float) -> float:
    """Return how far a number may be from the one that a spreadsheet shows or keeps so."""
    is_short = "e" in text.lower()
    if not number or not (is_short or abs(number) >= _ALL_DIGITS):
        return 0.0
    digits = re.sub(r"\D", "", re.split("[eE]", text)[0]).lstrip("0")
    n_digits = len(digits) if is_short else _n_digits(text)
    unit = 10.0 ** (floor(log10(abs(number))) - max(n_digits, 1) + 1)
    return unit * 0.6 if is_short else unit  # rounded where it is shown, else cut off


def _n_digits(text: str) -> int:
    """Return how many digits of a number count."""
    mantissa = re.split("[eE]", text)[0]
    return max(len(re.sub(r"\D", "", mantissa).strip("0")), 1)
