"""What a method is: it takes a task and makes an offer.

An offer has candidates, each with figures out of fold on the selection rows, and decides fresh rows
by any of them. Whatever a method learns, it learns from the task.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from emsco import Costs
from experiments.peers.boosted import Boosted

Array = NDArray[np.float64]
Bits = NDArray[np.bool_]
Codes = NDArray[np.intp]
Base = Literal["linear", "trees"]
# Of the selection rows: how many a threshold leaves, out of fold, in steps of a hundredth.
_COVERAGES = np.arange(100, 4, -1) / 100


class Figures(NamedTuple):
    """What a candidate does: accuracy on what it accepts, coverage, price as a share of all."""

    accuracy: float
    coverage: float
    price: float


class Decided(NamedTuple):
    """What was decided of each row, and what it paid."""

    label: Codes
    accepted: Bits
    paid: Array


class Scored(NamedTuple):
    """What is said of each row, how surely, and what it paid: decided, but for a threshold."""

    label: Codes
    confidence: Array
    paid: Array

    def decide(self, threshold: float) -> Decided:
        """Reject what is less sure."""
        return Decided(self.label, self.confidence >= threshold, self.paid)


@dataclass(frozen=True)
class Task:
    """Rows to learn from, with the same folds for every method, and the prices."""

    X: Any  # a pandas DataFrame
    y: Codes
    costs: Costs
    folds: Sequence[tuple[Codes, Codes]]
    base: Base
    seed: int
    evaluations: int = 0  # what our own search had, and its fits
    fits: int = 0

    @property
    def estimator(self) -> Any:
        """The base learner, as stages take it; None is logistic regression on encoded columns."""
        return None if self.base == "linear" else Boosted()

    @cached_property
    def source_of(self) -> Codes:
        """Which source each column belongs to."""
        owner = {f: i for i, s in enumerate(self.costs.names) for f in self.costs.columns(s)}
        return np.array([owner[name] for name in self.X.columns])


class Offer(Protocol):
    """What a method gives."""

    @property
    def figures(self) -> Sequence[Figures]:
        """The figures of each candidate, out of fold."""

    @property
    def fits(self) -> int:
        """How many classifiers were fitted for them."""

    def decide(self, number: int, X: Any) -> Decided:
        """Decide fresh rows by one candidate, fitted on all rows of the task."""


Method = Callable[[Task], Offer]


def figures_of(decided: Decided, truth: Codes, total: float) -> Figures:
    """Hold decisions against the truth; nothing accepted is right in nothing."""
    right = decided.label[decided.accepted] == truth[decided.accepted]
    accuracy = float(right.mean()) if len(right) else 0.0
    return Figures(accuracy, float(decided.accepted.mean()), float(decided.paid.mean() / total))


def paid_for(costs: Costs, looked_at: Bits) -> Array:
    """Price what rows looked at, rows x sources: a source once a row, with what it requires.

    Examples
    --------
    >>> import numpy as np
    >>> from emsco import Costs, Source
    >>> from experiments.peers.method import paid_for
    >>> blood = [Source(name, cost=3, setup="draw") for name in ("iron", "sugar")]
    >>> ratio = Source("ratio", cost=0, requires=("iron", "sugar"))
    >>> costs = Costs([*blood, ratio], setups={"draw": 2})
    >>> paid_for(costs, np.array([[True, False, False], [False, False, True]]))
    array([5., 8.])
    """
    bought = closed(costs, looked_at)
    paid: Array = bought @ np.array([source.cost for source in costs.sources])
    for setup, price in costs.setups.items():
        sharing = [i for i, source in enumerate(costs.sources) if source.setup == setup]
        paid += price * bought[:, sharing].any(axis=1)
    return paid


def closed(costs: Costs, bought: Bits) -> Bits:
    """Add what sources require, rows x sources."""
    bought, place = bought.copy(), costs.names.index
    needs = [(place(s.name), place(name)) for s in costs.sources for name in s.requires]
    for _ in needs:  # what is required may require more
        for source, needed in needs:
            bought[:, needed] |= bought[:, source]
    return bought


def alone(costs: Costs) -> Array:
    """Price each source by itself as a share of all: with its setup and what it requires."""
    return paid_for(costs, np.eye(len(costs.names), dtype=np.bool_)) / costs.total


def by_source(task: Task, columns: Bits) -> Bits:
    """Say which sources rows looked at, from the columns they looked at."""
    looked_at = np.zeros((len(columns), len(task.costs.names)), dtype=np.bool_)
    for column, source in enumerate(task.source_of):
        looked_at[:, source] |= columns[:, column]
    return looked_at


Model = Callable[[Any], Scored]  # a frame in, what is said of its rows out


@dataclass(frozen=True)
class Thresholded:
    """Models that score every row, one a setting, each with thresholds on its confidence.

    Parameters
    ----------
    task : Task
        What is to be learned from.
    settings : sequence
        What is tuned beside the threshold.
    fit : callable
        Given a setting, a frame and labels, gives a model.
    """

    task: Task
    settings: Sequence[Any]
    fit: Callable[[Any, Any, Codes], Model]

    @property
    def fits(self) -> int:
        """How many models were fitted out of fold, and one each for all rows."""
        return len(self.settings) * (len(self.task.folds) + 1)

    @cached_property
    def out_of_fold(self) -> list[Scored]:
        """What each setting says of rows that it was not fitted on, in the order of rows."""
        task = self.task
        order = np.argsort(np.concatenate([test for _, test in task.folds]))
        scored = []
        for setting in self.settings:
            parts = [
                self.fit(setting, task.X.iloc[train], task.y[train])(task.X.iloc[test])
                for train, test in task.folds
            ]
            scored.append(Scored(*(np.concatenate(p)[order] for p in zip(*parts, strict=True))))
        return scored

    @cached_property
    def candidates(self) -> list[tuple[int, float]]:
        """Settings and thresholds."""
        return [
            (number, threshold)
            for number, scored in enumerate(self.out_of_fold)
            for threshold in dict.fromkeys(threshold_at(scored, c) for c in _COVERAGES)
        ]

    @cached_property
    def figures(self) -> list[Figures]:
        """The figures of each candidate, out of fold."""
        task = self.task
        return [
            figures_of(self.out_of_fold[number].decide(threshold), task.y, task.costs.total)
            for number, threshold in self.candidates
        ]

    @cached_property
    def _fitted(self) -> dict[int, Model]:
        return {}

    def score(self, setting: int, X: Any) -> Scored:
        """Say of fresh rows what a setting says, fitted on all rows of the task."""
        if setting not in self._fitted:
            self._fitted[setting] = self.fit(self.settings[setting], self.task.X, self.task.y)
        return self._fitted[setting](X)

    def decide(self, number: int, X: Any) -> Decided:
        """Decide fresh rows by one candidate, fitted on all rows of the task."""
        setting, threshold = self.candidates[number]
        return self.score(setting, X).decide(threshold)


def threshold_at(scored: Scored, coverage: float) -> float:
    """Give the confidence of the least sure row that is accepted at a coverage; 0 accepts all."""
    kept = count_at(coverage, len(scored.confidence))
    if kept == len(scored.confidence):
        return 0.0
    return float(-np.sort(-scored.confidence)[kept - 1])


def count_at(coverage: float, n_rows: int) -> int:
    """Say how many rows are at least that coverage; 0.7 of 10 are 7, although not to the last bit.

    Examples
    --------
    >>> from experiments.peers.method import count_at
    >>> count_at(0.7, 10), count_at(0.71, 10)
    (7, 8)
    """
    return int(np.ceil(coverage * n_rows - 1e-9))
