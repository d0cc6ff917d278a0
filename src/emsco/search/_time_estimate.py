"""Warn before a search that may take long because of very many columns or classes."""

from __future__ import annotations

from emsco.exceptions import Parameter, SearchWarning, warn
from emsco.learners.batched_logistic import BatchedLogistic
from emsco.search._problem import Problem, Search
from emsco.search.strategies.exhaustive import Exhaustive, count_sets
from emsco.search.strategies.hybrid import Hybrid
from emsco.search.strategies.local_search import FITS

_STEPS = 10  # of Newton's method per fit, about
_A_SECOND = 3e9  # multiplications per second on one core, about
_PATIENCE = 60.0  # seconds


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
    return fit * len(fitter.folds) * _n_sets(problem, search) / problem.table.engine.n_workers


def _n_sets(problem: Problem, search: Search) -> float:
    """Return the number of source sets that a search may fit."""
    every = count_sets(problem) or 2.0**problem.n_sources - 1
    if isinstance(search, Exhaustive):
        return every
    local = search.local if isinstance(search, Hybrid) else search
    return min(every, getattr(local, "fits", None) or FITS)
