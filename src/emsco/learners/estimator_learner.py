"""Stages with the user's own classifier, which gets its columns in the container of X."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import _check_method_params, has_fit_parameter

from emsco.exceptions import ColumnsError, ModelError, ValuesError, quoted
from emsco.learners.protocol import Fold, Learner, Outcomes, SetFits, Stages
from emsco.learners.training import Training
from emsco.rows.columns import Columns, assemble, has_missing, plain

_ROUNDING = 1e-5  # of a probability in single precision
_SUM = 0.01  # that a row may be off 1: estimators add up many rounded numbers


@dataclass(frozen=True)
class EstimatorStage:
    """The classifier of one stage, the columns it sees and their container."""

    estimator: Any
    number: int | None  # of the stage; None if there is no design yet
    container: str
    features: tuple[str, ...]
    classes: NDArray[Any]  # the labels, sorted

    @property
    def fitted(self) -> Any:
        """The fitted estimator."""
        return self.estimator

    def fit(self, columns: Columns, labels: NDArray[Any], params: dict[str, Any]) -> Self:
        """Fit the estimator on this stage's columns."""
        with self._explained(columns):
            self.estimator.fit(assemble(self.container, self.features, columns), labels, **params)
        return self

    def __call__(self, columns: Columns) -> Sequence[NDArray[np.float64]]:
        """Return the probability of each class, one value per row."""
        with self._explained(columns):
            answer = self.estimator.predict_proba(assemble(self.container, self.features, columns))
        n_rows = len(columns[self.features[0]])
        return list(read_probabilities(self.estimator, answer, self.classes, n_rows).T)

    @contextmanager
    def _explained(self, columns: Columns) -> Iterator[None]:
        """Name the stage and its columns if the estimator refuses them."""
        try:
            yield
        except (ValueError, TypeError, IndexError) as error:
            named = _columns_named(self.estimator, set(self.features))
            if named:
                raise ColumnsError(
                    f"A stage sees only the columns bought so far, here {quoted(self.features)}. A "
                    f"ColumnTransformer names {quoted(named)}; let it select from the columns "
                    "that it gets, with sklearn.compose.make_column_selector(dtype_include=...) "
                    "or make_column_selector(pattern=...)."
                ) from error
            missing = [f for f in self.features if has_missing(plain(columns[f]))]
            if not missing:
                raise
            stage = "A stage" if self.number is None else f"Stage {self.number}"
            raise ValuesError(
                f"{stage} has missing values in {quoted(missing)}, which "
                f"{type(self.estimator).__name__} may not support: {error}",
                column=missing[0],
            ) from error


def _columns_named(estimator: Any, held: set[str]) -> list[Any]:
    """List the positions, and the columns not held, that a ColumnTransformer names explicitly."""
    from sklearn.compose import ColumnTransformer  # slow to import, and rarely needed

    parts = [estimator, *getattr(estimator, "get_params", dict)().values()]
    lists = [
        [columns] if isinstance(columns, str | int) else columns
        for part in parts
        if isinstance(part, ColumnTransformer)
        for _, _, columns in part.transformers
        if not (callable(columns) or isinstance(columns, slice))
    ]
    return [name for names in lists for name in names if name not in held]


@dataclass(frozen=True)
class EstimatorLearner:
    """Fits any classifier with `predict_proba`: one clone per stage, or per set and fold."""

    estimator: Any

    encodes = False
    block_rows = 2**17  # many, because every call of an estimator takes some time
    is_one_model = False
    takes_label_weights = True

    @property
    def is_calibrated(self) -> bool:
        """Whether the estimator gives calibrated confidences."""
        return _is_calibrated(self.estimator)

    def tags(self, tags: Tags) -> Tags:
        """Set scikit-learn's tags as the estimator has them."""
        inner = get_tags(self.estimator)
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        tags.classifier_tags.multi_class = inner.classifier_tags.multi_class
        tags.classifier_tags.poor_score = inner.classifier_tags.poor_score
        return tags

    def routed(self) -> Any:
        """Return the estimator that metadata of `fit` is routed to."""
        return self.estimator

    def takes_weights(self) -> bool:
        """Return whether its `fit` takes `sample_weight`."""
        return bool(has_fit_parameter(self.estimator, "sample_weight"))

    def fit(self, training: Training, features: tuple[str, ...], number: int | None = None) -> Any:
        """Fit a clone on these columns."""
        stage = EstimatorStage(
            clone(self.estimator), number, training.container, features, training.classes
        )
        return stage.fit(training.columns, training.labels, training.params).estimator

    def judge(
        self, fitted: Any, features: tuple[str, ...], stages: Stages, number: int
    ) -> EstimatorStage:
        """Return the stage of a fitted estimator."""
        return EstimatorStage(fitted, number, stages.container, features, stages.classes)

    def fits(self, training: Training, folds: Sequence[Fold]) -> SetFits:
        """Prepare to fit sets one by one."""
        training.refuse_missing_class(folds)
        # Workers need the rows, and nothing that was learned from them.
        return EstimatorFits(training.by(self), tuple(folds))

    def separate(self) -> Learner:
        """Return itself: it fits every set separately."""
        return self


def _is_calibrated(estimator: Any) -> bool:
    if isinstance(estimator, Pipeline):
        return _is_calibrated(estimator[-1])
    if isinstance(estimator, LogisticRegression):
        return estimator.class_weight is None  # weights make one class overconfident
    return isinstance(estimator, CalibratedClassifierCV)


@dataclass(frozen=True)
class EstimatorFits:
    """Any classifier, with one clone per set and fold."""

    training: Training
    folds: tuple[Fold, ...]

    chunk = 1  # a fit takes long and shares nothing with others
    is_slow = False  # unknown; the table of outcomes measures it

    @property
    def n_rows(self) -> int:
        """The number of evaluation rows."""
        return sum(len(fold.test) for fold in self.folds)

    @property
    def parts(self) -> tuple[EstimatorFits, ...]:
        """One for each fold, so that workers have something to do if few sets are asked for."""
        return tuple(replace(self, folds=(fold,)) for fold in self.folds)

    def outcomes(self, sets: NDArray[np.bool_]) -> Outcomes:
        """Return confidences and label codes, sets x evaluation rows."""
        confidence = np.empty((len(sets), self.n_rows))
        label = np.empty((len(sets), self.n_rows), dtype=np.uint8)
        for i, members in enumerate(sets):
            label[i], _, confidence[i] = self.training.rule.judge(list(self.probability(members).T))
        return confidence, label

    def probability(self, members: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the probabilities that one set gives to the evaluation rows, rows x classes."""
        bought = [self.training.sources[source] for source in np.flatnonzero(members).tolist()]
        chosen = {feature for source in bought for feature in source}
        features = tuple(name for name in self.training.columns if name in chosen)
        return np.concatenate([self._probability(features, fold) for fold in self.folds])

    def _probability(self, features: tuple[str, ...], fold: Fold) -> NDArray[np.float64]:
        """Fit one set on a fold and return the probabilities of its test rows, rows x classes."""
        rows, columns, labels = self.training, self.training.columns, self.training.labels
        params = _check_method_params(labels, rows.params, indices=fold.train)
        estimator = clone(rows.learner.estimator)
        stage = EstimatorStage(estimator, None, rows.container, features, rows.classes)
        stage.fit({f: columns[f][fold.train] for f in features}, labels[fold.train], params)
        return np.column_stack(stage(fold.tested(columns, features)))


def read_probabilities(
    estimator: Any, answer: ArrayLike, classes: NDArray[Any], n_rows: int
) -> NDArray[np.float64]:
    """Return what `predict_proba` answered, one column per class, in the order of `classes`.

    The columns are those of the estimator's own `classes_`, whatever their order; an estimator
    without `classes_` must have the sorted order.
    """
    name = f"{type(estimator).__name__}.predict_proba"
    probability = np.asarray(answer, dtype=np.float64)
    if probability.shape != (n_rows, len(classes)):
        raise ModelError(
            f"{name} must return one row for each of {n_rows:,} rows and one column for each of "
            f"{len(classes)} classes, but the shape of its answer is {probability.shape}."
        )
    # Written so that NaN is refused as well.
    inside = (probability >= -_ROUNDING) & (probability <= 1 + _ROUNDING)
    if not inside.all():
        row = int(np.argmin(inside.all(axis=1)))
        value = probability[row][~inside[row]][0]
        raise ModelError(f"{name} returned {value:g} for row {row}, which is no probability.")
    total = probability.sum(axis=1)
    off = np.abs(total - 1) > _SUM
    if off.any():
        row = int(np.argmax(off))
        raise ModelError(
            f"The probabilities of {name} must sum to 1; those of row {row} sum to {total[row]:g}."
        )
    order = class_order(estimator, classes)
    return probability if order is None else probability[:, order]


def class_order(estimator: Any, classes: NDArray[Any]) -> list[int] | None:
    """Return the place of each class among the estimator's own; None if the order is the same."""
    own, wanted = np.ravel(getattr(estimator, "classes_", classes)).tolist(), classes.tolist()
    if own == wanted:
        return None
    place = {label: i for i, label in enumerate(own)}
    if len(own) != len(wanted) or not place.keys() >= set(wanted):
        raise ModelError(
            f"The `classes_` of {type(estimator).__name__} must be the labels it was fitted on, "
            f"{quoted(wanted)}, in any order; they are {quoted(own)}."
        )
    return [place[label] for label in wanted]
