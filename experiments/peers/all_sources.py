"""All sources bought at once, with a reject option."""

from __future__ import annotations

from typing import Any

import numpy as np

from emsco import CascadeClassifier
from experiments.peers.method import Codes, Model, Scored, Task, Thresholded


def all_sources(task: Task) -> Thresholded:
    """Tune nothing but the threshold."""

    def fit(_: None, X: Any, y: Codes) -> Model:
        fitted = CascadeClassifier(task.estimator, costs=task.costs).fit(X, y)

        def score(rows: Any) -> Scored:
            probability = fitted.predict_proba(rows)
            paid = np.full(len(rows), task.costs.total)
            return Scored(probability.argmax(axis=1), probability.max(axis=1), paid)

        return score

    return Thresholded(task, [None], fit)
