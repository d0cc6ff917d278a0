"""Many classes are fitted by matrix products over all of them, to the same optimum."""

from __future__ import annotations

import time

import numpy as np
import pytest

from emsco import CascadeClassifier, CascadeSearchCV
from emsco.learners import _logistic_loss
from emsco.learners._logistic_loss import Loss, make_rows
from emsco.learners._newton import one_thread
from emsco.learners.logistic import default_estimator


def table(n_classes, n_rows, n_columns=3, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n_rows) % n_classes
    return 3 * rng.normal(size=(n_classes, n_columns))[y] + rng.normal(size=(n_rows, n_columns)), y


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [9, 30])
def test_the_curvature_is_that_of_every_pair_of_scores(monkeypatch, n_classes, weighted):
    rng = np.random.default_rng(1)
    X, y = table(n_classes, 700)
    rows = make_rows(X.T, y, rng.random(len(y)) if weighted else None)
    weights = rng.normal(size=((n_classes - 1) * 4, 1))
    gradient, curvature = Loss(rows, 1).evaluate(weights, curved=True)
    monkeypatch.setattr(_logistic_loss, "_MANY_SCORES", n_classes)
    by_pair = Loss(rows, 1).evaluate(weights, curved=True)
    np.testing.assert_array_equal(gradient, by_pair[0])
    np.testing.assert_allclose(curvature, by_pair[1], atol=1e-10)


def test_the_curvature_takes_a_few_times_as_long_as_the_gradient():
    """It took a thousand times as long: there was a product for every pair of classes."""
    X, y = table(120, 2400)
    loss = Loss(make_rows(X.T, y, None), 1)
    weights = np.zeros((119 * 4, 1))
    seconds = {}
    with one_thread():
        for curved in (False, True):
            times = []
            for _ in range(3):
                start = time.process_time()
                loss.evaluate(weights, curved=curved)
                times.append(time.process_time() - start)
            seconds[curved] = min(times)
    assert seconds[True] < 60 * seconds[False]


@pytest.mark.parametrize("weighted", [False, True])
def test_a_stage_of_many_classes_is_that_of_scikit_learn(weighted):
    X, y = table(40, 1200)
    weight = np.random.default_rng(2).random(len(y)) + 0.1 if weighted else None
    X = (X - np.average(X, axis=0, weights=weight)) / 3
    cascade = CascadeClassifier().fit(X, y, sample_weight=weight)
    (stage,) = cascade.estimators_
    usual = default_estimator().fit(X, y, sample_weight=weight)
    # The columns of a stage are scaled, which changes the penalty: compare on the same columns.
    encoded = np.column_stack([cascade.decider_.readers[f"x{i}"].encoding.encode(X[:, i])
                               for i in range(3)])  # fmt: skip
    usual.fit(encoded, y, sample_weight=weight)
    np.testing.assert_allclose(stage.coef_, usual.coef_, atol=1e-7)
    np.testing.assert_allclose(stage.intercept_, usual.intercept_, atol=1e-7)
    np.testing.assert_allclose(cascade.predict_proba(X), usual.predict_proba(encoded), atol=1e-8)


@pytest.mark.filterwarnings("ignore::emsco.exceptions.SelectionWarning")
def test_a_search_on_many_classes_evaluates_what_its_cascades_do():
    X, y = table(60, 1800, n_columns=2)
    split = [(np.arange(1200), np.arange(1200, 1800))]
    search = CascadeSearchCV(costs=[1, 2], cv=split, threshold=0.5, random_state=0, luck=False)
    search.fit(X, y)
    candidate = search.front_[0]
    cascade = search.cascade(candidate).fit(X[:1200], y[:1200])
    decisions = cascade.decide(X[1200:])
    assert decisions.accepted.sum() == candidate.evaluation.accepted
    assert (decisions.accepted & (decisions.label == y[1200:])).sum() == candidate.evaluation.right
