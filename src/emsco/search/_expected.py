"""How long a search with very many columns or classes may take, said before it begins."""

from __future__ import annotations

from emsco.exceptions import SearchWarning, warn
from emsco.learners.batched import BatchedLogistic
from emsco.search._problem import Problem, Search
from emsco.search.strategies.exhaustive import Exhaustive, count_sets
from emsco.search.strategies.hybrid import Hybrid
from emsco.search.strategies.local import FITS

_STEPS = 10  # of Newton's method that a fit takes, about
_A_SECOND = 3e9  # multiplications on one core, about
_PATIENCE = 60.0  # seconds


def warn_slow(problem: Problem, search: Search) -> None:
    """Warn where fits have so many unknowns that the search may take minutes, or hours."""
    seconds = expected_seconds(problem, search)
    if seconds is None or seconds < _PATIENCE:
        return
    unit, size = ("hours", 3600) if seconds >= 5400 else ("minutes", 60)
    warn(
        f"This search may take about {seconds / size:,.0f} {unit}: with so many columns or classes "
        "a single fit takes long. Let several columns be one source, leave out rare classes, or "
        "take fewer rows (`max_rows`) or folds (`cv`).",
        SearchWarning,
    )


def expected_seconds(problem: Problem, search: Search) -> float | None:
    """Reckon from the arithmetic; None where fits are small, or not the default ones.

    A set of the mean size has half of the unknowns. A step of Newton's method takes the products of
    all pairs of unknowns over the rows, and then the solution for as many equations. No clock is
    looked at: what else the machine does at this moment says nothing of the next hour.
    """
    fitter = problem.table.fitter
    if not isinstance(fitter, BatchedLogistic) or not fitter.is_slow:
        return None
    n_rows, size = len(fitter.folds[0].train.columns.T), fitter.n_unknowns / 2
    fit = _STEPS * (n_rows * size**2 + size**3 / 3) / _A_SECOND
    return fit * len(fitter.folds) * _n_sets(problem, search) / problem.table.engine.n_workers


def _n_sets(problem: Problem, search: Search) -> float:
    """Count the source sets that a search may fit."""
    every = count_sets(problem) or 2.0**problem.n_sources - 1
    if isinstance(search, Exhaustive):
        return every
    local = search.local if isinstance(search, Hybrid) else search
    return min(every, getattr(local, "fits", None) or FITS)
