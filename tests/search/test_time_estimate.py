"""A search that may take long says so before it fits anything."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pytest

from emsco import CascadeSearchCV, LocalSearch
from emsco.exceptions import SearchWarning
from emsco.search import _run
from emsco.search._expected_work import expected_seconds


def _rows(n_columns, n_rows, n_classes):
    rng = np.random.default_rng(0)
    y = np.arange(n_rows) % n_classes
    X = rng.normal(size=(n_rows, n_columns))
    X[:, 0] += 4 * y / n_classes
    return X, y


def _stop(state):
    if state["phase"] != "read":
        raise AssertionError(f"the search has begun: {state}")


@pytest.mark.parametrize(("n_columns", "n_classes"), [(1000, 2), (10, 100)])
def test_a_search_that_may_take_long_says_so_before_it_begins(n_columns, n_classes):
    """By very many columns, or classes: how long about, and what to do."""
    search = CascadeSearchCV(cv=2, callback=_stop, random_state=0)
    told = r"may take about [\d,]+ (minutes|hours): .* one source"
    with pytest.raises(SearchWarning, match=told):  # here a warning is an error
        search.fit(*_rows(n_columns, 400, n_classes))


def test_a_search_of_ordinary_size_says_nothing():
    """And times nothing: a hundred columns, ten classes."""
    for n_columns, n_classes in ((100, 2), (10, 10)):
        search = CascadeSearchCV(cv=2, callback=_stop, random_state=0)
        with pytest.raises(AssertionError, match="has begun"):
            search.fit(*_rows(n_columns, 400, n_classes))


def test_what_is_expected_is_about_what_it_takes_and_progress_is_told_often(monkeypatch):
    """To a factor of five, by the time of this process alone; every few sets."""
    expected, fitted = [], [0]

    def note_expected(problem, search):
        expected.append(expected_seconds(problem, search))

    monkeypatch.setattr(_run, "warn_slow", note_expected)
    search = CascadeSearchCV(
        search=LocalSearch(fits=40), threshold=0.7, max_stages=2, cv=2, random_state=0,
        select={"by": "coverage"}, refit=False,
        callback=lambda state: fitted.append(state["source_sets"]),
    )  # fmt: skip
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the choice
        search.fit(*_rows(600, 600, 2))
    seconds = time.process_time() - start
    assert seconds / 5 < expected[0] < 5 * seconds
    assert np.diff(fitted).max() <= 16
