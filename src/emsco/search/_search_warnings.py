"""Warnings of a search: it may take long, or its estimator is overconfident."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from emsco.exceptions import CalibrationWarning, Parameter, SearchWarning, warn
from emsco.learners.batched_logistic import BatchedLogistic
from emsco.learners.protocol import Learner
from emsco.search._problem import Problem, Search
from emsco.search.strategies.exhaustive import Exhaustive, count_sets
from emsco.search.strategies.hybrid import Hybrid
from emsco.search.strategies.local_search import FITS

_STEPS = 10  # of Newton's method per fit, about
_A_SECOND = 3e9  # multiplications per second on one core, about
_PATIENCE = 60.0  # seconds
_LEAST_ROWS = 30  # accepted, to call an estimator overconfident


def warn_slow(problem: Problem, search: Search) -> None:
    """Warn if fits have so many unknowns that the search may take minutes or hours."""
    seconds = expected_seconds(problem, search)
    if seconds is None or seconds < _PATIENCE:
        return
    unit, size = ("hours", 3600) if seconds >= 5400 else ("minutes", 60)
    warn(
        f"This search may take about {seconds / size:,.0f} {unit}: with so many columns or classes "
        "a single fit takes long. Combine columns into one source, leave out rare classes, or use "
        "fewer rows (" + Parameter("max_rows") + ") or folds (" + Parameter("cv") + ").",
        SearchWarning,
    )


def expected_seconds(problem: Problem, search: Search) -> float | None:
    """Estimate the time from the arithmetic; None if fits are small or not the default ones.

    A set of mean size has half of the unknowns. A step of Newton's method needs the products of all
    pairs of unknowns over the rows, and then solves as many equations. Nothing is timed, because
    the current load of the machine does not predict the next hour.
    """
    fitter = problem.table.fitter
    if not isinstance(fitter, BatchedLogistic) or not fitter.is_slow:
        return None
    n_rows, size = len(fitter.folds[0].train.columns.T), fitter.n_unknowns / 2
    fit = _STEPS * (n_rows * size**2 + size**3 / 3) / _A_SECOND
    n_sets = count_sets(problem) or 2.0**problem.n_sources - 1  # that the search may fit
    if not isinstance(search, Exhaustive):
        local = search.local if isinstance(search, Hybrid) else search
        n_sets = min(n_sets, getattr(local, "fits", None) or FITS)
    return fit * len(fitter.folds) * n_sets / problem.table.engine.n_workers


def warn_overconfident(learner: Learner, problem: Problem) -> None:
    """Warn if accepted rows are right less often than the threshold promises, beyond chance.

    It compares with the truth all sources together and every single source fitted so far, because
    many estimators are most overconfident on few columns, and names the threshold missed most.
    """
    if learner.is_calibrated:
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
