"""How long a search may take, estimated from the amount of arithmetic before it begins."""

from __future__ import annotations

from emsco.learners.batched_logistic import BatchedLogistic
from emsco.learners.estimator_learner import EstimatorFits
from emsco.search._problem import Problem, Search
from emsco.search._workload import Workload
from emsco.search.strategies.exhaustive import Exhaustive, count_sets
from emsco.search.strategies.hybrid import Hybrid
from emsco.search.strategies.local_search import FITS, LocalSearch

_STEPS = 10  # of Newton's method per fit, about
_FEWER_STEPS = 4  # if neighbours are fitted together
# Seconds per fit and per cell of it: an estimator of one's own is taken for boosted trees.
_A_FIT, _A_CELL = 0.02, 1e-6
_A_SECOND = 3e9  # multiplications per second on one core, about
_A_SECOND_TOGETHER = 1.2e10  # if a batch shares them
_A_DESIGN = 1e-5  # seconds to propose and count one, about
_A_WORD = 5e-9  # and for each 64 rows of it
_A_WALK = 2e-10  # and for each 64 rows of one of an exhaustive search
_BY_STAGE = 500_000  # pairs of a design and thresholds: half of what may be evaluated
_LUCK = (520_000, 93_000)  # designs to measure luck, and if the search was exhaustive


def in_words(seconds: float) -> str:
    """Format an estimate of time.

    Examples
    --------
    >>> from emsco.search._expected_work import in_words
    >>> in_words(50), in_words(400), in_words(9000)
    ('50 seconds', '7 minutes', '2 hours')
    """
    for unit, size, least in (("hours", 3600, 5400.0), ("minutes", 60, 90.0)):
        if seconds >= least:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:,.0f} seconds"


def expected_seconds(problem: Problem, search: Search) -> float | None:
    """Estimate the time of all fits on one core from the arithmetic; None if it is unknown.

    Nothing is timed, because the current load of the machine does not predict the next hour.
    """
    fits = getattr(problem.table.fitter, "fits", problem.table.fitter)  # of those with a final one
    if isinstance(fits, BatchedLogistic):
        fit = _seconds_of_logistic(fits) * len(fits.folds)
    elif isinstance(fits, EstimatorFits):
        cells = sum(len(fold.train) for fold in fits.folds) * len(fits.training.names) / 2
        fit = cells * _A_CELL + len(fits.folds) * _A_FIT
    else:
        return None
    return fit * n_sets_of(problem, search)


def _seconds_of_logistic(fits: BatchedLogistic) -> float:
    """Estimate a fit on one fold of a set of mean size, which has half of the unknowns.

    A step of Newton's method needs the products of all pairs of unknowns over the rows, and then
    solves as many equations. Narrow sets share the products of all columns of their batch.
    """
    train = fits.folds[0].train
    n_rows = len(train.columns.T)
    size = fits.n_unknowns / 2 if fits.is_wide else fits.n_unknowns
    steps = _STEPS if fits.is_slow else _FEWER_STEPS
    speed = _A_SECOND if fits.is_wide else _A_SECOND_TOGETHER
    return steps * (n_rows * size**2 + size**3 / 3) / speed


def n_sets_of(problem: Problem, search: Search) -> float:
    """Return the number of source sets that a search may fit."""
    every = count_sets(problem) or 2.0**problem.n_sources - 1
    if isinstance(search, Exhaustive):
        return every
    local = search.local if isinstance(search, Hybrid) else search
    return min(every, getattr(local, "fits", None) or FITS)


def workload_of(problem: Problem, search: Search, *, by_stage: bool, luck: bool) -> Workload | None:
    """Estimate the phases of a search by arithmetic; None if the time of fits is unknown."""
    fit = expected_seconds(problem, search)
    if fit is None:
        return None
    words = -(-problem.n_rows // 64)
    a_design = _A_DESIGN + words * _A_WORD
    walks = isinstance(search, Exhaustive)
    if walks:
        searched = problem.n_designs * problem.n_thresholds * words * _A_WALK
    else:
        local = search.local or LocalSearch() if isinstance(search, Hybrid) else search
        most = getattr(local, "evaluations", LocalSearch().evaluations)
        searched = min(most, problem.n_designs) * problem.n_thresholds * a_design
    separate = 0.0
    if by_stage and problem.max_stages > 1:
        separate = min(_BY_STAGE, problem.n_designs * problem.n_thresholds) * a_design
    return Workload(
        n_sets_of(problem, search),
        fit / problem.table.engine.n_workers,
        searched,
        separate,
        _LUCK[walks] * a_design if luck else 0.0,
    )
