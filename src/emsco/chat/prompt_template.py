"""The question about a row: text with columns in braces, and everything else as it is written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from emsco._utils.missing_values import is_missing
from emsco.exceptions import ColumnsError, ModelError, nearest

# Quotes, braces and line breaks cannot be in a name, so that JSON in a prompt is just text.
_COLUMN = re.compile(r"\{([^{}\"'\n]+)\}")


@dataclass(frozen=True)
class PromptTemplate:
    """A text with columns in braces.

    Braces contain only the name of a column: no attributes, formats or escapes. A value is never
    read as a template, whatever it contains.
    """

    texts: tuple[str, ...]  # around the columns
    columns: tuple[str, ...]

    @classmethod
    def parse(cls, prompt: str) -> PromptTemplate:
        """Parse a prompt."""
        if not isinstance(prompt, str):
            raise ModelError(f"`prompt` must be text, got {prompt!r:.80}.")
        parts = _COLUMN.split(prompt)
        if len(parts) == 1:
            raise ModelError(
                "`prompt` must name a column in braces, such as {text}; without one, every row "
                "would be the same question."
            )
        return cls(tuple(parts[::2]), tuple(parts[1::2]))

    def check(self, names: Sequence[str]) -> None:
        """Refuse rows that lack a column of the prompt."""
        for column in self.columns:
            if column not in names:
                raise ColumnsError(
                    f"The prompt has {{{column}}}, but the rows have no column {column!r}"
                    f"{nearest(column, names)}"
                )

    def fill(self, row: Mapping[str, Any]) -> str:
        """Return the question about one row."""
        filled = self.texts[0]
        for column, text in zip(self.columns, self.texts[1:], strict=True):
            filled += text_of_value(row[column]) + text
        return filled


def text_of_value(value: Any) -> str:
    """Write a value as a prompt has it: missing ones as nothing, others as Python writes them.

    Examples
    --------
    >>> from emsco.chat.prompt_template import text_of_value
    >>> text_of_value("{price}"), text_of_value(float("nan")), text_of_value(3.5)
    ('{price}', '', '3.5')
    """
    if is_missing(value):
        return ""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    text = str(value.item() if hasattr(value, "item") else value)
    if text.isascii():
        return text
    # Half of a character, as broken files have it, cannot be sent.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
