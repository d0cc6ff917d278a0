"""Exhaustive search: walk all nested source sets and read the exact front from one small table.

For each pair of counts (accepted, wrong) only the cheapest design can be on the front. For each
such cell, the walk therefore keeps the lowest cost, the number of designs that share it, and the
simplest of them. The table is dense if the cells take at most 256 MB; otherwise, as with nearly all
stakes, it is a list of designs from which dominated ones are removed whenever it is full.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emsco._core import walk
from emsco.engine import LocalEngine, local_threads
from emsco.exceptions import SearchError
from emsco.search._outcome_table import Sets, Words
from emsco.search._problem import Counts, Problem, SearchResult
from emsco.search.strategies._archive import MAXIMISE, Callback, points_of

MOST_SOURCES = 16  # four bits each in a key of 64, and 2**16 source sets
DENSE_BYTES = 2**28
_LIST_ENTRIES = 2**15
_CELL_BYTES = 32  # least paid, ties, stages and key
_PART = 2e9  # designs times words between two reports of progress: a few seconds
_MOST_PARTS = 32
_NOBODY = np.iinfo(np.int64).max  # what a cell costs before any design has reached it
_SIEVE = 256  # rows and columns of the coarse table that keeps dominated designs off a list


@dataclass(frozen=True)
class Exhaustive:
    """Exhaustive search, which evaluates every design and returns the exact front.

    Under "ties", the history says how many designs share each evaluation of the front at a
    threshold.

    Parameters
    ----------
    most : float, default=1e12
        The maximum amount of work, as the number of designs times the number of 64-row words times
        the number of thresholds. The default takes about three hours on one core; a larger search
        is refused.

    Examples
    --------
    >>> from emsco import StageDesign
    >>> StageDesign.count(14, 4)  # what a search over 14 sources in up to 4 stages walks
    254152083
    """

    most: float = 1e12

    def run(
        self,
        problem: Problem,
        rng: np.random.Generator | None = None,  # noqa: ARG002  # nothing is left to chance
        callback: Callback = None,
    ) -> SearchResult:
        """Fit every source set, evaluate every design and keep the front."""
        n_sources, words = problem.n_sources, -(-problem.n_rows // 64)
        designs = problem.n_designs
        if n_sources > MOST_SOURCES or designs * words * problem.n_thresholds > self.most:
            raise SearchError(
                f"An exhaustive search of {n_sources} sources in up to {problem.max_stages} stages "
                f"has {designs:.3g} designs in {2.0**n_sources:.3g} source sets over "
                f"{problem.n_rows} rows; use Hybrid(), fewer stages, or fewer sources "
                f"(at most {MOST_SOURCES})."
            )
        walk = _Walk.prepare(problem)
        history: list[dict[str, Any]] = []
        candidates = []
        for threshold in range(problem.n_thresholds):
            for best, walked, share in walk.run(threshold):
                entry = {
                    "threshold": problem.thresholds[threshold],
                    "done": (threshold + share) / problem.n_thresholds,
                    "source_sets": len(problem.table),
                    "designs": walked,
                    "front": len(best.paid),
                    "hypervolume": problem.hypervolume(best.counts()),
                    "ties": best.ties.tolist(),
                }
                if callback is not None:
                    callback(entry)
            candidates += problem.candidates(best.assignments(problem.n_sources), threshold)
            history.append(entry)
        return SearchResult(problem.front(candidates), history)


class _ExactDesigns(NamedTuple):
    """Designs with their counts, one per cell of the table or entry of the list."""

    accepted: NDArray[np.int64]
    right: NDArray[np.int64]
    paid: NDArray[np.int64]
    ties: NDArray[np.int64]
    stages: NDArray[np.int64]
    keys: NDArray[np.uint64]

    @classmethod
    def of_cells(
        cls, least: NDArray[np.int64], cells: NDArray[np.int64], keys: NDArray[np.uint64]
    ) -> _ExactDesigns:
        (reached,) = (least < _NOBODY).nonzero()
        accepted, wrong = np.divmod(reached, int(np.sqrt(len(least))))
        ties, stages = cells[reached].T
        return cls(accepted, accepted - wrong, least[reached], ties, stages, keys[reached])

    @classmethod
    def joined(cls, parts: list[_ExactDesigns]) -> _ExactDesigns:
        return cls(*map(np.concatenate, zip(*parts, strict=True)))

    def _take(self, rows: NDArray[Any]) -> _ExactDesigns:
        return _ExactDesigns(*(values[rows] for values in self))

    def front(self) -> _ExactDesigns:
        """Keep the simplest design of each evaluation, and of these the non-dominated ones."""
        import moocore

        order = np.lexsort((self.keys, self.stages, self.paid, self.right, self.accepted))
        counts = np.stack([self.accepted[order], self.right[order], self.paid[order]])
        first = np.ones(len(order), dtype=np.bool_)
        first[1:] = (np.diff(counts, axis=1) != 0).any(axis=0)
        starts = np.flatnonzero(first & (counts[0] > 0))
        ties = np.add.reduceat(self.ties[order], np.flatnonzero(first)) if len(order) else self.ties
        simplest = self._take(order[starts])._replace(ties=ties[counts[0][first] > 0])
        if not len(starts):
            return simplest
        points = points_of(simplest.counts())
        return simplest._take(moocore.is_nondominated(points, maximise=MAXIMISE))

    def counts(self) -> Counts:
        """Return the evaluations as counts."""
        return Counts(self.accepted > 0, self.accepted, self.right, self.paid)

    def assignments(self, n_sources: int) -> NDArray[np.int8]:
        """Decode the designs from their keys: four bits per source, the first source highest."""
        shifts = np.uint64(4) * (np.uint64(15) - np.arange(n_sources, dtype=np.uint64))
        stages: NDArray[np.uint64] = (self.keys[:, None] >> shifts) & np.uint64(15)
        return stages.astype(np.int8) - np.int8(1)


@dataclass(frozen=True)
class _Walk:
    """All source sets with their prices; the position of a set is the number that its bits form."""

    problem: Problem
    sets: Sets
    exists: NDArray[np.bool_]
    positions: NDArray[np.int64]
    prices: NDArray[np.int64]
    spread: NDArray[np.uint64]

    @classmethod
    def prepare(cls, problem: Problem) -> _Walk:
        numbers = np.arange(2**problem.n_sources, dtype=np.uint64)
        places = np.arange(problem.n_sources, dtype=np.uint64)
        sets = ((numbers[:, None] >> places) & np.uint64(1)).astype(np.bool_)
        exists = problem.exist(sets)
        exists[0] = False  # the empty set is not a stage
        positions = np.zeros(len(sets), dtype=np.int64)
        positions[exists] = problem.table.positions(sets[exists])
        nibbles = np.uint64(1) << (np.uint64(4) * (np.uint64(15) - places))
        spread = sets.astype(np.uint64) @ nibbles
        return cls(problem, sets, exists, positions, problem.prices(sets), spread)

    @property
    def threads(self) -> int:
        """The number of threads that walk, in this process, which has the bits."""
        return local_threads(self.problem.table.engine)

    def run(self, threshold: int) -> Iterator[tuple[_ExactDesigns, int, float]]:
        """Evaluate every design at one threshold, on as many threads as requested.

        Yields, from time to time, the front so far, the number of designs evaluated, and the share
        of the work that is done.
        """
        table = self.problem.table
        accepted = table.accepted[threshold, self.positions]
        right = table.right[threshold, self.positions]
        workers = LocalEngine(self.threads)
        firsts = np.flatnonzero(self.exists)
        # Sets of the same size take the same time, so dealing them out in turn balances the work.
        firsts = firsts[np.argsort(self.sets[firsts].sum(axis=1), kind="stable")]
        words = self.problem.n_designs * len(table.everyone)
        n_parts = int(np.clip(words / _PART, 1, min(_MOST_PARTS, self.exists.sum())))
        fronts: list[_ExactDesigns] = []
        walked = 0
        for part in range(n_parts):
            own = firsts[part::n_parts]
            chunks = [own[i :: workers.n_workers].copy() for i in range(workers.n_workers)]
            found = workers.map(self._walk_chunk, chunks, shared=(accepted, right))
            fronts = [_ExactDesigns.joined([*fronts, *(front for front, _ in found)]).front()]
            walked += sum(designs for _, designs in found)
            yield fronts[0], walked, (part + 1) / n_parts

    def _limited(self, most: NDArray[np.int64]) -> tuple[Words, NDArray[np.int64]]:
        """Return the masks of the classes with a limit, and their maximum numbers of rows."""
        limited = most < self.problem.class_rows
        return self.problem.table.class_masks[limited], most[limited]

    def _walk_chunk(
        self, firsts: NDArray[np.int64], bits: tuple[Words, Words]
    ) -> tuple[_ExactDesigns, int]:
        problem = self.problem
        depths, whole = problem.max_stages + 2, problem.whole
        masks, most_missed = self._limited(problem.most_missed)
        reject_masks, most_rejected = self._limited(problem.most_rejected)
        undecided = np.zeros((depths, len(problem.table.everyone)), dtype=np.uint64)
        undecided[0] = problem.table.everyone
        sums = np.zeros((depths, 4), dtype=np.int64)
        sums[0, 3] = problem.n_rows
        state = np.zeros(4, dtype=np.int64)
        dense = (whole + 1) ** 2 * _CELL_BYTES * self.threads <= DENSE_BYTES
        width = whole + 1 if dense else _SIEVE + 1
        step = 0 if dense else whole // _SIEVE + 1
        least = np.full(width**2, _NOBODY)
        entries = width**2 if dense else _LIST_ENTRIES + len(self.sets)
        cells = np.zeros((entries, 2 if dense else 4), dtype=np.int64)
        keys = np.zeros(entries, dtype=np.uint64)
        chain, rest, following = (np.zeros(depths, dtype=np.int64) for _ in range(3))
        missed = np.zeros((depths, len(masks)), dtype=np.int64)
        spreads = np.zeros(depths, dtype=np.uint64)
        found: list[_ExactDesigns] = []
        done = False
        while not done:
            done = walk(
                firsts, bits[0], bits[1], self.prices, self.exists, self.spread, masks, most_missed,
                reject_masks, most_rejected, least, cells, keys, state, chain, rest, following,
                undecided, sums, missed, spreads, problem.table.planes, problem.max_stages,
                not problem.allow_unused, width, step,
            )  # fmt: skip
            if dense:
                found = [_ExactDesigns.of_cells(least, cells, keys)]
            else:
                paid, got, good, stages = cells[: state[3]].T.copy()
                own = keys[: state[3]].copy()
                listed = _ExactDesigns(got, good, paid, np.ones_like(paid), stages, own)
                found = [_ExactDesigns.joined([*found, listed]).front()]
                # Each place gets the lowest cost of designs that accept as many, as few wrongly.
                sieve = least.reshape(width, width)
                wrong = found[0].accepted - found[0].right
                np.minimum.at(sieve, (found[0].accepted // step, wrong // step), found[0].paid)
                best = np.minimum.accumulate(sieve[::-1], axis=0)[::-1]
                sieve[:] = np.minimum.accumulate(best, axis=1)
                state[3] = 0
        return found[0], int(state[2])


def count_sets(problem: Problem) -> int | None:
    """Count the source sets that an exhaustive search fits; None if there are too many."""
    if problem.n_sources > MOST_SOURCES:
        return None
    numbers = np.arange(1, 2**problem.n_sources)
    return int(problem.exist((numbers[:, None] >> np.arange(problem.n_sources) & 1) > 0).sum())
