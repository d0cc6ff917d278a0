"""Which values a request can contain; text with names in braces, such as "page:{key}".

A request can contain text, numbers and dates, but no missing values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time
from decimal import Decimal
from math import isfinite
from typing import Any
from uuid import UUID

import numpy as np

from emsco._utils.missing_values import is_missing
from emsco.core.decisions import ACCEPTED, INVALID_KEY, INVALID_VALUE, MISSING
from emsco.exceptions import SourcesError
from emsco.live.fetch_result import Key, Values, as_text

_NAME = re.compile(r"\{([^{}]*)\}")
_WRITTEN = (str, int, float, Decimal, date, time, UUID, np.integer, np.floating, np.datetime64)


@dataclass(frozen=True)
class Template:
    """A text with names in braces.

    Braces contain only a name: no attributes, formats or escapes. So a value can never affect
    anything but its own position.
    """

    text: str
    parts: tuple[str, ...]  # around the names
    names: tuple[str, ...]

    @classmethod
    def parse(cls, text: str, what: str) -> Template:
        """Parse a text; `what` names it in error messages."""
        parts = _NAME.split(text)
        if any(brace in part for part in parts[::2] for brace in "{}"):
            raise SourcesError(f"`{what}` must not have an unmatched brace, got {text!r}.")
        names = tuple(parts[1::2])
        bad = [name for name in names if not name or set(name) & set(".[]!:")]
        if bad:
            raise SourcesError(f"`{what}` must have only names in braces, got {bad[0]!r}.")
        if "" in parts[2:-1:2]:
            raise SourcesError(f"`{what}` must have text between two names, got {text!r}.")
        return cls(text, tuple(parts[::2]), names)

    def fill(self, values: Mapping[str, Any], encode: Callable[[str], str]) -> str:
        """Fill in the values, each encoded."""
        filled = self.parts[0]
        for name, rest in zip(self.names, self.parts[1:], strict=True):
            filled += encode(str(as_text(values[name]))) + rest
        return filled

    def unfilled(
        self, keys: Sequence[Key], values: Values, encode: Callable[[str], str]
    ) -> dict[int, str]:
        """Return the reasons of rows that cannot be requested, by position; usually none.

        A value cannot be filled in if it is missing, or if it makes the text between two names
        ambiguous: two different requests would look the same.
        """
        columns = {name: keys if name == "key" else values[name] for name in self.names}
        found = unwritten(columns.pop("key", ()), columns)
        if len(self.names) > 1:
            for i in range(len(keys)):
                if i not in found and not self._is_plain(i, keys, values, encode):
                    found[i] = INVALID_KEY
        return found

    def _is_plain(
        self, row: int, keys: Sequence[Key], values: Values, encode: Callable[[str], str]
    ) -> bool:
        """Return whether the text between two names occurs nowhere else."""
        filled = [
            encode(str(as_text(keys[row] if name == "key" else values[name][row])))
            for name in self.names
        ]
        for before, text, after in zip(filled, self.parts[1:], filled[1:], strict=False):
            joined = before + text + after
            if not joined.find(text) == len(before) == joined.rfind(text):
                return False
        return True


def unwritable(value: Any) -> str:
    """Return the reason why a request cannot contain a value; "" if it can."""
    value = as_text(value)
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return INVALID_KEY
        return ACCEPTED
    if is_missing(value):
        return MISSING
    if isinstance(value, bool) or not isinstance(value, _WRITTEN):
        return INVALID_VALUE
    is_finite = not isinstance(value, float | Decimal | np.floating) or isfinite(value)
    return ACCEPTED if is_finite else INVALID_VALUE


def unwritten(keys: Sequence[Key], values: Values) -> dict[int, str]:
    """Return the reasons of rows that cannot be requested, by position; usually none."""
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
