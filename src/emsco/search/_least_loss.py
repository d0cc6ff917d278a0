"""Add to a front what loses least, where errors have prices by class.

Accuracy counts all errors alike, so of two designs that cost and accept as much, the less accurate
one may lose less. This looks for such designs near those of the front, by bits: nothing is fitted.
"""

from __future__ import annotations

from dataclasses import fields

import numpy as np
from numpy.typing import NDArray

from emsco._utils.progress import tell
from emsco.core.front import ParetoFront
from emsco.search._candidate_rows import divided, rows_of, with_rows
from emsco.search._problem import Assignments, Counts, Problem, Which
from emsco.search.strategies._archive import Archive
from emsco.search.strategies._neighbours import neighbours
from emsco.search.strategies._operators import row_keys

_EVALUATIONS = 200_000
_AT_ONCE = 64  # candidates whose neighbours are evaluated in a round


class _LossProblem(Problem):
    """The same problem, in which what reviews and errors cost is paid, too."""

    def evaluate(self, assignments: Assignments, threshold: Which = 0) -> Counts:
        """Count as the problem does, with the loss of all rows in place of what is paid."""
        counts = super().evaluate(assignments, threshold)
        counted = self._count(assignments, threshold, self.table.class_masks, self.weighings.own)
        review, stakes = self.costs.review, self.table.stakes
        prices = np.array([self.costs.errors[label] for label in self.classes])
        if stakes is not None:
            prices = prices * stakes.unit
        rejection = np.zeros(len(prices))
        if review is not None:
            # Reviews are paid by row, errors by stake.
            by_row = review.cost if stakes is None else 0.0
            rejection = by_row + (1 - review.accuracy) * prices
        missed = counted.class_accepted - counted.class_right
        rejected = self.class_rows - counted.class_accepted
        money = missed @ prices + rejected @ rejection
        if review is not None and stakes is not None:
            rows = self._count(
                assignments, threshold, self.table.class_masks[:0], self.weighings.by_row
            )
            money = money + review.cost * (self.n_rows - rows.accepted)
        money = money * float(self.scale)
        return counts._replace(paid=counts.paid + np.rint(money).astype(np.int64))


def with_least_loss(
    problem: Problem, front: ParetoFront, rng: np.random.Generator, *, by_stage: bool
) -> ParetoFront:
    """Return a front with the designs of least loss for any accuracy and coverage, as far as found.

    Neighbours of non-dominated designs are explored in turn: one move, exchange or merger of
    sources, or another threshold, for one stage or (without `by_stage`) for all.
    """
    if not problem.costs.errors or not len(front):
        return front
    priced = _LossProblem(**{f.name: getattr(problem, f.name) for f in fields(problem)})
    archive = Archive(problem.n_sources + problem.max_stages)
    seen: set[bytes] = set()
    around = rows_of(problem, front)
    while len(around) and len(seen) < _EVALUATIONS:
        tell("thresholds", len(seen) / _EVALUATIONS)
        keys = row_keys(around).tolist()
        fresh = {key: i for i, key in enumerate(keys) if key not in seen}
        seen.update(fresh)
        rows = around[sorted(fresh.values())]
        if len(rows):
            archive.add(rows, np.arange(len(rows)), priced.evaluate(*divided(problem, rows)))
        centres = archive.pick_unexplored(_AT_ONCE, rng)
        around = _neighbours_of(problem, centres, rng, by_stage=by_stage)
    return with_rows(problem, front, archive.rows)


def _neighbours_of(
    problem: Problem, rows: NDArray[np.int8], rng: np.random.Generator, *, by_stage: bool
) -> NDArray[np.int8]:
    """Return rows one step away: with another design whose sets are fitted, or threshold."""
    if not len(rows):
        return rows
    n_sources, each = problem.n_sources, np.arange(problem.n_thresholds, dtype=np.int8)
    designs, near = neighbours(
        rows[:, :n_sources], problem.max_stages, problem.allow_unused, 0, rng
    )
    known = problem.lacking(designs) == 0
    around = [np.hstack([designs[known], rows[near[known], n_sources:]])]
    stages = range(problem.max_stages)
    for moved in [[stage] for stage in stages] if by_stage else [list(stages)]:
        changed = np.repeat(rows, len(each), axis=0)
        changed[:, [n_sources + stage for stage in moved]] = np.tile(each, len(rows))[:, None]
        around.append(changed)
    return np.vstack(around)
