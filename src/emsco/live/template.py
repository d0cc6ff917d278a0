"""Text with names in braces, such as "page:{key}", in which only names are replaced."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from emsco.core.decisions import INVALID_KEY
from emsco.exceptions import SourcesError
from emsco.live.fetch_result import Key, Values, as_text
from emsco.live.request_values import unwritten

_NAME = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True)
class Template:
    """A text with names in braces.

    Braces contain only a name: no attributes, formats or escapes. So a value can never affect
    anything but its own position.

    Examples
    --------
    >>> from urllib.parse import quote
    >>> from emsco.live.template import Template
    >>> template = Template.parse("/v1/{domain}/age", "url")
    >>> template.names
    ('domain',)
    >>> template.fill({"domain": "a/../b"}, lambda value: quote(value, safe=""))
    '/v1/a%2F..%2Fb/age'
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

        Examples
        --------
        >>> from emsco.live.template import Template
        >>> template = Template.parse("{region}:{key}", "key")
        >>> template.unfilled(["1:5", "5", "7"], {"region": ["eu", "eu:1", "eu"]}, str)
        {0: 'invalid key', 1: 'invalid key'}
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
