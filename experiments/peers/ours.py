"""Ours: `CascadeSearchCV` as it comes; with boosted stages, at most 256 source sets."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from emsco import CascadeSearchCV, LocalSearch
from emsco.core.front import Candidate
from emsco.exceptions import EmscoWarning, SelectionError
from experiments.peers.compare import Target
from experiments.peers.method import Decided, Figures, Task

_FITS = 256


@dataclass(frozen=True)
class Cascades:
    """Candidates that are cascades, to be fitted by the search they are from."""

    task: Task
    search: CascadeSearchCV
    candidates: Sequence[Candidate]
    fits: int
    evaluations: int

    @cached_property
    def figures(self) -> list[Figures]:
        """The figures of each candidate, out of fold."""
        total = self.task.costs.total
        found = [candidate.evaluation for candidate in self.candidates]
        return [Figures(e.accuracy, e.coverage, e.cost / total) for e in found]

    def choose(self, target: Target, caution: float | Literal["auto"] = "auto") -> int | None:
        """Choose as `select` does, with the margin that it has by default if none is given."""
        front = self.search.front_
        try:
            chosen = front.select(
                caution=caution, min_coverage=target.coverage, min_accuracy=target.accuracy
            )
        except SelectionError:
            return None
        return next(number for number, own in enumerate(front) if own is chosen)

    def decide(self, number: int, X: Any) -> Decided:
        """Decide fresh rows by one cascade, fitted on all rows of the task."""
        decisions = self.search.cascade(self.candidates[number]).decide(X)
        return Decided(decisions.label, decisions.accepted, decisions.cost)


def search_cascades(task: Task) -> Cascades:
    """Search as users do, and give the front."""
    seen = {"source_sets": 0, "designs": 0}
    few = LocalSearch(fits=_FITS)
    bounded = task.base == "trees" and 2 ** len(task.costs.names) - 1 > _FITS
    search = run_search(task, search=few if bounded else None, callback=seen.update)
    return Cascades(
        task, search, search.front_, seen["source_sets"] * len(task.folds), seen["designs"]
    )


def run_search(task: Task, **options: Any) -> CascadeSearchCV:
    """Fit a search on the rows and folds of a task; what it would choose is nobody's business."""
    search = CascadeSearchCV(
        task.estimator,
        costs=task.costs,
        cv=list(task.folds),
        select=lambda front: front[0],
        random_state=task.seed,
        **options,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmscoWarning)
        search.fit(task.X, task.y)
    return search
