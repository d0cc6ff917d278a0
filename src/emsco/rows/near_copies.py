"""Near-copies: rows that lie close together in small groups and have one label.

Visits of one patient, order lines of one customer, and rows that were copied with a little noise
are close together, and far from all others. That alone is no proof: clusters are natural. But the
label of a group is the label of its patient or customer, so it is the same within the group, and
just outside it is not. Where labels change at the edge of small groups and hardly ever inside, a
model that has seen one row of a group knows the others.

The distance of two rows is the chance that a random row is as close in every column, if columns
were independent; its logarithm is a sum over columns. A group ends where that chance rises by a
factor of at least 20 from one neighbour to the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom  # type: ignore[import-untyped]  # scipy has no types

from emsco.rows.row_hashes import HashableColumn

FALSE_ALARM = 0.01  # the probability of an alarm if at least a fifth of the changes are inside

_FEWEST_ROWS = 80
_MOST_ROWS, _MOST_COLUMNS = 1000, 100  # of which distances are taken: a sample if there are more
_LARGEST_GROUP = 8  # rows beside the row itself
_GAP = np.log(20)
_INSIDE = 0.2  # of the changes of labels, those inside a group, if there are no near-copies
_LEAST_SHARE = 0.05  # of all rows: fewer that change at the edge would hardly change a promise
_COLUMNS_A_LOG = 10  # whose product does not vanish in float32


class Cliff(NamedTuple):
    """Where the labels of close rows change."""

    rows: int  # compared
    grouped: int  # that belong to a small group
    inside: int  # whose label changes within the group, but not at its edge
    outside: int  # whose label changes at the edge of the group, but not within

    @property
    def is_clear(self) -> bool:
        """Whether labels change at the edge of groups more often than clusters explain."""
        enough = self.outside - self.inside >= _LEAST_SHARE * self.rows
        changes = self.inside + self.outside
        return bool(enough and binom.cdf(self.inside, changes, _INSIDE) <= FALSE_ALARM)


def find_cliff(
    columns: Mapping[str, HashableColumn], labels: NDArray[np.intp], rows: NDArray[np.intp]
) -> Cliff | None:
    """Compare the labels of close rows, which are all different; None if there are too few."""
    if len(rows) < _FEWEST_ROWS:
        return None
    rng = np.random.default_rng(len(rows))
    if len(rows) > _MOST_ROWS:
        rows = rng.choice(rows, _MOST_ROWS, replace=False)
    names = list(columns)
    if len(names) > _MOST_COLUMNS:
        names = [names[i] for i in rng.choice(len(names), _MOST_COLUMNS, replace=False)]
    distances = _distances([columns[name].take(rows) for name in names])
    closest = np.argpartition(distances, _LARGEST_GROUP, axis=1)[:, : _LARGEST_GROUP + 1]
    near = np.take_along_axis(distances, closest, axis=1)
    order = np.argsort(near, axis=1, kind="stable")
    near = np.take_along_axis(near, order, axis=1)
    closest = np.take_along_axis(closest, order, axis=1)
    steps = np.diff(near, axis=1)
    last = steps.argmax(axis=1)
    every = np.arange(len(rows))
    grouped = steps[every, last] >= _GAP
    own = labels[rows]
    inside = own[closest[every, last]] != own
    outside = own[closest[every, last + 1]] != own
    return Cliff(
        len(rows),
        int(grouped.sum()),
        int((grouped & inside & ~outside).sum()),
        int((grouped & outside & ~inside).sum()),
    )


def _distances(columns: Sequence[HashableColumn]) -> NDArray[np.float32]:
    """Return the logarithm of the chance that a random row is as close, for each pair of rows."""
    n_rows = len(columns[0].numbers)
    total = np.zeros((n_rows, n_rows), dtype=np.float32)
    chance = np.ones((n_rows, n_rows), dtype=np.float32)
    for number, column in enumerate(columns, start=1):
        chance *= _chances(column)
        if number % _COLUMNS_A_LOG == 0 or number == len(columns):
            total += np.log(chance)
            chance[:] = 1
    np.fill_diagonal(total, np.inf)
    return total


def _chances(column: HashableColumn) -> NDArray[np.float32]:
    """Return the chance that a random value is as close, for each pair of rows."""
    values = column.numbers
    if column.words is not None:  # words are equal or not; so are numbers among words
        named = np.where(
            column.words > 0, column.words, np.ascontiguousarray(values).view(np.uint64)
        )
        _, place, counts = np.unique(named, return_inverse=True, return_counts=True)
        shares = (counts / len(named)).astype(np.float32)[place]
        return np.where(place[:, None] == place[None, :], shares[:, None], np.float32(1))
    # A missing value is a value of its own, beside the lowest.
    values = np.where(np.isnan(values), -np.inf, values)
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    shares = (counts / len(values)).astype(np.float32)
    ranks = (np.cumsum(shares) - shares / 2)[place]
    apart = np.abs(ranks[:, None] - ranks[None, :])
    chances: NDArray[np.float32] = np.minimum(2 * apart + shares[place][:, None], np.float32(1))
    return chances
