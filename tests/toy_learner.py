"""A learner of one's own with fits in batches: the nearest mean, many source sets at once.

It plugs in by `CascadeSearchCV(NearestMean())`, without a change of the package.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from emsco.learners.estimator_learner import EstimatorLearner


def softmax(scores):
    scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return scores / scores.sum(axis=-1, keepdims=True)


class NearestMean(ClassifierMixin, BaseEstimator):
    """The closer a row is to the mean of a class, the likelier that class."""

    def fit(self, X, y):
        X, y = validate_data(self, X, y)
        self.classes_ = np.unique(y)
        self.means_ = np.array([X[y == label].mean(axis=0) for label in self.classes_])
        return self

    def predict_proba(self, X):
        check_is_fitted(self)
        X = validate_data(self, X, reset=False)
        return softmax(-((X[:, None] - self.means_) ** 2).sum(axis=2))

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def emsco_learner(self):
        return NearestMeanLearner(self)


class NearestMeanLearner(EstimatorLearner):
    """Stages as of any estimator; source sets in batches: distances are sums over columns."""

    is_calibrated = True

    def fits(self, training, folds):
        training.refuse_missing_class(folds)
        return NearestMeanFits.learn(training, folds)


@dataclass(frozen=True)
class NearestMeanFits:
    """For each fold, the distance of every test row to every mean, a source at a time."""

    distances: tuple
    n_rows: int

    chunk = 4
    is_slow = False

    @classmethod
    def learn(cls, training, folds):
        classes, parts = training.classes, []
        for fold in folds:
            tested = fold.test_columns or training.columns
            labels = training.labels[fold.train]
            parts.append(
                np.array(
                    [
                        sum(
                            _squares(
                                np.asarray(training.columns[f])[fold.train],
                                labels,
                                np.asarray(tested[f])[fold.test],
                                classes,
                            )
                            for f in source
                        )
                        for source in training.sources
                    ]
                )
            )
        return cls(tuple(parts), sum(len(fold.test) for fold in folds))

    def outcomes(self, sets):
        parts = [softmax(-np.tensordot(sets.astype(float), d, axes=1)) for d in self.distances]
        probability = np.concatenate(parts, axis=1)
        return probability.max(axis=2), probability.argmax(axis=2).astype(np.uint8)


def _squares(train, labels, test, classes):
    """Give rows x classes."""
    means = np.array([train[labels == label].mean() for label in classes])
    return (test[:, None] - means) ** 2
