"""LightGBM's trees as all tree methods share them: trained without what its own wrapper adds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

N_TREES, N_LEAVES = 50, 15
LEARNING_RATE, MIN_ROWS = 0.1, 20  # rows in a leaf; as scikit-learn and LightGBM have them

Array = NDArray[np.float64]


def train(objective: str, X: Array, y: NDArray[Any], **penalties: Any) -> Any:
    """Train trees on numbers, where NaN is missing."""
    import lightgbm

    parameters = {
        "objective": objective,
        "num_leaves": N_LEAVES,
        "learning_rate": LEARNING_RATE,
        "min_data_in_leaf": MIN_ROWS,
        "num_threads": 1,
        "deterministic": True,
        "force_col_wise": True,
        "seed": 0,
        "verbose": -1,
        **penalties,
    }
    table = lightgbm.Dataset(X, y, params={"verbose": -1})
    return lightgbm.train(parameters, table, num_boost_round=N_TREES, keep_training_booster=True)


class Boosted(ClassifierMixin, BaseEstimator):
    """The base learner of boosted stages."""

    def fit(self, X: Any, y: NDArray[Any]) -> Boosted:
        """Train on two classes."""
        self.classes_, codes = np.unique(y, return_inverse=True)
        self.trained_ = train("binary", np.asarray(X, dtype=np.float64), codes)
        return self

    def predict_proba(self, X: Any) -> Array:
        """Give both classes' probabilities."""
        yes = self.trained_.predict(np.asarray(X, dtype=np.float64))
        return np.column_stack([1 - yes, yes])
