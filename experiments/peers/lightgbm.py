"""LightGBM with its cost penalties (Peter et al. 2017): coupled, once a model; lazy, once a row."""

from __future__ import annotations

from itertools import product
from typing import Any, Literal

import numpy as np

from experiments.peers import boosted
from experiments.peers.method import Array, Codes, Model, Task, Thresholded
from experiments.peers.trees import flatten, penalties, scored_by

# Of a penalty that is the price's share of all sources, a row: from next to nothing up to where
# no split is left, also of one among fifty sources.
_TRADEOFFS = (0.0, *np.geomspace(3e-3, 60, 14).tolist())

Kind = Literal["coupled", "lazy"]


def coupled(task: Task) -> Thresholded:
    """Penalise the first use of a column in the model."""
    return _tuned(task, "coupled")


def lazy(task: Task) -> Thresholded:
    """Penalise the first use of a column for a row."""
    return _tuned(task, "lazy")


def _tuned(task: Task, kind: Kind) -> Thresholded:
    def fit(setting: tuple[float, int], X: Any, y: Codes) -> Model:
        tradeoff, way = setting
        return as_model(task, train(kind, tradeoff, penalties(task)[way], X, y))

    return Thresholded(task, list(product(_TRADEOFFS, range(len(penalties(task))))), fit)


def train(kind: Kind, tradeoff: float, penalty: Array, X: Any, y: Codes) -> Any:
    """Train LightGBM with a penalty a column."""
    rows = len(y) if kind == "coupled" else 1  # a gain is a sum over rows, and so is a lazy penalty
    prices = {"cegb_tradeoff": tradeoff, f"cegb_penalty_feature_{kind}": (rows * penalty).tolist()}
    return boosted.train("binary", X.to_numpy(dtype=np.float64), y, **prices)


def as_model(task: Task, trained: Any) -> Model:
    """Make a model of its trees."""
    told = [tree["tree_structure"] for tree in trained.dump_model()["tree_info"]]
    return scored_by(task, [flatten(root, _split) for root in told])


def _split(node: dict[str, Any]) -> Any:
    if "split_feature" not in node:
        return node["leaf_value"]
    return node["split_feature"], node["threshold"], node["left_child"], node["right_child"]
