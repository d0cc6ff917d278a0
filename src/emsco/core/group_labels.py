"""The group of each row, such as the sex of a person, as codes; rows without one are a group."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emsco._utils.missing_values import is_missing
from emsco.exceptions import LabelsWarning, Parameter, ValuesError, warn

MOST_GROUPS = 1_000


class GroupLabels(NamedTuple):
    """The names of groups, in order, and the place of each row's group among them."""

    names: tuple[Any, ...]
    codes: NDArray[np.intp]

    def take(self, rows: NDArray[Any]) -> GroupLabels:
        """Return the groups of some rows; a group without any of them is left out."""
        left, codes = np.unique(self.codes[rows], return_inverse=True)
        return GroupLabels(tuple(self.names[place] for place in left.tolist()), codes)

    def masks(self) -> list[NDArray[np.bool_]]:
        """Return for each group which rows are in it."""
        return [self.codes == place for place in range(len(self.names))]


def read_group_labels(by: Any, n_rows: int, what: str = "decisions") -> GroupLabels:
    """Read the group of each row: any hashable labels, in a list, an array or a series.

    Rows without a group (None, NaN and the like) are a group of their own, named None.

    Examples
    --------
    >>> from emsco.core.group_labels import read_group_labels
    >>> read_group_labels(["M", "F", None, "F"], 4)
    GroupLabels(names=('F', 'M', None), codes=array([1, 0, 2, 0]))
    """
    parameter = Parameter("by")
    shape = getattr(by, "shape", ())
    if isinstance(by, str | bytes | dict | set | frozenset) or len(shape) > 1:
        raise ValuesError(
            parameter + f" must be one label for each row, got {_described(by, shape)}."
        )
    try:
        labels = by.tolist() if hasattr(by, "tolist") else list(by)
    except TypeError:
        raise ValuesError(
            parameter + f" must be one label for each row, got {_described(by, shape)}."
        ) from None
    if not isinstance(labels, list) or len(labels) != n_rows:
        n_labels = len(labels) if isinstance(labels, list) else 1
        raise ValuesError(
            parameter + f" must be one label for each of the {n_rows:,} {what}, got {n_labels:,}."
        )
    places: dict[Any, int] = {}
    codes = np.empty(n_rows, dtype=np.intp)
    for row, label in enumerate(labels):
        try:
            codes[row] = places.setdefault(None if is_missing(label) else label, len(places))
        except TypeError:
            raise ValuesError(
                parameter + f" must hold labels that can be hashed; row {row} has {label!r:.80}.",
                row=row,
            ) from None
    if len(places) > MOST_GROUPS:
        raise ValuesError(
            parameter + f" has {len(places):,} groups, of which there may be {MOST_GROUPS:,}; "
            "divide numbers into ranges, and merge rare groups."
        )
    names = _ordered(list(places))
    _warn_alike(names)
    rank = np.array([names.index(name) for name in places], dtype=np.intp)
    return GroupLabels(tuple(names), rank[codes])


def name_text(name: Any) -> str:
    """Return the name of a group within a table."""
    if isinstance(name, float):
        return f"{name:g}"
    return "no group" if name is None else str(name)


def _ordered(names: list[Any]) -> list[Any]:
    """Sort names, as text if they have no order; None comes last."""
    named = [name for name in names if name is not None]
    last = [None] * (len(named) < len(names))
    try:
        return [*sorted(named), *last]
    except TypeError:
        return [*sorted(named, key=lambda name: (type(name).__name__, str(name))), *last]


def _warn_alike(names: list[Any]) -> None:
    """Warn of groups that would be one with other letters or another type."""
    spelled: dict[str, Any] = {}
    for name in names:
        known = spelled.setdefault(str(name).strip().casefold(), name)
        if known is not name:
            warn(
                Parameter("by") + f" has {known!r} and {name!r}, which count as different groups.",
                LabelsWarning,
            )


def _described(by: Any, shape: tuple[int, ...]) -> str:
    return f"an array of the shape {shape}" if shape else repr(by)[:80]
