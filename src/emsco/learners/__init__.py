"""What fits stages: logistic regressions in batches, any estimator, one masked model."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from emsco.learners.protocol import Learner

# Which learner fits what, and the module it comes from. An estimator of the user's may name its own
# by a method `emsco_learner()`.
LEARNERS = {
    "LogisticLearner": "logistic",  # estimator=None
    "EstimatorLearner": "estimator",  # any classifier
    "OneModelLearner": "one_model",  # a MaskedClassifier
}


def learner_of(estimator: Any) -> Learner:
    """Choose what fits stages by what the user gave as `estimator`."""
    if estimator is None:
        learner: Learner = _take("LogisticLearner")()
    elif hasattr(estimator, "emsco_learner"):
        learner = estimator.emsco_learner()
    else:
        learner = _take("EstimatorLearner")(estimator)
    return learner


def _take(name: str) -> Any:
    return getattr(import_module(f"emsco.learners.{LEARNERS[name]}"), name)
