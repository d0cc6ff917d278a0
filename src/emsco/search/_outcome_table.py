"""The table of outcomes: the rows that every source set accepts and gets right, as bits.

A stage's classifier depends only on the set of sources acquired so far. So a set is fitted once,
however many designs, stages and thresholds use it. For every threshold, two bits per row are kept:
accepted, and accepted under the true label. With three or more classes these do not determine a
wrong label, so a few more bits per row hold the label.

Memory: two bits per row, set and threshold, as long as the table exists. In addition, confidences
and labels, nine bytes per row and set, so that other thresholds need no fit. These are kept for the
first sets fitted, up to `memory` bytes; other sets are fitted again if they are needed.

An interrupted run is repeated from its start, with the fits of the earlier run. Its table starts
empty, because searches look at which sets are fitted, and takes the sets that it is asked for from
those fits, in the same order, instead of fitting them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emsco.engine import Engine, LocalEngine
from emsco.learners.protocol import SetFits, parts_of

if TYPE_CHECKING:
    from emsco.learners.protocol import Outcomes
    from emsco.search._stakes import Stakes

Sets = NDArray[np.bool_]  # one row per source set, one column per source
Words = NDArray[np.uint64]

MEMORY = 2**30  # bytes of confidences and labels
_AT_ONCE = 2**26  # bytes of confidences and labels that are computed before they are packed
_TASKS_PER_REPORT = 16  # tasks per worker, at most, between two reports of progress
_REPORT_EVERY = 0.5  # seconds: what takes longer is divided
_DIRECT = 22  # most sources for which the index is an array with an entry for every set: 16 MB


def pack(bits: NDArray[np.bool_]) -> Words:
    """Pack the last axis into words of 64 bits."""
    octets = np.packbits(bits, axis=-1, bitorder="little")
    missing = -octets.shape[-1] % 8
    padded = np.pad(octets, [(0, 0)] * (octets.ndim - 1) + [(0, missing)])
    return padded.view(np.uint64)


def keys_of(sets: Sets) -> NDArray[Any]:
    """Return a key for each source set that can be sorted and compared: its words as one value."""
    words: NDArray[Any] = pack(sets)
    if words.shape[1] == 1:
        return words[:, 0]
    whole: NDArray[Any] = np.ascontiguousarray(words).view(f"V{words.shape[1] * 8}")[:, 0]
    return whole


def _fit_chunk(task: tuple[int, Sets], fits: Sequence[SetFits]) -> Outcomes:
    part, sets = task
    return fits[part].outcomes(sets)


class _DirectIndex:
    """The position of each set, looked up by its number: for few sources."""

    def __init__(self, n_sources: int) -> None:
        self._places = np.full(2**n_sources, -1, dtype=np.int32)

    def find(self, keys: NDArray[Any]) -> NDArray[np.int64]:
        places: NDArray[np.int64] = self._places[keys].astype(np.int64)
        return places

    def add(self, keys: NDArray[Any], first: int) -> None:
        self._places[keys] = np.arange(first, first + len(keys))


class _HashIndex:
    """The position of each set, looked up by its words: for any number of sources."""

    def __init__(self) -> None:
        self._places: dict[Any, int] = {}

    def find(self, keys: NDArray[Any]) -> NDArray[np.int64]:
        unique, inverse = np.unique(keys, return_inverse=True)
        places = [self._places.get(key, -1) for key in unique.tolist()]
        return np.array(places, dtype=np.int64)[inverse.reshape(-1)]

    def add(self, keys: NDArray[Any], first: int) -> None:
        self._places.update((key, first + i) for i, key in enumerate(keys.tolist()))


class FitRecord(NamedTuple):
    """What an earlier run has fitted, in the order in which it was needed."""

    sets: Words  # sets x words
    accepted: Words  # thresholds x sets x words
    right: Words
    labels: Words  # bits of the label's code x sets x words; none with two classes
    outcomes: dict[int, tuple[NDArray[np.float64], NDArray[np.uint8]]]  # by position; of some sets


class OutcomeTable:
    """For each source set, the rows that it accepts and those it gets right, as bits.

    Parameters
    ----------
    fitter : SetFits
        Returns the confidence and the label of every evaluation row for any source sets.
    truth : array of int
        The class of each evaluation row.
    n_sources : int
        The number of sources.
    thresholds : array of shape (n_thresholds, n_classes)
        The alternative thresholds, with one number per class.
    engine : Engine, default=None
        What runs the fits. None: this process alone.
    memory : int, default=2**30
        Bytes of confidences and labels kept.
    stakes : Stakes, default=None
        What is at stake on each evaluation row. None: every row counts as one.
    """

    def __init__(
        self,
        fitter: SetFits,
        truth: NDArray[np.intp],
        n_sources: int,
        thresholds: NDArray[np.float64],
        *,
        engine: Engine | None = None,
        memory: int = MEMORY,
        stakes: Stakes | None = None,
    ) -> None:
        self.fitter = fitter
        self.truth = truth
        self.n_sources = n_sources
        self.thresholds = np.atleast_2d(thresholds)
        self.engine = engine or LocalEngine()
        self.memory = memory
        self.stakes = stakes
        self._watchers: list[Callable[[int], None]] = []
        n_words = -(-len(truth) // 64)
        self.everyone = pack(np.ones((1, len(truth)), dtype=np.bool_))[0]
        self.no_planes = np.empty((n_words, 0), dtype=np.uint64)
        self.planes = self.no_planes if stakes is None else stakes.planes
        self.square_planes = self.no_planes if stakes is None else stakes.square_planes
        self.class_masks = pack(np.arange(self.thresholds.shape[1])[:, None] == truth)
        self._index = _DirectIndex(n_sources) if n_sources <= _DIRECT else _HashIndex()
        self._n_sets = 0
        shape = (len(self.thresholds), 0, n_words)
        self._accepted = np.empty(shape, dtype=np.uint64)
        self._right = np.empty(shape, dtype=np.uint64)
        n_classes = self.thresholds.shape[1]
        n_bits = (n_classes - 1).bit_length() if n_classes > 2 else 0
        self._labels = np.empty((n_bits, 0, n_words), dtype=np.uint64)
        self._sets = np.empty((0, -(-n_sources // 64)), dtype=np.uint64)
        self._outcomes: dict[int, tuple[NDArray[np.float64], NDArray[np.uint8]]] = {}
        self._past: FitRecord | None = None
        self.seconds = 0.0  # that fits took
        self._tasks = 1  # per worker, until progress is reported

    @property
    def n_rows(self) -> int:
        """The number of evaluation rows."""
        return len(self.truth)

    @property
    def batched(self) -> bool:
        """Whether many sets are fitted at a time, which is fast."""
        return self.fitter.chunk > 1

    def __len__(self) -> int:
        return self._n_sets

    @property
    def accepted(self) -> Words:
        """The accepted bits: thresholds x sets, in the order of positions, x words."""
        return self._accepted[:, : len(self)]

    @property
    def right(self) -> Words:
        """The right bits: thresholds x sets, in the order of positions, x words."""
        return self._right[:, : len(self)]

    @property
    def labels(self) -> Words:
        """The bits of the label's code: bits x sets, in the order of positions, x words.

        With two classes there are none, because accepted and right determine the label.
        """
        return self._labels[:, : len(self)]

    def watch(self, on_fit: Callable[[int], None]) -> None:
        """Call this function with the number of fitted sets, before those added earlier."""
        self._watchers.insert(0, on_fit)

    def resume(self, past: FitRecord) -> None:
        """Use the fits of an earlier run, as long as the same sets are needed in the same order."""
        self._past = past

    def record(self) -> FitRecord:
        """Return what is fitted so far, for a later run.

        It has confidences only for all sources together and for each single one, because only
        these are used after a search.
        """
        sets = self._sets[: len(self)]
        n_members = np.unpackbits(sets.view(np.uint8), axis=1).sum(axis=1)
        looked_at = np.flatnonzero((n_members == 1) | (n_members == self.n_sources)).tolist()
        outcomes = {place: self._outcomes[place] for place in looked_at if place in self._outcomes}
        return FitRecord(sets, self.accepted, self.right, self.labels, outcomes)

    def could_hold(self, past: FitRecord) -> bool:
        """Return whether a record is consistent with these rows.

        Accepted rows must exist, right rows must be accepted, labels must agree with both, and
        bits must be those that follow from the confidences and labels that were kept.
        """
        is_true = np.full(past.sets.shape[:1] + self.everyone.shape, ~np.uint64(0))
        for of_label, of_truth in zip(past.labels, self._code_bits(self.truth), strict=True):
            is_true &= ~(of_label ^ of_truth)
        for accepted, right in zip(past.accepted, past.right, strict=True):
            if (accepted & ~self.everyone).any() or (right & ~accepted).any():
                return False
            if len(past.labels) and ((accepted & is_true) != right).any():
                return False
        for place, (confidence, label) in past.outcomes.items():
            if (label >= self.thresholds.shape[1]).any():
                return False
            for i, (accepted, right) in enumerate(self._bits(confidence[None], label[None])):
                same = np.array_equal(accepted[0], past.accepted[i, place])
                if not same or not np.array_equal(right[0], past.right[i, place]):
                    return False
            if not np.array_equal(self._code_bits(label), past.labels[:, place]):
                return False
        return True

    def has(self, sets: Sets) -> NDArray[np.bool_]:
        """Return which sets are fitted already."""
        return self._index.find(keys_of(sets)) >= 0

    def positions(self, sets: Sets) -> NDArray[np.int64]:
        """Return the positions of sets in the table; sets that it lacks are fitted."""
        keys = keys_of(sets)
        found = self._index.find(keys)
        lacking = np.flatnonzero(found < 0)
        if not lacking.size:
            return found
        new, first = np.unique(keys[lacking], return_index=True)
        self._add(sets[lacking[first]], new)
        return self._index.find(keys)

    def outcomes(self, sets: Sets) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
        """Return confidences and labels, sets x rows; sets that were not kept are fitted again."""
        positions = self.positions(sets)
        confidence = np.empty((len(sets), self.n_rows))
        label = np.empty((len(sets), self.n_rows), dtype=np.uint8)
        dropped = np.array(
            [place not in self._outcomes for place in positions.tolist()], dtype=np.bool_
        )
        for i in np.flatnonzero(~dropped):
            confidence[i], label[i] = self._outcomes[positions[i]]
        if dropped.any():
            confidence[dropped], label[dropped] = self._fit(sets[dropped])
        return confidence, label

    @cached_property
    def _parts(self) -> Sequence[SetFits]:
        """The parts to fit: always the same object, because an engine may keep what it has sent."""
        return parts_of(self.fitter)

    def _fit(self, sets: Sets) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
        """Fit sets; a task is one part of the rows and one chunk of the sets.

        Tasks, and so their results, are the same for any number of workers.
        """
        size, parts = self.fitter.chunk, self._parts
        starts = range(0, len(sets), size)
        tasks = [
            (part, sets[start : start + size]) for start in starts for part in range(len(parts))
        ]
        results = iter(self.engine.map(_fit_chunk, tasks, shared=parts))
        confidence = np.empty((len(sets), self.n_rows))
        label = np.empty((len(sets), self.n_rows), dtype=np.uint8)
        ends = np.cumsum([0, *(part.n_rows for part in parts)]).tolist()
        for start in starts:
            for rows in pairwise(ends):
                at = slice(start, start + size), slice(*rows)
                confidence[at], label[at] = next(results)
        return confidence, label

    def _add(self, sets: Sets, keys: NDArray[Any]) -> None:
        """Fit sets and pack their outcomes, a limited number at a time."""
        size, n_workers = self.fitter.chunk, self.engine.n_workers
        most = _AT_ONCE // (9 * self.n_rows) // size
        self._reserve(len(self) + len(sets))
        start = self._remember(sets, keys)
        while start < len(sets):
            # How many tasks there are at a time changes no result, only how often it is reported.
            at_once = max(min(most, self._tasks * n_workers), 1) * size
            part, began = sets[start : start + at_once], time.monotonic()
            confidence, label = self._fit(part)
            places = slice(len(self), len(self) + len(part))
            for i, (accepted, right) in enumerate(self._bits(confidence, label)):
                self._accepted[i, places] = accepted
                self._right[i, places] = right
            self._labels[:, places] = self._code_bits(label)
            seconds = time.monotonic() - began
            self.seconds += seconds
            room = max(self.memory // (9 * self.n_rows) - len(self), 0)
            outcomes = zip(confidence[:room], label[:room], strict=True)
            self._outcomes.update(enumerate(outcomes, start=len(self)))
            self._count(part, keys[start : start + at_once])
            start += len(part)
            self._adapt(seconds, is_full=len(part) == at_once)

    def _adapt(self, seconds: float, *, is_full: bool) -> None:
        """Fit more sets at a time if those took a moment, and fewer if they took long."""
        if seconds > _REPORT_EVERY:
            self._tasks = max(self._tasks // 2, 1)
        elif is_full and seconds < _REPORT_EVERY / 2:
            self._tasks = min(2 * self._tasks, _TASKS_PER_REPORT)

    def _remember(self, sets: Sets, keys: NDArray[Any]) -> int:
        """Take as many of these sets as possible from the earlier run, and return how many.

        The fits of a task depend on one another, so only whole tasks are taken.
        """
        if self._past is None:
            return 0
        first, size = len(self), self.fitter.chunk
        past = self._past.sets[first : first + len(sets)]
        differs = (past != pack(sets[: len(past)])).any(axis=1)
        same = int(differs.argmax()) if differs.any() else len(past)
        if same < len(sets):
            same = same // size * size
        if same:
            places = slice(first, first + same)
            self._accepted[:, places] = self._past.accepted[:, places]
            self._right[:, places] = self._past.right[:, places]
            self._labels[:, places] = self._past.labels[:, places]
            outcomes = self._past.outcomes.items()
            self._outcomes.update(item for item in outcomes if first <= item[0] < first + same)
        if same < len(sets):
            self._past = None  # it has ended, or this run differs from here on
        if same:
            self._count(sets[:same], keys[:same])
        return same

    def _count(self, sets: Sets, keys: NDArray[Any]) -> None:
        """Mark sets as fitted, once their bits are stored, and report progress."""
        first = len(self)
        self._sets[first : first + len(sets)] = pack(sets)
        self._index.add(keys, first)
        self._n_sets += len(sets)  # last, so that an interruption leaves no incomplete set
        for on_fit in self._watchers:
            on_fit(self._n_sets)

    def _reserve(self, n_sets: int) -> None:
        """Make room for `n_sets` sets; at least double the room, so that growing stays cheap."""
        capacity = self._accepted.shape[1]
        if n_sets <= capacity:
            return
        more = max(n_sets, 2 * capacity) - capacity
        grown = [(0, 0), (0, more), (0, 0)]
        self._accepted = np.pad(self._accepted, grown)
        self._right = np.pad(self._right, grown)
        self._labels = np.pad(self._labels, grown)
        self._sets = np.pad(self._sets, grown[1:])

    def _code_bits(self, label: NDArray[Any]) -> Words:
        """Pack the bits of label codes, the lowest bit first, as many as the table keeps."""
        planes = np.arange(len(self._labels)).reshape(-1, *[1] * label.ndim)
        return pack((label >> planes & 1).astype(np.bool_))

    def _bits(
        self, confidence: NDArray[np.float64], label: NDArray[np.uint8]
    ) -> Iterator[tuple[Words, Words]]:
        """Yield the accepted and the right bits at each threshold."""
        is_true = pack(label == self.truth)
        for by_class in self.thresholds:
            # One number for all classes needs no look at the labels, which takes longer than this.
            least = by_class[label] if np.ptp(by_class) else by_class[0]
            accepted = pack(confidence >= least)
            yield accepted, accepted & is_true
