"""Warn if an estimator is overconfident on the rows of a search."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from emsco.exceptions import CalibrationWarning, warn
from emsco.learners.protocol import Learner
from emsco.search._problem import Problem

_LEAST_ROWS = 30


def warn_overconfident(learner: Learner, problem: Problem) -> None:
    """Warn if accepted rows are right less often than the threshold promises."""
    found = None if learner.is_calibrated else overconfidence(problem)
    if found is not None:
        threshold, share = found
        warn(
            f"{type(learner.estimator).__name__} is overconfident: of the rows with a confidence "
            f"of at least {threshold:.0%}, {share:.0%} were right. Wrap it in "
            "CalibratedClassifierCV(estimator, method='sigmoid', ensemble=False), so that "
            "thresholds are meaningful.",
            CalibrationWarning,
        )


def overconfidence(problem: Problem) -> tuple[float, float] | None:
    """Find the threshold that accepted rows miss most; None if any miss may be due to chance.

    It compares with the truth all sources together and every single source fitted so far, because
    many estimators are most overconfident on few columns. Returns the threshold and the share of
    rows accepted at it that are right.
    """
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
    return worst
