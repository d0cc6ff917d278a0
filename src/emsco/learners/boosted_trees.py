"""Boosted trees of scikit-learn as the classifier of stages; text becomes the number of its value.

Fast to fit and hard to beat on tables, they are the learner that others are measured by.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from emsco.rows.columns import NUMERIC, Column, has_missing, is_category, plain

SEED = 0  # of the rows that decide when to stop, with more than 10,000 rows


def boosted_trees(columns: Iterable[Column], random_state: int = SEED) -> Any:
    """Make boosted trees for a table with these columns."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    boosted = HistGradientBoostingClassifier(
        max_iter=50, max_leaf_nodes=15, random_state=random_state
    )
    known = list(columns)
    return with_numbered_text(_with_empty_as_zero(boosted, known), known)


def _with_empty_as_zero(boosted: Any, columns: Iterable[Column]) -> Any:
    """Make columns without any value zero, if the rows of a fit may have such columns.

    scikit-learn 1.9 finds no bins for them, and stops. A constant column is never split by.
    """
    if not any(has_missing(plain(column)) for column in columns):
        return boosted
    from sklearn.pipeline import make_pipeline

    return make_pipeline(EmptyAsZero(), boosted)


def is_boosted(estimator: Any) -> bool:
    """Return whether an estimator is boosted trees, by its name: of any library."""
    last = estimator
    while hasattr(last, "steps"):
        last = last[-1]
    name = type(getattr(last, "estimator", last)).__name__  # within a calibration
    return any(part in name for part in ("Boosting", "XGB", "LGBM", "CatBoost"))


def with_numbered_text(estimator: Any, columns: Iterable[Column]) -> Any:
    """Put an encoder of text before an estimator, if any of the columns is text."""
    if not any(map(_is_text, columns)):
        return estimator
    from sklearn.compose import make_column_transformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OrdinalEncoder

    numbered = OrdinalEncoder(
        handle_unknown="use_encoded_value", unknown_value=np.nan, encoded_missing_value=np.nan
    )
    return make_pipeline(
        make_column_transformer((numbered, TextColumns()), remainder="passthrough"), estimator
    )


class TextColumns:
    """Selects the columns of a frame or an array that are no numbers; it has no state.

    scikit-learn's own selector takes only frames of pandas.

    Examples
    --------
    >>> import pandas as pd
    >>> from emsco.learners.boosted_trees import TextColumns
    >>> TextColumns()(pd.DataFrame({"age": [30.0, 41.0], "job": ["baker", "clerk"]}))
    ['job']
    """

    def __call__(self, X: Any) -> list[Any]:
        """Return the names of these columns, or their positions in an array."""
        return [name for name, column in _columns(X) if _is_text(column)]


class EmptyAsZero(TransformerMixin, BaseEstimator):
    """Turns columns into numbers; those without any value when it was fitted become zero.

    Examples
    --------
    >>> import numpy as np
    >>> from emsco.learners.boosted_trees import EmptyAsZero
    >>> EmptyAsZero().fit_transform(np.array([[30.0, np.nan], [np.nan, np.nan]]))
    array([[30.,  0.],
           [nan,  0.]])
    """

    def fit(self, X: Any, y: Any = None) -> EmptyAsZero:
        """Find the columns without any value."""
        del y
        self.empty_ = np.isnan(_numbers(X)).all(axis=0)
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return all columns as numbers."""
        return np.where(self.empty_, 0.0, _numbers(X))


def _numbers(X: Any) -> NDArray[np.float64]:
    return np.column_stack([plain(column).astype(np.float64) for _, column in _columns(X)])


def _columns(X: Any) -> list[tuple[Any, Column]]:
    """Return the columns with their names, or with their positions in an array."""
    if hasattr(X, "columns"):
        return [(name, X[name]) for name in X.columns]
    return [(place, X[:, place]) for place in range(X.shape[1])]


def _is_text(column: Column) -> bool:
    return is_category(column) or plain(column).dtype.kind not in NUMERIC
