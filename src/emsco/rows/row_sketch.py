"""A sketch of rows, by which they are recognised after a change of their columns.

Hashes of fitted rows belong to the columns of one model. A sketch needs no model and no names. It
has two kinds of hashes. *Values*: each row over neighbouring columns, in windows of 3, 6, 12, ...
and of all columns. They recognise rows in any order, also some of them, where some neighbouring
columns are as they were. *Order*: along the rows of each column, where its value rises, falls or
stays, together with where the label changes. They recognise rows in their order, also if all
columns were renamed, standardised or rounded, and by their labels alone. They say nothing about
any value.

As there, equal hashes alone prove nothing: how many of them chance explains is estimated by how
often they repeat within each of the two tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emsco.rows.columns import Columns
from emsco.rows.fitted_rows import count_repeated, is_beyond_chance, is_same_table
from emsco.rows.row_hashes import HashableColumn, Hashes, finalise

_MOST = 1024  # hashes of a part
_NEIGHBOURS = 3  # columns of the smallest window: no hash is of a single column, if there are more
_RUNS = 32  # rises and falls of a window: enough to be unlike all others by chance
_STRETCH = 4  # windows of equal order count as one, because they overlap


class SmallestHashes(NamedTuple):
    """Hashes of one kind: the smallest ones, so that two tables keep the same."""

    hashes: Hashes  # the smallest, sorted; one that repeats is there several times
    total: int  # how many there were
    clump: int  # how many of all count as one, because they depend on each other


@dataclass(frozen=True)
class Sketch:
    """Hashes that recognise rows after columns were added, dropped, renamed or standardised."""

    # Over windows of columns, by the number of columns; and of the order of rows.
    parts: Mapping[str, SmallestHashes] = field(default_factory=dict)

    @classmethod
    def of(cls, columns: Columns, labels: NDArray[Any]) -> Sketch:
        """Sketch rows with their labels."""
        values = [HashableColumn.read(column) for column in columns.values()]
        truth = HashableColumn.read(labels)
        parts = dict(_values_of(values))
        parts["order"] = _order_of(values, truth)
        parts["labels"] = _order_of([truth], truth)
        return cls({name: part for name, part in parts.items() if part.total})

    def overlaps(self, other: Sketch) -> bool:
        """Return whether the two tables have more rows in common than chance explains."""
        both = self.parts.keys() & other.parts.keys()
        return any(_is_alike(self.parts[name], other.parts[name]) for name in both)


def _is_alike(one: SmallestHashes, other: SmallestHashes) -> bool:
    # Beyond the largest hash that a table has kept, nothing is known about it.
    cuts = [part.hashes[-1] for part in (one, other) if len(part.hashes) < part.total]
    cut = min(cuts, default=np.uint64(2**64 - 1))
    own, others = (part.hashes[part.hashes <= cut] for part in (one, other))
    found = int(np.isin(own, others).sum())
    if not found:  # as in most cases, and what follows takes longer
        return False
    if is_same_table(own, others):
        return True
    clump = max(
        ceil(part.clump * len(left) / part.total) for part, left in ((one, own), (other, others))
    )
    by_other = count_repeated(others), len(own) / len(others)
    by_own = count_repeated(own), max(1.0, len(others) / len(own))
    return any(
        is_beyond_chance(found // clump, ceil(repeated / 2 / clump), 2 * ratio)
        for repeated, ratio in (by_other, by_own)
    )


def _values_of(values: list[HashableColumn]) -> Iterator[tuple[str, SmallestHashes]]:
    """Hash each row over windows of neighbouring columns."""
    hashed = [column.hashes(b"", 0.0) for column in values]
    n_columns = len(hashed)
    size = _NEIGHBOURS
    while size < 2 * n_columns:
        size = min(size, n_columns)
        starts = range(n_columns - size + 1)
        windows = [_folded(hashed[start : start + size]) for start in starts]
        yield str(size), _part(windows, len(windows))
        size = 2 * size if size < n_columns else 2 * n_columns


def _order_of(values: list[HashableColumn], labels: HashableColumn) -> SmallestHashes:
    """Hash windows along the rows: where a column changes, and how often labels change between."""
    turns = np.append(_changes(labels) != 0, False)  # the last row has no next
    windows = []
    for column in values:
        change = _changes(column)
        ends = np.flatnonzero(change)  # of runs of equal values
        if len(ends) < _RUNS:
            continue
        lengths = np.diff(ends, prepend=-1)
        counts = np.diff(np.cumsum(turns)[ends], prepend=0)
        symbols = (lengths * 3 + change[ends] + 1) * 2**32 + counts
        hashed = finalise(symbols.astype(np.uint64) + np.uint64(1))
        n_windows = len(ends) - _RUNS + 1
        windows.append(_folded([hashed[i : i + n_windows] for i in range(_RUNS)]))
    return _part(windows, _STRETCH)


def _changes(column: HashableColumn) -> NDArray[np.int64]:
    """Return whether each value rises (1) or falls (-1) to the next; other changes are 1."""
    if column.words is not None:
        own = np.where(column.words > 0, column.words, column.hashes(b"", 0.0))
        differs: NDArray[np.int64] = (own[1:] != own[:-1]).astype(np.int64)
        return differs
    numbers = np.where(np.isnan(column.numbers), -np.inf, column.numbers)
    before, after = numbers[:-1], numbers[1:]
    changes: NDArray[np.int64] = (after > before).astype(np.int64) - (after < before)
    return changes


def _folded(hashes: list[Hashes]) -> Hashes:
    """Combine hashes in their order."""
    total = np.zeros(len(hashes[0]), dtype=np.uint64)
    for one in hashes:
        total = finalise(total + one)
    return total


def _part(windows: list[Hashes], clump: int) -> SmallestHashes:
    every = np.concatenate([*windows, np.empty(0, dtype=np.uint64)])
    if len(every) > _MOST:
        return SmallestHashes(np.sort(np.partition(every, _MOST)[:_MOST]), len(every), clump)
    return SmallestHashes(np.sort(every), len(every), clump)
