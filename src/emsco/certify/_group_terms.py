"""Certificates by group: a promise for every group of rows, or the list of groups that keep it.

For every group, a cascade is tested with the largest p-value of its groups at the full level: to
certify falsely, the group that breaks the promise must pass its own test (intersection-union). For
the list, the groups of one cascade are tested by Holm's procedure, so that any group is listed
falsely with at most the level. Which of the two is part of the question.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from emsco.certify._serialization import expect, expect_keys, whole
from emsco.core.validation import read_groups
from emsco.exceptions import CertificateError, Parameter, quoted
from emsco.rows.row_hashes import Hashes, hash_exactly
from emsco.rows.rows import Layout

GROUP = "group"  # the column of groups that were given as an array without a name


@dataclass(frozen=True)
class GroupTerms:
    """The groups that a certificate is about.

    Parameters
    ----------
    column : str
        The column that holds the group of a row.
    groups : tuple
        The groups of the calibration rows, in order.
    rows : tuple of int
        The number of calibration rows of each group.
    every : bool
        Whether the promise is for every group; otherwise the groups that keep it are listed.
    """

    column: str
    groups: tuple[Any, ...]
    rows: tuple[int, ...]
    every: bool

    def holding(self, passed: Sequence[Any]) -> str:
        """Say for which groups the promise holds, for the middle of a sentence."""
        if self.every:
            return f"in every group of {self.column!r} ({quoted(self.groups)})"
        return f"in each of the groups {quoted(passed)} of {self.column!r}"

    @property
    def note(self) -> str:
        """Say how many rows each group has."""
        counts = ", ".join(
            f"{rows:,} of {group!r}" for group, rows in zip(self.groups, self.rows, strict=True)
        )
        return f"Calibration rows by {self.column!r}: {counts}. Nothing is said of other groups."

    def to_data(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {name: _listed(value) for name, value in self.__dict__.items()}

    @classmethod
    def from_data(cls, data: Any, rows: int) -> GroupTerms:
        """Rebuild it from the values of `to_data`; `rows` were used."""
        expect_keys(data, list(cls.__dataclass_fields__))
        groups = tuple(expect(data["groups"], list, "groups"))
        counts = tuple(
            whole(n, "rows of a group", rows, least=1)
            for n in expect(data["rows"], list, "rows of groups")
        )
        is_valid = all(isinstance(group, str | int | float | bool) for group in groups)
        if not groups or not is_valid or len(set(groups)) != len(counts) or sum(counts) != rows:
            raise CertificateError("A certificate has groups that contradict one another.")
        column = expect(data["column"], str, "column of groups")
        return cls(column, groups, counts, expect(data["every"], bool, "kind of groups"))


@dataclass(frozen=True)
class GroupedRows:
    """The group of each calibration row, as its place among the groups."""

    column: str
    groups: tuple[Any, ...]
    places: NDArray[np.intp]
    every: bool

    def take(self, rows: NDArray[np.intp]) -> GroupedRows:
        """Return some of the rows, with the groups that they have."""
        there, places = np.unique(self.places[rows], return_inverse=True)
        groups = tuple(self.groups[place] for place in there)
        return GroupedRows(self.column, groups, places, self.every)

    def digested(self, hashes: Hashes) -> list[Any]:
        """List the values that distinguish one question from another."""
        groups = hashes + hash_exactly({"group": np.array(self.groups, object)[self.places]})
        return ["by", self.column, self.every, np.sort(groups)]

    @property
    def terms(self) -> GroupTerms:
        """What a certificate says of them."""
        counts = np.bincount(self.places, minlength=len(self.groups)).tolist()
        return GroupTerms(self.column, self.groups, tuple(counts), self.every)


def grouped_rows(
    by: str | ArrayLike | None, X: Any, layout: Layout, n_rows: int, *, every: bool
) -> GroupedRows | None:
    """Read the group of each calibration row; None without groups."""
    if by is None:
        if every is not True:
            raise CertificateError(Parameter("every") + " is about the groups of `by`; give both.")
        return None
    if not isinstance(every, bool | np.bool_):
        raise CertificateError(Parameter("every") + f" must be True or False, got {every!r}.")
    if isinstance(by, str):
        column, given = by, layout.read_column(X, by)
    else:
        column, given = str(getattr(by, "name", None) or GROUP), by
    named = read_groups(given, n_rows)
    groups, places = np.unique(named, return_inverse=True)
    return GroupedRows(column, tuple(groups.tolist()), places, bool(every))


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
