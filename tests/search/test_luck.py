"""Luck: measured by searching again without parts of the rows, and without a fit."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pytest
from searches import Counting, X, Y, count_fits, search_for
from sklearn.model_selection import GroupKFold, RepeatedStratifiedKFold, ShuffleSplit

from emsco import CascadeSearchCV, Costs, LocalSearch, dump, load
from emsco.datasets import make_costly_classification
from emsco.exceptions import SearchError, SelectionWarning
from emsco.learners.protocol import Fold
from emsco.search import _run
from emsco.search._luck import TableView, measure_luck, parts_of

pytestmark = pytest.mark.filterwarnings("ignore::emsco.exceptions.SelectionWarning")


def test_nothing_else_depends_on_whether_luck_is_measured():
    with_luck, without = search_for(luck=True).fit(X, Y), search_for(luck=False).fit(X, Y)
    assert without.front_.luck is None
    assert isinstance(with_luck.front_.luck, float)
    assert list(with_luck.front_) == list(without.front_)
    assert with_luck.history_ == without.history_
    again = search_for(luck=True).fit(X, Y)
    assert again.front_.luck == with_luck.front_.luck


def test_no_set_is_fitted_for_it():
    search = search_for(Counting(), threshold=[0.6, 0.75], max_stages=3, luck=True)
    n_fits = count_fits(lambda: search.fit(X, Y))
    search = search_for(Counting(), threshold=[0.6, 0.75], max_stages=3, luck=False)
    assert count_fits(lambda: search.fit(X, Y)) == n_fits


def _folds(splits):
    return [Fold(train, test) for train, test in splits]


def test_parts_are_the_test_folds_where_these_are_three_to_ten():
    folds = _folds([(np.arange(4, 12), np.arange(4)), (np.arange(8), np.arange(8, 12)),
                    (np.r_[0:4, 8:12], np.arange(4, 8))])  # fmt: skip
    parts = parts_of(folds, np.arange(12) % 2, None)
    assert [np.flatnonzero(part).tolist() for part in parts] == [
        [0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11],
    ]  # fmt: skip


@pytest.mark.parametrize("cv", [RepeatedStratifiedKFold(n_splits=4, n_repeats=3, random_state=0),
                                ShuffleSplit(1, test_size=0.5, random_state=0)])  # fmt: skip
def test_other_folds_make_five_parts_of_distinct_rows_with_classes_in_proportion(cv):
    folds = _folds(cv.split(X, Y))
    tested = np.concatenate([fold.test for fold in folds])
    parts = parts_of(folds, Y, None)
    assert len(parts) == 5
    assert np.sum(parts, axis=0).tolist() == [1] * len(tested), "each row once, all its copies"
    for part in parts:
        assert not set(tested[part]) & set(tested[~part])
        share = (Y[tested[part]] == "sick").mean()
        assert share == pytest.approx((Y[tested] == "sick").mean(), abs=0.05)


def test_groups_stay_whole():
    groups = np.arange(len(Y)) // 6
    folds = _folds([(np.arange(60), np.arange(60, len(Y)))])
    tested = folds[0].test
    for part in parts_of(folds, Y, groups):
        assert part.any()
        assert not set(groups[tested[part]]) & set(groups[tested[~part]])
    found = search_for(cv=GroupKFold(4), luck=True).fit(X, Y, groups=groups)
    assert found.front_.luck is not None


def test_too_few_rows_to_part_leave_luck_unknown():
    folds = _folds([(np.arange(100), np.arange(6))])
    assert parts_of(folds, Y, None) == []
    assert measure_luck(_problem(), [], None, by_stage=True) is None


def test_a_search_that_fitted_few_of_many_sets_shows_no_luck():
    """And takes no time to find that out."""
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=200)
    rows = rng.normal(size=(200, 12)) + labels[:, None]
    few, some = (
        CascadeSearchCV(search=LocalSearch(300, fits=fits), threshold=0.7, random_state=0)
        .fit(rows, labels)
        .front_.luck
        for fits in (20, 60)
    )
    assert few is None
    assert some is not None


def test_a_view_fits_nothing_and_has_its_own_rows():
    problem = _problem()
    within = np.arange(problem.n_rows) % 3 > 0
    view = TableView(problem.table, within)
    assert view.n_rows == within.sum()
    assert len(view) == len(problem.table)
    unknown = np.ones((1, problem.n_sources), dtype=np.bool_)
    unknown[0, 0] = False
    assert not view.has(unknown).all()
    with pytest.raises(SearchError, match="not fitted"):
        view.positions(unknown)
    with pytest.raises(SearchError, match="no confidences"):
        view.outcomes(unknown)


def _problem(found=[]):  # noqa: B006  # made once
    if not found:
        caught = []
        search = search_for(search=LocalSearch(50, fits=3), threshold=0.75, luck=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_run, "measure_luck", lambda problem, *_, **__: caught.append(problem))
            search.fit(X, Y)
        found.append(caught[0])
    return found[0]


def test_pure_noise_is_all_luck_and_plenty_of_rows_leave_little():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(300, 6))
    labels = rng.integers(2, size=300)
    costs = Costs.per_feature([1, 2, 3, 4, 5, 6])
    lucky = CascadeSearchCV(costs=costs, max_stages=2, random_state=0).fit(noise, labels)
    assert lucky.front_.luck > 0.5
    rows, truth, costs = make_costly_classification(6_000, 4, class_sep=2, random_state=0)
    sober = CascadeSearchCV(costs=costs, max_stages=2, random_state=0).fit(rows, truth)
    assert sober.front_.luck < lucky.front_.luck


def test_it_takes_half_of_the_time_of_fit_at_most_or_three_seconds():
    """By processor time, on a problem that is searched for some seconds."""
    rows, truth, costs = make_costly_classification(1_000, 9, random_state=0)
    took = {}
    for luck in (True, False):
        began = time.process_time()
        CascadeSearchCV(costs=costs, random_state=0, luck=luck, threshold=[0.6, 0.8]).fit(
            rows, truth
        )
        took[luck] = time.process_time() - began
    assert took[True] - took[False] < max(3.0, took[False])


def test_luck_rules_and_what_was_asked_are_kept_in_files(tmp_path):
    cv = RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=0)
    search = search_for(cv=cv, max_rejected={"sick": 0.9}, luck=True).fit(X, Y)
    search.choose(min_accuracy=0.6, max_missed={"sick": 0.9}, caution=0.5)
    dump(search, tmp_path / "search.emsco")
    again = load(tmp_path / "search.emsco")
    assert again.front_ == search.front_
    assert again.front_.luck == search.front_.luck is not None
    assert again.front_.repeats == 2.0
    assert again.max_rejected == {"sick": 0.9}
    assert again.choice_.rule == search.choice_.rule
    assert again.choice_.bounds == search.choice_.bounds
    for one, other in zip(again.front_, search.front_, strict=True):
        assert one.evaluation.class_both == other.evaluation.class_both != {}
        assert one.evaluation.class_reference == other.evaluation.class_reference
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SelectionWarning)
        again.choose(), search.choose()
    assert again.best_candidate_ == search.best_candidate_
    dump(search.front_, tmp_path / "front.emsco")
    assert load(tmp_path / "front.emsco") == search.front_
