"""One model answers for every source set, alone, in a cascade and in a search."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier

from emsco import (
    CascadeClassifier,
    CascadeSearchCV,
    Costs,
    MaskedClassifier,
    Source,
    StageDesign,
    evaluate,
)
from emsco.datasets import make_costly_classification
from emsco.exceptions import ColumnsError, SearchError
from emsco.io import dump, load
from emsco.learners.masked_classifier import _draw_sets

pytestmark = pytest.mark.filterwarnings("ignore::emsco.exceptions.SelectionWarning")

SOURCES = [[0], [1, 3], [2]]
TRUSTED = [
    "emsco.masked.MaskedClassifier",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
]
X, Y, _ = make_costly_classification(600, 4, class_sep=1.2, random_state=0)
ROWS = X.to_numpy()
FRAME = X.set_axis(["x0", "x1", "x2", "x3"], axis=1)
COSTS = Costs(
    [
        Source("first", features=["x0"], cost=1),
        Source("pair", features=["x1", "x3"], cost=4),
        Source("last", features=["x2"], cost=9),
    ]
)


def masked(**params):
    small = HistGradientBoostingClassifier(max_iter=10, early_stopping=False, random_state=0)
    return MaskedClassifier(small, **({"repeats": 4, "random_state": 0} | params))


def test_small_sets_are_drawn_more_often_and_every_set_of_a_size_alike():
    sets = _draw_sets(33_000, 3, np.random.RandomState(0))
    counts = np.bincount(sets.sum(axis=1))
    assert (abs(counts - [0, 18_000, 9_000, 6_000]) < 4 * np.sqrt(33_000 / 4)).all()
    for size in (1, 2):
        _, alike = np.unique(sets[sets.sum(axis=1) == size], axis=0, return_counts=True)
        assert len(alike) == 3
        assert (abs(alike - counts[size] / 3) < 4 * np.sqrt(counts[size] * 2 / 9)).all()


def test_what_was_not_bought_is_not_looked_at():
    fitted = masked().fit(ROWS, Y, sources=SOURCES)
    sets = np.array([[True, False, False], [False, True, True]])
    garbage = ROWS.copy()
    garbage[:, 1:] = 1e9
    of = fitted.predict_proba_of
    assert (of(garbage, sets)[0] == of(ROWS, sets)[0]).all()
    assert (of(garbage, sets)[1] != of(ROWS, sets)[1]).any()


def test_not_bought_is_not_bought_and_missing():
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=800)
    # That the second value is missing says all; that it was not bought says nothing.
    rows = np.column_stack([rng.normal(size=800), np.where(y == 1, np.nan, rng.normal(size=800))])
    fitted = masked().fit(rows, y)
    both, first = fitted.predict_proba_of(rows, np.array([[True, True], [True, False]]))
    assert (both.argmax(axis=1) == y).mean() > 0.95
    assert abs(first[:, 1].mean() - 0.5) < 0.05  # taken for missing, it would be near 1
    assert (fitted.predict(rows) == both.argmax(axis=1)).all()


def test_many_sets_at_once_are_judged_as_one_by_one():
    fitted = masked().fit(ROWS, Y, sources=SOURCES)
    sets = np.array([[True, False, False], [False, True, False], [True, True, True]])
    together = fitted.predict_proba_of(ROWS, sets)
    for columns, one in zip(([0], [1, 3], range(4)), together, strict=True):
        view = fitted.having(columns)
        assert view.n_features_in_ == len(columns)
        assert (view.predict_proba(ROWS[:, sorted(columns)]) == one).all()
    with pytest.raises(ColumnsError, match="must hold all columns of a source"):
        fitted.having([0, 1])
    with pytest.raises(ValueError, match="expecting 2 features"):
        fitted.having([1, 3]).predict_proba(ROWS)


@pytest.mark.parametrize("wrong", [[[0], [1]], [[0, 1], [1, 2, 3]], [[0, 1, 2, 3], []]], ids=str)
def test_sources_that_do_not_divide_the_columns_are_refused(wrong):
    with pytest.raises(ColumnsError, match="each of the 4 columns once"):
        masked().fit(ROWS, Y, sources=wrong)


def test_weights_count():
    weight = np.where(Y == 1, 30.0, 1.0)
    plain, weighted = masked().fit(ROWS, Y), masked().fit(ROWS, Y, sample_weight=weight)
    assert weighted.predict(ROWS).sum() > plain.predict(ROWS).sum()
    even = masked().fit(ROWS, Y, sample_weight=np.ones(len(Y)))
    assert np.allclose(even.predict_proba(ROWS), plain.predict_proba(ROWS))


@pytest.mark.parametrize("rows", [FRAME, ROWS], ids=["frame", "array"])
def test_a_cascade_fits_one_model_and_every_stage_judges_by_it(rows):
    design = StageDesign.from_stages([["first"], ["pair"], ["last"]], COSTS.names)
    cascade = CascadeClassifier(masked(), design=design, costs=COSTS, threshold=0.8).fit(rows, Y)
    assert len({id(stage.estimator_) for stage in cascade.estimators_}) == 1
    assert [stage.n_features_in_ for stage in cascade.estimators_] == [1, 3, 4]
    by_hand = masked().fit(ROWS, Y, sources=SOURCES)
    chain = np.tri(3, dtype=bool)
    probability = by_hand.predict_proba_of(ROWS, chain)
    decisions = cascade.decide(rows)
    assert set(decisions.exit_stage.tolist()) == {0, 1, 2}
    exits = probability[decisions.exit_stage, np.arange(len(Y))]
    assert (decisions.confidence == exits.max(axis=1)).all()
    first_sure = (probability.max(axis=2) >= 0.8).argmax(axis=0)
    assert (decisions.exit_stage == first_sure)[decisions.accepted].all()


def test_the_front_has_the_figures_of_cascades_fitted_fold_by_fold():
    folds = [(np.arange(300), np.arange(300, 600)), (np.arange(300, 600), np.arange(300))]
    options = {"costs": COSTS, "threshold": [0.7, 0.9], "cv": folds, "random_state": 0}
    search = CascadeSearchCV(masked(), **options).fit(FRAME, Y)
    assert type(search.search_).__name__ == "Exhaustive"
    assert len(search.front_) > 5
    for candidate in list(search.front_)[:: len(search.front_) // 3]:
        told = candidate.evaluation
        assert _by_folds(masked(), candidate, folds) == (told.accepted, told.right)
    in_two = CascadeSearchCV(masked(), n_jobs=2, **options).fit(FRAME, Y)
    assert in_two.front_ == search.front_


def test_a_set_costs_no_fit():
    class Counting(HistGradientBoostingClassifier):
        fits = 0

        def fit(self, *args, **kwargs):
            Counting.fits += 1
            return super().fit(*args, **kwargs)

    counting = MaskedClassifier(Counting(max_iter=5), repeats=2, random_state=0)
    CascadeSearchCV(clone(counting), costs=COSTS, cv=3, random_state=0).fit(FRAME, Y)
    assert Counting.fits == 2 * (3 + 1)  # folds and refit: confidences, then the model


def test_stages_fitted_each_by_itself_are_told_with_figures_of_their_own():
    folds = [(np.arange(300), np.arange(300, 600)), (np.arange(300, 600), np.arange(300))]
    bounds = {"min_coverage": 0.7, "max_cost": 10}
    search = CascadeSearchCV(
        masked(), costs=COSTS, cv=folds, select=bounds, refit="stages", random_state=0
    ).fit(FRAME, Y)
    chosen, separate = search.best_candidate_, masked().separate()
    assert all(type(e) is type(separate) for e in search.best_cascade_.estimators_)
    assert chosen.evaluation.coverage >= 0.7
    assert chosen.evaluation.cost <= 10
    assert {candidate.design for candidate in search.front_} == {chosen.design}
    for candidate in (chosen, search.front_[0], search.all_sources_):
        told = candidate.evaluation
        assert _by_folds(separate, candidate, folds) == (told.accepted, told.right)
    assert f"{search.all_sources_.evaluation.accuracy:.1%}" in search.summary()
    assert search.all_sources_at(1.0) == search.all_sources_.evaluation
    assert search.summary().endswith("Its stages are fitted each by itself.")
    assert list(search.cascade(chosen).decide(FRAME)) == list(search.decide(FRAME))
    fresh = search.score_front(FRAME, Y)[0]
    assert evaluate(search.cascade(fresh.candidate).decide(FRAME), Y) == fresh.fresh

    search.choose(search.front_[0])  # known by now, and not fitted anew
    assert search.best_candidate_ is search.front_[0]

    search.choose(refit=True)
    assert type(search.best_cascade_.estimators_[0]) is MaskedClassifier
    assert len({candidate.design for candidate in search.front_}) > 1
    one = search.front_[len(search.front_) // 2]
    search.choose(one)
    assert search.best_candidate_.design == one.design
    assert type(search.best_cascade_.estimators_[0]) is type(separate)


@pytest.mark.parametrize("refit", [True, "stages"])
def test_a_file_gives_back_what_was_shown(tmp_path, refit):
    search = CascadeSearchCV(masked(), costs=COSTS, cv=3, refit=refit, random_state=0)
    search.fit(FRAME, Y)
    dump(search, tmp_path / "search.emsco")
    loaded = load(tmp_path / "search.emsco", trusted=TRUSTED)
    assert loaded.summary() == search.summary()
    assert loaded.front_ == search.front_
    assert list(loaded.decide(FRAME)) == list(search.decide(FRAME))
    if refit is True:
        with pytest.raises(SearchError, match="fit the search again"):
            loaded.choose(refit="stages")
    else:
        assert loaded.choose(loaded.front_[0]).best_candidate_ is loaded.front_[0]


@pytest.mark.parametrize("refit", [True, "stages"])
def test_cheaper_stages_before_a_final_model(refit):
    final = HistGradientBoostingClassifier(max_iter=15, random_state=1).fit(FRAME, Y)
    search = CascadeSearchCV(
        masked(), costs=COSTS, cv=3, final=final, target="agreement", refit=refit, random_state=0
    ).fit(FRAME)
    assert search.best_cascade_.estimators_[-1] is final
    assert search.best_candidate_.evaluation.accuracy >= 0.99
    assert search.decide(FRAME).accepted.all()


def test_only_stages_of_one_model_need_to_be_fitted_separately():
    with pytest.raises(SearchError, match="is for a MaskedClassifier"):
        CascadeSearchCV(costs=COSTS, refit="stages").fit(FRAME, Y)


def _by_folds(estimator, candidate, folds):
    """Fit and decide fold by fold; count the accepted and the right."""
    accepted = right = 0
    for train, test in folds:
        cascade = CascadeClassifier(
            estimator, design=candidate.design, costs=COSTS, threshold=candidate.threshold
        )
        cascade.fit(FRAME.iloc[train], Y[train])
        one = evaluate(cascade.decide(FRAME.iloc[test]), Y[test])
        accepted, right = accepted + one.accepted, right + one.right
    return accepted, right
