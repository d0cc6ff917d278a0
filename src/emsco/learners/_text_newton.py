"""Logistic regression of hashed texts by Newton's method, without a matrix of all their buckets.

The loss is that of scikit-learn's `LogisticRegression`, divided by the weight of all rows. A trust
region with conjugate gradients needs only products with the texts, which are few numbers each.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize  # type: ignore[import-untyped]  # scipy has no types
from scipy.special import expit  # type: ignore[import-untyped]  # as above

from emsco.learners._newton import one_thread
from emsco.rows.encoding import Array
from emsco.rows.hashed_text import HashedTexts

PENALTY = 10.0  # C of scikit-learn: texts of length 1 need less of a penalty than scaled numbers
_TOLERANCE = 1e-3  # of the gradient of the mean loss
_STEPS = 100


def fit_text(hashed: HashedTexts, truth: NDArray[np.bool_], weight: Array) -> tuple[Array, float]:
    """Return the weights of columns and the intercept of the log-odds that a row is true.

    Both true and false rows must have a weight.
    """
    loss = _Loss(
        hashed, np.where(truth, 1.0, -1.0), weight / weight.sum(), 1 / (PENALTY * weight.sum())
    )
    start = np.zeros(hashed.n_columns + 1)
    start[-1] = np.log(loss.share[truth].sum() / loss.share[~truth].sum())
    with one_thread():
        found = minimize(
            loss.evaluate, start, jac=True, hessp=loss.curve, method="trust-ncg",
            options={"gtol": _TOLERANCE, "maxiter": _STEPS},
        )  # fmt: skip
    return found.x[:-1], float(found.x[-1])


class _Loss:
    """The mean loss of rows, as a function of the weights and the intercept."""

    def __init__(self, hashed: HashedTexts, sign: Array, share: Array, penalty: float) -> None:
        self._hashed = hashed
        self._sign = sign
        self.share = share
        self._penalty = penalty
        self._curved_at: tuple[Array, Array] | None = None  # a point, and the curvature of rows

    def evaluate(self, point: Array) -> tuple[float, Array]:
        """Return the loss and its gradient."""
        margin = self._sign * self._scores(point)
        loss = self.share @ np.logaddexp(0.0, -margin)
        loss += self._penalty * (point[:-1] @ point[:-1]) / 2
        return float(loss), self._sum(-self.share * self._sign * expit(-margin), point)

    def curve(self, point: Array, direction: Array) -> Array:
        """Return the product of the second derivatives with a direction."""
        if self._curved_at is None or self._curved_at[0] is not point:
            true = expit(self._scores(point))
            self._curved_at = point, self.share * true * (1 - true)
        return self._sum(self._curved_at[1] * self._scores(direction), direction)

    def _scores(self, point: Array) -> Array:
        scores: Array = self._hashed.score(point[:-1, None])[:, 0] + point[-1]
        return scores

    def _sum(self, by_row: Array, point: Array) -> Array:
        return np.append(self._hashed.sum_up(by_row) + self._penalty * point[:-1], by_row.sum())
