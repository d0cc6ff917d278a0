"""Rows that stages are fitted on: read once, and each set of features fitted once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils import Tags, column_or_1d, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_method_params,
    _check_sample_weight,
    assert_all_finite,
    check_consistent_length,
    has_fit_parameter,
    validate_data,
)

from emsco._columns import (
    NUMERIC,
    Column,
    Columns,
    as_objects,
    container_of,
    has_missing,
    is_category,
    plain,
    read_columns,
    refuse_invalid,
    refuse_twice,
    unmask,
)
from emsco._decide import Judge
from emsco._encoding import Array, ColumnEncoding, learn, read
from emsco._estimator import EstimatorStage, FinalStage
from emsco._linear import LinearStage, ReadFirst, default_estimator, fit_default
from emsco.costs import generated_names
from emsco.exceptions import ClassesError, ColumnsError, ValuesError
from emsco.masked import MaskedClassifier, positions


def tags_for(estimator: Any, tags: Tags) -> Tags:
    """Tell scikit-learn what a cascade of this estimator takes."""
    if estimator is None:
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        return tags
    inner = get_tags(estimator)
    tags.input_tags.allow_nan = inner.input_tags.allow_nan
    tags.classifier_tags.multi_class = inner.classifier_tags.multi_class
    tags.classifier_tags.poor_score = inner.classifier_tags.poor_score
    return tags


def routed_estimator(estimator: Any) -> Any:
    """Give what metadata of `fit` is routed to; the default classifier takes weights."""
    return (
        default_estimator().set_fit_request(sample_weight=True) if estimator is None else estimator
    )


def read_rows(owner: Any, X: Any, y: ArrayLike | None) -> tuple[dict[str, Column], NDArray[Any]]:
    """Check shape, names and labels of training rows; give columns by name, and the labels.

    `owner` is the estimator being fitted: it learns what scikit-learn wants to know of X.
    """
    if container_of(X) == "array":
        X = unmask(X)
        X = validate_data(owner, X, y, dtype=None, ensure_all_finite=False, multi_output=True)[0]
    else:
        refuse_twice(list(X.columns))
        validate_data(owner, X, y, skip_check_array=True)
        if not X.shape[0] or not X.shape[1]:
            raise ColumnsError(f"X must have rows and columns, its shape is {X.shape}.")
    names = getattr(owner, "feature_names_in_", None)
    names = generated_names(X.shape[1]) if names is None else names.tolist()
    return read_columns(X, names), _read_labels(y, X.shape[0])


def _read_labels(y: ArrayLike | None, n_rows: int) -> NDArray[Any]:
    if isinstance(y, np.ma.MaskedArray) and y.mask.any():
        row = int(np.argmax(y.mask))
        raise ValuesError(f"Row {row} has no label: it is masked; leave the row out.", row=row)
    labels: NDArray[Any] = column_or_1d(y, warn=True)
    if labels.dtype.kind == "f":
        assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    check_consistent_length(labels, np.empty(n_rows))
    classes = np.unique(labels)
    if len(classes) < 2:
        raise ClassesError(
            f"`y` must hold at least 2 classes, got 1 class: {classes.tolist()[0]!r}."
        )
    return labels


class Training:
    """Columns and labels to fit on; what is learned of a column or a set of them is kept.

    Parameters
    ----------
    estimator : classifier or None
        What is fitted; None stands for the default one.
    container : str
        What the estimator wants its columns in.
    columns : mapping of name to column
        Every column, in the order of X.
    labels : array
        The label of each row.
    params : dict
        What the `fit` of every estimator receives.
    sources : sequence of sequences of str, default=()
        The columns of each source: told to a classifier that answers for every set of them.
    may_be_missing : set of str, default=frozenset()
        Columns that may be missing although no row here lacks them.
    final : fitted model or None, default=None
        What judges by all columns together instead.
    """

    def __init__(
        self,
        estimator: Any,
        container: str,
        columns: Columns,
        labels: NDArray[Any],
        params: dict[str, Any],
        sources: Sequence[Sequence[str]] = (),
        may_be_missing: Set[str] = frozenset(),
        final: Any = None,
    ) -> None:
        self.estimator = estimator
        self.final = final
        self.container = container
        self.columns = columns
        self.labels = labels
        self.classes = np.unique(labels)
        self.params = dict(params)
        self.sources = sources
        self._may_be_missing = may_be_missing
        self._weight = np.ones(len(labels))
        if self.params.get("sample_weight") is not None:
            if estimator is not None and not has_fit_parameter(estimator, "sample_weight"):
                raise ColumnsError(
                    f"`sample_weight` was given, but {type(estimator).__name__}.fit takes none."
                )
            self._weight = _check_sample_weight(
                self.params["sample_weight"], labels, ensure_non_negative=True
            )
            if not self._weight.any():
                raise ValuesError("`sample_weight` must be above 0 for some row; all are 0.")
            self.params["sample_weight"] = self._weight
        self._values: dict[str, NDArray[Any]] = {}
        self._encodings: dict[str, ColumnEncoding] = {}
        self._blocks: dict[str, Array] = {}
        self.fitted: dict[tuple[str, ...], Any] = {}

    def take(self, rows: NDArray[np.intp]) -> Training:
        """Give the same with some of the rows, nothing learned yet."""
        columns = {name: column[rows] for name, column in self.columns.items()}
        params = _check_method_params(self.labels, self.params, indices=rows)
        missing = {name for name in self.columns if has_missing(self.values(name))}
        labels = self.labels[rows]
        return Training(
            self.estimator,
            self.container,
            columns,
            labels,
            params,
            self.sources,
            missing,
            self.final,
        )

    def by(self, estimator: Any) -> Training:
        """Give the same rows for another estimator, nothing learned yet."""
        return Training(
            estimator,
            self.container,
            self.columns,
            self.labels,
            self.params,
            self.sources,
            self._may_be_missing,
            self.final,
        )

    def values(self, name: str) -> NDArray[Any]:
        """Give a column as plain values; infinity raises."""
        if name not in self._values:
            values = plain(self.columns[name])
            refuse_invalid(values, name, missing_seen=True, given=self.columns[name])
            self._values[name] = values
        return self._values[name]

    def encoding(self, name: str) -> ColumnEncoding:
        """Learn how the default classifier reads a column."""
        if name not in self._encodings:
            self._encodings[name] = learn(
                self.columns[name], name, self._weight, may_be_missing=name in self._may_be_missing
            )
        return self._encodings[name]

    def missing_seen(self, name: str) -> bool:
        """Say whether a column has missing values."""
        values = self.values(name)
        if self.estimator is None:
            return self.encoding(name).missing_seen
        return name in self._may_be_missing or has_missing(values)

    def numeric(self, used: Iterable[str]) -> dict[str, bool]:
        """Say which columns hold numbers, but for those that are declared to be categories."""
        return {
            name: self.values(name).dtype.kind in NUMERIC
            for name in used
            if not is_category(self.columns[name])
        }

    @property
    def most_frequent(self) -> int:
        """Say which class most rows have."""
        return int(np.unique(self.labels, return_counts=True)[1].argmax())

    def guarded(self, guard: Any, used: Sequence[str]) -> Any:
        """Let a guard learn some of the columns."""
        fitted = clone(guard, safe=False)
        # A guard must know declared categories, also where their values are numbers.
        fitted.fit(
            {
                name: as_objects(values) if is_category(self.columns[name]) else values
                for name, values in ((name, self.values(name)) for name in used)
            }
        )
        return fitted

    def stage(self, features: tuple[str, ...], number: int) -> tuple[Any, Judge]:
        """Fit the classifier of a stage, or find it fitted; give it and what judges by it."""
        if self.final is not None and len(features) == len(self.columns):
            return self.final, FinalStage.of(self.final, self.container, features, self.classes)
        if self.estimator is None:
            if features not in self.fitted:
                blocks = np.hstack([self._block(feature) for feature in features])
                self.fitted[features] = fit_default(blocks, self.labels, **self.params)
            fitted = self.fitted[features]
            encodings = {feature: self.encoding(feature) for feature in features}
            judge = LinearStage.compile(features, encodings, fitted)
            # A final model takes columns as they are given, so they are read stage by stage.
            return fitted, judge if self.final is None else ReadFirst(encodings, judge)
        if features not in self.fitted:
            self.fitted[features] = self._fit_estimator(features, number)
        fitted = self.fitted[features]
        return fitted, EstimatorStage(fitted, number, self.container, features)

    def _fit_estimator(self, features: tuple[str, ...], number: int) -> Any:
        if isinstance(self.estimator, MaskedClassifier):
            return self._masked.having(list(self.columns).index(name) for name in features)
        stage = EstimatorStage(clone(self.estimator), number, self.container, features)
        return stage.fit(self.columns, self.labels, self.params).estimator

    @cached_property
    def _masked(self) -> MaskedClassifier:
        """Fit the one classifier of all stages."""
        stage = EstimatorStage(clone(self.estimator), None, self.container, tuple(self.columns))
        params = self.params | {"sources": positions(self.sources, list(self.columns))}
        fitted: MaskedClassifier = stage.fit(self.columns, self.labels, params).estimator
        return fitted

    def _block(self, name: str) -> Array:
        if name not in self._blocks:
            encoding = self.encoding(name)
            self._blocks[name] = encoding.encode(read(encoding, self.columns[name]))
        return self._blocks[name]
