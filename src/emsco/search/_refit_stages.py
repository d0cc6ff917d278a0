"""Separate fits for the stages of a design that was found with one model for all source sets.

Figures of one model are never shown for another: everything that a search shows changes together.
"""

from __future__ import annotations

import numpy as np

from emsco.core.design import StageDesign
from emsco.core.front import Candidate, ParetoFront
from emsco.exceptions import SearchError
from emsco.learners.protocol import Learner
from emsco.search._problem import Problem
from emsco.search._thresholds import thresholds_by_stage

STAGES = "stages"  # the value of `refit` for separate fits


def check_refit(refit: bool | str, learner: Learner) -> None:
    """Refuse refit="stages" if the stages are fitted separately anyway."""
    if refit == STAGES and not learner.is_one_model:
        raise SearchError(
            f"refit={STAGES!r} is for a MaskedClassifier; stages of other estimators are "
            "fitted each by itself in any case: refit=True."
        )


def thresholds_anew(problem: Problem, design: StageDesign, *, by_stage: bool) -> ParetoFront:
    """Evaluate one design at every alternative threshold; with `by_stage`, also per stage.

    `problem` has the table of the separately fitted classifiers.
    """
    each = np.arange(problem.n_thresholds)
    assignments = np.tile(np.array(design.assignment, dtype=np.int8), (len(each), 1))
    which = np.repeat(each[:, None], problem.max_stages, axis=1)
    feasible = problem.evaluate(assignments, which).feasible
    front = problem.front(problem.candidates(assignments[feasible], which[feasible]))
    # The generator only affects the order, and all of so few candidates are evaluated.
    return thresholds_by_stage(problem, front, np.random.default_rng(0)) if by_stage else front


def most_alike(front: ParetoFront, candidate: Candidate) -> Candidate:
    """Return the most accurate candidate with at least this coverage, or the most covering one."""
    least = candidate.evaluation.coverage
    enough = [c for c in front if c.evaluation.coverage >= least]
    if enough:
        return max(enough, key=lambda c: (c.evaluation.accuracy, -c.evaluation.cost))
    return max(front, key=lambda c: (c.evaluation.coverage, c.evaluation.accuracy))
