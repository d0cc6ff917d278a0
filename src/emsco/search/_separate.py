"""A design found with one model for all source sets, its stages fitted each by itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emsco._training import Training
from emsco.design import StageDesign
from emsco.front import Candidate, ParetoFront
from emsco.search._problem import Problem
from emsco.search._thresholds import thresholds_by_stage


@dataclass(frozen=True)
class Separate:
    """Stages fitted each by itself: their rows, and what they were evaluated as, never others."""

    training: Training
    candidate: Candidate
    all_sources: Candidate  # at once and answering every row, by the same classifier


def thresholds_anew(problem: Problem, design: StageDesign, *, by_stage: bool) -> ParetoFront:
    """Evaluate one design at every alternative threshold; with `by_stage`, one of each stage's own.

    `problem` has the table of the classifiers that the stages will be.
    """
    each = np.arange(problem.n_thresholds)
    assignments = np.tile(np.array(design.assignment, dtype=np.int8), (len(each), 1))
    which = np.repeat(each[:, None], problem.max_stages, axis=1)
    feasible = problem.evaluate(assignments, which).feasible
    front = problem.front(problem.candidates(assignments[feasible], which[feasible]))
    # The generator only orders what is looked at, and so few candidates are all looked at.
    return thresholds_by_stage(problem, front, np.random.default_rng(0)) if by_stage else front


def most_alike(front: ParetoFront, candidate: Candidate) -> Candidate:
    """Take the most accurate that accepts as much as a candidate; else what accepts most."""
    least = candidate.evaluation.coverage
    enough = [c for c in front if c.evaluation.coverage >= least]
    if enough:
        return max(enough, key=lambda c: (c.evaluation.accuracy, -c.evaluation.cost))
    return max(front, key=lambda c: (c.evaluation.coverage, c.evaluation.accuracy))
