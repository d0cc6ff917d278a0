"""Problems for the tests of searches: any table of outcomes, and its evaluation in plain Python."""

from __future__ import annotations

import zlib
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from emsco import Costs, StageDesign
from emsco.core.threshold import resolve
from emsco.learners import learner_of
from emsco.learners.training import Training
from emsco.search._outcome_table import OutcomeTable
from emsco.search._problem import Problem


class AnyFits:
    """Confidences and labels drawn anew for every source set, the same whenever it is asked."""

    def __init__(self, truth, n_classes=2, seed=0, slope=0.5):
        self.truth, self.n_classes, self.seed, self.slope = truth, n_classes, seed, slope
        self.n_rows = len(truth)
        self.chunk = 1024
        self.is_slow = False
        self.asked = 0

    def outcomes(self, sets):
        self.asked += len(sets)
        confidence = np.empty((len(sets), self.n_rows))
        label = np.empty((len(sets), self.n_rows), dtype=np.uint8)
        for i, one in enumerate(sets):
            rng = np.random.default_rng([self.seed, zlib.crc32(np.packbits(one).tobytes())])
            # More sources know more: more rows are sure, and more of them right. With a negative
            # slope it is the other way round.
            knows = (0.3 if self.slope > 0 else 0.8) + self.slope * one.mean()
            right = rng.random(self.n_rows) < knows + 0.2
            other = (self.truth + rng.integers(1, self.n_classes, self.n_rows)) % self.n_classes
            label[i] = np.where(right, self.truth, other)
            confidence[i] = np.clip(rng.normal(knows, 0.25, self.n_rows), 0.5, 1.0)
        return confidence, label


def problem_of(
    n_sources=4,
    n_rows=70,
    *,
    costs=None,
    thresholds=(0.75,),
    max_stages=3,
    n_classes=2,
    seed=0,
    engine=None,
    memory=2**30,
    slope=0.5,
    **limits,
):
    rng = np.random.default_rng(seed)
    truth = rng.integers(n_classes, size=n_rows)
    costs = costs or Costs.per_feature(rng.integers(1, 9, n_sources).tolist())
    classes = list("abcdefg"[:n_classes])
    resolved = np.vstack([resolve(t, classes, 1) for t in thresholds])
    fits = AnyFits(truth, n_classes, seed, slope)
    table = OutcomeTable(
        fits, truth, len(costs.names), resolved, engine=engine, memory=memory
    )  # fmt: skip
    return Problem(table, costs, classes, list(thresholds), max_stages, **limits)


def every_design(problem):
    """List every canonical assignment whose source sets exist."""
    lowest = -1 if problem.allow_unused else 0
    designs = {
        StageDesign(a)
        for a in product(range(lowest, problem.max_stages), repeat=problem.n_sources)
        if max(a) >= 0
    }
    return [d for d in designs if _closed(d, problem.costs)]


def _closed(design, costs):
    named = StageDesign(design.assignment, costs.names)
    return not any(costs.unmet(named.acquired(i)) for i in range(named.n_stages))


class Plainly(NamedTuple):
    """Counts of one design: paid in units, missed and rejected by class."""

    accepted: int
    right: int
    paid: int
    missed: Any
    rejected: Any


def evaluate_plainly(problem, design, threshold=0):
    """Count one design row by row."""
    named = StageDesign(design.assignment, problem.costs.names)
    limits = problem.table.thresholds[threshold].tolist()
    accepted = right = 0
    paid = 0.0
    missed = np.zeros(len(problem.classes), dtype=int)
    rejected = np.zeros(len(problem.classes), dtype=int)
    its = problem.table.fitter
    fits = AnyFits(its.truth, its.n_classes, its.seed, its.slope)
    stages = []
    for stage in range(named.n_stages):
        acquired = named.acquired(stage)
        members = np.array([[name in acquired for name in problem.costs.names]])
        confidence, label = fits.outcomes(members)
        stages.append((problem.costs.of(acquired), confidence[0].tolist(), label[0].tolist()))
    for row, truth in enumerate(problem.table.truth.tolist()):
        for price, confidence, label in stages:
            row_paid = price
            if confidence[row] >= limits[label[row]]:
                accepted += 1
                right += int(label[row] == truth)
                missed[truth] += int(label[row] != truth)
                break
        else:
            rejected[truth] += 1
        paid += row_paid
    return Plainly(accepted, right, round(paid * int(problem.scale)), missed, rejected)


def keeps_to_limits(problem, counts):
    """Say whether a design misses and rejects no larger shares than it may."""
    rows = np.bincount(problem.table.truth, minlength=len(problem.classes))
    limited = (problem.max_missed, counts.missed), (problem.max_rejected, counts.rejected)
    return all(
        many <= most.get(label, 1) * n + 1e-6  # 0.1 * 30 rows are three, and a little more
        for most, by_class in limited
        for label, many, n in zip(problem.classes, by_class, rows, strict=True)
    )


def brute_force(problem):
    """Evaluate every design row by row: (front's counts -> (ties, simplest design))."""
    found = {}
    for design in every_design(problem):
        counts = evaluate_plainly(problem, design)
        if counts.accepted and keeps_to_limits(problem, counts):
            found.setdefault(counts[:3], []).append(design)

    def beaten(point):
        accepted, right, paid = point
        return any(
            a >= accepted and r * accepted >= right * a and p <= paid and (a, r, p) != point
            for a, r, p in found
        )

    def rank(design):
        return design.n_stages, design.assignment.tolist()

    return {
        point: (len(designs), min(designs, key=rank).assignment.tolist())
        for point, designs in found.items()
        if not beaten(point)
    }


def as_brute_force(problem, result):
    """Give what an exhaustive search at one threshold found as `brute_force` gives it."""
    counted = [(c.evaluation.accepted, c.evaluation.right, c.evaluation.paid) for c in result.front]
    (entry,) = result.history
    return {  # the history lists ties by accepted, right, paid
        (accepted, right, round(paid * int(problem.scale))): (
            ties,
            result.front[i].design.assignment.tolist(),
        )
        for (accepted, right, paid, i), ties in zip(
            sorted((*counts, i) for i, counts in enumerate(counted)), entry["ties"], strict=True
        )
    }


def make_fitter(estimator, columns, container, labels, folds, sources, params=None):
    """Fit any source set on folds by the learner of an estimator, as a search does."""
    training = Training(learner_of(estimator), container, columns, labels, params or {}, sources)
    return training.learner.fits(training, folds)
