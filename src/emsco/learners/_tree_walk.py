"""Predict a row by boosted trees for every source set: each tree is walked once, not once per set.

A path through a tree depends only on the sources that it tests. At the first test of a source
whose result depends on whether the source was bought, both branches are followed: as bought, by the
row's value, and as hidden, by a missing value. The value of a leaf is added to all sets that have
the sources bought on its path and lack the hidden ones. Every set gets one leaf per tree, in the
order of the trees, so the sums are the same to the last bit as when each set is predicted alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco._core import add_leaves


def predict_proba_of(
    boosted: Any, X: NDArray[np.float64], sets: NDArray[np.bool_], source: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Return the probabilities of a HistGradientBoostingClassifier: sets x rows x classes.

    It was fitted on X's columns and one more column per source, which says whether the source was
    bought. There are at most 64 sources.
    """
    trees = [tree.nodes for iteration in boosted._predictors for tree in iteration]
    begins = np.cumsum([0, *map(len, trees)], dtype=np.int64)
    words = sets @ (np.uint64(1) << np.arange(sets.shape[1], dtype=np.uint64))
    baseline = np.asarray(boosted._baseline_prediction, dtype=np.float64).reshape(-1)
    raw = np.empty((len(X), len(baseline), len(sets)))
    raw[:] = baseline[:, None]

    def of_nodes(name: str, kind: Any) -> NDArray[Any]:
        return np.concatenate([nodes[name] for nodes in trees]).astype(kind, copy=False)

    add_leaves(
        np.ascontiguousarray(X),
        words,
        source,
        begins,
        of_nodes("feature_idx", np.int64),
        of_nodes("num_threshold", np.float64),
        of_nodes("missing_go_to_left", np.uint8),
        of_nodes("left", np.uint32),
        of_nodes("right", np.uint32),
        of_nodes("is_leaf", np.uint8),
        of_nodes("value", np.float64),
        raw,
    )
    flat = np.ascontiguousarray(raw.transpose(2, 0, 1)).reshape(-1, len(baseline))
    probability: NDArray[np.float64] = boosted._loss.predict_proba(flat)
    return probability.reshape(len(sets), len(X), -1)
