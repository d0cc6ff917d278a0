"""The default stage classifier: logistic regression on encoded blocks, and its bare arithmetic."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from emsco._columns import Columns, all_finite
from emsco._encoding import Array, ColumnEncoding, Number, Term, read

# exp(700) still fits a double; a score beyond it changes no probability.
_LOWEST_SCORE = np.float64(-700.0)
_HIGHEST_SCORE = np.finfo(np.float64).max


def default_estimator() -> LogisticRegression:
    """Make the classifier that stands behind `estimator=None`."""
    return LogisticRegression(C=1.0, solver="newton-cholesky", tol=1e-10, max_iter=1000)


def fit_default(X: Array, y: NDArray[Any], **params: Any) -> LogisticRegression:
    """Fit the default classifier to encoded columns.

    Where the start is the optimum already, Newton's line search finds nothing better, says so and
    leaves the rest to lbfgs: right, and nothing that a user could act on. If lbfgs fails in turn,
    it warns by itself.
    """
    with warnings.catch_warnings():
        newton = "Line search of Newton solver"
        warnings.filterwarnings("ignore", message=newton, category=ConvergenceWarning)
        fitted: LogisticRegression = default_estimator().fit(X, y, **params)
    return fitted


@dataclass(frozen=True)
class LinearStage:
    """A fitted logistic regression and its encoding, compiled to what each column adds to a score.

    Columns are added one after the other, each by operations on single rows: the order of
    additions, and so the last bit of a score, is the same for one row and for a million. A matrix
    product would be no faster here, and its order of additions changes with the number of rows.
    """

    plain: tuple[str, ...]  # features that add slope * value
    slopes: Array  # scores x plain features
    others: tuple[tuple[str, Term], ...]  # features that add something else
    intercept: Array  # scores x 1

    @classmethod
    def compile(
        cls,
        features: Sequence[str],
        encoding: Mapping[str, ColumnEncoding],
        estimator: LogisticRegression,
    ) -> LinearStage:
        """Cut the coefficients into one block a feature, and fold in the encoding."""
        ends = np.cumsum([encoding[feature].width for feature in features])
        blocks = np.split(estimator.coef_, ends[:-1], axis=1)
        plain, slopes, others = [], [], []
        intercept = estimator.intercept_[:, None].copy()
        for feature, block in zip(features, blocks, strict=True):
            learned = encoding[feature]
            if isinstance(learned, Number) and learned.is_plain:
                plain.append(feature)
                slopes.append(block / learned.scale)
                intercept -= slopes[-1] * learned.centre
            else:
                others.append((feature, learned.term(block)))
        none = np.empty((len(intercept), 0))
        return cls(tuple(plain), np.hstack([none, *slopes]), tuple(others), intercept)

    def __call__(self, columns: Columns) -> Sequence[Array]:
        """Give the probability of each class, a value a row."""
        values = [columns[feature] for feature in self.plain]
        if len(self.intercept) == 1 and values and len(values[0]) == 1:
            return self._judge_one(values, columns)
        with np.errstate(over="ignore", invalid="ignore"):  # of values near the largest float
            score = self._plain_score(values)
            for feature, term in self.others:
                score = score + term(columns[feature])
            score = score + self.intercept
            if not all_finite(score):
                score = _bounded(score)
            return _logistic(score[0]) if len(score) == 1 else _softmax(score)

    def _plain_score(self, values: list[NDArray[Any]]) -> Array:
        """Add slope * value over the plain features, in their order."""
        if not values:
            return np.zeros((1, 1))
        total: Array = self.slopes[:, :1] * values[0]
        product = np.empty_like(total)
        for i in range(1, len(values)):
            total += np.multiply(self.slopes[:, i : i + 1], values[i], out=product)
        return total

    def _judge_one(self, values: list[NDArray[Any]], columns: Columns) -> Sequence[Array]:
        """Judge one row between two classes: the same additions, without the price of arrays."""
        score = self._first_slopes[0] * values[0].item()
        for slope, value in zip(self._first_slopes[1:], values[1:], strict=True):
            score += slope * value.item()
        for feature, term in self.others:
            score += term(columns[feature]).item()
        score += self.intercept.item()
        no, yes = _logistic(np.float64(0.0 if isnan(score) else score))
        return np.array([no]), np.array([yes])

    @cached_property
    def _first_slopes(self) -> list[float]:
        slopes: list[float] = self.slopes[0].tolist()
        return slopes


def _bounded(score: Array) -> Array:
    """Bound scores that overflowed; a row whose infinities cancel has the same for every class."""
    bounded = np.clip(score, -_HIGHEST_SCORE, _HIGHEST_SCORE)
    bounded[:, np.isnan(score).any(axis=0)] = 0.0
    return bounded


def _logistic(score: Any) -> Sequence[Any]:
    yes = 1.0 / (1.0 + np.exp(-np.maximum(score, _LOWEST_SCORE)))
    return 1.0 - yes, yes


def _softmax(score: Array) -> Sequence[Array]:
    odds = np.exp(score - score.max(axis=0))
    shares: Array = odds / np.add.accumulate(odds, axis=0)[-1]  # in a fixed order, as above
    return list(shares)


@dataclass(frozen=True)
class ReadFirst:
    """A stage that reads its columns itself, because another wants them as they were given."""

    encodings: Mapping[str, ColumnEncoding]
    stage: LinearStage

    def __call__(self, columns: Columns) -> Sequence[Array]:
        """Give the probability of each class, a value a row."""
        return self.stage({f: read(own, columns[f]) for f, own in self.encodings.items()})
