"""What defines the problem of a search: prices, folds, thresholds and limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from emsco.core.costs import Costs
from emsco.core.threshold import StageThreshold
from emsco.engine import Engine
from emsco.exceptions import Parameter, SearchError, nearest
from emsco.learners.folds import Fold
from emsco.learners.protocol import Stages
from emsco.learners.training import Training
from emsco.rows.rows import Layout, Rows
from emsco.search._outcome_folds import make_table
from emsco.search._problem import Problem
from emsco.search._thresholds import alternatives


class SearchInput(NamedTuple):
    """What a search was given, after it was read."""

    layout: Layout
    rows: Rows
    costs: Costs
    training: Training
    answers: NDArray[Any] | None  # of a final model, one per row
    all_rows: Stages | None = None  # for the refit, if the rows are a sample of a data set
    groups: ArrayLike | None = None  # of the rows, as given to `fit`


@dataclass(frozen=True)
class ProblemSpec:
    """Everything that defines a problem, except what fits.

    Parameters
    ----------
    costs : Costs
        The prices.
    folds : list of Fold
        The rows to fit on and to evaluate.
    answers : array or None
        The answer of a final model to every row, if there is one.
    threshold, max_stages, allow_unused, max_missed, max_rejected
        The parameters of `CascadeSearchCV`.
    needs_labels : bool
        Whether labels define what is right; otherwise the final model's answers do.
    engine, n_jobs : Engine or None, int or None
        What runs the fits.
    """

    costs: Costs
    folds: list[Fold]
    answers: NDArray[Any] | None
    threshold: StageThreshold | list[StageThreshold] | str
    max_stages: int
    allow_unused: bool
    max_missed: Mapping[Any, float]
    max_rejected: Mapping[Any, float]
    needs_labels: bool
    engine: Engine | None
    n_jobs: int | None

    def problem(self, training: Training) -> Problem:
        """Return the problem for the learner of these training rows."""
        classes = training.classes.tolist()
        tested = np.concatenate([fold.test for fold in self.folds])
        answers = None if self.answers is None else self.answers[tested]
        thresholds = alternatives(self.threshold, len(classes), final=answers is not None)
        _check_shares("max_missed", self.max_missed, classes)
        _check_shares("max_rejected", self.max_rejected, classes)
        truth = training.labels[tested]
        return Problem(
            make_table(training, self.folds, truth, thresholds, answers, self.engine, self.n_jobs),
            self.costs,
            classes,
            thresholds,
            min(int(self.max_stages), len(self.costs.names)),
            bool(self.allow_unused) and answers is None,
            dict(self.max_missed),
            dict(self.max_rejected),
        )


def _check_shares(name: str, shares: Mapping[Any, float], classes: list[Any]) -> None:
    """Refuse a parameter that is not a mapping of class to share."""
    for label, most in shares.items():
        if label not in classes:
            known = nearest(label, map(str, classes))
            raise SearchError(
                Parameter(name) + f" names {label!r}, which is not a class{known}", value=label
            )
        if not isinstance(most, Real) or not 0 <= float(most) <= 1:
            raise SearchError(
                Parameter(name) + f" of {label!r} must be from 0 to 1, got {most!r}.", value=most
            )
