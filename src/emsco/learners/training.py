"""Rows that stages are fitted on; each column is read once, each set of features fitted once."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_method_params,
    _check_sample_weight,
    assert_all_finite,
    check_consistent_length,
)

from emsco.core.labels import read_given_labels
from emsco.exceptions import ClassesError, ColumnsError, ValuesError
from emsco.learners.protocol import Learner
from emsco.rows.column_reader import ColumnReader, kind_of
from emsco.rows.columns import (
    Columns,
    as_categories,
    has_missing,
    is_category,
    plain,
    refuse_invalid,
)
from emsco.rows.encoding import Array, learn, read


def check_labels(y: ArrayLike | None, n_rows: int) -> NDArray[Any]:
    """Check the labels of training rows: one per row, and at least two classes."""
    labels: NDArray[Any] = column_or_1d(read_given_labels(y), warn=True)
    if labels.dtype.kind == "f":
        assert_all_finite(labels, input_name="y")
    check_classification_targets(labels)
    check_consistent_length(labels, np.empty(n_rows))
    classes = np.unique(labels)
    if len(classes) < 2:
        raise ClassesError(
            f"`y` must have at least 2 classes, got 1 class: {classes.tolist()[0]!r}."
        )
    return labels


class Training:
    """Columns and labels to fit on; what is learned about columns, and every fit, is kept.

    Parameters
    ----------
    learner : Learner
        The learner that fits.
    container : str
        The container in which the user's own classifiers get their columns.
    columns : mapping of name to column
        Every column, in the order of X.
    labels : array
        The label of each row.
    params : dict
        The parameters passed to the `fit` of every estimator.
    sources : sequence of sequences of str, default=()
        The columns of each source, passed to a classifier that predicts for every set.
    may_be_missing : set of str, default=frozenset()
        Columns that may have missing values although these rows have none.
    """

    def __init__(
        self,
        learner: Learner,
        container: str,
        columns: Columns,
        labels: NDArray[Any],
        params: dict[str, Any],
        sources: Sequence[Sequence[str]] = (),
        may_be_missing: Set[str] = frozenset(),
    ) -> None:
        self.learner = learner
        self.container = container
        self.columns = columns
        self.labels = labels
        # Codes are positions in classes.
        self.classes, self.codes = np.unique(labels, return_inverse=True)
        self.params = dict(params)
        self.sources = sources
        self._may_be_missing = may_be_missing
        self._weight = np.ones(len(labels))
        if self.params.get("sample_weight") is not None:
            if not learner.takes_weights():
                raise ColumnsError(
                    f"`sample_weight` was given, but {type(learner.estimator).__name__}.fit does "
                    "not take it."
                )
            self._weight = _check_sample_weight(
                self.params["sample_weight"], labels, ensure_non_negative=True
            )
            if not self._weight.any():
                raise ValuesError("`sample_weight` must be above 0 for at least one row.")
            self.params["sample_weight"] = self._weight
        self._values: dict[str, NDArray[Any]] = {}
        self._readers: dict[str, ColumnReader] = {}
        self._blocks: dict[str, Array] = {}
        self.fitted: dict[tuple[str, ...], Any] = {}
        self.shared: dict[str, Any] = {}  # what a learner fits once for several sets

    @property
    def names(self) -> list[str]:
        """Every column, in the order of X."""
        return list(self.columns)

    @property
    def most_frequent(self) -> int:
        """The position of the most frequent class."""
        return int(np.unique(self.labels, return_counts=True)[1].argmax())

    def take(self, rows: NDArray[np.intp]) -> Training:
        """Return the same with some of the rows, without anything learned."""
        columns = {name: column[rows] for name, column in self.columns.items()}
        params = _check_method_params(self.labels, self.params, indices=rows)
        missing = {name for name in self.columns if has_missing(self.values(name))}
        labels = self.labels[rows]
        return Training(
            self.learner, self.container, columns, labels, params, self.sources, missing
        )

    def by(self, learner: Learner) -> Training:
        """Return the same rows for another learner, without anything learned."""
        return Training(
            learner,
            self.container,
            self.columns,
            self.labels,
            self.params,
            self.sources,
            self._may_be_missing,
        )

    def values(self, name: str) -> NDArray[Any]:
        """Return a column as plain values; infinity raises an error."""
        if name not in self._values:
            values = plain(self.columns[name])
            refuse_invalid(values, name, missing_seen=True, raw=self.columns[name])
            self._values[name] = values
        return self._values[name]

    def reader(self, name: str) -> ColumnReader:
        """Learn how a column is read."""
        if name not in self._readers:
            self._readers[name] = self._learn(name)
        return self._readers[name]

    def _learn(self, name: str) -> ColumnReader:
        values, may_be_missing = self.values(name), name in self._may_be_missing
        kind = kind_of(self.columns[name], values)
        if not self.learner.encodes:
            return ColumnReader(kind, may_be_missing or has_missing(values))
        encoding = learn(self.columns[name], name, self._weight, may_be_missing=may_be_missing)
        return ColumnReader(kind, encoding.missing_seen, encoding)

    def encoded(self, name: str) -> Array:
        """Return a column as the numbers that the default classifier takes."""
        if name not in self._blocks:
            encoding = self.reader(name).encoding
            assert encoding is not None  # a learner that encodes has learned one
            self._blocks[name] = encoding.encode(read(encoding, self.columns[name]))
        return self._blocks[name]

    def guarded(self, guard: Any, used: Sequence[str]) -> Any:
        """Return a guard that has learned some of the columns."""
        fitted = clone(guard, safe=False)
        # A guard must know declared categories, even if their values are numbers.
        fitted.fit(
            {
                name: as_categories(values) if is_category(self.columns[name]) else values
                for name, values in ((name, self.values(name)) for name in used)
            }
        )
        return fitted

    def fit(self, features: tuple[str, ...], number: int | None = None) -> Any:
        """Return the classifier of a set of columns, fitted if necessary."""
        if features not in self.fitted:
            self.fitted[features] = self.learner.fit(self, features, number)
        return self.fitted[features]
