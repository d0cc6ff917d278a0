"""What each feature contributed to the score of a decision that a linear stage has made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import fsum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from emsco.cascade.decision_loop import Plan
from emsco.core.decisions import ACCEPTED, LOW_CONFIDENCE, Decisions
from emsco.exceptions import ColumnsError, quoted
from emsco.learners.estimator_learner import EstimatorStage
from emsco.learners.final_model import FinalStage
from emsco.learners.logistic import LinearStage, SelfEncodingStage, weights_by_feature
from emsco.learners.protocol import Encodings, Judge
from emsco.rows.column_reader import ColumnReader
from emsco.rows.columns import Column, Columns, object_array, plain
from emsco.rows.encoding import Array, Category, CategoryTerm, Number
from emsco.rows.text_encoding import Text

# What a column, as it was read, adds to the scores: scores x rows.
Adds: TypeAlias = Callable[[Column], Array]

_MEANS = "a row with the training mean of every number"
_ZEROS = "a row with the value 0 of every number"
_FILLED = ", counting the median where training had none"
_TEXTS = " and the mean score of every text"
_LEVELS = ", and the average of the values of every category, each counted once"
_TOO_LARGE = "A value is so large that what it contributes cannot be held."


@dataclass(frozen=True)
class Factors:
    """What each feature contributed to one decision, against a stated reference.

    The score of a linear stage is a sum. `score` says how much more probable the label is than the
    other classes: for two classes it is the log-odds of the label, for more classes the logarithm
    of its probability minus the mean logarithm of the others. It is `base`, which a row at the
    reference would have, plus what each feature adds. A positive contribution speaks for the label.

    Parameters
    ----------
    label : object
        The label of the decision.
    stage : int
        The stage that the row left at, counted from 0.
    features : tuple of (str, float), default=()
        Each feature with its contribution, the largest first, whatever its sign. Empty: there are
        none, and `why_none` says why.
    base : float, default=None
        The score at the reference. None: there are no contributions.
    reference : str, default=""
        The row that contributions are measured from, in words.
    why_none : str, default=""
        Why there are no contributions.

    Examples
    --------
    >>> from emsco.cascade.factors import Factors
    >>> found = Factors(
    ...     "sick", 1, features=(("marker", 1.75), ("age", -0.5)), base=-0.25,
    ...     reference="a row at the mean of training",
    ... )
    >>> found.score
    1.0
    >>> print(found)
    'sick' at stage 1: score 1
      -0.25  base
      +1.75  marker
       -0.5  age
    The base is the score of a row at the mean of training.
    >>> print(Factors("well", 0, why_none="Stage 0 is not linear."))
    'well' at stage 0: no factors. Stage 0 is not linear.
    """

    label: Any
    stage: int
    features: tuple[tuple[str, float], ...] = ()
    base: float | None = None
    reference: str = ""
    why_none: str = ""

    @property
    def score(self) -> float | None:
        """The sum of the base and all contributions; None where there are none."""
        if self.base is None:
            return None
        return fsum([self.base, *(contribution for _, contribution in self.features)])

    def __str__(self) -> str:
        head = f"{self.label!r} at stage {self.stage}: "
        if self.base is None:
            return f"{head}no factors. {self.why_none}"
        lines = [(self.base, "base")]
        lines += [(contribution, feature) for feature, contribution in self.features]
        width = max(len(f"{amount:+.4g}") for amount, _ in lines)
        rows = [f"{f'{amount:+.4g}':>{width + 2}}  {name}" for amount, name in lines]
        base = f"The base is the score of {self.reference}."
        return "\n".join([f"{head}score {self.score:.4g}", *rows, base])


def factors_of(
    plan: Plan, readers: Mapping[str, ColumnReader], values: Columns, decisions: Decisions
) -> list[Factors]:
    """Return what each feature contributed to each decision, or why that is unknown."""
    found: list[Factors] = [
        Factors(label, stage, why_none=f"The row was rejected for the reason {reason!r}.")
        for label, stage, reason in zip(
            decisions.label.tolist(),
            decisions.exit_stage.tolist(),
            decisions.reason.tolist(),
            strict=True,
        )
    ]
    judged = np.isin(decisions.reason.astype(str), (ACCEPTED, LOW_CONFIDENCE))
    code_of = {label: code for code, label in enumerate(plan.classes.tolist())}
    bought: set[str] = set()
    for number, stage in enumerate(plan.stages):
        bought.update(stage.features)
        (rows,) = (judged & (decisions.exit_stage == number)).nonzero()
        if not rows.size:
            continue
        features = [name for name in readers if name in bought]
        encodings = {f: e for f in features if (e := readers[f].encoding) is not None}
        score = linear_score(stage.judge, features, encodings)
        labels = decisions.label[rows].tolist()
        if score is None:
            why = why_not_linear(stage.judge, number)
            stage_factors = [Factors(label, number, why_none=why) for label in labels]
        else:
            columns = {f: readers[f].read(_taken(values, f, rows)) for f in features}
            codes = np.array([code_of[label] for label in labels], dtype=np.intp)
            stage_factors = _linear_factors(score, columns, codes, labels, number)
        for row, factors in zip(rows.tolist(), stage_factors, strict=True):
            found[row] = factors
    return found


def _linear_factors(
    score: LinearScore,
    columns: Mapping[str, Column],
    codes: NDArray[np.intp],
    labels: Sequence[Any],
    number: int,
) -> list[Factors]:
    """Return what each feature contributed to the rows of one linear stage."""
    names = list(score.adds)
    bases, added = score.contributions(columns, codes)
    order = np.argsort(-np.abs(added), axis=0, kind="stable")
    factors = []
    for row, label in enumerate(labels):
        amounts = added[:, row].tolist()
        if not np.isfinite(sum(amounts)):
            factors.append(Factors(label, number, why_none=_TOO_LARGE))
            continue
        features = tuple((names[place], amounts[place]) for place in order[:, row].tolist())
        factors.append(Factors(label, number, features, float(bases[row]), score.reference))
    return factors


def _taken(values: Columns, name: str, rows: NDArray[np.intp]) -> Column:
    if name not in values:
        raise ColumnsError(
            f"Factors need the values that a row was decided by; {quoted([name])} is missing."
        )
    column = values[name]
    if isinstance(column, list | tuple):
        column = object_array(column)
    return column[rows]


@dataclass(frozen=True)
class LinearScore:
    """The scores of a linear stage, split by feature."""

    adds: Mapping[str, Adds]  # what a column adds to each score
    base: Array  # the scores of the reference
    reference: str  # in words

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
    name = type(judge.estimator).__name__
    if isinstance(judge.estimator, Pipeline):
        name = f"Pipeline({', '.join(type(step).__name__ for _, step in judge.estimator.steps)})"
    return (
        "Contributions are known for the default classifier, and for LogisticRegression alone or "
        f"after StandardScaler; stage {number} is judged by {name}."
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
    texts = _TEXTS * any(isinstance(one, Text) for one in used)
    return LinearScore(adds, base, _MEANS + texts + filled + levels)


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
