"""A search that would take long looks at fewer rows, says so, and keeps classes in proportion."""

from __future__ import annotations

import numpy as np
import pytest

from emsco import CascadeSearchCV, LocalSearch
from emsco.exceptions import SearchWarning
from emsco.learners.protocol import Fold
from emsco.search import _run
from emsco.search._sampling import LEAST_OF_CLASS, LEAST_ROWS, rows_in, rows_needed


class StoppedError(Exception):
    """The search has begun."""


def _stop(state):
    if state["phase"] == "fit":
        raise StoppedError


def _rows(n_rows, n_columns, share=0.5):
    rng = np.random.default_rng(0)
    y = (rng.random(n_rows) < share).astype(int)
    return rng.normal(size=(n_rows, n_columns)) + y[:, None], y


@pytest.fixture
def posed(monkeypatch):
    """Give the folds that searches were begun with, and which searches."""
    found = []

    def keep(*arguments, **more):
        found.append(_size_up(*arguments, **more))
        return found[-1]

    _size_up = _run._size_up
    monkeypatch.setattr(_run, "_size_up", keep)
    return found


@pytest.mark.parametrize("share", [0.5, 0.025])
def test_a_long_search_draws_rows_and_says_so_before_it_begins(posed, share):
    X, y = _rows(20_000, 90, share)
    search = CascadeSearchCV(callback=_stop, cv=3, random_state=0)
    with pytest.raises(StoppedError), pytest.warns(SearchWarning, match="of them") as warned:
        search.fit(X, y)
    (message,) = [str(one.message) for one in warned]
    assert "To search all 20,000 rows may take about" in message
    assert "max_rows=20000 searches all rows" in message
    ((spec, problem, strategy),) = posed
    rows = rows_in(spec.folds)
    counts = np.bincount(y[rows])
    assert LEAST_ROWS <= len(rows) < 20_000
    assert counts.min() >= LEAST_OF_CLASS
    assert counts / len(rows) == pytest.approx(np.bincount(y) / len(y), abs=1e-3)
    assert problem.n_rows == len(rows)
    assert strategy.fits < 4_096
    for fold in spec.folds:  # nothing that is evaluated was fitted on
        assert not np.intersect1d(fold.train, fold.test).size


def test_the_same_rows_are_drawn_again_and_others_by_another_seed(posed):
    X, y = _rows(16_000, 90)
    for seed in (0, 0, 1):
        with pytest.raises(StoppedError), pytest.warns(SearchWarning):
            CascadeSearchCV(callback=_stop, cv=3, random_state=seed).fit(X, y)
    first, again, other = (rows_in(spec.folds) for spec, _, _ in posed)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize(
    "parameters",
    [{"max_rows": 16_000}, {"search": LocalSearch(fits=8)}],
    ids=["all rows wanted", "short search"],
)
def test_no_rows_are_drawn_unless_the_search_is_long_and_nobody_said_how_many(posed, parameters):
    X, y = _rows(16_000, 90)
    search = CascadeSearchCV(callback=_stop, cv=3, random_state=0, **parameters)
    if "max_rows" in parameters:
        with pytest.raises(StoppedError), pytest.warns(SearchWarning, match="may take about"):
            search.fit(X, y)
    else:
        with pytest.raises(StoppedError):
            search.fit(X, y)
    ((spec, _, _),) = posed
    assert len(rows_in(spec.folds)) == 16_000


def test_no_rows_are_drawn_where_a_class_would_have_too_few():
    """A class of 200 rows keeps all of them, so all others stay too."""
    assert rows_needed(np.array([50_000, 200]), 1e6) == 50_200
    assert rows_needed(np.array([9_000, 500]), 1e6) == 9_500
    assert rows_needed(np.array([12_000, 1_000]), 1e6) == 13_000  # it would save little
    assert rows_needed(np.array([90_000, 9_000]), 1.0) == 99_000
    assert rows_needed(np.array([90_000, 9_000]), None) == 99_000


def test_rows_that_are_only_fitted_on_are_counted_too():
    folds = [Fold(np.array([3, 4]), np.array([0])), Fold(np.array([4, 0]), np.array([2]))]
    assert rows_in(folds).tolist() == [0, 2, 3, 4]
