"""scikit-learn's own checks pass, but for one where chance hides sources; its tools work too."""

from __future__ import annotations

import pickle
from functools import partial

import numpy as np
import pytest
import sklearn
from sklearn.base import clone, is_classifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_predict, cross_validate
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from emsco import CascadeClassifier, CascadeSearchCV, LocalSearch, MaskedClassifier, Review
from emsco.datasets import make_costly_classification
from emsco.exceptions import ColumnsError
from emsco.metrics import accepted_accuracy, coverage, expected_loss, mean_cost, missed, negative

pytestmark = pytest.mark.filterwarnings("ignore::emsco.exceptions.SelectionWarning")

MASKED = MaskedClassifier(HistGradientBoostingClassifier(max_iter=20), repeats=2, random_state=0)
ESTIMATORS = [
    CascadeClassifier(),
    CascadeClassifier(LogisticRegression()),
    CascadeClassifier(HistGradientBoostingClassifier(max_iter=20)),
    CascadeSearchCV(),
    # scikit-learn wants NaN refused in every column; one that is never bought is never looked at.
    CascadeSearchCV(
        LogisticRegression(), search=LocalSearch(300, fits=20), allow_unused=False, luck=False
    ),
    MASKED,
    CascadeClassifier(MASKED),
]


def _drawn_by_row(estimator):
    if MaskedClassifier not in (type(estimator), type(getattr(estimator, "estimator", None))):
        return {}
    why = "what is hidden is drawn a row: a row given twice is not one that counts twice"
    return {"check_sample_weight_equivalence_on_dense_data": why}


@pytest.mark.filterwarnings("default")  # the checks themselves provoke warnings
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=_drawn_by_row)
def test_check_estimator(estimator, check):
    check(estimator)


# What the checks do not look at: the search as scikit-learn's users use it.

X, CODES, COSTS = make_costly_classification(150, 3, class_sep=1.5, random_state=0)
Y = np.where(CODES == 1, "sick", "well")


def search_for(estimator=None, **params):
    small = {"costs": COSTS, "max_stages": 2, "cv": 2, "random_state": 0, "threshold": [0.6, 0.8]}
    return CascadeSearchCV(estimator, **(small | {"luck": False} | params))


def test_a_search_is_cloned_and_set_like_any_estimator():
    search = search_for(LogisticRegression(C=0.5), select={"min_coverage": 0.9})
    copy = clone(search.fit(X, Y))
    assert not hasattr(copy, "front_")
    assert repr(copy.get_params()) == repr(search.get_params())
    assert copy.set_params(max_stages=1, estimator__C=2.0).estimator.C == 2.0
    assert copy.fit(X, Y).best_cascade_.design_.n_stages == 1
    assert is_classifier(copy)
    with pytest.raises(ValueError, match="Invalid parameter 'max_stage'"):
        copy.set_params(max_stage=1)


@pytest.mark.parametrize(
    "wrong",
    [{"max_stages": 0}, {"cv": "five"}, {"refit": "yes"}, {"max_rows": 1}, {"search": 3}],
    ids=str,
)
def test_a_parameter_of_the_wrong_kind_is_refused_by_name(wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=f"'{name}' parameter of CascadeSearchCV"):
        search_for(**wrong).fit(X, Y)


def test_a_search_within_a_grid_search():
    grid = GridSearchCV(search_for(), {"max_stages": [1, 2]}, cv=2).fit(X, Y)
    assert grid.best_params_["max_stages"] in (1, 2)
    loss = negative(partial(expected_loss, error_cost=50, review=Review(5)))
    by_loss = GridSearchCV(search_for(), {"max_stages": [1, 2]}, cv=2, scoring=loss).fit(X, Y)
    assert by_loss.best_score_ < 0
    assert len(by_loss.best_estimator_.decide(X)) == len(Y)


def test_a_search_is_cross_validated_by_what_it_is_for():
    scorers = {
        "accuracy": accepted_accuracy,
        "coverage": coverage,
        "cost": mean_cost,
        "missed": partial(missed, label="sick"),
    }
    search = search_for(select={"max_cost": 5, "min_coverage": 0.5, "by": "accuracy"})
    scores = cross_validate(search, X, Y, cv=2, scoring=scorers)
    assert (scores["test_accuracy"] > 0.7).all()
    assert (scores["test_cost"] < COSTS.total).all()
    assert ((scores["test_coverage"] > 0) & (scores["test_coverage"] <= 1)).all()
    assert (scores["test_missed"] < 0.5).all()


def test_a_search_stands_in_a_pipeline():
    pipeline = make_pipeline(StandardScaler(), search_for(costs=[1, 2, 4]))
    assert pipeline.fit(X, Y).score(X, Y) > 0.7
    assert coverage(pipeline, X, Y) > 0
    labels = cross_val_predict(pipeline, X, Y, cv=2)
    assert (labels == Y).mean() > 0.7


def test_a_pickled_search_decides_the_same():
    for estimator in (None, LogisticRegression()):
        search = search_for(estimator).fit(X, Y)
        again = pickle.loads(pickle.dumps(search))
        assert list(again.decide(X)) == list(search.decide(X))
        assert again.front_ == search.front_
        assert again.summary() == search.summary()
        again.choose(by="accuracy")  # the rows are in it too
        assert list(again.decide(X)) == list(search.choose(by="accuracy").decide(X))


def test_a_search_shows_itself_fitted_or_not():
    search = search_for(LogisticRegression())
    assert repr(search).startswith("CascadeSearchCV(")
    assert "CascadeSearchCV" in search._repr_html_()
    assert "CascadeSearchCV" in search.fit(X, Y)._repr_html_()


def test_weights_change_the_fits_of_a_search():
    weight = np.where(Y == "sick", 20.0, 1.0)
    for estimator in (None, LogisticRegression()):
        plain = search_for(estimator).fit(X, Y)
        weighted = search_for(estimator).fit(X, Y, sample_weight=weight)
        even = search_for(estimator).fit(X, Y, sample_weight=np.ones(len(Y)))
        assert [c.evaluation for c in even.front_] == [c.evaluation for c in plain.front_]
        assert (weighted.predict(X) == "sick").sum() > (plain.predict(X) == "sick").sum()
        sick = [s.all_sources_.evaluation.missed["sick"] for s in (weighted, plain)]
        assert sick[0] < sick[1], "and what the search has seen"
    with pytest.raises(ColumnsError, match=r"KNeighborsClassifier\.fit does not take it"):
        search_for(KNeighborsClassifier()).fit(X, Y, sample_weight=weight)


def test_metadata_of_a_search_goes_to_whoever_asked_for_it():
    weight = np.where(Y == "sick", 20.0, 1.0)
    groups = np.arange(len(Y)) // 5
    by_hand = search_for(LogisticRegression(), cv=GroupKFold(2)).fit(
        X, Y, sample_weight=weight, groups=groups
    )
    with sklearn.config_context(enable_metadata_routing=True):
        asked = LogisticRegression().set_fit_request(sample_weight=True)
        splitter = GroupKFold(2).set_split_request(groups=True)
        routed = search_for(asked, cv=splitter).fit(X, Y, sample_weight=weight, groups=groups)
        assert routed.front_ == by_hand.front_
        default = search_for(cv=splitter).fit(X, Y, sample_weight=weight, groups=groups)
        assert default.n_splits_ == 2
        search_for().fit(X, Y)
        with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
            search_for(LogisticRegression()).fit(X, Y, sample_weight=weight)
        inner = search_for(asked, cv=splitter).set_score_request(sample_weight=False)
        outer = cross_validate(
            inner, X, Y, cv=splitter, params={"sample_weight": weight, "groups": groups}
        )
        assert (outer["test_score"] > 0.4).all()
