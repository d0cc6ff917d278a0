"""Keys and labels as a monitor is given them, checked before anything is counted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco._utils.missing_values import is_missing
from emsco.exceptions import MonitorError
from emsco.rows.columns import NUMERIC

TEXT, NUMBERS = "text", "numbers"


def listed(values: Any, what: str) -> list[Any]:
    """Return values as a list of Python's own types."""
    if hasattr(values, "tolist"):
        values = values.tolist()
    if not isinstance(values, Iterable):
        raise MonitorError(f"The {what} must be a list, with one entry per row; got {values!r}.")
    return [value.item() if isinstance(value, np.generic) else value for value in values]


def listed_keys(values: Any) -> list[Any]:
    """Return keys as a list; JSON must be able to store them unchanged."""
    keys = listed(values, "keys")
    for key in keys:
        if not isinstance(key, int | str) and not (isinstance(key, float) and isfinite(key)):
            raise MonitorError(
                f"A key must be text or a number, so that JSON can store it; got {key!r}. Convert "
                "it to text."
            )
    return keys


def listed_labels(values: Any, keys: Sequence[Any], kind: str | None) -> list[Any]:
    """Return labels as a list, None for missing ones; they must have the type of the classes."""
    labels = listed(values, "labels")
    if len(labels) != len(keys):
        raise MonitorError(f"There are {len(keys)} keys but {len(labels)} labels.")
    known: type | None = None
    for place, label in enumerate(labels):
        if not isinstance(label, str | int) and np.ndim(label) == 0 and is_missing(label):
            labels[place] = None
        elif type(label) is not known:  # a type is checked once, not for every row
            kind, known = same_kind(label, kind, f" for row {keys[place]!r}"), type(label)
    return labels


def kind_of(labels: NDArray[Any], kind: str | None) -> str | None:
    """Return whether decided labels are text or numbers; they must be of the given kind."""
    if labels.dtype.kind in NUMERIC or labels.dtype.kind == "U":  # all have the type of the first
        labels = labels[:1]
    for label in labels.tolist():
        kind = same_kind(label, kind)
    return kind


def same_kind(label: Any, kind: str | None, where: str = "") -> str:
    """Return whether a label is text or a number; it must be of the given kind, if any."""
    own = TEXT if isinstance(label, str) else NUMBERS if isinstance(label, Number) else None
    if kind is not None and own != kind:
        raise MonitorError(
            f"Labels must have the type of the classes: the classes are {kind}, got {label!r}"
            f"{where}."
        )
    if own is None:
        raise MonitorError(f"Labels must be text or numbers, got {label!r}{where}.")
    return own
