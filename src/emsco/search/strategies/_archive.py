"""What a strategy collects: the non-dominated proposals so far, and the history of its search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco.search._problem import Counts

Callback = Callable[[dict[str, Any]], object] | None

MAXIMISE = [True, True, False]  # accepted, accuracy, paid


def points_of(counts: Counts) -> NDArray[np.float64]:
    """Return each evaluation as (accepted, accuracy, paid)."""
    accuracy = counts.right / np.maximum(counts.accepted, 1)
    return np.column_stack([counts.accepted, accuracy, counts.paid])


class Archive:
    """The proposals, as rows of small integers, that no other one dominates so far.

    There is one per evaluation, and it is known which of them were explored.
    """

    def __init__(self, width: int) -> None:
        self.rows: NDArray[np.int8] = np.empty((0, width), dtype=np.int8)
        self.points = np.empty((0, 3))
        self.explored = np.empty(0, dtype=np.bool_)

    def add(self, rows: NDArray[np.int8], keys: NDArray[Any], counts: Counts) -> None:
        """Add non-dominated proposals; of those with equal evaluations, the smallest key is kept.

        A proposal in the archive is not replaced by a new one with an equal evaluation: it may have
        been explored, and the neighbours of the two differ little.
        """
        import moocore

        good = np.flatnonzero(counts.feasible & (counts.accepted > 0))
        good = good[np.argsort(keys[good], kind="stable")]
        points = np.vstack([self.points, points_of(counts)[good]])
        if not len(points):
            return
        # Of duplicates, moocore keeps the first: the one in the archive, or the smallest key.
        mask = moocore.is_nondominated(points, maximise=MAXIMISE)
        self.rows = np.vstack([self.rows, rows[good]])[mask]
        self.points = points[mask]
        unexplored = np.zeros(len(good), dtype=np.bool_)
        self.explored = np.concatenate([self.explored, unexplored])[mask]

    def counts(self) -> Counts:
        """Return the evaluations in the archive as counts."""
        accepted, accuracy, paid = self.points.T
        right = np.rint(accepted * accuracy).astype(np.int64)
        feasible = np.ones(len(paid), dtype=np.bool_)
        return Counts(feasible, accepted.astype(np.int64), right, paid.astype(np.int64))

    def pick_unexplored(self, most: int, rng: np.random.Generator) -> NDArray[np.int8]:
        """Return some rows that were not explored yet, and mark them as explored."""
        picked = rng.permutation(np.flatnonzero(~self.explored))[:most]
        self.explored[picked] = True
        rows: NDArray[np.int8] = self.rows[picked]
        return rows


class History(list[dict[str, Any]]):
    """Entries about the progress of a search; each is reported when it is added."""

    def __init__(self, callback: Callback = None) -> None:
        super().__init__()
        self.callback = callback

    def append(self, entry: dict[str, Any]) -> None:
        """Add an entry, and report it."""
        super().append(entry)
        if self.callback is not None:
            self.callback(entry)
