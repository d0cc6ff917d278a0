"""Scorers tell what evaluations tell, wherever scikit-learn takes a scorer."""

from __future__ import annotations

import itertools
import pickle
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from emsco import CascadeClassifier, Costs, Decisions, Review, StageDesign, evaluate
from emsco.exceptions import DecisionsError
from emsco.metrics import (
    accepted_accuracy,
    aurc,
    coverage,
    expected_loss,
    mean_cost,
    missed,
    negative,
)

RNG = np.random.default_rng(0)
SICK = RNG.random(240) < 0.4
X = np.column_stack([SICK + RNG.normal(size=240), 3 * SICK + RNG.normal(size=240)])
Y = np.where(SICK, "sick", "well")
WEIGHT = RNG.integers(0, 4, size=240)
COSTS = Costs(Costs.per_feature([1, 20]).sources, review=Review(50, accuracy=0.9))
CASCADE = CascadeClassifier(design=StageDesign([0, 1]), costs=COSTS, threshold=0.9)

SCORERS = {
    "accuracy": accepted_accuracy,
    "coverage": coverage,
    "cost": mean_cost,
    "missed": missed,
    "sick": partial(missed, label="sick"),
    "aurc": aurc,
    "loss": partial(expected_loss, error_cost={"sick": 500, "well": 100}),
}


class Decided:
    """An estimator that has decided already: X holds numbers of rows."""

    def __init__(self, decisions):
        self.decisions = decisions

    def decide(self, X):
        return self.decisions[np.asarray(X)]


def decided(label, accepted, confidence, cost=None):
    n_rows = len(label)
    return Decided(Decisions(label, accepted, [0] * n_rows, confidence, cost or [1] * n_rows))


def ranked(confidence, wrong, *, accepted=None, weight=None):
    """Give the area of rows labelled "a", of which the wrong ones are "b"."""
    estimator = decided(["a"] * len(wrong), accepted or [True] * len(wrong), confidence)
    return aurc(estimator, range(len(wrong)), np.where(wrong, "b", "a"), weight)


def plain(wrong):
    """Write the mean risk down as the docstring does, for rows from the surest on."""
    return np.mean(np.cumsum(wrong) / np.arange(1, len(wrong) + 1))


@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_scorers_tell_what_the_evaluation_tells(weight):
    fitted = clone(CASCADE).fit(X, Y)
    evaluation = evaluate(fitted.decide(X), Y, sample_weight=weight)
    assert 0 < evaluation.coverage < 1
    assert accepted_accuracy(fitted, X, Y, weight) == evaluation.accuracy
    assert coverage(fitted, X, Y, weight) == evaluation.coverage
    assert mean_cost(fitted, X, Y, weight) == evaluation.cost
    assert missed(fitted, X, Y, weight, label="well") == evaluation.missed["well"]
    assert missed(fitted, X, Y, weight) == max(evaluation.missed.values())
    loss = evaluation.loss(review=COSTS.review, error_cost=7)
    assert expected_loss(fitted, X, Y, weight, error_cost=7) == loss
    loss = evaluation.loss(review=Review(3), error_cost={"sick": 7})
    given = {"error_cost": {"sick": 7}, "review": Review(3)}
    assert expected_loss(fitted, X, Y, weight, **given) == loss


def test_rejected_rows_without_a_review_have_no_loss():
    with pytest.raises(DecisionsError, match=r"give the costs a Review\(cost\)"):
        expected_loss(decided(["a"], [False], [0.6]), [0], ["a"])
    assert expected_loss(decided(["a"], [True], [0.9], [2]), [0], ["b"], error_cost=5) == 7


def test_the_missed_share_of_a_class_that_is_not_there_is_no_number():
    with pytest.raises(DecisionsError, match=r"'sik' is not a class .* did you mean 'sick'"):
        missed(clone(CASCADE).fit(X, Y), X, Y, label="sik")


# Confidences are few, so that many are equal.
sureness = st.sampled_from([0.5, 0.6, 0.7, 0.8])
rows = st.lists(
    st.tuples(
        st.sampled_from("ab"), st.sampled_from("ab"), st.booleans(), sureness, st.integers(0, 9),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=12,
)  # fmt: skip


@settings(max_examples=200)
@given(rows)
def test_a_weight_counts_as_that_many_rows(rows):
    truth, label, accepted, confidence, cost, weight = map(list, zip(*rows, strict=True))
    estimator = decided(label, accepted, confidence, cost)
    weight[0] += not any(weight)
    repeated = np.repeat(np.arange(len(rows)), weight)
    loss = partial(expected_loss, error_cost=10, review=Review(3))
    for scorer in (accepted_accuracy, coverage, mean_cost, missed, aurc, loss):
        by_weight = scorer(estimator, range(len(rows)), truth, weight)
        assert by_weight == pytest.approx(scorer(estimator, repeated, np.array(truth)[repeated]))


def test_rows_that_all_weigh_nothing_have_no_area():
    assert ranked([0.9, 0.8], [True, False], weight=[0, 0]) == 0


@settings(max_examples=200)
@given(st.lists(st.booleans(), min_size=1, max_size=50))
def test_without_ties_the_area_is_the_mean_risk(wrong):
    confidence = np.linspace(1, 0.5, len(wrong))
    assert ranked(confidence, wrong) == pytest.approx(plain(wrong))


@settings(max_examples=200)
@given(st.lists(st.tuples(sureness, st.booleans(), st.booleans()), min_size=1, max_size=5))
def test_the_area_of_ties_is_the_mean_over_all_their_orders(rows):
    confidence, accepted, wrong = map(list, zip(*rows, strict=True))
    keys = [(not a, -c) for a, c in zip(accepted, confidence, strict=True)]
    orders = [
        order for order in itertools.permutations(range(len(rows)))
        if all(keys[one] <= keys[next_] for one, next_ in itertools.pairwise(order))
    ]  # fmt: skip
    expected = np.mean([plain([wrong[row] for row in order]) for order in orders])
    assert ranked(confidence, wrong, accepted=accepted) == pytest.approx(expected)


@settings(max_examples=200)
@given(st.lists(st.tuples(sureness, st.booleans(), st.floats(0.01, 9)), min_size=1, max_size=12))
def test_the_area_depends_on_the_order_of_confidences_only(rows):
    confidence, wrong, weight = map(np.array, zip(*rows, strict=True))
    area = ranked(confidence, wrong, weight=weight)
    assert ranked(confidence**3 / 2, wrong, weight=weight) == area
    assert 0 <= area <= 1 + 1e-12


@pytest.mark.parametrize("weight", [None, [0.3, 2.5, 1.1]])
def test_the_area_is_0_where_all_is_right_and_1_where_all_is_wrong(weight):
    assert ranked([0.9, 0.7, 0.7], [False] * 3, weight=weight) == 0
    assert ranked([0.9, 0.7, 0.7], [True] * 3, weight=weight) == pytest.approx(1)


def test_a_rejected_row_is_less_sure_than_any_accepted_one():
    order = ranked([0.6, 0.9], [True, False], accepted=[True, False])
    assert order == pytest.approx((1 / 1 + 1 / 2) / 2)


def test_the_area_of_many_rows_is_precise():
    wrong = RNG.random(200_000) < 0.3
    confidence = np.linspace(1, 0.5, len(wrong))
    assert ranked(confidence, wrong) == pytest.approx(plain(wrong), rel=1e-12)


def test_cross_validation_takes_them_all():
    scores = cross_validate(CASCADE, X, Y, cv=3, scoring=SCORERS, return_estimator=True,
                            return_indices=True)  # fmt: skip
    for fold, fitted in enumerate(scores["estimator"]):
        test = scores["indices"]["test"][fold]
        for name, scorer in SCORERS.items():
            assert scores[f"test_{name}"][fold] == scorer(fitted, X[test], Y[test])


def test_a_grid_search_finds_the_least_loss():
    grid = {"threshold": [0.6, 0.9, 0.999]}
    scoring = {name: negative(scorer) for name, scorer in SCORERS.items()}
    search = GridSearchCV(CASCADE, grid, cv=3, scoring=scoring, refit="loss")
    results = search.fit(X, Y).cv_results_
    losses = -results["mean_test_loss"]
    assert search.best_index_ == losses.argmin()
    assert -search.score(X, Y) == SCORERS["loss"](search.best_estimator_, X, Y)
    assert (np.diff(results["mean_test_cost"]) < 0).all()  # a higher threshold costs more


def test_a_grid_search_may_hand_weights_on():
    # scikit-learn does so since 1.7, to a scorer whose signature names them.
    search = GridSearchCV(CASCADE, {"threshold": [0.9]}, cv=3, scoring=negative(mean_cost))
    assert search.fit(X, Y, sample_weight=np.ones(len(Y))).best_score_ < -1


def test_negative_turns_the_sign_and_tells_of_what():
    fitted = clone(CASCADE).fit(X, Y)
    for scorer in SCORERS.values():
        turned = pickle.loads(pickle.dumps(negative(scorer)))
        assert turned(fitted, X, Y, sample_weight=WEIGHT) == -scorer(fitted, X, Y, WEIGHT)
    assert repr(negative(mean_cost)) == "negative(mean_cost)"
    assert repr(negative(partial(missed, label="sick"))) == "negative(missed, label='sick')"
    assert negative(aurc) == negative(aurc)


@pytest.mark.parametrize(
    "pipeline",
    [
        make_pipeline(StandardScaler(), CASCADE),
        make_pipeline(CASCADE),
        make_pipeline("passthrough", make_pipeline(StandardScaler(), CASCADE)),
    ],
)
def test_a_pipeline_is_scored_by_its_last_step(pipeline):
    alone, inside = clone(CASCADE).fit(X, Y), clone(pipeline).fit(X, Y)
    for scorer in SCORERS.values():
        assert scorer(inside, X, Y) == pytest.approx(scorer(alone, X, Y))


@pytest.mark.parametrize("scorer", SCORERS.values())
def test_an_estimator_that_cannot_reject_is_refused_by_name(scorer):
    lacking = LogisticRegression().fit(X, Y)
    for estimator in (lacking, make_pipeline(StandardScaler(), lacking).fit(X, Y)):
        with pytest.raises(DecisionsError, match="which LogisticRegression lacks; score a Cascade"):
            scorer(estimator, X, Y)


def test_labels_and_weights_must_fit_the_rows():
    with pytest.raises(DecisionsError, match="240 labels"):
        aurc(clone(CASCADE).fit(X, Y), X, Y[:3])
    with pytest.raises(DecisionsError, match="one number >= 0"):
        aurc(clone(CASCADE).fit(X, Y), X, Y, -np.ones(len(Y)))
