"""Greedy conditional mutual information: row by row, what should tell most for its price is bought.

As Gadgil, Covert and Lee (2024) estimate it: one classifier answers from whatever is known of a
row; by how much a source lowers its loss is regressed on what is known, a regression a source, and
the expectation of that is the mutual information. All are boosted trees that take a hidden source
as missing values. Gains are of a classifier that did not see the row.

In which order a row buys does not depend on when it stops. So it is followed to the end once, and
every rule of stopping reads off from there: when it is sure enough, or when the best source left
promises too little for its price.
"""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np

from experiments.peers.boosted import Boosted, train
from experiments.peers.method import (
    Array,
    Bits,
    Codes,
    Decided,
    Figures,
    Scored,
    Task,
    closed,
    figures_of,
    paid_for,
    threshold_at,
)

_COPIES = 4  # of each row, with other sources hidden
_SURE = (*(np.arange(50, 100, 2) / 100).tolist(), 0.99, 0.995, 1.01)
_LEAST_GAINS = (0.0, *np.geomspace(1e-3, 3, 8).tolist())  # nats for the price of everything
_COVERAGES = np.arange(100, 49, -2) / 100


class _Path(NamedTuple):
    """How rows go on buying, steps x rows: what is said after each, and what comes next."""

    label: Codes
    confidence: Array
    paid: Array
    promise: Array  # of the best source left, for its price

    def stop(self, sure: float, least_gain: float) -> Scored:
        """Stop each row where it is sure enough or too little is promised; at the end at last."""
        stops = (self.confidence >= sure) | (self.promise < least_gain)
        stops[-1] = True
        step, row = stops.argmax(axis=0), np.arange(stops.shape[1])
        return Scored(self.label[step, row], self.confidence[step, row], self.paid[step, row])


class _Buyer:
    """A classifier for whatever is known, and what each source promises."""

    def __init__(self, task: Task, X: Array, y: Codes) -> None:
        self.task = task
        n_sources = len(task.costs.names)
        rng = np.random.default_rng(task.seed)
        rows = np.tile(np.arange(len(y)), _COPIES)
        # As many hidden as not, whatever their number: also almost all, and almost none.
        share = rng.random((len(rows), 1))
        known = closed(task.costs, rng.random((len(rows), n_sources)) < share)
        values = X[rows]
        halves = rng.permutation(np.arange(len(y)) % 2)[rows]
        self.classifier = self._classifier(values, known, y[rows])
        others = [self._classifier(values[halves == h], known[halves == h], y[rows][halves == h])
                  for h in (0, 1)]  # fmt: skip
        self.promises = []
        for source in range(n_sources):
            open_to = ~known[:, source]
            own, before = rows[open_to], known[open_to]
            after = before.copy()
            after[:, source] = True
            after = closed(task.costs, after)
            gain = np.empty(len(own))
            for half in (0, 1):
                of = halves[open_to] != half
                truth = y[own[of]]
                gain[of] = _loss(others[half], self._hide(X[own[of]], before[of]), truth) - _loss(
                    others[half], self._hide(X[own[of]], after[of]), truth
                )
            seen = self._hide(X[own], before)
            # Its own columns are hidden, and so are those of what requires it.
            usable = np.flatnonzero(~np.isnan(seen).all(axis=0))
            regressor = train("regression", seen[:, usable], gain)
            self.promises.append((usable, regressor))

    def _hide(self, values: Array, known: Bits) -> Array:
        return np.where(known[:, self.task.source_of], values, np.nan)

    def _classifier(self, values: Array, known: Bits, y: Codes) -> Boosted:
        return Boosted().fit(self._hide(values, known), y)

    def follow(self, X: Array) -> _Path:
        """Let rows buy, greedily, until they have everything."""
        costs = self.task.costs
        known = np.zeros((len(X), len(costs.names)), dtype=np.bool_)
        steps = []
        for _ in range(len(costs.names) + 1):
            seen = self._hide(X, known)
            probability = self.classifier.predict_proba(seen)
            paid = paid_for(costs, known)
            ratio = np.full(known.shape, -np.inf)
            for source, (usable, regressor) in enumerate(self.promises):
                lacking = ~known[:, source]
                if not lacking.any():
                    continue
                after = known[lacking].copy()
                after[:, source] = True
                more = (paid_for(costs, after) - paid[lacking]) / costs.total
                gain = np.maximum(regressor.predict(seen[lacking][:, usable]), 0.0)
                ratio[lacking, source] = gain / np.maximum(more, 1e-9)
            best = ratio.argmax(axis=1)
            steps.append((probability.argmax(axis=1), probability.max(axis=1), paid,
                          ratio.max(axis=1)))  # fmt: skip
            known[np.arange(len(X)), best] = True
            known = closed(costs, known)
        return _Path(*(np.array(part) for part in zip(*steps, strict=True)))


def _loss(classifier: Boosted, values: Array, truth: Codes) -> Array:
    probability = classifier.predict_proba(values)[np.arange(len(truth)), truth]
    loss: Array = -np.log(np.maximum(probability, 1e-6))
    return loss


class Paths:
    """Rules of stopping and thresholds, all read off one path a row."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.fits = (len(task.folds) + 1) * (3 + len(task.costs.names))
        X = task.X.to_numpy(dtype=np.float64)
        paths = [
            _Buyer(task, X[train], task.y[train]).follow(X[test]) for train, test in task.folds
        ]
        order = np.argsort(np.concatenate([test for _, test in task.folds]))
        path = _Path(*(np.concatenate(p, axis=1)[:, order] for p in zip(*paths, strict=True)))
        self._rules: list[tuple[float, float, float]] = []
        self.figures: list[Figures] = []
        for sure, least_gain in product(_SURE, _LEAST_GAINS):
            scored = path.stop(sure, least_gain)
            for threshold in dict.fromkeys(threshold_at(scored, c) for c in _COVERAGES):
                self._rules.append((sure, least_gain, threshold))
                decided = scored.decide(threshold)
                self.figures.append(figures_of(decided, task.y, task.costs.total))
        self._buyer = _Buyer(task, X, task.y)
        self._followed: tuple[Any, _Path] | None = None

    def decide(self, number: int, X: Any) -> Decided:
        """Decide fresh rows by one rule; they are followed once, whatever the rules."""
        if self._followed is None or self._followed[0] is not X:
            self._followed = X, self._buyer.follow(X.to_numpy(dtype=np.float64))
        sure, least_gain, threshold = self._rules[number]
        return self._followed[1].stop(sure, least_gain).decide(threshold)
