"""Warnings of a search: it may take long, or its estimator is overconfident."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from emsco.exceptions import CalibrationWarning, Parameter, SearchWarning, warn
from emsco.learners.protocol import Learner
from emsco.search._expected_work import expected_seconds, in_words, n_sets_of
from emsco.search._problem import Problem, Search

_PATIENCE = 60.0  # seconds
_LEAST_ROWS = 30  # accepted, to call an estimator overconfident


def warn_slow(problem: Problem, search: Search) -> None:
    """Warn if fits may take minutes or hours, and say what makes them fewer or faster."""
    seconds = expected_seconds(problem, search)
    if seconds is None or seconds / problem.table.engine.n_workers < _PATIENCE:
        return
    warn(
        f"This search may take about {in_words(seconds / problem.table.engine.n_workers)}: "
        f"{n_sets_of(problem, search):,.0f} source sets are fitted on {problem.n_rows:,} rows. "
        "Combine columns into one source, leave out rare classes, or use fewer rows ("
        + Parameter("max_rows")
        + ") or folds ("
        + Parameter("cv")
        + ").",
        SearchWarning,
    )


def warn_overconfident(learner: Learner, problem: Problem, *, is_weighted: bool = False) -> None:
    """Warn if accepted rows are right less often than the threshold promises, beyond chance.

    A threshold for shares by label weights promises nothing.

    It compares with the truth all sources together and every single source fitted so far, because
    many estimators are most overconfident on few columns, and names the threshold missed most.
    """
    if learner.is_calibrated or is_weighted:
        return
    single = np.vstack([np.ones(problem.n_sources), np.eye(problem.n_sources)]).astype(np.bool_)
    single = single[problem.exist(single)]
    single = single[problem.table.has(single)]
    confidence, label = problem.table.outcomes(single)
    worst: tuple[float, float] | None = None
    for threshold in problem.thresholds:
        if isinstance(threshold, Mapping):
            continue
        sure = confidence >= threshold
        accepted = sure.sum(axis=0)
        right = (sure & (label == problem.table.truth)).sum(axis=0)
        # Sets that accept the same row err together, so they count as one draw. Three standard
        # errors, because with many thresholds chance must not raise an alarm.
        noise = 3 * np.sqrt(threshold * (1 - threshold) * (accepted**2).sum())
        short = threshold * accepted.sum() - right.sum()
        if np.count_nonzero(accepted) < _LEAST_ROWS or short <= noise:
            continue
        share = float(right.sum() / accepted.sum())
        if worst is None or threshold - share > worst[0] - worst[1]:
            worst = float(threshold), share
    if worst is not None:
        warn(
            f"{type(learner.estimator).__name__} is overconfident: of the rows with a confidence "
            f"of at least {worst[0]:.0%}, {worst[1]:.0%} were right. Wrap it in "
            "CalibratedClassifierCV(estimator, method='sigmoid', ensemble=False), so that "
            "thresholds are meaningful.",
            CalibrationWarning,
        )
