"""Whether an estimator's confidences keep what they promise, as far as a search has seen it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline

from emsco.search._problem import Problem

_LEAST_ROWS = 30


def is_trusted(estimator: Any) -> bool:
    """Say whether confidences are calibrated by the way they are made."""
    if isinstance(estimator, Pipeline):
        return is_trusted(estimator[-1])
    return estimator is None or isinstance(estimator, LogisticRegression | CalibratedClassifierCV)


def overconfidence(problem: Problem) -> tuple[float, float] | None:
    """Find the threshold that accepted rows fall short of most; None where none is, but by chance.

    Held against the truth are all sources together and every single source fitted so far: few
    columns are where many estimators are surest without reason. Gives the threshold and the share
    right among the rows that reached it.
    """
    single = np.vstack([np.ones(problem.n_sources), np.eye(problem.n_sources)]).astype(np.bool_)
    single = single[problem.exist(single)]
    single = single[problem.table.has(single)]
    assignments = np.where(single, 0, -1).astype(np.int8)
    worst: tuple[float, float] | None = None
    for i, threshold in enumerate(problem.thresholds):
        if isinstance(threshold, Mapping):
            continue
        counts = problem.evaluate(assignments, i)
        accepted, right = float(counts.accepted.sum()), float(counts.right.sum())
        # Three standard errors: thresholds are many, and chance may not raise an alarm.
        noise = 3 * np.sqrt(accepted * threshold * (1 - threshold))
        if accepted < _LEAST_ROWS or right >= accepted * threshold - noise:
            continue
        share = right / accepted
        if worst is None or threshold - share > worst[0] - worst[1]:
            worst = float(threshold), share
    return worst
