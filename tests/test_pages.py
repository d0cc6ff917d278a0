"""The first pages: their figures are those kept, counted on rows that no search has seen."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from emsco import CascadeClassifier
from experiments import pages, results, tables

ROOT = Path(__file__).parents[1]
KEPT = results.load(pages.NAME)
TOLD = {
    name: (ROOT / name).read_text(encoding="utf-8")
    for name in ("README.md", "docs/why.md", "docs/start.md")
}
(PHISHING,) = (row for row in KEPT if row["case"] == "phishing")


def seen_again(model, layout, X):
    """Say which rows of X are, by all of their values, among those that a model was fitted on."""
    fitted = model.fitted_rows_
    (known, *_), (own, *_) = fitted.rows.views, fitted.look(layout.read_known(X)).views
    return np.isin(own.hashes[0], known.hashes[0])


def copies(X, rows, others):
    """Say which rows have the values of another row, which tables may hold twice."""
    values = pd.util.hash_pandas_object(X, index=False).to_numpy()
    return np.isin(values[rows], values[others])


@pytest.mark.parametrize(
    ("name", "seed"),
    [(name, seed) for name, case in pages.CASES.items() for seed in range(case.splits)],
)
def test_no_fresh_row_is_among_those_that_are_searched(name, seed):
    """Only what the table itself holds twice is on both sides: one row in fifty at most."""
    X, y, costs = pages.CASES[name].load()
    searched, kept, fresh = pages.divide(pages.CASES[name], y, seed)
    assert len(np.unique(np.concatenate([searched, kept, fresh]))) == len(y)
    model = CascadeClassifier(costs=costs).fit(X.iloc[searched], y[searched])
    layout = model.decider_.layout
    for rows in (fresh, kept):
        if len(rows):
            seen = seen_again(model, layout, X.iloc[rows])
            assert (seen == copies(X, rows, searched)).all()
            assert seen.mean() <= 0.02
    assert seen_again(model, layout, X.iloc[searched]).all(), "it would be noticed"


@pytest.mark.nightly
def test_a_search_has_fitted_none_of_the_fresh_rows_and_gives_the_figures_kept():
    """The first split of Cleveland, to 1e-6."""
    case = pages.CASES["Cleveland"]
    X, y, _ = case.load()
    search = pages.searched("Cleveland", 0)
    fresh = X.iloc[pages.divide(case, y, 0).fresh]
    assert not seen_again(search, search.found_.layout, fresh).any()
    row = pages.measure("Cleveland", 0)
    figures = {k: v for k, v in row.items() if k not in ("design", "threshold")}
    assert results.differences(pages.NAME, [figures], pages.KEYS) == []


def test_every_case_is_kept_with_all_of_its_splits():
    counted = Counter(row["case"] for row in KEPT)
    assert counted == {name: case.splits for name, case in pages.CASES.items()}


@pytest.mark.parametrize("page", TOLD)
def test_a_page_tells_the_figures_that_are_kept(page):
    """As `print(evaluate(...))` shows them, and as the picture does."""
    accuracy, coverage = PHISHING["accuracy"], PHISHING["coverage"]
    text = TOLD[page]
    if page != "docs/why.md":
        shown = f"{accuracy:.1%} right of the {coverage:.1%} accepted, for {PHISHING['price']:.4g}"
        assert f"{shown} per row\n" in text
    if page != "docs/start.md":
        assert pages.table(KEPT) in text


def test_the_readme_and_the_page_on_reasons_compare_at_the_same_coverage():
    sentence = pages.sentence(KEPT)
    for page in ("README.md", "docs/why.md"):
        assert sentence in re.sub(r"\s+", " ", TOLD[page]), page


def test_the_readme_says_what_rejected_rows_cost():
    told = re.sub(r"\s+", " ", TOLD["README.md"])
    assert pages.with_reviews(KEPT, price=50) in told


def test_the_readme_is_short():
    assert len(TOLD["README.md"].splitlines()) <= 150


def test_the_interval_of_a_share_ends_at_0_and_100():
    assert tables.share([0.0, 0.1, 0.2]) == "10.0 (0.0 to 34.8)"
    assert tables.share([0.9, 1.0, 1.0]) == "96.7 (82.3 to 100.0)"
