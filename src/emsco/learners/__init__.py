"""Learners that fit stages: logistic regressions in batches, any estimator, one masked model."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from emsco.learners.protocol import Learner

# Each learner and its module. An estimator may provide its own learner by a method
# `emsco_learner()`, as `MaskedClassifier` does.
LEARNERS = {
    "LogisticLearner": "logistic",  # estimator=None
    "EstimatorLearner": "estimator_learner",  # any classifier
    "MaskedLearner": "masked_classifier",  # a MaskedClassifier
}


def learner_of(estimator: Any) -> Learner:
    """Return the learner for the `estimator` that the user gave."""
    if estimator is None:
        learner: Learner = _take("LogisticLearner")()
    elif hasattr(estimator, "emsco_learner"):
        learner = estimator.emsco_learner()
    else:
        learner = _take("EstimatorLearner")(estimator)
    return learner


def _take(name: str) -> Any:
    return getattr(import_module(f"emsco.learners.{LEARNERS[name]}"), name)
