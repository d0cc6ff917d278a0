"""L1 logistic regression whose penalties are in proportion to price^g; what is left is bought."""

from __future__ import annotations

import warnings
from itertools import product
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import l1_min_c

from emsco.rows.encoding import ColumnEncoding, learn, read
from experiments.paper.baselines import L1
from experiments.peers.method import (
    Array,
    Codes,
    Model,
    Scored,
    Task,
    Thresholded,
    alone,
    paid_for,
)

_STRENGTHS = np.geomspace(1.2, 1_000, 15)  # as multiples of the one that leaves nothing
_POWERS = (0.0, 0.5, 1.0)
_LEAST = 1e-3  # of the mean penalty: what is free is penalised a little, or it would be without end


def l1(task: Task) -> Thresholded:
    """Tune the strength, the power of the price, and the threshold."""
    price = alone(task.costs)[task.source_of]

    def fit(setting: tuple[float, float], X: Any, y: Codes) -> Model:
        strength, power = setting
        encoding = {name: learn(X[name].to_numpy(), name, np.ones(len(X))) for name in X.columns}
        width = [encoding[name].width for name in X.columns]
        penalty = price**power / (price**power).mean()
        scale = np.repeat(np.maximum(penalty, _LEAST), width)
        column = np.repeat(np.arange(len(width)), width)
        encoded = _encode(encoding, X) / scale
        least = l1_min_c(encoded, y, loss="log")
        model = LogisticRegression(
            C=strength * least, solver="liblinear", intercept_scaling=10, random_state=0, **L1
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(encoded, y)
        bought = np.zeros((1, len(task.costs.names)), dtype=np.bool_)
        bought[0, task.source_of[column[model.coef_[0] != 0]]] = True
        paid = paid_for(task.costs, bought)[0]

        def score(rows: Any) -> Scored:
            probability = model.predict_proba(_encode(encoding, rows) / scale)
            return Scored(
                probability.argmax(axis=1), probability.max(axis=1), np.full(len(rows), paid)
            )

        return score

    return Thresholded(task, list(product(_STRENGTHS, _POWERS)), fit)


def _encode(encoding: dict[str, ColumnEncoding], X: Any) -> Array:
    """Encode columns as the default stage does."""
    return np.hstack(
        [own.encode(read(own, X[name].to_numpy(), name)) for name, own in encoding.items()]
    )
