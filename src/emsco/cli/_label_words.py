"""Labels as text: each stands for one label, exactly as written, and no other text does."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

from emsco.cli._spreadsheet import number_of
from emsco.exceptions import BatchError, nearest, quoted


def text_of(label: Any) -> str:
    """Return a label as files have it."""
    value = label.item() if hasattr(label, "item") else label
    return str(value).lower() if isinstance(value, bool) else str(value)


class LabelWords:
    """The labels that answers may have, by the text that stands for each.

    Parameters
    ----------
    known : iterable
        The labels of the cheap answers, and of answers that came before.
    new : iterable of str
        Other labels, which were declared.

    Examples
    --------
    >>> from emsco.cli._label_words import LabelWords
    >>> words = LabelWords([0, 1], new=["2"])
    >>> words.label("1"), words.label("2"), words.unknown("1 ")
    (1, '2', "unknown label '1 '; did you mean '1'?")
    """

    def __init__(self, known: Iterable[Any], new: Iterable[str] = ()) -> None:
        self._labels: dict[str, Any] = {text_of(label): label for label in known}
        self._new = set(new)

    @property
    def by_text(self) -> Mapping[str, Any]:
        """The label of each text."""
        return self._labels | {text: text for text in self._new if text not in self._labels}

    def learn(self, label: Any) -> None:
        """Learn a label that a model has."""
        self._labels.setdefault(text_of(label), label)

    def declare(self, texts: Iterable[str]) -> None:
        """Declare other labels."""
        self._new.update(texts)

    def label(self, text: str) -> Any:
        """Return the label that a text stands for."""
        return self._labels[text] if text in self._labels else self.by_text[text]

    def unknown(self, text: str) -> str | None:
        """Return what is wrong with a text that stands for no label; None if it stands for one."""
        if text in self._labels or text in self._new:
            return None
        return f"unknown label {text!r}{nearest(text, self.by_text)}"

    def read(self, text: str) -> str:
        """Return a text as it was, where a spreadsheet wrote true or false in capitals.

        If this is what one label looks like, and no other one, nothing else can have been meant.
        """
        if text not in ("TRUE", "FALSE") or self.unknown(text) is None:
            return text
        alike = [own for own in self.by_text if own.casefold() == text.casefold()]
        return alike[0] if len(alike) == 1 else text

    def add(self, texts: Iterable[str], where: str) -> None:
        """Learn the labels of cheap answers; refuse one that looks like another.

        "Yes " beside "Yes" is a slip of the pen, which nobody would see in the labels, and a
        spreadsheet makes "1" of "01". Who means it declares it as a new label.
        """
        found = dict.fromkeys(texts)
        for text in found:
            if text and text not in self._labels:
                self._labels[text] = text
        alike: dict[str, list[str]] = {}
        for text in self._labels:
            if text not in self._new:
                alike.setdefault(_plain(text), []).append(text)
        for texts_alike in alike.values():
            if len(texts_alike) > 1 and found.keys() & texts_alike:
                raise BatchError(
                    f"{where} has labels that differ only in spaces or capitals, or are the same "
                    f"number: {quoted(texts_alike)}. Write each label in one way; or, if they are "
                    f"different labels, give --new-label for all but one."
                )


def _plain(text: str) -> str:
    """Return what is visible of a text, without capitals; of a number, its value."""
    number = number_of(text)
    if number is not None:
        return repr(number)
    folded = unicodedata.normalize("NFKC", text).casefold()
    return "".join(c for c in folded if unicodedata.category(c)[0] not in "ZC")
