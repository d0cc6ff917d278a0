"""Learners that fit stages: logistic regressions in batches, any estimator, one masked model."""

from __future__ import annotations

from typing import Any

from emsco.learners.protocol import Learner


def learner_of(estimator: Any) -> Learner:
    """Return the learner for the `estimator` that the user gave; each is loaded when it is needed.

    An estimator may provide its own by a method `emsco_learner()`, as `MaskedClassifier` does.
    """
    if estimator is None:
        from emsco.learners.logistic import LogisticLearner

        return LogisticLearner()
    if hasattr(estimator, "emsco_learner"):
        own: Learner = estimator.emsco_learner()
        return own
    from emsco.learners.estimator_learner import EstimatorLearner

    return EstimatorLearner(estimator)
