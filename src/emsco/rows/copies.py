"""Copies: equal rows that do not come from few, coarse columns.

Rows of a table with few or coarse columns are often equal by chance. Such rows have neighbours:
other rows that differ from them in one column only. A row without a neighbour is isolated. Two
isolated rows that are equal are copies of one row: a join, an augmentation or a mistake made them.

Whether a row that has neighbours is a copy cannot be told.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from emsco.rows.row_hashes import Hashes


def find_isolated(rows: Hashes, parts: Iterable[Hashes]) -> NDArray[np.bool_]:
    """Return which rows are isolated.

    Parameters
    ----------
    rows : array of hashes
        The hash of each row: the sum of its parts.
    parts : iterable of arrays
        The hashes of each column, or of each group of columns if there are many.
    """
    isolated = np.ones(len(rows), dtype=bool)
    for part in parts:
        _drop_neighbours(isolated, rows - part, rows)
    return isolated


def _drop_neighbours(isolated: NDArray[np.bool_], rest: Hashes, total: Hashes) -> None:
    """Drop rows that are equal to another one in the rest of the columns, but not as a whole."""
    ordered = np.sort(rest)
    if not (ordered[1:] == ordered[:-1]).any():
        return
    order = np.argsort(rest, kind="stable")
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    whole = total[order]
    mixed = np.minimum.reduceat(whole, starts) != np.maximum.reduceat(whole, starts)
    sizes = np.diff(np.r_[starts, len(rest)])
    isolated[order[np.repeat(mixed, sizes)]] = False
