"""A search by stake, in a file: the same figures, choices and comparisons."""

from __future__ import annotations

import numpy as np
import pytest

from emsco import CascadeSearchCV, dump, load
from emsco.report import report

pytestmark = pytest.mark.filterwarnings("ignore::emsco.exceptions.SelectionWarning")


@pytest.fixture(scope="module", params=[2, 3])
def search(request):
    rng = np.random.default_rng(0)
    y = np.arange(300) % request.param
    X = rng.normal(size=(300, 3)) + y[:, None]
    stake = np.exp(rng.normal(4, 1.5, 300))
    return CascadeSearchCV(
        threshold=[0.5, 0.7], cv=2, max_stages=2, select={"by": "accuracy"}, random_state=0
    ).fit(X, y, stake=stake)


def test_a_search_by_stake_is_read_to_the_last_bit(search, tmp_path):
    dump(search, tmp_path / "search.emsco")
    read = load(tmp_path / "search.emsco")
    assert read.front_ == search.front_
    assert read.front_[0].evaluation.squares == search.front_[0].evaluation.squares
    assert read.all_sources_ == search.all_sources_
    assert read.all_sources_at(0.7) == search.all_sources_at(0.7)
    assert read.summary() == search.summary()
    read.choose(min_coverage=0.6, by="accuracy")
    search.choose(min_coverage=0.6, by="accuracy")
    assert read.best_candidate_ == search.best_candidate_


def test_a_report_shows_shares_of_the_stake(search, tmp_path):
    """Numbers of rows are beside them: of what is paid, and for intervals."""
    from emsco.report._data import page_data

    data = page_data(search)
    assert data["of"] == "stake"
    own = search.front_[0].evaluation
    columns = data["selected"]
    assert columns["accepted"][0] / columns["rows"] == own.coverage
    assert columns["paid"][0] / columns["n_rows"] == own.cost
    assert columns["n_accepted"][0] == own.by_row.accepted
    assert 1 < columns["effective"]["coverage"][0][0] < own.by_row.rows
    page = report(search, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Shares are of the stake" in page
