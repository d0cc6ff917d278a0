"""Greedy Miser (Xu, Weinberger and Chapelle 2012): boosted trees whose impurity knows prices.

Squared loss on labels -1 and 1, stage by stage. A split on a source that no tree has looked at yet
must be worth its price: half the drop of the squared error, a row, less lambda times the price.
What one tree has bought is free for those after it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.peers.boosted import LEARNING_RATE, MIN_ROWS, N_LEAVES, N_TREES
from experiments.peers.method import (
    Array,
    Codes,
    Model,
    Scored,
    Task,
    Thresholded,
    by_source,
    paid_for,
)
from experiments.peers.trees import Tree, walk

_LAMBDAS = (0.0, *np.geomspace(1e-4, 3, 9).tolist())
_BINS = 64


def greedy_miser(task: Task) -> Thresholded:
    """Tune lambda and the threshold."""

    def fit(strength: float, X: Any, y: Codes) -> Model:
        trees, start = _boost(task, X.to_numpy(dtype=np.float64), y, strength)

        def score(rows: Any) -> Scored:
            total, looked_at = walk(trees, rows.to_numpy(dtype=np.float64))
            total += start
            return Scored(
                (total > 0).astype(np.intp),
                np.abs(total),
                paid_for(task.costs, by_source(task, looked_at)),
            )

        return score

    return Thresholded(task, _LAMBDAS, fit)


def _boost(task: Task, X: Array, y: Codes, strength: float) -> tuple[list[Tree], float]:
    borders = [_borders(column) for column in X.T]
    binned = np.column_stack(
        [np.searchsorted(own, column) for own, column in zip(borders, X.T, strict=True)]
    ).astype(np.uint8)
    sign = np.where(y == 1, 1.0, -1.0)
    start = float(sign.mean())
    residual = sign - start
    bought = np.zeros(len(task.costs.names), dtype=np.bool_)
    trees = []
    for _ in range(N_TREES):
        tree, leaf = _grow(task, binned, borders, residual, bought, strength)
        trees.append(tree)
        residual = residual - tree.value[leaf]
    return trees, start


def _borders(column: Array) -> Array:
    """Give the values between which to split: all there are, or quantiles of them."""
    values = np.unique(column)
    if len(values) > _BINS:
        return np.unique(np.quantile(column, np.arange(1, _BINS) / _BINS, method="lower"))
    return values[:-1]


def _grow(
    task: Task,
    binned: Any,
    borders: list[Array],
    residual: Array,
    bought: Any,
    strength: float,
) -> tuple[Tree, Codes]:
    """Grow one tree, the best leaf first, marking sources bought; say in which leaf each row is."""
    n_rows = len(residual)
    leaf = np.zeros(n_rows, dtype=np.intp)
    tree = Tree(*(np.full(2 * N_LEAVES - 1, fill) for fill in (-1, 0.0, 0, 0, 0.0)))
    tree.value[0] = LEARNING_RATE * residual.mean()
    gain = np.full((2 * N_LEAVES - 1, binned.shape[1]), -np.inf)  # of each leaf's best splits
    place = np.zeros(gain.shape, dtype=np.intp)
    gain[0], place[0] = _best_splits(binned, residual, np.arange(n_rows))
    penalty = strength * _marginal(task, bought)[task.source_of]
    n_nodes = 1
    while n_nodes < 2 * N_LEAVES - 1:
        worth = gain[:n_nodes] / (2 * n_rows) - penalty
        node, column = np.unravel_index(worth.argmax(), worth.shape)
        if worth[node, column] <= 0:
            break
        rows = np.flatnonzero(leaf == node)
        goes_left = binned[rows, column] <= place[node, column]
        tree.column[node], tree.threshold[node] = column, borders[column][place[node, column]]
        tree.left[node], tree.right[node] = n_nodes, n_nodes + 1
        gain[node] = -np.inf  # no leaf any more
        source = task.source_of[column]
        if not bought[source]:  # which changes what the others cost
            bought[source] = True
            penalty = strength * _marginal(task, bought)[task.source_of]
        for part in (rows[goes_left], rows[~goes_left]):
            leaf[part] = n_nodes
            tree.value[n_nodes] = LEARNING_RATE * residual[part].mean()
            gain[n_nodes], place[n_nodes] = _best_splits(binned, residual, part)
            n_nodes += 1
    return Tree._make(part[:n_nodes] for part in tree), leaf


def _marginal(task: Task, bought: Any) -> Array:
    """Price each source as a share of all, beside what is bought."""
    each = np.eye(len(bought), dtype=np.bool_) | bought
    return (paid_for(task.costs, each) - paid_for(task.costs, bought[None])) / task.costs.total


def _best_splits(binned: Any, residual: Any, rows: Any) -> Any:
    """Give by how much the best split on each column lowers the squared error of these rows."""
    n, n_columns = len(rows), binned.shape[1]
    cell = (binned[rows].astype(np.intp) + np.arange(n_columns) * _BINS).ravel()
    size = n_columns * _BINS
    count = np.bincount(cell, minlength=size).reshape(n_columns, _BINS)
    totals = np.bincount(cell, np.repeat(residual[rows], n_columns), minlength=size)
    n_left, left = count.cumsum(axis=1), totals.reshape(n_columns, _BINS).cumsum(axis=1)
    whole = residual[rows].cumsum()[-1]  # in the order of the rows, as the others are
    allowed = (n_left >= MIN_ROWS) & (n - n_left >= MIN_ROWS) & (count > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = left**2 / n_left + (whole - left) ** 2 / (n - n_left) - whole**2 / n
    gain[~allowed] = -np.inf
    places = gain.argmax(axis=1)
    return gain[np.arange(n_columns), places], places
