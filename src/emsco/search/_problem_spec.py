"""What defines the problem of a search: prices, folds, thresholds and limits, and its table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco.core.costs import Costs
from emsco.core.evaluation import Evaluation
from emsco.core.front import Candidate
from emsco.core.threshold import StageThreshold, resolve
from emsco.engine import Engine, resolve_engine
from emsco.exceptions import Parameter, SearchError, nearest_class
from emsco.learners.final_model import FitsWithFinal, answer_codes
from emsco.learners.protocol import Fold
from emsco.learners.training import Training
from emsco.rows.columns import Columns
from emsco.search._candidate_rows import divided, rows_of
from emsco.search._outcome_table import OutcomeTable, pack
from emsco.search._problem import Problem
from emsco.search._stakes import Stakes
from emsco.search._thresholds import alternatives


@dataclass(frozen=True)
class ProblemSpec:
    """Everything that defines a problem, except what fits."""

    costs: Costs
    folds: list[Fold]
    answers: NDArray[Any] | None  # of a final model, one per row
    threshold: StageThreshold | list[StageThreshold] | str
    max_stages: int
    allow_unused: bool
    max_missed: Mapping[Any, float]
    max_rejected: Mapping[Any, float]
    needs_labels: bool  # otherwise the final model's answers define what is right
    engine: Engine | None
    n_jobs: int | None
    stake: NDArray[np.float64] | None = None  # of each row; None: every row counts as one

    def problem(self, training: Training) -> Problem:
        """Return the problem for the learner of these training rows."""
        classes = training.classes.tolist()
        tested = np.concatenate([fold.test for fold in self.folds])
        answers = None if self.answers is None else self.answers[tested]
        truth = training.labels[tested]
        thresholds = alternatives(
            self.threshold,
            len(classes),
            final=answers is not None,
            base_rate=float(np.unique(truth, return_counts=True)[1].max() / len(truth)),
        )
        stake = None if self.stake is None else self.stake[tested]
        _check_shares("max_missed", self.max_missed, classes)
        _check_shares("max_rejected", self.max_rejected, classes)
        return Problem(
            _make_table(
                training, self.folds, truth, thresholds, answers, self.engine, self.n_jobs, stake
            ),
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
            known = nearest_class(label, classes)
            raise SearchError(
                Parameter(name) + f" names {label!r}, which is not a class{known}", value=label
            )
        if not isinstance(most, Real) or not 0 <= float(most) <= 1:
            raise SearchError(
                Parameter(name) + f" of {label!r} must be from 0 to 1, got {most!r}.", value=most
            )


def evaluate_afresh(
    candidates: Sequence[Candidate],
    costs: Costs,
    training: Training,
    columns: Columns,
    truth: NDArray[Any],
    answers: NDArray[Any] | None,
    engine: Engine | None,
    n_jobs: int | None,
    stake: NDArray[np.float64] | None = None,
) -> list[Evaluation]:
    """Evaluate candidates on other rows, as their cascades fitted on `training` would decide them.

    Each source set is fitted once, on all training rows, however many candidates use it.
    """
    fold = Fold(np.arange(len(training.labels)), np.arange(len(truth)), columns)
    own = [c.threshold if isinstance(c.threshold, tuple) else (c.threshold,) for c in candidates]
    known = list(dict.fromkeys(threshold for each in own for threshold in each))
    table = _make_table(training, [fold], truth, known, answers, engine, n_jobs, stake)
    max_stages = max(candidate.design.n_stages for candidate in candidates)
    problem = Problem(table, costs, training.classes.tolist(), known, max_stages)
    made = problem.candidates(*divided(problem, rows_of(problem, candidates)))
    return [candidate.evaluation for candidate in made]


def right_by_all_sources(problem: Problem) -> NDArray[np.bool_]:
    """Return which evaluation rows all sources at once get right."""
    everything = np.ones((1, problem.n_sources), dtype=np.bool_)
    right: NDArray[np.bool_] = problem.table.outcomes(everything)[1][0] == problem.table.truth
    return right


def compared(
    problem: Problem, candidates: Sequence[Candidate], right: NDArray[np.bool_], learner: str = ""
) -> list[Candidate]:
    """Add to candidates the rows that both they and a reference get right, and their learner.

    This is done after the search, which knows nothing about the reference.
    """
    if not len(candidates):
        return []
    evaluations = problem.beside(
        [candidate.evaluation for candidate in candidates],
        *divided(problem, rows_of(problem, candidates)),
        pack(right[None])[0],
    )
    return [
        replace(candidate, learner=learner, evaluation=evaluation)
        for candidate, evaluation in zip(candidates, evaluations, strict=True)
    ]


def _make_table(
    training: Training,
    folds: list[Fold],
    truth: NDArray[Any],
    thresholds: Sequence[StageThreshold],
    answers: NDArray[Any] | None,
    engine: Engine | None,
    n_jobs: int | None,
    stake: NDArray[np.float64] | None,
) -> OutcomeTable:
    """Make the table of the outcomes of source sets on the test rows of folds.

    `truth` has the labels of these rows, `answers` the final model's answers to them, and `stake`
    what is at stake on them.
    """
    fits = training.learner.fits(training, folds)
    if answers is not None:
        fits = FitsWithFinal(fits, answer_codes(answers, training.classes))
    # Batched fits release Python's lock, so threads suffice; a user's estimator may hold it.
    engine = resolve_engine(engine, n_jobs, threads=fits.chunk > 1)
    classes = training.classes.tolist()
    resolved = np.vstack([resolve(threshold, classes, 1) for threshold in thresholds])
    codes = np.searchsorted(training.classes, truth)
    stakes = None if stake is None else Stakes.of(stake, codes)
    return OutcomeTable(fits, codes, len(training.sources), resolved, engine=engine, stakes=stakes)
