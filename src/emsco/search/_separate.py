"""A design found with one model for all source sets, its stages fitted each by itself.

Figures of one model are never shown for another: whatever a search shows changes together.
"""

from __future__ import annotations

import numpy as np

from emsco.exceptions import SearchError
from emsco.learners.protocol import Learner
from emsco.search._problem import Problem
from emsco.search._thresholds import thresholds_by_stage
from emsco.words.design import StageDesign
from emsco.words.front import Candidate, ParetoFront

STAGES = "stages"  # refit: each by itself


def check_refit(refit: bool | str, learner: Learner) -> None:
    """Refuse to separate what is separate."""
    if refit == STAGES and not learner.is_one_model:
        raise SearchError(
            f"refit={STAGES!r} is for a MaskedClassifier; stages of other estimators are "
            "fitted each by itself in any case: refit=True."
        )


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
