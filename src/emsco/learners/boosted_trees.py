"""Boosted trees of scikit-learn as the classifier of stages; text becomes the number of its value.

Fast to fit and hard to beat on tables, they are the learner that others are measured by.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from emsco.rows.columns import NUMERIC, Column, is_category, plain

SEED = 0  # of the rows that decide when to stop, with more than 10,000 rows


def boosted_trees(columns: Iterable[Column], random_state: int = SEED) -> Any:
    """Make boosted trees for a table with these columns."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    boosted = HistGradientBoostingClassifier(
        max_iter=50, max_leaf_nodes=15, random_state=random_state
    )
    return with_numbered_text(boosted, columns)


def is_boosted(estimator: Any) -> bool:
    """Return whether an estimator is boosted trees, by its name: of any library."""
    last = estimator[-1] if hasattr(estimator, "steps") else estimator
    name = type(getattr(last, "estimator", last)).__name__  # within a calibration
    return any(part in name for part in ("Boosting", "XGB", "LGBM", "CatBoost"))


def with_numbered_text(estimator: Any, columns: Iterable[Column]) -> Any:
    """Put an encoder of text before an estimator, if any of the columns is text."""
    if not any(map(_is_text, columns)):
        return estimator
    import numpy as np
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
        if hasattr(X, "columns"):
            return [name for name in X.columns if _is_text(X[name])]
        return [place for place in range(X.shape[1]) if _is_text(X[:, place])]


def _is_text(column: Column) -> bool:
    return is_category(column) or plain(column).dtype.kind not in NUMERIC
