"""Read one value as the type that its column had in training: a number, a text or a category.

The same rules apply to every container and file, and to one row as to many. If training had
numbers, a text is the number that it spells; if it had text, a number is the text that spells it. A
value that is neither cannot be judged, and becomes `UNREADABLE`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from math import inf, isfinite, isnan, nan
from numbers import Integral, Real
from reprlib import repr as shortened
from typing import Any

import numpy as np

from emsco._utils.missing_values import is_missing
from emsco.exceptions import ValuesError

# Infinity, because a value that can be judged is finite: checks and guards need no other test.
UNREADABLE = inf

# Texts that stand for a missing number; in a column of text, only an empty text is missing.
MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "#N/A")
BOOLEANS = {"true": 1.0, "false": 0.0}  # in any case

_NUMERAL = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf(inity)?)", re.ASCII | re.IGNORECASE)
_WHOLE_FLOAT = re.compile(r"-?(0|[1-9]\d{0,15})\.0+", re.ASCII)
_NAN = re.compile(r"[+-]?nan(\(\w*\))?", re.ASCII | re.IGNORECASE)  # as C writes it


def is_number(value: object) -> bool:
    """Return whether a value has the type of a number: integer, boolean, float or decimal."""
    return isinstance(value, Real | Decimal | np.bool_) and not isinstance(value, np.timedelta64)


def to_number(value: object) -> float:
    """Read a value of a column of numbers; a missing value becomes NaN."""
    if isinstance(value, str):
        return _spelled(value.strip())
    if is_missing(value):
        return nan
    return _to_float(value) if is_number(value) else UNREADABLE


def reader_like(levels: Sequence[Any]) -> Callable[[object], Any]:
    """Return a function that reads a value as a category; a missing value becomes None.

    `levels` are the known categories. An empty text is missing too, unless it is one of them.
    """
    if not levels:
        return _to_either
    if any(not isinstance(level, str) for level in levels):
        return _to_category
    read = _to_text_or_empty if "" in levels else to_text
    return (lambda value: usual_spelling(read(value))) if _are_usual(tuple(levels)) else read


def usual_spelling(value: Any) -> Any:
    """Return a text as a number or boolean of that value would be spelled; others as they are.

    A column of codes is written as `7.0` to CSV if pandas held it as floats, because one of them
    was missing. The same category must come of it as of the number 7.
    """
    if not isinstance(value, str):
        return value
    if value in ("True", "False"):
        return value.lower()
    if value.endswith("0") and _WHOLE_FLOAT.fullmatch(value) and abs(float(value)) < 2**53:
        return str(int(float(value)))
    return value


@lru_cache(maxsize=1024)
def _are_usual(levels: tuple[str, ...]) -> bool:
    """Return whether levels have their usual spelling; those of early files may not."""
    return all(usual_spelling(level) == level for level in levels)


def unjudged(value: object, name: str, row: int, *, missing: bool, held: str) -> ValuesError:
    """Return the error for a value that cannot be judged; `held` is what training had."""
    if missing:
        message = (
            f"Row {row} of column {name!r} is missing (NaN), but training had no missing value "
            f"there; fill it, or train with missing values in {name!r}."
        )
    elif is_number(value) and value in (inf, -inf):
        message = f"Row {row} of column {name!r} is infinity ({value}); values must be finite."
    elif is_number(value) and isinstance(value, Integral) and isfinite(_to_float(value)):
        message = (
            f"Row {row} of column {name!r} is {value}, a whole number of more than 64 bits; "
            "convert the column to floats."
        )
    elif is_number(value):
        message = f"Row {row} of column {name!r} is too large for a float; values must be finite."
    else:
        message = f"Column {name!r} held {held} in training; row {row} is {shortened(value)}."
    return ValuesError(message, row=row, column=name)


def _to_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # a whole number
        return UNREADABLE


def _spelled(word: str) -> float:
    """Return the number that a text spells."""
    if _NUMERAL.fullmatch(word):
        return float(word)
    if word in MISSING or _NAN.fullmatch(word):
        return nan
    return BOOLEANS.get(word.lower(), UNREADABLE)


def to_text(value: object) -> Any:
    """Read a value as text; an empty one is missing."""
    return (value or None) if isinstance(value, str) else _to_text_or_empty(value)


def _to_text_or_empty(value: object) -> Any:
    if isinstance(value, str):
        return value
    if is_missing(value):
        return None
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, date | np.datetime64):
        return _date_text(value)
    if not is_number(value):
        return UNREADABLE
    number = _to_float(value)
    if not isfinite(number):
        return UNREADABLE
    if isinstance(value, Integral) or (number.is_integer() and abs(number) < 2**53):
        return str(int(value))  # type: ignore[call-overload]  # a number, as checked above
    return repr(number)


def _date_text(value: date | np.datetime64) -> str:
    """Spell a date, and a moment with the time of day unless it is midnight."""
    text = str(value).replace("T", " ")
    if isinstance(value, np.datetime64):
        text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.removesuffix(" 00:00:00") if isinstance(value, datetime | np.datetime64) else text


def _to_category(value: object) -> Any:
    """Read a value where numbers are categories: a text is the number it spells, or a text."""
    if isinstance(value, str):
        number = _spelled(value.strip())
        return value if number == UNREADABLE else None if isnan(number) else number
    return _to_either(value)


def _to_either(value: object) -> Any:
    """Leave texts and numbers as they are."""
    if isinstance(value, str):
        return value or None
    if is_missing(value):
        return None
    return value if is_number(value) and isfinite(_to_float(value)) else UNREADABLE
