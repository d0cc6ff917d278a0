"""The undominated evaluations met so far, one proposal each, and which were looked around."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco.search._problem import Counts

MAXIMISE = [True, True, False]  # accepted, accuracy, paid


def points_of(counts: Counts) -> NDArray[np.float64]:
    """Give each evaluation as accepted, accuracy, paid."""
    accuracy = counts.right / np.maximum(counts.accepted, 1)
    return np.column_stack([counts.accepted, accuracy, counts.paid])


class Archive:
    """Proposals, as rows of small integers, that no other met so far dominates."""

    def __init__(self, width: int) -> None:
        self.rows: NDArray[np.int8] = np.empty((0, width), dtype=np.int8)
        self.points = np.empty((0, 3))
        self.explored = np.empty(0, dtype=np.bool_)

    def add(self, rows: NDArray[np.int8], keys: NDArray[Any], counts: Counts) -> None:
        """Take what is not dominated; of equal evaluations the one with the smallest key stays.

        What is in the archive already stays where a newcomer only equals it: it may have been
        looked around, and what is around equals differs little.
        """
        import moocore

        good = np.flatnonzero(counts.feasible & (counts.accepted > 0))
        good = good[np.argsort(keys[good], kind="stable")]
        points = np.vstack([self.points, points_of(counts)[good]])
        if not len(points):
            return
        # Of duplicates moocore keeps the first: the archive's own, then the smallest key.
        kept = moocore.is_nondominated(points, maximise=MAXIMISE)
        self.rows = np.vstack([self.rows, rows[good]])[kept]
        self.points = points[kept]
        unexplored = np.zeros(len(good), dtype=np.bool_)
        self.explored = np.concatenate([self.explored, unexplored])[kept]

    def counts(self) -> Counts:
        """Give the evaluations held, as counts."""
        accepted, accuracy, paid = self.points.T
        right = np.rint(accepted * accuracy).astype(np.int64)
        feasible = np.ones(len(paid), dtype=np.bool_)
        return Counts(feasible, accepted.astype(np.int64), right, paid.astype(np.int64))

    def pick_unexplored(self, most: int, rng: np.random.Generator) -> NDArray[np.int8]:
        """Give some rows that were not looked around yet, and count them as looked around."""
        picked = rng.permutation(np.flatnonzero(~self.explored))[:most]
        self.explored[picked] = True
        rows: NDArray[np.int8] = self.rows[picked]
        return rows
