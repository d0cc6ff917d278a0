"""Label weights: one rule for the table, the cascade, its files and its certificate."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from searches import COSTS, HALVES, N, X, Y, counted, search_for
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from emsco import CascadeClassifier, Costs, MaskedClassifier, Review, dump, evaluate, load
from emsco.cascade.fingerprint import fingerprint
from emsco.certify import certify
from emsco.core.label_rule import EQUAL, LabelRule
from emsco.exceptions import ClassesError, SearchError, SelectionWarning

pytestmark = pytest.mark.filterwarnings("ignore::emsco.exceptions.SelectionWarning")

WEIGHTS = {"sick": 5.0, "well": 1.0}
PRICED = replace(COSTS, review=Review(2.0), errors={"sick": 50.0, "well": 4.0})
FOREST = MaskedClassifier(RandomForestClassifier(5, random_state=0), repeats=2, random_state=0)
FAST = {"max_stages": 2, "threshold": [0.6, 0.75, 0.9], "luck": False}


@pytest.fixture(scope="module")
def weighted():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SelectionWarning)
        return search_for(label_weights=WEIGHTS, cv=HALVES, refit=False, **FAST).fit(X, Y)


@pytest.mark.parametrize(
    "estimator",
    [None, LogisticRegression(), FOREST],
    ids=["default", "own", "masked"],
)
def test_the_table_says_what_the_cascades_decide(estimator):
    search = search_for(estimator, label_weights=WEIGHTS, cv=HALVES, refit=False, **FAST).fit(X, Y)
    ((_, test),) = HALVES.split(X)
    assert search.found_.stages.rule == LabelRule((5.0, 1.0))
    for candidate in search.front_:
        decisions = search.cascade(candidate).decide(X.iloc[test])
        assert counted(evaluate(decisions, Y[test])) == counted(candidate.evaluation)


def test_shares_decide_and_confidences_stay_probabilities(weighted):
    best = weighted.front_.select(by="coverage")
    cascade = weighted.choose(best).best_cascade_
    decisions, p = cascade.decide(X), cascade.predict_proba(X)
    weighed = p * [5.0, 1.0]
    shares = weighed / weighed.sum(axis=1, keepdims=True)
    place = shares.argmax(axis=1)
    assert (decisions.label == cascade.classes_[place]).all()
    assert decisions.share == pytest.approx(shares[np.arange(N), place])
    assert (decisions.confidence == p[np.arange(N), place]).all()
    needed = cascade.thresholds_[decisions.exit_stage, place]
    assert (decisions.accepted == (decisions.share >= needed)).all()
    assert (decisions.label != cascade.classes_[p.argmax(axis=1)]).any()
    assert decisions.fields[3:5] == ("confidence", "share")
    assert "share" in decisions.to_frame()
    assert decisions[0].share == decisions.share[0]
    assert (decisions[10:20].share == decisions.share[10:20]).all()


def test_equal_weights_are_none(weighted):
    plain = search_for(cv=HALVES, refit=False, **FAST).fit(X, Y)
    equal = search_for(label_weights={"sick": 3, "well": 3}, cv=HALVES, refit=False, **FAST)
    assert list(equal.fit(X, Y).front_) == list(plain.front_)
    assert fingerprint(equal.best_cascade_) == fingerprint(plain.best_cascade_)
    decisions = equal.decide(X)
    assert decisions.fields == plain.decide(X).fields
    assert "share" not in decisions.to_frame()
    assert decisions[0].share is None
    assert (decisions.share == decisions.confidence).all()
    other = weighted.cascade(plain.best_candidate_)
    assert fingerprint(other) != fingerprint(plain.best_cascade_)


def test_files_keep_weights(weighted, tmp_path):
    dump(weighted, tmp_path / "search.emsco")
    dump(weighted.best_cascade_, tmp_path / "model.emsco")
    expected = weighted.decide(X)
    for name in ("search.emsco", "model.emsco"):
        found = load(tmp_path / name)
        assert list(found.decide(X)) == list(expected)
        assert fingerprint(getattr(found, "best_cascade_", found)) == fingerprint(
            weighted.best_cascade_
        )
    assert load(tmp_path / "search.emsco").label_weights == WEIGHTS
    own = load(tmp_path / "model.emsco")
    assert list(clone(own).fit(X, Y).decide(X)) == list(
        clone(weighted.best_cascade_).fit(X, Y).decide(X)
    )


def test_a_certificate_is_about_the_weighted_cascade():
    rng = np.random.default_rng(1)
    fresh = X + rng.normal(scale=0.3, size=X.shape)
    search = search_for(label_weights=WEIGHTS, select={"min_coverage": 0.6}, **FAST).fit(X, Y)
    certificate = certify(search, fresh, Y, accuracy=0.3, confidence=0.9)
    assert certificate.holds_for(search)
    plain = CascadeClassifier(
        design=search.best_cascade_.design_, costs=COSTS, threshold=search.best_candidate_.threshold
    ).fit(X, Y)
    assert not certificate.holds_for(plain)


def test_prices_of_errors_are_weights_and_choose_the_least_loss():
    search = search_for(costs=PRICED, **FAST).fit(X, Y)
    assert search.found_.stages.rule == LabelRule((12.5, 1.0))
    assert search.best_cascade_.label_weights is None, "its costs have them"
    prices = {"review": PRICED.review, "error_cost": PRICED.errors}
    least = min(c.evaluation.loss(**prices) for c in search.front_)
    assert search.best_candidate_.evaluation.loss(**prices) == least
    assert search.front_.select(by="loss") == search.best_candidate_
    text = search.summary()
    assert "Labels are given by prices of errors: 'sick' 12.5, 'well' 1." in text
    assert "an error costs 50 for 'sick' and 4 for 'well'" in text
    assert "Labels were given by these prices." in text
    search.choose(by="loss", error_cost=7.0)
    assert "Labels were given by other weights, see above." in search.summary()
    assert search.found_.stages.rule == LabelRule((12.5, 1.0)), "a choice labels nothing anew"


def test_prices_of_errors_are_kept_in_files(tmp_path):
    path = tmp_path / "costs.toml"
    text = PRICED.to_toml(path)
    assert "[errors]\nsick = 50.0\nwell = 4.0" in text
    assert Costs.from_toml(path) == PRICED
    search = search_for(costs=path, **FAST).fit(X, Y)
    dump(search, tmp_path / "search.emsco")
    assert load(tmp_path / "search.emsco").costs_ == PRICED
    numbers = (Y == "sick") * 1
    named = replace(PRICED, errors={"0": 4.0, "1": 50.0})
    assert search_for(costs=named, **FAST).fit(X, numbers).costs_.errors == {0: 4.0, 1: 50.0}


def test_errors_of_unknown_classes_are_refused():
    wrong = replace(PRICED, errors={"sik": 50.0, "well": 4.0})
    with pytest.raises(ClassesError, match="'sik', which is not a class; did you mean 'sick'"):
        search_for(costs=wrong, **FAST).fit(X, Y)


def test_balanced_weights_find_a_rare_class():
    rare = np.flatnonzero((Y == "well") | (np.arange(N) % 8 == 0))
    table, labels = X.iloc[rare].reset_index(drop=True), Y[rare]
    found = {}
    for weights in (None, "balanced"):
        search = search_for(label_weights=weights, select={"by": "coverage"}, **FAST)
        found[weights] = search.fit(table, labels).all_sources_.evaluation.recall["sick"]
    assert found["balanced"] > found[None] + 0.2


def test_an_estimator_that_is_not_calibrated_gets_weights_that_suit_it():
    """A forest of stumps is far too unsure: with the prices as they are, all rows are sick."""
    forest = RandomForestClassifier(10, max_depth=1, random_state=0)
    errors = {"sick": 8.0, "well": 1.0}
    search = search_for(forest, label_weights=errors, **FAST).fit(X, Y)
    own = search.found_.stages.rule.weights
    factors = np.array(own) / np.array(own)[1]
    assert np.log2(factors[0] / 8).round(6) in range(-3, 4)
    logistic = search_for(label_weights=errors, **FAST).fit(X, Y)
    assert logistic.found_.stages.rule.weights == (8, 1), "its probabilities are calibrated"


def test_agreement_takes_no_weights():
    final = LogisticRegression().fit(X, Y)
    for options in ({"label_weights": "balanced"}, {"costs": PRICED}):
        search = search_for(final=final, target="agreement", **FAST | options)
        with pytest.raises(SearchError, match="target='agreement' needs equal label weights"):
            search.fit(X)


def test_a_learner_that_ignores_weights_is_refused():
    from emsco.learners.estimator_learner import EstimatorLearner

    class Own(EstimatorLearner):
        def fits(self, training, folds):
            return super().fits(training, folds)

    class OwnModel(LogisticRegression):
        def emsco_learner(self):
            return Own(self)

    with pytest.raises(ClassesError, match="Own does not take label weights"):
        search_for(OwnModel(), label_weights=WEIGHTS, **FAST).fit(X, Y)
    assert search_for(OwnModel(), **FAST).fit(X, Y).found_.stages.rule == EQUAL
