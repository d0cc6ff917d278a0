"""CatBoost with its penalties: for the first use of a column in the model, and for a row."""

from __future__ import annotations

import json
import tempfile
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from experiments.peers.boosted import LEARNING_RATE, MIN_ROWS, N_LEAVES, N_TREES
from experiments.peers.method import Array, Codes, Model, Task, Thresholded
from experiments.peers.trees import flatten, penalties, scored_by

# What a split is worth grows with the root of the rows, so penalties are given in proportion: for
# the first use as it is, for a row divided by the rows.
_KINDS = {"first_feature_use_penalties": 0.5, "per_object_feature_penalties": -0.5}
_COEFFICIENTS = (0.0, *np.geomspace(0.05, 60, 7).tolist())
_BORDERS = 64  # a column, where its default of 254 takes almost twice as long


def catboost(task: Task) -> Thresholded:
    """Tune which penalty, how strong, and the threshold."""

    def fit(setting: tuple[float, str, int], X: Any, y: Codes) -> Model:
        coefficient, kind, way = setting
        return as_model(task, train(kind, coefficient, penalties(task)[way], X, y))

    ways = range(len(penalties(task)))
    return Thresholded(task, list(product(_COEFFICIENTS, _KINDS, ways)), fit)


def train(kind: str, coefficient: float, penalty: Array, X: Any, y: Codes) -> Any:
    """Train CatBoost with a penalty a column."""
    from catboost import CatBoostClassifier

    model = CatBoostClassifier(
        iterations=N_TREES,
        grow_policy="Lossguide",
        max_leaves=N_LEAVES,
        min_data_in_leaf=MIN_ROWS,
        learning_rate=LEARNING_RATE,
        border_count=_BORDERS,
        penalties_coefficient=coefficient * len(y) ** _KINDS[kind],
        **{kind: penalty.tolist()},
        thread_count=1,
        random_seed=0,
        verbose=False,
        allow_writing_files=False,
    )
    return model.fit(X.to_numpy(dtype=np.float32), y)


def as_model(task: Task, trained: Any) -> Model:
    """Make a model of its trees, which CatBoost tells in a file only."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        trained.save_model(str(path), format="json")
        told = json.loads(path.read_text(encoding="utf-8"))
    scale, (start,) = told["scale_and_bias"]
    columns = [one["flat_feature_index"] for one in told["features_info"]["float_features"]]

    def split(node: dict[str, Any]) -> Any:
        if "split" not in node:
            return scale * node["value"]
        own = node["split"]
        return columns[own["float_feature_index"]], own["border"], node["left"], node["right"]

    trees = [flatten(root, split) for root in told["trees"]]
    return scored_by(task, trees, start, np.float32)  # as CatBoost compares
