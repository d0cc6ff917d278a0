"""Keys and labels as a monitor is given them: listed, and refused before anything is counted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco.exceptions import MonitorError
from emsco.rows.columns import NUMERIC
from emsco.rows.values import is_missing

TEXT, NUMBERS = "text", "numbers"


def listed(values: Any, what: str) -> list[Any]:
    """List values as Python's own."""
    if hasattr(values, "tolist"):
        values = values.tolist()
    if not isinstance(values, Iterable):
        raise MonitorError(f"The {what} must be a list, with one entry per row; got {values!r}.")
    return [value.item() if isinstance(value, np.generic) else value for value in values]


def listed_keys(values: Any) -> list[Any]:
    """List keys, each of which JSON gives back as it was."""
    keys = listed(values, "keys")
    for key in keys:
        if not isinstance(key, int | str) and not (isinstance(key, float) and isfinite(key)):
            raise MonitorError(
                f"A key must be text or a number, so that JSON can store it; got {key!r}. Convert "
                "it to text."
            )
    return keys


def listed_labels(values: Any, keys: Sequence[Any], kind: str | None) -> list[Any]:
    """List the labels of rows, None where there is none; all of the kind that the classes are."""
    labels = listed(values, "labels")
    if len(labels) != len(keys):
        raise MonitorError(f"There are {len(keys)} keys but {len(labels)} labels.")
    known: type | None = None
    for place, label in enumerate(labels):
        if not isinstance(label, str | int) and np.ndim(label) == 0 and is_missing(label):
            labels[place] = None
        elif type(label) is not known:  # what was looked at once is not looked at for every row
            kind, known = same_kind(label, kind, f" for row {keys[place]!r}"), type(label)
    return labels


def kind_of(labels: NDArray[Any], kind: str | None) -> str | None:
    """Say what decided labels are, text or numbers; they must be what `kind` says."""
    if labels.dtype.kind in NUMERIC or labels.dtype.kind == "U":  # all of them are as the first
        labels = labels[:1]
    for label in labels.tolist():
        kind = same_kind(label, kind)
    return kind


def same_kind(label: Any, kind: str | None, where: str = "") -> str:
    """Say whether a label is text or a number; it must be what `kind` says, if that is known."""
    own = TEXT if isinstance(label, str) else NUMBERS if isinstance(label, Number) else None
    if kind is not None and own != kind:
        raise MonitorError(
            f"Labels must have the type of the classes: the classes are {kind}, got {label!r}"
            f"{where}."
        )
    if own is None:
        raise MonitorError(f"Labels must be text or numbers, got {label!r}{where}.")
    return own
