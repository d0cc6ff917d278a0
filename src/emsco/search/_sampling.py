"""A long search looks at fewer rows and fits fewer source sets, and says so.

How long a search takes is estimated by arithmetic, never measured: the same rows and parameters
must give the same result on any machine, however loaded it is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco.exceptions import Keyword, SearchWarning, warn
from emsco.learners.protocol import Fold
from emsco.search._expected_work import expected_seconds, in_words
from emsco.search._problem import Problem, Search
from emsco.search.strategies.local_search import FITS, LocalSearch

LONG = 240.0  # seconds of one core, of all fits: a longer search is made shorter
LEAST_ROWS = 10_000  # accuracy and coverage are then known to half a point
LEAST_OF_CLASS = 300  # rows, so that its recall is known to three points
LEAST_FITS = 1_024  # of source sets
_WORTH = 0.75  # most of the rows that are drawn: to leave out fewer would save little


def fewer_rows(
    problem: Problem, search: Search, labels: NDArray[Any], folds: list[Fold], seed: int
) -> list[Fold] | None:
    """Draw rows for a search that would take long; None if it keeps all of them.

    Rows are drawn with classes in proportion: at least 10,000 in all, and 300 of every class.
    """
    seconds = expected_seconds(problem, search)
    rows = rows_in(folds)
    n_rows = rows_needed(np.unique(labels[rows], return_counts=True)[1], seconds)
    if n_rows >= len(rows):
        return None
    drawn = np.zeros(len(labels), dtype=np.bool_)
    drawn[_drawn(labels, rows, n_rows / len(rows), seed)] = True
    return [replace(f, train=f.train[drawn[f.train]], test=f.test[drawn[f.test]]) for f in folds]


def rows_in(folds: list[Fold]) -> NDArray[np.intp]:
    """Return the rows that folds fit or evaluate on."""
    rows: NDArray[np.intp] = np.unique(
        np.concatenate([part for f in folds for part in (f.train, f.test)])
    )
    return rows


def rows_needed(class_rows: NDArray[np.int64], seconds: float | None) -> int:
    """Return how many rows to search, of so many of each class that take so long.

    Examples
    --------
    >>> import numpy as np
    >>> from emsco.search._sampling import rows_needed
    >>> rows_needed(np.array([30_000, 20_000]), 480.0)
    25000
    >>> rows_needed(np.array([30_000, 20_000]), 4_800.0)
    10000
    >>> rows_needed(np.array([49_000, 1_000]), 4_800.0)
    15000
    >>> rows_needed(np.array([49_800, 200]), 4_800.0)
    50000
    """
    n_rows = int(class_rows.sum())
    if seconds is None or seconds <= LONG:
        return n_rows
    of_rarest = -(-LEAST_OF_CLASS * n_rows // int(class_rows.min()))
    needed = max(int(n_rows * LONG / seconds), LEAST_ROWS, of_rarest)
    return needed if needed <= _WORTH * n_rows else n_rows


def _drawn(
    labels: NDArray[Any], rows: NDArray[np.intp], share: float, seed: int
) -> NDArray[np.intp]:
    """Draw a share of the rows of every class, rounded up."""
    rng = np.random.default_rng(seed)
    parts = []
    for label in np.unique(labels[rows]):
        of_class = rows[labels[rows] == label]
        n_drawn = int(np.ceil(share * len(of_class)))
        parts.append(rng.choice(of_class, n_drawn, replace=False))
    return np.sort(np.concatenate(parts))


def fewer_fits(problem: Problem, search: Search) -> Search:
    """Return the default search of a sample: with fewer source sets, if it would still take long.

    Only a `LocalSearch` has a choice: an exhaustive search needs every set.
    """
    seconds = expected_seconds(problem, search)
    if seconds is None or seconds <= LONG / 2 or not isinstance(search, LocalSearch):
        return search
    fits = search.fits or FITS
    return replace(search, fits=max(int(fits * LONG / 2 / seconds), min(LEAST_FITS, fits)))


def warn_sampled(
    before: list[Fold], now: list[Fold], seconds: float, problem: Problem, search: Search
) -> None:
    """Say how many rows are searched, why, and what else makes a search shorter."""
    n_all, n_rows = len(rows_in(before)), len(rows_in(now))
    n_workers = problem.table.engine.n_workers
    shorter = (expected_seconds(problem, search) or 0.0) / n_workers
    warn(
        f"To search all {n_all:,} rows may take about {in_words(seconds / n_workers)}, so "
        f"{n_rows:,} of them are searched, drawn with classes in proportion: about "
        f"{in_words(shorter)}. Combine columns into one source to make it shorter; "
        + Keyword("max_rows", n_all)
        + " searches all rows.",
        SearchWarning,
    )
