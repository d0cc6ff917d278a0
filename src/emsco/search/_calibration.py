"""Whether an estimator's confidences keep what they promise, as far as a search has seen it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from emsco.exceptions import CalibrationWarning, warn
from emsco.learners.protocol import Learner
from emsco.search._problem import Problem

_LEAST_ROWS = 30


def warn_overconfident(learner: Learner, problem: Problem) -> None:
    """Warn where an estimator's thresholds would not mean what they say."""
    found = None if learner.is_calibrated else overconfidence(problem)
    if found is not None:
        threshold, share = found
        warn(
            f"{type(learner.estimator).__name__} promises more than it keeps: of the rows it was "
            f"{threshold:.0%} sure of, {share:.0%} were right; wrap it in "
            "CalibratedClassifierCV(estimator, method='sigmoid', ensemble=False) for "
            "thresholds that mean something.",
            CalibrationWarning,
        )


def overconfidence(problem: Problem) -> tuple[float, float] | None:
    """Find the threshold that accepted rows fall short of most; None where none is, but by chance.

    Held against the truth are all sources together and every single source fitted so far: few
    columns are where many estimators are surest without reason. Gives the threshold and the share
    right among the rows that reached it.
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
        # Sets that are sure of one row err together, so that is one draw, however many they are.
        # Three standard errors: thresholds are many, and chance may not raise an alarm.
        noise = 3 * np.sqrt(threshold * (1 - threshold) * (accepted**2).sum())
        short = threshold * accepted.sum() - right.sum()
        if np.count_nonzero(accepted) < _LEAST_ROWS or short <= noise:
            continue
        share = float(right.sum() / accepted.sum())
        if worst is None or threshold - share > worst[0] - worst[1]:
            worst = float(threshold), share
    return worst
