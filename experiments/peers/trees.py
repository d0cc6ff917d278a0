"""Trees walked row by row: what they say, and which columns a row's paths look at.

Whatever grew them, they are the same here: nodes with a column and a threshold, leaves with a
value. A row goes left where its value is at most the threshold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from experiments.peers.method import (
    Array,
    Bits,
    Codes,
    Model,
    Scored,
    Task,
    alone,
    by_source,
    paid_for,
)


class Tree(NamedTuple):
    """One tree as arrays, a node each; the root first; leaves have the column -1."""

    column: Codes
    threshold: Array
    left: Codes
    right: Codes
    value: Array


def walk(trees: Sequence[Tree], X: Array) -> tuple[Array, Bits]:
    """Add up what trees say of rows, and say which columns were looked at, rows x columns.

    Examples
    --------
    >>> import numpy as np
    >>> from experiments.peers.trees import Tree, walk
    >>> nodes = [1, -1, -1], [0.5, 0, 0], [1, 0, 0], [2, 0, 0], [0, -1.0, 2.0]
    >>> stump = Tree(*map(np.array, nodes))
    >>> score, looked_at = walk([stump], np.array([[9.0, 0.5], [9.0, 0.6]]))
    >>> score.tolist(), looked_at.tolist()
    ([-1.0, 2.0], [[False, True], [False, True]])
    """
    score = np.zeros(len(X))
    looked_at = np.zeros(X.shape, dtype=np.bool_)
    for tree in trees:
        node = np.zeros(len(X), dtype=np.intp)
        inside = np.flatnonzero(tree.column[node] >= 0)
        while len(inside):
            here = node[inside]
            column = tree.column[here]
            looked_at[inside, column] = True
            goes_left = X[inside, column] <= tree.threshold[here]
            node[inside] = np.where(goes_left, tree.left[here], tree.right[here])
            inside = inside[tree.column[node[inside]] >= 0]
        score += tree.value[node]
    return score, looked_at


def flatten(root: Any, split: Any) -> Tree:
    """Make a tree of nested nodes.

    `split` gives of a node its column, threshold, left and right; or of a leaf its value.
    """
    nodes: list[list[float]] = []

    def add(node: Any) -> int:
        number = len(nodes)
        told = split(node)
        nodes.append([-1, 0.0, 0, 0, 0.0])
        if isinstance(told, tuple):
            column, threshold, left, right = told
            nodes[number] = [column, threshold, add(left), add(right), 0.0]
        else:
            nodes[number][4] = told
        return number

    add(root)
    column, threshold, left, right, value = np.array(nodes).T
    whole = np.array([column, left, right]).astype(np.intp)
    return Tree(whole[0], threshold, whole[1], whole[2], value)


def penalties(task: Task) -> list[Array]:
    """Price columns for learners that know no sources: the price of its source a column each.

    Where sources have several columns, also that price divided among them, because the second
    column of a source is free.
    """
    price = alone(task.costs)[task.source_of]
    shared = np.bincount(task.source_of)[task.source_of]
    return [price] if (shared == 1).all() else [price, price / shared]


def scored_by(
    task: Task, trees: Sequence[Tree], start: float = 0.0, dtype: Any = np.float64
) -> Model:
    """Make a model of trees whose sum is a log-odds; a row pays what its paths look at."""

    def score(rows: Any) -> Scored:
        total, looked_at = walk(trees, rows.to_numpy(dtype=dtype))
        probability = 1 / (1 + np.exp(-np.clip(start + total, -700, 700)))
        return Scored(
            (probability > 0.5).astype(np.intp),
            np.maximum(probability, 1 - probability),
            paid_for(task.costs, by_source(task, looked_at)),
        )

    return score
