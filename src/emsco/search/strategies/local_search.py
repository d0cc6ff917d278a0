"""Pareto local search: explore the neighbours of the front, and walk towards it from nearby.

It starts along a chain of source sets that is grown greedily. Designs that are not dominated join
the archive, and their neighbours are explored in turn. In addition, walkers start from designs near
the archive. Each has its own weighting of the objectives and moves to the best neighbour until none
is better; then it starts again. All designs of a round are evaluated at once.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco.exceptions import SearchError
from emsco.search._problem import Assignments, Counts, Problem, SearchResult
from emsco.search.strategies._archive import Archive, Callback, History, points_of
from emsco.search.strategies._greedy_chain import designs_along_chain
from emsco.search.strategies._neighbours import neighbours, perturbed
from emsco.search.strategies._operators import sort_keys

_LOOKED_AROUND = 8  # designs of the archive that are explored in a round
_WALKERS = 16
_DIVISIONS = 128  # random divisions of stages that are tried per design
FITS = 4_096  # by default: twice as many make a front only a little better
_NEW_SETS = 512  # designs per round that need a fit, if not every set can be fitted


@dataclass(frozen=True)
class LocalSearch:
    """Pareto local search with restarts.

    Parameters
    ----------
    evaluations : int, default=1_000_000
        The maximum number of designs to evaluate at each threshold.
    fits : int, default=None
        The maximum number of source sets to fit, for all thresholds together, after which the
        search ends. None: 4,096. 0: only sets that are already fitted are used.
    seconds : float, default=None
        The time after which the search of each threshold stops. None: no limit. This is the only
        option that makes a search irreproducible.
    """

    evaluations: int = 1_000_000
    fits: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("evaluations", "fits", "seconds"):
            value = getattr(self, name)
            if value is not None and (value < 0 or (value == 0 and name != "fits")):
                raise SearchError(f"`{name}` must be above 0, got {value}.")

    def run(
        self, problem: Problem, rng: np.random.Generator, callback: Callback = None
    ) -> SearchResult:
        """Search, starting from a chain of source sets and from all sources bought at once."""
        history = History(callback)
        candidates = []
        first, shares = self.begin(problem)
        starts = first
        for threshold in range(problem.n_thresholds):
            span = problem.span(threshold)
            share = shares[threshold]
            found = self.descend(problem, rng, threshold, starts, share, history, span)
            candidates += problem.candidates(found, threshold)
            # What is good at one threshold is a good start at the next.
            starts = np.vstack([first, found])
        return SearchResult(problem.front(candidates), [*history])

    def begin(self, problem: Problem) -> tuple[Assignments, list[int]]:
        """Return the designs to start from, and the maximum table size after each threshold."""
        fits = FITS if self.fits is None else self.fits
        most = len(problem.table) + fits
        at_once = np.zeros((1, problem.n_sources), dtype=np.int8)
        others = problem.starts
        if others is None:
            others = designs_along_chain(problem, fits // 2)
        starts = np.vstack([at_once, others])
        now, n_thresholds = len(problem.table), problem.n_thresholds
        return starts, [now + (most - now) * (i + 1) // n_thresholds for i in range(n_thresholds)]

    def descend(
        self,
        problem: Problem,
        rng: np.random.Generator,
        threshold: int,
        starts: Assignments,
        most_sets: int,
        history: History,
        span: tuple[float, float] = (0.0, 1.0),
        evaluated: int = 0,
    ) -> Assignments:
        """Search at one threshold from some designs; return the designs of the front found.

        `span` is the part of the whole search that this one covers, as two shares; `evaluated` is
        the number of designs evaluated before, which count towards the budget.
        """
        descent = _Descent(self, problem, rng, threshold, starts, most_sets, span, evaluated)
        descent.evaluate(starts)
        while not descent.is_spent():
            descent.step()
            descent.record(history)
        descent.record(history, always=True)
        return descent.archive.rows


@dataclass
class _Descent:
    """One local search at one threshold, with its budget."""

    search: LocalSearch
    problem: Problem
    rng: np.random.Generator
    threshold: int
    starts: Assignments
    most_sets: int
    span: tuple[float, float]
    evaluated: int

    def __post_init__(self) -> None:
        problem, seconds = self.problem, self.search.seconds
        self.archive = Archive(problem.n_sources)
        self.seen: set[Any] = set()
        self.most = max(self.search.evaluations, self.evaluated + len(self.starts))
        self.recorded = self.evaluated  # designs evaluated at the last entry of the history
        self.idle = 0  # rounds without a new design
        self.deadline = np.inf if seconds is None else time.monotonic() + seconds
        self.sets_before = len(problem.table)
        self.is_frugal = 2.0**problem.n_sources > self.most_sets
        self.walkers: Assignments = np.empty((0, problem.n_sources), dtype=np.int8)
        self.scores = np.empty(0)
        self.weights = np.empty((0, 3))

    def is_spent(self) -> bool:
        """Return whether the budget is used up, or no new designs are left or were met for long."""
        return (
            self.evaluated >= self.most
            or len(self.seen) >= self.problem.n_designs
            or (self.search.fits != 0 and len(self.problem.table) >= self.most_sets)
            or time.monotonic() > self.deadline
            or self.idle >= (20 if self.search.fits != 0 else 3)
        )

    def evaluate(self, designs: Assignments) -> tuple[NDArray[np.intp], Counts]:
        """Evaluate the designs that are new, and return which they are."""
        keys = _keys(designs)
        first = {key: i for i, key in enumerate(keys) if key not in self.seen}
        chosen = self._affordable(designs, np.array(list(first.values()), dtype=np.intp))
        self.seen.update(keys[i] for i in chosen)
        counts = self.problem.evaluate(designs[chosen], self.threshold)
        self.evaluated += len(chosen)
        self.idle = 0 if len(chosen) else self.idle + 1
        self.archive.add(designs[chosen], sort_keys(designs[chosen]), counts)
        return chosen, counts

    def _affordable(self, designs: Assignments, fresh: NDArray[np.intp]) -> NDArray[np.intp]:
        """Choose the designs to evaluate: those that need no fit, and some that need the fewest."""
        if self.is_frugal and len(fresh):
            lacking = self.problem.lacking(designs[fresh])
            free, dear = fresh[lacking == 0], fresh[lacking > 0]
            fewest = int(lacking[lacking > 0].min(initial=99))
            left = max(self.most_sets - len(self.problem.table), 0)
            cheapest = self.rng.permutation(dear[lacking[lacking > 0] == fewest])
            fresh = np.concatenate([free, cheapest[: min(_NEW_SETS, left // fewest)]])
        return fresh[: self.most - self.evaluated]

    def step(self) -> None:
        """Evaluate the neighbours of some designs of the archive and of every walker."""
        looked = self.archive.pick_unexplored(_LOOKED_AROUND, self.rng)
        self._start_walkers()
        centres = np.vstack([looked, self.walkers])
        if not len(centres):  # with few possible designs, walkers may find no start
            self.idle += 1
            return
        problem = self.problem
        made, near = neighbours(
            centres, problem.max_stages, problem.allow_unused, _DIVISIONS, self.rng
        )
        chosen, counts = self.evaluate(made)
        self._walk(made[chosen], near[chosen] - len(looked), counts)

    def _start_walkers(self) -> None:
        """Replace walkers that have stopped by new ones, near designs of the archive."""
        missing = _WALKERS - len(self.walkers)
        if not missing:
            return
        # The archive is empty until a feasible design is found.
        near = self.archive.rows if len(self.archive.rows) else self.starts
        chosen = near[self.rng.integers(len(near), size=missing)]
        starts = perturbed(chosen, self.problem.max_stages, self.problem.allow_unused, self.rng)
        self.walkers = np.vstack([self.walkers, starts])
        self.scores = np.concatenate([self.scores, np.full(len(starts), np.inf)])
        self.weights = np.vstack([self.weights, self.rng.dirichlet(np.ones(3), len(starts))])

    def _walk(self, made: Assignments, walker: NDArray[np.intp], counts: Counts) -> None:
        """Move each walker to its best neighbour; those without a better one stop."""
        n_rows, whole = self.problem.n_rows, self.problem.whole
        met = self.archive.points
        ideal = np.array(
            [met[:, 0].max(initial=0), met[:, 1].max(initial=0), met[:, 2].min(initial=np.inf)]
        )
        scale = np.array([-1.0 / whole, -1.0, 1.0 / max(n_rows * self.problem.total, 1)])
        short = np.maximum((points_of(counts) - ideal) * scale, 0)
        goes_on = np.zeros(len(self.walkers), dtype=np.bool_)
        for i in range(len(self.walkers)):
            near = np.flatnonzero((walker == i) & counts.feasible)
            if not near.size:
                continue
            # The largest weighted shortfall, so that concave parts of the front are reached too.
            weighted = short[near] * self.weights[i]
            scores = weighted.max(axis=1) + 0.05 * weighted.sum(axis=1)
            lowest = int(np.argmin(scores))
            if scores[lowest] < self.scores[i]:
                goes_on[i] = True
                self.scores[i] = scores[lowest]
                self.walkers[i] = made[near[lowest]]
        self.walkers, self.scores = self.walkers[goes_on], self.scores[goes_on]
        self.weights = self.weights[goes_on]

    def record(self, history: History, *, always: bool = False) -> None:
        """Add an entry to the history, about every hundredth of the way."""
        if not always and self.evaluated - self.recorded < self.most / 100:
            return
        self.recorded = self.evaluated
        begin, end = self.span
        # The share of the budget that is used up: of designs or of fits, the larger one.
        fits = max(self.most_sets - self.sets_before, 1)
        share = (len(self.problem.table) - self.sets_before) / fits if self.is_frugal else 0.0
        used = min(max(self.evaluated / self.most, share), 1.0)
        history.append(
            {
                "threshold": self.problem.thresholds[self.threshold],
                "done": end if always else begin + (end - begin) * used,
                "designs": self.evaluated,
                "source_sets": len(self.problem.table),
                "front": len(self.archive.rows),
                "hypervolume": self.problem.hypervolume(self.archive.counts()),
            }
        )


def _keys(designs: Assignments) -> list[Any]:
    """Return a small key for each design that distinguishes it from others."""
    if designs.shape[1] <= 16 and designs.max(initial=0) < 15:
        nibbles = np.uint64(1) << (np.uint64(4) * np.arange(designs.shape[1], dtype=np.uint64))
        numbers: list[Any] = ((designs + 1).astype(np.uint64) @ nibbles).tolist()
        return numbers
    keys: list[Any] = sort_keys(designs).tolist()
    return keys
