"""Which values a request can contain: text, numbers and dates, but no missing values."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, time
from decimal import Decimal
from math import isfinite
from typing import Any
from uuid import UUID

import numpy as np

from emsco._utils.missing_values import is_missing
from emsco.core.decisions import ACCEPTED, INVALID_KEY, INVALID_VALUE, MISSING
from emsco.live.fetch_result import Key, Values, as_text

_WRITTEN = (str, int, float, Decimal, date, time, UUID, np.integer, np.floating, np.datetime64)


def unwritable(value: Any) -> str:
    r"""Return the reason why a request cannot contain a value; "" if it can.

    Examples
    --------
    >>> from emsco.live.request_values import unwritable
    >>> [unwritable(value) for value in ("eu", 7, None, float("nan"), True, "\udcff")]
    ['', '', 'missing', 'missing', 'invalid value', 'invalid key']
    """
    value = as_text(value)
    if isinstance(value, str):
        return ACCEPTED if is_unicode(value) else INVALID_KEY
    if is_missing(value):
        return MISSING
    if isinstance(value, bool) or not isinstance(value, _WRITTEN):
        return INVALID_VALUE
    is_finite = not isinstance(value, float | Decimal | np.floating) or isfinite(value)
    return ACCEPTED if is_finite else INVALID_VALUE


def is_unicode(text: str) -> bool:
    """Return whether text can be encoded as UTF-8."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def unwritten(keys: Sequence[Key], values: Values) -> dict[int, str]:
    """Return the reasons of rows that cannot be requested, by position; usually none.

    Examples
    --------
    >>> from emsco.live.request_values import unwritten
    >>> unwritten(["a", "b"], {"region": ["eu", None]})
    {1: 'missing'}
    """
    found: dict[int, str] = {}
    if not _are_ascii(keys):
        found = {i: reason for i, key in enumerate(keys) if (reason := unwritable(key))}
    for column in values.values():
        if not _are_ascii(column):
            for i, value in enumerate(column):
                if reason := unwritable(value):
                    found.setdefault(i, reason)
    return found


def _are_ascii(column: Sequence[Any]) -> bool:
    """Return whether all values are ASCII text: a quick check for the usual case."""
    return set(map(type, column)) == {str} and "".join(column).isascii()
