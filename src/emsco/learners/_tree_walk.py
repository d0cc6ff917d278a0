"""Predict a row by boosted trees for every source set: each tree is walked once, not once per set.

A path through a tree depends only on the sources that it tests. At the first test of a source
whose result depends on whether the source was bought, both branches are followed: as bought, by the
row's value, and as hidden, by a missing value. The value of a leaf is added to all sets that have
the sources bought on its path and lack the hidden ones. Every set gets one leaf per tree, in the
order of the trees, so the sums are the same to the last bit as when each set is predicted alone.

Importing this module imports numba: import it where a kernel runs, not before.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco._utils.numba_cache import compiled

# Of scikit-learn's nodes, in the order in which `_add_leaves` takes them.
_NODE_FIELDS = (
    "feature_idx", "num_threshold", "missing_go_to_left", "left", "right", "is_leaf", "value"
)  # fmt: skip


def predict_proba_of(
    boosted: Any, X: NDArray[np.float64], sets: NDArray[np.bool_], source: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Return the probabilities of a HistGradientBoostingClassifier: sets x rows x classes.

    It was fitted on X's columns and one more column per source, which says whether the source was
    bought. There are at most 64 sources.
    """
    trees = [tree.nodes for iteration in boosted._predictors for tree in iteration]
    begins = np.cumsum([0, *map(len, trees)])
    words = sets @ (np.uint64(1) << np.arange(sets.shape[1], dtype=np.uint64))
    baseline = np.asarray(boosted._baseline_prediction, dtype=np.float64).reshape(-1)
    raw = np.empty((len(X), len(baseline), len(sets)))
    raw[:] = baseline[:, None]
    fields = [np.concatenate([nodes[name] for nodes in trees]) for name in _NODE_FIELDS]
    _add_leaves(np.ascontiguousarray(X), words, source, begins, *fields, raw)
    flat = np.ascontiguousarray(raw.transpose(2, 0, 1)).reshape(-1, len(baseline))
    probability: NDArray[np.float64] = boosted._loss.predict_proba(flat)
    return probability.reshape(len(sets), len(X), -1)


@compiled()
def _add_leaf(leaf: Any, sets: Any, known: Any, bought: Any, total: Any) -> None:
    """Add a leaf to the sets that reach it; without branches, so that it can be vectorised."""
    for s in range(sets.shape[0]):
        total[s] += leaf if sets[s] & known == bought else 0.0


@compiled()
def _add_leaves(
    X: Any,
    sets: Any,  # one word per set
    source: Any,  # of each column of X
    begins: Any,  # where each tree's nodes begin
    feature: Any,
    threshold: Any,
    missing_left: Any,
    left: Any,  # counted from the tree's first node
    right: Any,
    is_leaf: Any,
    value: Any,
    raw: Any,  # rows x classes x sets: where leaves are added
) -> None:
    """Add the leaf of each tree to each row and set; an iteration has one tree per class."""
    n_columns, n_classes = X.shape[1], raw.shape[1]
    room = 1
    for tree in range(begins.shape[0] - 1):
        room = max(room, begins[tree + 1] - begins[tree])
    todo = np.empty(room + 1, dtype=np.int64)  # nodes, with sources known and bought on the way
    todo_known = np.empty(room + 1, dtype=np.uint64)
    todo_bought = np.empty(room + 1, dtype=np.uint64)
    for row in range(X.shape[0]):
        for tree in range(begins.shape[0] - 1):
            first = begins[tree]
            total = raw[row, tree % n_classes]
            todo[0], todo_known[0], todo_bought[0] = 0, 0, 0
            left_to_do = 1
            while left_to_do:
                left_to_do -= 1
                node = first + todo[left_to_do]
                known, bought = todo_known[left_to_do], todo_bought[left_to_do]
                if is_leaf[node]:
                    _add_leaf(value[node], sets, known, bought, total)
                    continue
                column = feature[node]
                tells = column >= n_columns  # column of a source, not of a value
                bit = np.uint64(1) << np.uint64(column - n_columns if tells else source[column])
                number = 1.0 if tells else X[row, column]
                if_bought = number <= threshold[node]
                if np.isnan(number):
                    if_bought = missing_left[node] > 0
                if_hidden = threshold[node] >= 0.0 if tells else missing_left[node] > 0
                # If both take the same branch, the source stays open, so no node is visited twice.
                if known & bit or if_bought == if_hidden:
                    goes_left = if_hidden if known & bit and not bought & bit else if_bought
                    todo[left_to_do] = left[node] if goes_left else right[node]
                    todo_known[left_to_do] = known
                    todo_bought[left_to_do] = bought
                    left_to_do += 1
                    continue
                todo[left_to_do] = left[node] if if_bought else right[node]
                todo_known[left_to_do] = known | bit
                todo_bought[left_to_do] = bought | bit
                todo[left_to_do + 1] = left[node] if if_hidden else right[node]
                todo_known[left_to_do + 1] = known | bit
                todo_bought[left_to_do + 1] = bought
                left_to_do += 2
