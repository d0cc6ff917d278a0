"""For the tests of `CascadeSearchCV`: small problems, and cross-validation by hand."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import PredefinedSplit

from emsco import (
    CascadeClassifier,
    CascadeSearchCV,
    Costs,
    Decisions,
    Review,
    Source,
    evaluate,
)
from emsco.datasets import make_costly_classification

N = 240
X, CODES, COSTS = make_costly_classification(N, 3, class_sep=1.5, random_state=1)
Y = np.where(CODES == 1, "sick", "well")
N_SETS = 2**3 - 1
HALVES = PredefinedSplit(np.repeat([-1, 0], N // 2))  # one split: the second half is tested

RICH = Costs(
    [
        Source("asked", features=["s0_0", "s0_1"], cost=0),
        Source("blood", features=["s1_0", "s1_1"], cost=2.5, setup="draw", latency=2),
        Source("scan", features=["s2_0", "s2_1"], cost=4.1, setup="draw", latency=5),
        Source("ratio", features=["s3_0", "s3_1"], cost=0.3, requires=["asked", "blood"]),
    ],
    setups={"draw": 1.2},
    review=Review(3, latency=9, accuracy=0.9),
    unit="EUR",
)
RICH_X, RICH_CODES, _ = make_costly_classification(
    N, 4, features_per_source=2, class_sep=0.8, random_state=1
)
RICH_Y = np.where(RICH_CODES == 1, "sick", "well")


def search_for(estimator=None, **params):
    """Make a small search; luck, which takes as long as the rest, is measured where it is asked."""
    small = {"costs": COSTS, "max_stages": 2, "cv": 3, "random_state": 0, "luck": False}
    return CascadeSearchCV(estimator, **(small | params))


def some_of(front, most=8):
    return front[:: -(-len(front) // most)]


def alone(search, candidate):
    """Make the cascade of a candidate without any search."""
    return CascadeClassifier(
        search.estimator,
        design=candidate.design,
        threshold=candidate.threshold,
        costs=search.costs_,
    )


def decided_by_hand(search, candidate, splits, X=X, y=Y):
    """Decide as anyone would: fit on each training fold, decide its test fold."""
    decisions, truth = [], []
    for train, test in splits:
        cascade = alone(search, candidate).fit(X.iloc[train], y[train])
        decisions.append(cascade.decide(X.iloc[test]))
        truth.append(y[test])
    return Decisions.concatenate(decisions), np.concatenate(truth)


def by_hand(search, candidate, splits, X=X, y=Y):
    """Evaluate a candidate as anyone would."""
    return evaluate(*decided_by_hand(search, candidate, splits, X, y))


def counted(evaluation):
    """Give everything that an evaluation counts, money and time without rounding."""
    e = evaluation
    by_class = [dict(count) for count in (e.class_rows, e.class_accepted, e.class_right)]
    by_class.append({label: count for label, count in e.label_accepted.items() if count})
    money_and_time = [round(value, 6) for value in (e.paid, e.waited, e.worst_latency)]
    return [e.rows, e.accepted, e.right, *by_class, *money_and_time]


def assert_is_by_hand(search, splits, X=X, y=Y, most=8):
    """Hold some of the front, and all sources at once, against cross-validation by hand."""
    splits = list(splits)
    for candidate in [*some_of(search.front_, most), search.all_sources_]:
        expected = by_hand(search, candidate, splits, X, y)
        assert counted(candidate.evaluation) == counted(expected), str(candidate)


class NearestMean(ClassifierMixin, BaseEstimator):
    """A classifier that is quick, and counts its fits."""

    fits = 0

    def fit(self, X, y):
        type(self).fits += 1
        self.classes_ = np.unique(y)
        self.means_ = np.array([X[y == label].mean(axis=0) for label in self.classes_])
        return self

    def predict_proba(self, X):
        near = np.exp(-((X[:, None] - self.means_) ** 2).mean(axis=2))
        return near / near.sum(axis=1, keepdims=True)


class Counting(LogisticRegression):
    """A classifier that counts its fits."""

    fits = 0

    def fit(self, X, y, sample_weight=None):
        type(self).fits += 1
        return super().fit(X, y, sample_weight)


def count_fits(action):
    Counting.fits = 0
    action()
    return Counting.fits
