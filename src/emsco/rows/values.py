"""Read one value as the type that its column had in training: a number, a text or a category.

The same rules apply to every container and file, and to one row as to many. If training had
numbers, a text is the number that it spells; if it had text, a number is the text that spells it. A
value that is neither cannot be judged, and becomes `UNREADABLE`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from math import inf, isfinite, isnan, nan
from numbers import Integral, Real
from reprlib import repr as shortened
from typing import Any

import numpy as np

from emsco.exceptions import ValuesError

# Infinity, because a value that can be judged is finite: checks and guards need no other test.
UNREADABLE = inf

# Texts that stand for a missing number; in a column of text, only an empty text is missing.
MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "#N/A")
BOOLEANS = {"true": 1.0, "false": 0.0}  # in any case

_NUMERAL = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf(inity)?)", re.ASCII | re.IGNORECASE)
_NAN = re.compile(r"[+-]?nan(\(\w*\))?", re.ASCII | re.IGNORECASE)  # as C writes it


def is_missing(value: object) -> bool:
    """Return whether a value is missing."""
    if isinstance(value, str):
        return False
    if value is None or type(value).__name__ in ("NAType", "MaskedConstant"):
        return True
    try:  # NaN and NaT differ from themselves
        return bool(value != value)
    except InvalidOperation:  # a signalling NaN
        return True
    except Exception:  # an array, or another value that has no such comparison
        return False


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
    return _to_text_or_empty if "" in levels else _to_text


def unjudged(value: object, name: str, row: int, *, missing: bool, held: str) -> ValuesError:
    """Return the error for a value that cannot be judged; `held` is what training had."""
    if missing:
        message = (
            f"Row {row} of column {name!r} is missing (NaN), but training had no missing value "
            f"there; fill it, or train with missing values in {name!r}."
        )
    elif is_number(value) and value in (inf, -inf):
        message = f"Row {row} of column {name!r} is infinity ({value}); values must be finite."
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


def _to_text(value: object) -> Any:
    return (value or None) if isinstance(value, str) else _to_text_or_empty(value)


def _to_text_or_empty(value: object) -> Any:
    if isinstance(value, str):
        return value
    if is_missing(value):
        return None
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if not is_number(value):
        return UNREADABLE
    number = _to_float(value)
    if not isfinite(number):
        return UNREADABLE
    if isinstance(value, Integral) or (number.is_integer() and abs(number) < 2**53):
        return str(int(value))  # type: ignore[call-overload]  # a number, as checked above
    return repr(number)


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
