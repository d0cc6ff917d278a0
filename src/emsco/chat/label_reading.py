"""Which labels an answer may be, and the strict reading of one: a label as written, or none.

Nothing is guessed: no part of an answer is searched for a label, and capitals count.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from typing import Any, NamedTuple, TypeAlias

from emsco.exceptions import ModelError

Label: TypeAlias = str | bool | int | float

_FIELD = "label"
_AROUND = 200  # characters, spaces most of them, that an answer may have around its label
_STRUCTURED = re.compile(rf'\s*\{{\s*"{_FIELD}"\s*:\s*(.*?)\s*\}}\s*', re.DOTALL)
_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number"}


class ReadLabel(NamedTuple):
    """A label, and where in the answer it stands, without quotes."""

    label: Label
    start: int
    end: int


@dataclass(frozen=True)
class LabelSet:
    """The labels that a model may answer."""

    labels: tuple[Label, ...]

    @classmethod
    def of(cls, labels: Iterable[Any]) -> LabelSet:
        """Check labels: text, whole numbers, numbers or booleans, of which no two look alike."""
        if isinstance(labels, str | bytes) or not isinstance(labels, Iterable):
            raise ModelError(f"`labels` must be a list of labels, got {labels!r:.80}.")
        found = tuple(one.item() if hasattr(one, "item") else one for one in labels)
        for label in found:
            if type(label) not in _TYPES or (isinstance(label, float) and not isfinite(label)):
                raise ModelError(f"`labels` must be text, numbers or booleans, got {label!r:.80}.")
            if isinstance(label, str) and not (
                label.isprintable() and label.strip() == label != ""
            ):
                raise ModelError(
                    "`labels` must be visible text without spaces around it or line breaks in it, "
                    f"got {label!r:.80}."
                )
        if len(found) < 2:
            raise ModelError(f"`labels` must be at least two, got {list(found)!r}.")
        alike: dict[str, Label] = {}
        for label in found:
            looks = _looks_of(label)
            if looks in alike:
                raise ModelError(
                    f"`labels` has {alike[looks]!r} and {label!r}, which look alike in an answer; "
                    "rename or leave out one of them."
                )
            alike[looks] = label
        return cls(found)

    @cached_property
    def _by_text(self) -> dict[str, Label]:
        return {text_of_label(label): label for label in self.labels}

    @property
    def listing(self) -> str:
        """The labels as a prompt lists them."""
        return json.dumps([text_of_label(label) for label in self.labels], ensure_ascii=False)

    @property
    def longest(self) -> int:
        """The bytes of the longest label in JSON, which has at most as many tokens."""
        return max(len(json.dumps(label).encode()) for label in self.labels)

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of an answer."""
        types = {type(label) for label in self.labels}
        one: dict[str, Any] = {"enum": list(self.labels)}
        if len(types) == 1:
            one = {"type": _TYPES[types.pop()], **one}
        return {
            "type": "object",
            "properties": {_FIELD: one},
            "required": [_FIELD],
            "additionalProperties": False,
        }

    def read(self, content: str) -> ReadLabel | None:
        """Return the label that an answer consists of; None if it is anything else.

        Examples
        --------
        >>> from emsco.chat.label_reading import LabelSet
        >>> labels = LabelSet.of(["spam", "ham"])
        >>> labels.read('{"label": "spam"}').label, labels.read(" ham").label, labels.read("Ham.")
        ('spam', 'ham', None)
        """
        if len(content) > self.longest + _AROUND:
            return None
        structured = _STRUCTURED.fullmatch(content)
        if structured is not None:
            return self._read_value(structured[1], structured.start(1))
        text = content.strip()
        start = content.find(text)
        if text in self._by_text:
            return ReadLabel(self._by_text[text], start, start + len(text))
        return self._read_value(text, start)

    def _read_value(self, text: str, start: int) -> ReadLabel | None:
        """Read one label written in JSON."""
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return None
        if type(value) not in _TYPES:
            return None
        label = self._by_text.get(text_of_label(value))
        if label is None or isinstance(label, str) != isinstance(value, str):
            return None
        quote = int(isinstance(value, str))
        return ReadLabel(label, start + quote, start + len(text) - quote)


def text_of_label(label: Label) -> str:
    """Write a label as an answer does: text without quotes, others as in JSON."""
    if isinstance(label, str):
        return label
    if isinstance(label, float) and label.is_integer():
        return str(int(label))  # as models and JSON parsers take it, 1.0 is 1
    return json.dumps(label)


def _looks_of(label: Label) -> str:
    """Return what is visible of a label, without capitals and spaces."""
    folded = unicodedata.normalize("NFKC", text_of_label(label)).casefold()
    return "".join(c for c in folded if unicodedata.category(c)[0] not in "ZC")
