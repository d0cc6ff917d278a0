"""Text with names in braces, such as "page:{key}", in which only names are replaced."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from emsco.acquisition.fetched import as_text
from emsco.exceptions import SourcesError

_NAME = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True)
class Template:
    """A text with names in braces.

    Braces hold only a name: no attributes, formats or escapes. A value can therefore never affect
    anything but its own place.

    Examples
    --------
    >>> from urllib.parse import quote
    >>> from emsco.acquisition.templates import Template
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
            raise SourcesError(f"`{what}` has a brace without its partner: {text!r}.")
        names = tuple(parts[1::2])
        bad = [name for name in names if not name or set(name) & set(".[]!:")]
        if bad:
            raise SourcesError(f"`{what}` must hold names alone in braces, got {bad[0]!r}.")
        return cls(text, tuple(parts[::2]), names)

    def fill(self, values: Mapping[str, Any], encode: Callable[[str], str]) -> str:
        """Fill in the values, each encoded."""
        filled = self.parts[0]
        for name, rest in zip(self.names, self.parts[1:], strict=True):
            filled += encode(str(as_text(values[name]))) + rest
        return filled
