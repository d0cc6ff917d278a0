"""The classifier for one given design: one fitted classifier a stage, exit as soon as sure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from numbers import Real
from os import PathLike
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.utils import Tags
from sklearn.utils._param_validation import HasMethods
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import (
    check_is_fitted,
    validate_data,
)

from emsco._columns import (
    NUMERIC,
    Column,
    Columns,
    all_finite,
    container_of,
    invalid,
    narrow,
    numbers,
    pick_columns,
    plain,
    read_columns,
    refuse_invalid,
    slice_columns,
    transpose_blocks,
    unmask,
)
from emsco._decide import Judge, Plan, Stage, decide_block
from emsco._encoding import ColumnEncoding, read
from emsco._estimator import check_final, logged, without_answers
from emsco._kept import Kept
from emsco._rows import FittedRows
from emsco._threshold import Threshold, resolve
from emsco._training import Training, read_rows, routed_estimator, tags_for
from emsco.costs import Costs, resolve_costs
from emsco.decisions import ACCEPTED, INVALID_VALUE, Decisions
from emsco.design import StageDesign
from emsco.exceptions import DesignError, quoted

# Rows decided at a time: few enough to stay in cache where a stage is bare arithmetic, many where
# every call of an estimator has its own price.
_LINEAR_BLOCK = 2**14
_ESTIMATOR_BLOCK = 2**17


class Guard(Protocol):
    """What `guard` must be: it learns columns and says which rows must not be judged."""

    def fit(self, columns: Mapping[str, NDArray[Any]]) -> Any:
        """Learn what the columns look like in training."""

    def reasons(self, columns: Mapping[str, NDArray[Any]]) -> NDArray[np.object_] | None:
        """Say for each row why it must be rejected, "" where it need not; None where none must."""


class CascadeClassifier(ClassifierMixin, BaseEstimator):
    """A classifier that buys features in stages and stops as soon as it is confident.

    Each stage's classifier sees every feature acquired so far. A row leaves at the first stage
    where the probability of the most probable class reaches that class's threshold; a row that is
    confident at none is rejected. `decide` tells the whole truth; `predict` and `predict_proba`
    answer for every row like any scikit-learn classifier: with the exit stage's answer, or the last
    stage's for a rejected row.

    Parameters
    ----------
    estimator : classifier with predict_proba, default=None
        Cloned and fitted once a stage, on that stage's columns in the container that X came in.
        None: logistic regression on encoded columns, which takes numbers, text, categories,
        booleans and missing values as they are.
    design : StageDesign, default=None
        Which sources are bought in which order. None: all at once.
    costs : Costs, mapping, sequence or path of a TOML file, default=None
        The prices. A mapping or a sequence prices features, by name or by position. None: every
        feature costs 1.
    threshold : float, mapping or tuple, default=0.75
        The confidence needed to accept, above 1 / number of classes: one number, one by class as
        {label: number}, or a tuple of those, one a stage. It is not an accuracy: raising it never
        raises coverage and never lowers cost, while accuracy may move either way.
    guard : object with fit(columns) and reasons(columns), default=None
        Learns the training columns; rows for which it gives a reason, and rows with an invalid
        value, are rejected for it. None: an invalid value raises.
    final : fitted model with predict, default=None
        The last stage, on all sources and as it is: it answers every row that gets there, so none
        is rejected. The design must use every source. Wrapped in scikit-learn's `FrozenEstimator`
        it stays fitted where the cascade is cloned.

    Attributes
    ----------
    classes_ : ndarray
        The labels.
    stages_ : tuple of tuple of str
        The sources that each stage buys.
    estimators_ : list of classifiers
        The fitted classifier of each stage.
    costs_ : Costs
        The prices, as resolved for the columns of X.
    design_ : StageDesign
        The design, aligned with `costs_`.
    thresholds_ : ndarray of shape (n_stages, n_classes)
        The threshold of each stage and class.
    guard_ : object
        The fitted guard; only where one was given.
    n_features_in_, feature_names_in_ : int, ndarray of str
        What `fit` saw, as in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from emsco import CascadeClassifier, StageDesign, evaluate
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(2, size=400)
    >>> cheap, dear = y + rng.normal(size=400), 4 * y + rng.normal(size=400)
    >>> X = np.column_stack([cheap, dear])
    >>> cascade = CascadeClassifier(design=StageDesign([0, 1]), costs=[1, 20], threshold=0.9)
    >>> decisions = cascade.fit(X[:200], y[:200]).decide(X[200:])
    >>> evaluation = evaluate(decisions, y[200:])
    >>> print(f"{evaluation.accuracy:.3f} of {evaluation.coverage:.3f} for {evaluation.cost:.2f}")
    0.966 of 0.880 for 17.50
    """

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012  # scikit-learn's own shape
        "estimator": [HasMethods(["fit", "predict_proba"]), None],
        "design": [StageDesign, None],
        "costs": [Costs, Mapping, "array-like", str, PathLike, None],
        "threshold": [Real, Mapping, tuple],
        "guard": [HasMethods(["fit", "reasons"]), None],
        "final": [HasMethods(["predict"]), None],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        design: StageDesign | None = None,
        costs: Any = None,
        threshold: Threshold = 0.75,
        guard: Guard | None = None,
        final: Any = None,
    ) -> None:
        self.estimator = estimator
        self.design = design
        self.costs = costs
        self.threshold = threshold
        self.guard = guard
        self.final = final

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, **params: Any
    ) -> Self:
        """Fit one classifier a stage.

        Parameters
        ----------
        X : numpy array, pandas or polars frame of shape (n_rows, n_features)
            The training rows.
        y : array of shape (n_rows,)
            Their labels, of at least two classes.
        sample_weight : array of shape (n_rows,), default=None
            How much each row counts, for the encoding and for the fits.
        **params : dict
            Passed on to the `fit` of every stage's estimator.
        """
        X = without_answers(self.final, X)
        columns, labels = read_rows(self, X, y)
        params = self._fit_params(sample_weight, params)
        costs = resolve_costs(self.costs, list(columns))
        sources = [costs.columns(name) for name in costs.names]
        training = Training(
            self.estimator, container_of(X), columns, labels, params, sources, final=self.final
        )
        self._fit(training)
        self._fitted_rows = FittedRows.of(X, columns, self._missing_seen)
        return self

    def _fit(self, training: Training | Kept) -> Self:
        """Fit on rows that are read already, or find in a file what was fitted."""
        self.classes_ = training.classes
        self._names = list(training.columns)
        self.costs_ = resolve_costs(self.costs, self._names)
        design = self.design or StageDesign(np.zeros(len(self.costs_.names), dtype=np.int64))
        self.design_ = design.align(self.costs_)
        self.stages_ = self.design_.stages
        self.thresholds_ = resolve(self.threshold, self.classes_.tolist(), len(self.stages_))
        acquired = [self._features(self.design_.acquired(i)) for i in range(len(self.stages_))]
        if self.final is not None:
            self._check_final()
        self._learn_columns(training, acquired[-1])
        fitted = [training.stage(features, i) for i, features in enumerate(acquired)]
        self.estimators_ = [estimator for estimator, _ in fitted]
        self._plan = self._make_plan([judge for _, judge in fitted], training.most_frequent)
        return self

    def decide(self, X: Any) -> Decisions:
        """Decide rows: buy stage by stage, exit when confident, reject where never.

        A frame is read by name: the columns of used sources must be there, others are ignored. An
        array is read by position.
        """
        blocks = self._blocks(X, by_name=True)
        return Decisions.concatenate([self._decide(block) for block in blocks])

    def predict(self, X: Any) -> NDArray[Any]:
        """Give a label for every row: the last stage bought decides, also where it rejects."""
        return np.concatenate([self._decide(block).label for block in self._blocks(X)])

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Give the probabilities of the last stage bought, a column a class."""
        parts = []
        for block in self._blocks(X):
            n_rows = len(next(iter(block.values())))
            # A row that no stage could judge, because the guard refused it, stays unknown.
            part = np.full((n_rows, len(self.classes_)), 1 / len(self.classes_))
            self._decide(block, probability=part)
            parts.append(part)
        return np.concatenate(parts)

    def get_metadata_routing(self) -> MetadataRouter:
        """Route the parameters of `fit` to the stages' estimators."""
        return MetadataRouter(owner=self).add(
            estimator=routed_estimator(self.estimator),
            method_mapping=MethodMapping().add(caller="fit", callee="fit"),
        )

    def __sklearn_tags__(self) -> Tags:
        return tags_for(self.estimator, super().__sklearn_tags__())

    def _fit_params(
        self, sample_weight: ArrayLike | None, params: dict[str, Any]
    ) -> dict[str, Any]:
        """Give what the `fit` of every stage's estimator receives, by scikit-learn's routing."""
        given = params if sample_weight is None else {**params, "sample_weight": sample_weight}
        if get_config()["enable_metadata_routing"]:
            return dict(process_routing(self, "fit", **given).estimator.fit)
        return given

    def _check_final(self) -> None:
        check_final(self.final, self.guard)
        if self.design_.unused:
            raise DesignError(
                f"A final model needs every source, and the design leaves out "
                f"{quoted(self.design_.unused)}."
            )

    def _features(self, sources: tuple[str, ...]) -> tuple[str, ...]:
        """Name what sources yield, in the order of X: a stage depends on the set alone."""
        chosen = {feature for source in sources for feature in self.costs_.columns(source)}
        return tuple(name for name in self._names if name in chosen)

    def _learn_columns(self, training: Training | Kept, used: tuple[str, ...]) -> None:
        """Learn the used columns: where missing values are known, encodings, and the guard."""
        self._missing_seen = {name: training.missing_seen(name) for name in used}
        self._encoding: dict[str, ColumnEncoding] = {}
        self._numbers: dict[str, bool] = {}
        if self.estimator is None:
            self._encoding = {name: training.encoding(name) for name in used}
        else:
            self._numbers = training.numeric(used)
        if self.guard is not None:
            self.guard_ = training.guarded(self.guard, used)

    def _make_plan(self, judges: Sequence[Judge], most_frequent: int) -> Plan:
        latencies = np.cumsum([self.costs_.latency_of(sources) for sources in self.stages_])
        last = len(self.stages_) - 1
        stages = [
            Stage(
                sources=sources,
                features=self._features(sources) + (logged(self.final) if i == last else ()),
                judge=judges[i],
                threshold=_one_or_each(self.thresholds_[i]),
                cost=self.costs_.of(self.design_.acquired(i)),
                latency=float(latencies[i]),
            )
            for i, sources in enumerate(self.stages_)
        ]
        return Plan(tuple(stages), self.classes_, default=most_frequent)

    def _blocks(self, X: Any, *, by_name: bool = False) -> Iterator[Columns]:
        """Read rows as blocks of columns that the stages can judge, or say why not."""
        check_is_fitted(self)
        size = _LINEAR_BLOCK if self.estimator is None else _ESTIMATOR_BLOCK
        if container_of(X) == "array":
            X = unmask(without_answers(self.final, X))
            X = validate_data(self, X, reset=False, dtype=None, ensure_all_finite=False)
            if X.dtype.kind in NUMERIC:
                return self._array_blocks(X, size)
            columns = read_columns(X, self._names)
        elif by_name and hasattr(self, "feature_names_in_"):
            columns = pick_columns(X, self._columns_read)
        else:
            rest = without_answers(self.final, X)
            validate_data(self, rest, reset=False, skip_check_array=True)
            columns = read_columns(rest, self._names) | pick_columns(X, logged(self.final))
        given = {name: columns[name] for name in self._columns_read}
        values = {name: self._read(name, given[name]) for name in self._missing_seen}
        self._refuse_invalid(values, given)
        return slice_columns(values if self.final is None else given, size)

    @property
    def _columns_read(self) -> list[str]:
        """What some stage reads of X."""
        return [*self._missing_seen, *logged(self.final)]

    def _read(self, name: str, column: Column) -> Column:
        """Read a column as what it held in training; an own estimator has the rest as it is."""
        if name in self._encoding:
            return read(self._encoding[name], column, self._levels(name))
        return numbers(column) if self._numbers.get(name) else column

    def _levels(self, name: str) -> Sequence[Any]:
        """Give the categories of a column that the guard knows; all may be rare in an encoding."""
        learned = getattr(getattr(self, "guard_", None), "learned_", {})
        return getattr(learned.get(name), "values", ())

    def _array_blocks(self, X: NDArray[Any], size: int) -> Iterator[Columns]:
        narrowed = narrow(X)
        dtype = np.float64 if self.estimator is None else narrowed.dtype
        blocks = transpose_blocks(narrowed, self._names, size, dtype)
        for number, (rows, columns) in enumerate(blocks):
            if not all_finite(rows):
                first = number * size
                given = read_columns(X[first : first + size], self._names)
                self._refuse_invalid(columns, given, first_row=first)
            yield columns

    def _refuse_invalid(self, values: Columns, given: Columns, *, first_row: int = 0) -> None:
        """Refuse values that cannot be judged, by stage; a guard rejects their rows instead."""
        if self.guard is not None:
            return
        for stage in self._plan.stages:
            for name in stage.features:
                if name in self._missing_seen:
                    is_read = name in self._encoding
                    refuse_invalid(
                        values[name] if is_read else plain(values[name]),
                        name,
                        missing_seen=self._missing_seen[name],
                        first_row=first_row,
                        given=given[name],
                    )

    def _decide(
        self, block: Columns, *, probability: NDArray[np.float64] | None = None
    ) -> Decisions:
        examine = None if self.guard is None else self._examine
        return decide_block(self._plan, block, examine=examine, probability=probability)

    def _examine(self, columns: Columns) -> NDArray[np.object_] | None:
        """Say why rows must be rejected: the guard's reason, or an invalid value."""
        values = columns
        if not self._encoding:  # else they are read already
            values = {name: plain(column) for name, column in columns.items()}
        reasons = self.guard_.reasons(values)
        if reasons is not None:
            reasons = np.asarray(reasons, dtype=object)
        for name, column in values.items():
            bad = invalid(column, missing_seen=self._missing_seen[name])
            if bad is not None:
                given = np.full(len(bad), ACCEPTED, dtype=object) if reasons is None else reasons
                reasons = np.where(bad & (given == ACCEPTED), INVALID_VALUE, given)
        return reasons


def _one_or_each(thresholds: NDArray[np.float64]) -> NDArray[np.float64]:
    """Spare the loop a look-up where every class has the same threshold."""
    return thresholds[:1] if (thresholds == thresholds[0]).all() else thresholds
