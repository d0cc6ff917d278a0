"""The default stage classifier: logistic regression on encoded columns, as plain arithmetic."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.utils import Tags

from emsco.learners._logistic_loss import class_base, make_rows
from emsco.learners._newton import fit_alone, one_thread
from emsco.learners.batched_logistic import BatchedLogistic
from emsco.learners.protocol import Encodings, Fold, Judge, SetFits, Stages
from emsco.learners.training import Training
from emsco.rows.column_reader import ColumnReader
from emsco.rows.columns import Columns, all_finite
from emsco.rows.encoding import Array, Number, Term

# exp(700) still fits a double; a score beyond it changes no probability.
LOWEST_SCORE = -700.0
HIGHEST_SCORE = float(np.finfo(np.float64).max)
_MANY_CLASSES = 32  # from here on, scikit-learn's products of every pair of classes take seconds


def default_estimator() -> LogisticRegression:
    """Return an unfitted classifier as used for `estimator=None`."""
    return LogisticRegression(C=1.0, solver="newton-cholesky", tol=1e-10, max_iter=1000)


def fit_default(X: Array, y: NDArray[Any], **params: Any) -> LogisticRegression:
    """Fit the default classifier to encoded columns.

    If the start is already the optimum, Newton's line search fails with a warning and lbfgs takes
    over: the result is correct, and a user could do nothing about the warning. If lbfgs fails too,
    it gives its own warning.
    """
    with warnings.catch_warnings():
        newton = "Line search of Newton solver"
        warnings.filterwarnings("ignore", message=newton, category=ConvergenceWarning)
        fitted: LogisticRegression = default_estimator().fit(X, y, **params)
    return fitted


@dataclass(frozen=True)
class LinearFit:
    """A fitted logistic regression as plain numbers that cannot be changed."""

    weights: Array  # scores x encoded columns
    intercepts: Array  # of each score
    iterations: tuple[int, ...]  # how many steps the fit took

    @classmethod
    def of(cls, weights: Array, intercepts: Array, steps: ArrayLike) -> LinearFit:
        """Copy weights and intercepts that were fitted in so many steps."""
        n_steps = tuple(np.atleast_1d(steps).tolist())
        return cls(_read_only_copy(weights), _read_only_copy(intercepts), n_steps)

    def estimator(self, classes: NDArray[Any]) -> LogisticRegression:
        """Return a scikit-learn estimator with these numbers."""
        made = default_estimator()
        made.classes_ = classes
        made.coef_, made.intercept_ = self.weights.copy(), self.intercepts.copy()
        made.n_iter_ = np.array(self.iterations, dtype=np.int32)
        made.n_features_in_ = self.weights.shape[1]
        return made


def _read_only_copy(numbers: Array) -> Array:
    copy = numbers.copy(order="K")  # so that a file has the same bytes
    copy.flags.writeable = False
    return copy


@dataclass(frozen=True)
class LinearStage:
    """A fitted logistic regression and its encoding, compiled to what each column adds to a score.

    Columns are added one after the other, row by row, so the order of additions, and with it the
    last bit of a score, is the same for one row and for a million. A matrix product would not be
    faster here, and its order of additions changes with the number of rows.
    """

    fitted: LinearFit
    classes: NDArray[Any]
    plain: tuple[str, ...]  # features that add slope * value
    slopes: Array  # scores x plain features
    others: tuple[tuple[str, Term], ...]  # features that add something else
    intercept: Array  # scores x 1

    @classmethod
    def compile(
        cls,
        features: Sequence[str],
        encoding: Encodings,
        fitted: LinearFit,
        classes: NDArray[Any],
    ) -> LinearStage:
        """Cut the weights into one block per feature, and include the encoding in them."""
        blocks = weights_by_feature(features, encoding, fitted.weights)
        plain, slopes, others = [], [], []
        intercept = fitted.intercepts[:, None].copy()
        for feature, block in zip(features, blocks, strict=True):
            learned = encoding[feature]
            if isinstance(learned, Number) and learned.is_plain:
                plain.append(feature)
                slopes.append(block / learned.scale)
                intercept -= slopes[-1] * learned.centre
            else:
                others.append((feature, learned.term(block)))
        none = np.empty((len(intercept), 0))
        stacked = np.hstack([none, *slopes])
        return cls(fitted, classes, tuple(plain), stacked, tuple(others), intercept)

    @cached_property
    def estimator(self) -> LogisticRegression:
        """The fitted classifier as a scikit-learn estimator: a copy, not used to decide."""
        return self.fitted.estimator(self.classes)

    def __call__(self, columns: Columns) -> Sequence[Array]:
        """Return the probability of each class, one value per row."""
        values = [columns[feature] for feature in self.plain]
        if len(self.intercept) == 1 and values and len(values[0]) == 1:
            return self._judge_one(values, columns)
        with np.errstate(over="ignore", invalid="ignore"):  # for values near the largest float
            score = self._plain_score(values)
            for feature, term in self.others:
                score = score + term(columns[feature])
            score = score + self.intercept
            if not all_finite(score):
                score = _bounded(score)
            return _logistic(score[0]) if len(score) == 1 else _softmax(score)

    def _plain_score(self, values: list[NDArray[Any]]) -> Array:
        """Add slope * value over the plain features, in their order."""
        if not values:
            return np.zeros((1, 1))
        total: Array = self.slopes[:, :1] * values[0]
        product = np.empty_like(total)
        for i in range(1, len(values)):
            total += np.multiply(self.slopes[:, i : i + 1], values[i], out=product)
        return total

    def _judge_one(self, values: list[NDArray[Any]], columns: Columns) -> Sequence[Array]:
        """Judge one row for two classes: the same additions, without the overhead of arrays."""
        score = self._first_slopes[0] * values[0].item()
        for slope, value in zip(self._first_slopes[1:], values[1:], strict=True):
            score += slope * value.item()
        for feature, term in self.others:
            score += term(columns[feature]).item()
        score += self.intercept.item()
        # As in `_logistic`, with Python's numbers: numpy's take twice as long one by one.
        score = 0.0 if isnan(score) else max(score, LOWEST_SCORE)
        yes = 1.0 / (1.0 + float(np.exp(-score)))
        return np.array([1.0 - yes]), np.array([yes])

    @cached_property
    def _first_slopes(self) -> list[float]:
        slopes: list[float] = self.slopes[0].tolist()
        return slopes


def weights_by_feature(features: Sequence[str], encoding: Encodings, weights: Array) -> list[Array]:
    """Split weights into one block per feature, each with a column per encoded column."""
    ends = np.cumsum([encoding[feature].width for feature in features])
    return np.split(weights, ends[:-1], axis=1)


def _bounded(score: Array) -> Array:
    """Bound scores that overflowed; if infinities cancel, every class gets the same score."""
    bounded = np.clip(score, -HIGHEST_SCORE, HIGHEST_SCORE)
    bounded[:, np.isnan(score).any(axis=0)] = 0.0
    return bounded


def _logistic(score: Any) -> Sequence[Any]:
    yes = 1.0 / (1.0 + np.exp(-np.maximum(score, LOWEST_SCORE)))
    return 1.0 - yes, yes


def _softmax(score: Array) -> Sequence[Array]:
    odds = np.exp(score - score.max(axis=0))
    shares: Array = odds / np.add.accumulate(odds, axis=0)[-1]  # in a fixed order, as for scores
    return list(shares)


@dataclass(frozen=True)
class SelfEncodingStage:
    """A stage that encodes its columns itself, because another stage needs them as given."""

    readers: Mapping[str, ColumnReader]
    stage: Judge

    @property
    def fitted(self) -> Any:
        """The fitted weights."""
        return self.stage.fitted

    @property
    def estimator(self) -> Any:
        """The fitted classifier as a scikit-learn estimator."""
        return self.stage.estimator

    def __call__(self, columns: Columns) -> Sequence[Array]:
        """Return the probability of each class, one value per row."""
        return self.stage({f: reader.read(columns[f]) for f, reader in self.readers.items()})


@dataclass(frozen=True)
class LogisticLearner:
    """Fits the default classifier: one stage by scikit-learn, many sets or classes by products."""

    estimator = None
    encodes = True
    block_rows = 2**14  # few enough to stay in cache: a stage is plain arithmetic
    is_one_model = False
    is_calibrated = True
    takes_label_weights = True

    def tags(self, tags: Tags) -> Tags:
        """Set scikit-learn's tags: text and missing values are allowed."""
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        return tags

    def routed(self) -> LogisticRegression:
        """Return the estimator that metadata of `fit` is routed to; it takes weights."""
        return default_estimator().set_fit_request(sample_weight=True)

    def takes_weights(self) -> bool:
        """Return True: weights can be given."""
        return True

    def fit(
        self, training: Training, features: tuple[str, ...], number: int | None = None
    ) -> LinearFit:
        """Fit the classifier that sees these columns."""
        del number
        blocks = np.hstack([training.encoded(feature) for feature in features])
        if len(training.classes) >= _MANY_CLASSES:
            return _fit_many_classes(blocks, training.codes, **training.params)
        # Codes, because scikit-learn sorts labels in every fit, which is slow for text.
        fitted = fit_default(blocks, training.codes, **training.params)
        return LinearFit.of(fitted.coef_, fitted.intercept_, fitted.n_iter_)

    def judge(
        self, fitted: LinearFit, features: tuple[str, ...], stages: Stages, number: int
    ) -> LinearStage:
        """Compile the weights."""
        del number
        return LinearStage.compile(features, encodings_of(features, stages), fitted, stages.classes)

    def fits(self, training: Training, folds: Sequence[Fold]) -> SetFits:
        """Prepare to fit many sets at once."""
        refuse_params(training.params)
        return BatchedLogistic.learn(training, folds)

    def separate(self) -> LogisticLearner:
        """Return itself: it fits every set separately."""
        return self


def _fit_many_classes(
    X: Array, codes: NDArray[np.intp], sample_weight: Array | None = None
) -> LinearFit:
    """Fit the same classifier to many classes, with their curvature by matrix products."""
    rows = make_rows(X.T, codes, sample_weight)
    with one_thread():
        weights, n_steps = fit_alone(rows)
    by_class = class_base(rows.n_scores + 1) @ weights
    return LinearFit.of(by_class[:, 1:], by_class[:, 0], n_steps)


def refuse_params(names: Iterable[str]) -> None:
    """Refuse parameters of `fit` that the default classifier does not take."""
    for name in names:
        if name != "sample_weight":
            raise TypeError(f"The default classifier takes only sample_weight, got {name!r}.")


def encodings_of(features: Sequence[str], stages: Stages) -> Encodings:
    """Return the encodings of some columns."""
    readers = {feature: stages.reader(feature).encoding for feature in features}
    return {feature: encoding for feature, encoding in readers.items() if encoding is not None}
