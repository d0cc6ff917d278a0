"""What boosted trees say of a row by every source set: each tree is walked once, not once a set.

A tree sees of a set only the sources that it asks about on the way. Where it asks about a source
for the first time, and it matters, both ways are gone: bought, by the row's value; hidden, as
missing. Each leaf that is reached then holds for the sets that have what was bought on the way and
lack what was hidden, and is added to those. Every set gets one leaf of a tree, in the order of the
trees: the same sums, to the last bit, as a prediction of each set by itself.

Importing this module imports numba: import it where a kernel runs, not before.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco._ground.compiled import compiled


def predict_proba_of(
    boosted: Any, X: NDArray[np.float64], sets: NDArray[np.bool_], source: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Give the probabilities of a HistGradientBoostingClassifier: sets x rows x classes.

    It was fitted on X's columns and one more a source, which says whether it was bought; sources
    are 64 at most.
    """
    trees = [tree.nodes for iteration in boosted._predictors for tree in iteration]
    begins = np.cumsum([0, *map(len, trees)])
    words = sets @ (np.uint64(1) << np.arange(sets.shape[1], dtype=np.uint64))
    baseline = np.asarray(boosted._baseline_prediction, dtype=np.float64).reshape(-1)
    raw = np.empty((len(X), len(baseline), len(sets)))
    raw[:] = baseline[:, None]
    _add_leaves(
        np.ascontiguousarray(X),
        words,
        source,
        begins,
        np.concatenate([nodes["feature_idx"] for nodes in trees]),
        np.concatenate([nodes["num_threshold"] for nodes in trees]),
        np.concatenate([nodes["missing_go_to_left"] for nodes in trees]),
        np.concatenate([nodes["left"] for nodes in trees]),
        np.concatenate([nodes["right"] for nodes in trees]),
        np.concatenate([nodes["is_leaf"] for nodes in trees]),
        np.concatenate([nodes["value"] for nodes in trees]),
        raw,
    )
    flat = np.ascontiguousarray(raw.transpose(2, 0, 1)).reshape(-1, len(baseline))
    probability: NDArray[np.float64] = boosted._loss.predict_proba(flat)
    return probability.reshape(len(sets), len(X), -1)


@compiled()
def _add_leaf(leaf: Any, sets: Any, known: Any, bought: Any, total: Any) -> None:
    """Add a leaf to the sets that it holds for; without a branch, so many at an instruction."""
    for s in range(sets.shape[0]):
        total[s] += leaf if sets[s] & known == bought else 0.0


@compiled()
def _add_leaves(
    X: Any,
    sets: Any,  # a word each
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
    """Add to each row and set the leaf of each tree; trees of one iteration are one a class."""
    n_columns, n_classes = X.shape[1], raw.shape[1]
    room = 1
    for tree in range(begins.shape[0] - 1):
        room = max(room, begins[tree + 1] - begins[tree])
    todo = np.empty(room + 1, dtype=np.int64)  # nodes, and what was decided on the way to them
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
                tells = column >= n_columns  # whether a source was bought
                bit = np.uint64(1) << np.uint64(column - n_columns if tells else source[column])
                number = 1.0 if tells else X[row, column]
                if_bought = number <= threshold[node]
                if np.isnan(number):
                    if_bought = missing_left[node] > 0
                if_hidden = threshold[node] >= 0.0 if tells else missing_left[node] > 0
                # Where both go one way, the source stays open: so no node is met twice.
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
