"""Fits one classifier for all source sets; each stage uses it with the sources bought so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import _check_method_params

from emsco.learners.estimator_learner import EstimatorLearner, EstimatorStage
from emsco.learners.protocol import Fold, Learner, Outcomes, SetFits
from emsco.learners.training import Training
from emsco.rows.columns import Columns, assemble


class MaskedLearner(EstimatorLearner):
    """Fits a `MaskedClassifier` once and uses it for any set of sources."""

    is_one_model = True
    is_calibrated = True

    def fit(self, training: Training, features: tuple[str, ...], number: int | None = None) -> Any:
        """Return the model, fitted once, for rows that have these columns."""
        del number
        if "model" not in training.shared:
            training.shared["model"] = _fit_one(
                training, training.columns, training.labels, training.params
            )
        return training.shared["model"].having(training.names.index(name) for name in features)

    def fits(self, training: Training, folds: Sequence[Fold]) -> SetFits:
        """Fit one model per fold, which predicts for every set."""
        return MaskedFits.learn(training, folds)

    def separate(self) -> Learner:
        """Return a learner that fits a calibrated classifier of the same kind for each set."""
        return EstimatorLearner(self.estimator.separate())


def _fit_one(
    training: Training, columns: Columns, labels: NDArray[Any], params: dict[str, Any]
) -> Any:
    """Fit a clone on all columns, and pass it the sources."""
    names = tuple(training.columns)
    stage = EstimatorStage(
        clone(training.learner.estimator), None, training.container, names, training.classes
    )
    fit_params = params | {"sources": _positions(training.sources, names)}
    return stage.fit(columns, labels, fit_params).estimator


def _positions(sources: Sequence[Sequence[str]], names: Sequence[str]) -> list[list[int]] | None:
    """Return the positions of each source's columns; None if no sources are given."""
    place = {name: i for i, name in enumerate(names)}
    return [[place[column] for column in columns] for columns in sources] or None


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
        columns, labels, names = training.columns, training.labels, tuple(training.columns)
        fitted, test = [], []
        for fold in folds:
            own = dict(_check_method_params(labels, training.params, indices=fold.train))
            train = {name: column[fold.train] for name, column in columns.items()}
            fitted.append(_fit_one(training, train, labels[fold.train], own))
            test.append(assemble(training.container, names, fold.tested(columns, names)))
        return cls(tuple(fitted), tuple(test), sum(len(fold.test) for fold in folds))

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
