"""Fits one classifier for all source sets; each stage uses it with the sources bought so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from emsco.learners.estimator_learner import EstimatorLearner, EstimatorStage
from emsco.learners.protocol import Fold, Learner, Outcomes, SetFits
from emsco.learners.training import Training
from emsco.rows.columns import assemble


class MaskedLearner(EstimatorLearner):
    """Fits a `MaskedClassifier` once and uses it for any set of sources."""

    is_one_model = True
    is_calibrated = True

    def fit(self, training: Training, features: tuple[str, ...], number: int | None = None) -> Any:
        """Return the model, fitted once, for rows that have these columns."""
        del number
        if "model" not in training.shared:
            training.shared["model"] = _fit_one(training)
        return training.shared["model"].having(training.names.index(name) for name in features)

    def fits(self, training: Training, folds: Sequence[Fold]) -> SetFits:
        """Fit one model per fold, which predicts for every set."""
        return MaskedFits.learn(training, folds)

    def separate(self) -> Learner:
        """Return a learner that fits a calibrated classifier of the same kind for each set."""
        return EstimatorLearner(self.estimator.separate())


def _fit_one(training: Training) -> Any:
    """Fit a clone on all columns, and pass it the positions of each source's columns."""
    names = tuple(training.columns)
    place = {name: i for i, name in enumerate(names)}
    sources = [[place[column] for column in columns] for columns in training.sources]
    params = training.params | {"sources": sources or None}
    estimator = clone(training.learner.estimator)
    stage = EstimatorStage(estimator, None, training.container, names, training.classes)
    return stage.fit(training.columns, training.labels, params).estimator


@dataclass(frozen=True)
class MaskedFits:
    """One classifier per fold, fitted once, that predicts for every set."""

    fitted: tuple[Any, ...]  # a `MaskedClassifier` a fold
    test: tuple[Any, ...]  # rows with all columns, one table per fold
    n_rows: int

    chunk = 256  # sets per task: enough to share a walk through the trees, few enough for workers
    is_slow = False

    @classmethod
    def learn(cls, training: Training, folds: Sequence[Fold]) -> MaskedFits:
        """Fit one clone per fold, and pass it the sources."""
        training.refuse_missing_class(folds)
        names = tuple(training.columns)
        fitted = tuple(_fit_one(training.take(fold.train)) for fold in folds)
        test = tuple(
            assemble(training.container, names, fold.tested(training.columns, names))
            for fold in folds
        )
        return cls(fitted, test, sum(len(fold.test) for fold in folds))

    @property
    def parts(self) -> tuple[MaskedFits, ...]:
        """One for each fold."""
        folds = zip(self.fitted, self.test, strict=True)
        return tuple(MaskedFits((masked,), (rows,), len(rows)) for masked, rows in folds)

    def outcomes(self, sets: NDArray[np.bool_]) -> Outcomes:
        """Return confidences and label codes, sets x evaluation rows."""
        probability = np.concatenate(
            [
                masked.predict_proba_of(rows, sets)
                for masked, rows in zip(self.fitted, self.test, strict=True)
            ],
            axis=1,
        )
        return probability.max(axis=2), probability.argmax(axis=2).astype(np.uint8)
