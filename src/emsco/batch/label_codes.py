"""Labels as codes: the answers of a model or a person, whatever types they come in."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import numpy as np

from emsco._utils.missing_values import is_missing
from emsco.batch.promises import NO_LABEL, Codes
from emsco.exceptions import BatchError, quoted
from emsco.rows.columns import listed

_KINDS = (str, bool, int, float)


class LabelCodes:
    """The codes of labels; a label that is new gets the next one.

    Examples
    --------
    >>> import numpy as np
    >>> from emsco.batch.label_codes import LabelCodes
    >>> codes = LabelCodes()
    >>> codes.read(np.array(["yes", "no"])), codes.read(["no", None, "maybe"])
    (array([0, 1], dtype=int32), array([ 1, -1,  2], dtype=int32))
    """

    def __init__(self) -> None:
        self._codes: dict[Any, int] = {}
        self._texts: dict[str, Any] = {}

    @property
    def labels(self) -> tuple[Any, ...]:
        """The labels in the order of their codes."""
        return tuple(self._codes)

    def read(self, labels: Any) -> Codes:
        """Return the code of each label; NO_LABEL where it is missing."""
        values = labels if type(labels) is list else listed(labels)
        try:
            distinct = dict.fromkeys(values)
        except TypeError:  # one that cannot be hashed is no label: say which
            return np.array([self.code(value) for value in values], dtype=np.int32)
        codes = {value: self.code(value) for value in distinct}
        return np.fromiter(map(codes.__getitem__, values), np.int32, len(values))

    def code(self, label: Any) -> int:
        """Return the code of a label; NO_LABEL if it is missing."""
        value = label.item() if isinstance(label, np.generic) else label
        if is_missing(value):
            return NO_LABEL
        if not isinstance(value, _KINDS):
            raise BatchError(
                f"A label must be text, a number or a boolean, got a {type(value).__name__}: "
                f"{value!r:.80}."
            )
        if value in self._codes:
            return self._codes[value]
        same = self._texts.setdefault(str(value), value)
        if type(same) is not type(value):
            raise BatchError(
                f"The label {value!r} is a {type(value).__name__}, and {same!r} a "
                f"{type(same).__name__}: one of the two must be converted, or they would differ."
            )
        self._codes[value] = len(self._codes)
        return self._codes[value]

    def spelled(self, labels: Iterable[Any]) -> list[Any]:
        """Return the labels that texts stand for, where every label comes as text.

        Examples
        --------
        >>> from emsco.batch.label_codes import LabelCodes
        >>> codes = LabelCodes()
        >>> codes.code(0)
        0
        >>> codes.spelled(["1", None, "0"])
        [1, None, 0]
        """
        kinds = set(map(type, self._codes))
        if kinds <= {str}:
            return list(labels)
        return [None if label is None else self._spelled(label, kinds) for label in labels]

    def _spelled(self, text: str, kinds: set[type]) -> Any:
        if text in self._texts:
            return self._texts[text]
        for kind in kinds & {int, float}:  # a number that no label had until now
            with suppress(ValueError):
                if str(kind(text)) == text:
                    return kind(text)
        raise BatchError(
            f"The final model answered {text!r}, which is no label of the same type as those of "
            f"the cheap answers: {quoted(self._codes)}."
        )

    def known(self, label: Any, what: str) -> int:
        """Return the code of a label that must have been seen."""
        code = self._codes.get(label.item() if isinstance(label, np.generic) else label)
        if code is None:
            known = ", ".join(repr(each) for each in list(self._codes)[:10])
            raise BatchError(
                f"{what} names the label {label!r}, which no row has; labels: {known}."
            )
        return code

    def decode(self, codes: Iterable[int]) -> list[Any]:
        """Return the labels of codes; None for NO_LABEL."""
        labels = [*self._codes, None]
        return [labels[code] for code in codes]
