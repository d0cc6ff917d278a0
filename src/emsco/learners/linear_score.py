"""The score of a linear stage as a sum: a base, and what each feature adds against a reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from emsco.learners.estimator_learner import EstimatorStage
from emsco.learners.final_model import FinalStage
from emsco.learners.logistic import LinearStage, SelfEncodingStage, weights_by_feature
from emsco.learners.protocol import Encodings, Judge
from emsco.rows.columns import Column, plain
from emsco.rows.encoding import Array, Category, CategoryTerm, Number

# What a column, as it was read, adds to the scores: scores x rows.
Adds: TypeAlias = Callable[[Column], Array]

_MEANS = "a row with the training mean of every number"
_ZEROS = "a row with the value 0 of every number"
_FILLED = ", counting the median where training had none"
_LEVELS = ", and the average of the values of every category, each counted once"


@dataclass(frozen=True)
class LinearScore:
    """The scores of a linear stage, split by feature.

    Parameters
    ----------
    adds : mapping of feature to function
        What a column adds to each score, scores x rows.
    base : array
        The scores of the reference.
    reference : str
        The reference, in words.
    """

    adds: Mapping[str, Adds]
    base: Array
    reference: str

    def contributions(
        self, columns: Mapping[str, Column], codes: NDArray[np.intp]
    ) -> tuple[Array, Array]:
        """Return the base of each row, and what each feature adds to it, features x rows.

        `codes` has the class of each row. A class is scored against the mean of the others; with
        two classes, this is its log-odds.
        """
        base = np.repeat(self.base[:, None], len(codes), axis=1)
        with np.errstate(over="ignore", invalid="ignore"):  # for values near the largest float
            added = [_against_others(add(columns[f]), codes) for f, add in self.adds.items()]
        return _against_others(base, codes), np.array(added)


def _against_others(scores: Array, codes: NDArray[np.intp]) -> Array:
    """Turn scores x rows into the score of each row's class against the mean of the others."""
    if len(scores) == 1:  # the log-odds of the second class
        scores = np.vstack([-scores, scores]) / 2
    own: Array = np.take_along_axis(scores, codes[None], axis=0)[0]
    others: Array = (np.add.reduce(scores) - own) / (len(scores) - 1)
    return own - others


def linear_score(judge: Judge, features: Sequence[str], encodings: Encodings) -> LinearScore | None:
    """Split the score of a stage by feature; None if it is not known to be a sum over features.

    `features` are the columns of the stage in the order of X.
    """
    stage = judge.stage if isinstance(judge, SelfEncodingStage) else judge
    if isinstance(stage, LinearStage):
        return _of_default(stage, features, encodings)
    return _of_estimator(stage) if isinstance(stage, EstimatorStage) else None


def why_not_linear(judge: Judge, number: int) -> str:
    """Return why the score of a stage cannot be split by feature."""
    if isinstance(judge, FinalStage):
        return f"Stage {number} is a final model, and only its answer is known."
    return (
        "Contributions are known for the default classifier, and for LogisticRegression alone or "
        f"after StandardScaler; stage {number} is judged by {_describe(judge.estimator)}."
    )


def _of_default(stage: LinearStage, features: Sequence[str], encodings: Encodings) -> LinearScore:
    adds: dict[str, Adds] = {}
    base = stage.fitted.intercepts.copy()
    blocks = weights_by_feature(features, encodings, stage.fitted.weights)
    for feature, block in zip(features, blocks, strict=True):
        term = encodings[feature].term(block)
        if isinstance(term, CategoryTerm) and block.size:
            mean = block.mean(axis=1)
            base += mean
            term = replace(term, table=term.table - mean[:, None])
        adds[feature] = term
    used = [encodings[feature] for feature in features]
    filled = _FILLED * any(isinstance(one, Number) and one.missing_seen for one in used)
    levels = _LEVELS * any(isinstance(one, Category) for one in used)
    return LinearScore(adds, base, _MEANS + filled + levels)


def _of_estimator(stage: EstimatorStage) -> LinearScore | None:
    scaler, model = _scaler_and_model(stage.estimator)
    if model is None:
        return None
    weights, base = np.asarray(model.coef_, float), np.asarray(model.intercept_, float).copy()
    centre = np.zeros(weights.shape[1])
    if scaler is not None:
        weights = weights / (1.0 if scaler.scale_ is None else scaler.scale_)
        centre = centre if scaler.mean_ is None else scaler.mean_
        if not scaler.with_mean:
            base += weights @ centre
    adds = {
        feature: partial(_slope, weights[:, [place]], float(centre[place]))
        for place, feature in enumerate(stage.features)
    }
    return LinearScore(adds, base, _ZEROS if scaler is None else _MEANS)


def _slope(slope: Array, centre: float, column: Column) -> Array:
    added: Array = slope * (plain(column).astype(np.float64) - centre)
    return added


def _scaler_and_model(estimator: Any) -> tuple[StandardScaler | None, LogisticRegression | None]:
    """Return a logistic regression and its scaler, if the estimator has no other steps."""
    steps = [step for _, step in estimator.steps] if type(estimator) is Pipeline else [estimator]
    kinds = [type(step) for step in steps]
    if kinds not in ([LogisticRegression], [StandardScaler, LogisticRegression]):
        return None, None
    model = steps[-1]
    # Up to scikit-learn 1.7, probabilities could be computed from scores in other ways.
    is_usual = getattr(model, "multi_class", "deprecated") in ("auto", "deprecated")
    if not is_usual or (len(model.classes_) > 2 and model.solver == "liblinear"):
        return None, None
    return (steps[0] if len(steps) == 2 else None), model


def _describe(estimator: Any) -> str:
    if not isinstance(estimator, Pipeline):
        return type(estimator).__name__
    return f"Pipeline({', '.join(type(step).__name__ for _, step in estimator.steps)})"
