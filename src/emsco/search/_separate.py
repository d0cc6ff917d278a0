"""A design found with one model for all source sets, its stages fitted each by itself.

Figures of one model are never shown for another: whatever a search shows changes together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from emsco._kept import Kept
from emsco._training import Training
from emsco.design import StageDesign
from emsco.exceptions import SearchError
from emsco.front import Candidate, ParetoFront
from emsco.masked import MaskedClassifier
from emsco.search._choice import AllSources
from emsco.search._problem import Problem
from emsco.search._thresholds import thresholds_by_stage

STAGES = "stages"  # refit: each by itself


@dataclass(frozen=True)
class Shown:
    """What a search shows: all of it of the same classifiers."""

    front: ParetoFront
    reference: AllSources
    all_sources: Candidate  # at once and answering every row
    training: Training | Kept
    evaluated: Training | Kept | None  # what the stages evaluated were fitted on, where one split

    @property
    def is_of_one_model(self) -> bool:
        """Say whether one classifier answers for every stage."""
        return isinstance(self.training.estimator, MaskedClassifier)

    def fitted_on(self, refit: bool | str) -> Training | Kept:
        """Give the rows that stages are fitted on."""
        return self.training if refit or self.evaluated is None else self.evaluated

    def by_stage(self) -> Training:
        """Give the same rows for stages fitted each by itself."""
        if isinstance(self.training, Kept):
            raise SearchError("Training rows are not in files: fit the search again.")
        return self.training.by(self.training.estimator.separate())


def check_refit(refit: bool | str, estimator: Any) -> None:
    """Refuse to separate what is separate."""
    if refit == STAGES and not isinstance(estimator, MaskedClassifier):
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
