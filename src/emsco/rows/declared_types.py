"""Read a column as the type that its costs declare: text, a number, a category or a date.

A date becomes the days since 1970-01-01, with the time of day as a fraction. Dates are read from
text as 2024-01-31, 2024/01/31 or 31.01.2024, the first two also with a time of day, and from the
types of Python, numpy, pandas, polars and Arrow. A number is no date: whether it counts days or
seconds, and since when, is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco._utils.missing_values import is_missing
from emsco.core.value_type import CATEGORY_TYPE, DATE_TYPE, LONG_TEXT, NUMBER_TYPE, TEXT_TYPE
from emsco.exceptions import ValuesError
from emsco.rows.columns import Column, Columns, listed, numbers, object_array
from emsco.rows.value_types import MISSING, UNREADABLE, to_number, to_text

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = timedelta(days=1)
_YEAR_FIRST = re.compile(
    r"(\d{4})([-/])(\d\d)\2(\d\d)([T ]\d\d:\d\d(:\d\d([.]\d{1,9})?)?(Z|[+-]\d\d:\d\d)?)?", re.ASCII
)
_DAY_FIRST = re.compile(r"(\d\d?)\.(\d\d?)\.(\d{4})", re.ASCII)
_WHAT = {
    TEXT_TYPE: "text",
    NUMBER_TYPE: "a number",
    CATEGORY_TYPE: "a category",
    DATE_TYPE: "a date, such as 2024-01-31",
    LONG_TEXT: "text of whole characters",
}


def read_declared(column: Column, kind: str) -> NDArray[Any]:
    """Read a column as a declared type: numbers with NaN, or texts with None.

    Infinity stands for a value that is not of this type.

    Examples
    --------
    >>> from emsco.rows.declared_types import read_declared
    >>> read_declared(["2024-01-31", "31.01.2024", None, "soon"], "date").tolist()
    [19753.0, 19753.0, nan, inf]
    >>> read_declared(["04300", 7, 7.0], "text").tolist()
    ['04300', '7', '7']
    >>> read_declared(["007", 7, "red"], "category").tolist()
    ['7', '7', 'red']
    """
    if kind == NUMBER_TYPE:
        return numbers(np.asarray(column)).astype(np.float64, copy=False)
    values, read = listed(column), _READERS[kind]
    try:
        known = {(type(value), value): read(value) for value in set(values)}
        found = [known[type(value), value] for value in values]
    except (TypeError, KeyError):  # a list, which is no value; or 1 beside True, which are equal
        found = [read(value) for value in values]
    return np.array(found, dtype=np.float64) if kind == DATE_TYPE else object_array(found)


def declare_columns(columns: Columns, types: Mapping[str, str]) -> Columns:
    """Read columns of training as their declared types; a value of another type is refused."""
    read = dict(columns)
    for name, kind in types.items():
        if name not in read:
            continue
        values = read_declared(columns[name], kind)
        unreadable = [value == UNREADABLE for value in values.tolist()]
        if any(unreadable):
            row = unreadable.index(True)
            raise ValuesError(
                f"Column {name!r} is declared to hold {kind}, so every value must be "
                f"{_WHAT[kind]}, or empty; row {row} is {listed(columns[name])[row]!r:.80}. "
                "Correct it, or declare another type in the costs.",
                row=row,
                column=name,
            )
        read[name] = values
    return read


def to_days(value: object) -> float:
    """Read a date as the days since 1970-01-01; a missing value becomes NaN.

    Examples
    --------
    >>> from emsco.rows.declared_types import to_days
    >>> to_days("1970-01-02 12:00"), to_days("1970/01/02"), to_days("tomorrow")
    (1.5, 1.0, inf)
    """
    if isinstance(value, str):
        return _spelled(value.strip())
    if is_missing(value):
        return nan
    if isinstance(value, np.datetime64):
        return float((value - np.datetime64(0, "D")) / np.timedelta64(1, "D"))
    if isinstance(value, datetime):
        moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return (moment - _EPOCH) / _DAY
    if isinstance(value, date):
        return float((value - _EPOCH.date()).days)
    return UNREADABLE


@lru_cache(maxsize=2**14)
def _spelled(text: str) -> float:
    """Return the days that a text spells."""
    year_first = _YEAR_FIRST.fullmatch(text)
    try:
        if year_first:
            return to_days(datetime.fromisoformat(text.replace("/", "-")))
        day_first = _DAY_FIRST.fullmatch(text)
        if day_first:
            day, month, year = map(int, day_first.groups())
            return to_days(date(year, month, day))
    except ValueError:  # such as the 31st of June
        return UNREADABLE
    return nan if text in MISSING else UNREADABLE


def _to_category(value: object) -> Any:
    """Read a category; a text that spells a number is that number, as the usual text."""
    if isinstance(value, str):
        number = to_number(value)
        return to_text(value if number == UNREADABLE or abs(number) == np.inf else number)
    return to_text(value)


def _to_long_text(value: object) -> Any:
    """Read text; half a character (a lone surrogate) cannot be judged, because it has no bytes."""
    text = to_text(value)
    if isinstance(text, str):
        try:
            text.encode()
        except UnicodeEncodeError:
            return UNREADABLE
    return text


_READERS: dict[str, Callable[[object], Any]] = {
    TEXT_TYPE: to_text,
    LONG_TEXT: _to_long_text,
    CATEGORY_TYPE: _to_category,
    DATE_TYPE: to_days,
}


def value_reader(kind: str) -> Callable[[object], Any]:
    """Return the function that reads one value as a declared type.

    Examples
    --------
    >>> from emsco.rows.declared_types import value_reader
    >>> value_reader("category")("007")
    '7'
    """
    return to_number if kind == NUMBER_TYPE else _READERS[kind]
