"""The progress of a search: reported to a callback at every event, and shown at times."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from emsco._utils.progress import Pace, ProgressBar, minutes, open_display
from emsco.search._workload import FitTimes, WorkDone, Workload, seconds_left

State = dict[str, Any]

_ALWAYS_SHOWN = ("read", "fit", "done")  # phases: their beginning is a line at once
_LEFT_OUT_FIRST = ("hypervolume", "source_sets", "seconds", "front")  # if a line is too long


class Progress:
    """The progress of a running search, as a context manager around it.

    `callback` gets a new dict at every event: `phase` ("read", "fit", "search", "thresholds",
    "luck", "refit" or "done"), `source_sets` fitted, `designs` evaluated, the size of the `front`
    and its `hypervolume` as last known, the share `done` of the phase, `seconds` since the start,
    and `seconds_left` before the refit, None while unknown. An exception in it stops the search.
    """

    def __init__(
        self,
        callback: Callable[[State], object] | None = None,
        verbose: int = 0,
        *,
        total_sets: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._callback = callback
        self._display = open_display(verbose)
        self._total_sets = total_sets  # at most; None if unknown
        self._clock = clock
        self._due = -float("inf")  # when progress may be shown next
        self._start = self._last = clock()
        self._source_sets = 0
        self._designs = 0
        self._designs_before = 0  # at earlier thresholds
        self._threshold: Any = None
        self._front = 0
        self._hypervolume = 0.0
        self._past = 0  # source sets that a checkpoint has
        self._learner = ""  # its name, if there are several
        self._work: Workload | None = None
        self._fit_seconds: Callable[[], float] = float
        self._began = self._start  # when fits began
        self._done, self._fit_times = WorkDone(0, 0.0, 0.0, 0.0), FitTimes()
        self._begin("fit", self._start)

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                self.phase("done")
        finally:
            if self._display is not None:
                self._display.release()

    def goes_on(self, source_sets: int) -> None:
        """Report how many source sets a checkpoint has, which need not be fitted again."""
        self._past = source_sets
        if self._display is not None:
            self._display.say(f"emsco: goes on from a checkpoint with {source_sets:,} source sets")

    def begin_fits(
        self,
        total_sets: int | None,
        work: Workload | None = None,
        fit_seconds: Callable[[], float] = float,
        *,
        learner: str = "",
    ) -> None:
        """Report that fits begin, and how many source sets there are at most, if it is known.

        With several learners this is called for each, and all counts begin anew.

        With the expected work of all phases, `seconds_left` is that of the whole search;
        `fit_seconds` returns how many seconds fits have taken.
        """
        self._total_sets, self._work, self._fit_seconds = total_sets, work, fit_seconds
        self._learner, self._done = learner, WorkDone(0, 0.0, 0.0, 0.0)
        self._fit_times = FitTimes()
        self._source_sets = self._past = self._designs = self._designs_before = self._front = 0
        self._threshold, self._hypervolume = None, 0.0
        self.phase("fit")
        self._began = self._last

    def fitted(self, source_sets: int) -> None:
        """Report how many source sets are fitted so far."""
        now = self._clock()
        self._source_sets = int(source_sets)
        if self._phase == "fit" and self._total_sets:
            self._pace.advance(source_sets / self._total_sets, now)
        if source_sets <= self._past:  # from the checkpoint, faster than what is left
            self._pace.restart(now)
        self._report(now)

    def searched(self, entry: Mapping[str, Any]) -> None:
        """Report an entry of a search's history; values that it lacks stay as they were."""
        now = self._clock()
        if self._phase == "fit":
            self._begin("search", self._last)  # it has been searching since the last fit
        self._source_sets = int(entry.get("source_sets", self._source_sets))
        self._front = int(entry.get("front", self._front))
        self._hypervolume = float(entry.get("hypervolume", self._hypervolume))
        self._count(entry)
        self._pace.advance(entry.get("done", 0.0), now)
        self._report(now)

    def advanced(self, what: str, done: float) -> None:
        """Report which share of the phase is done, as a watcher."""
        del what
        self.searched({"done": done})

    def phase(self, name: str) -> None:
        """Report that another phase begins."""
        now = self._clock()
        self._begin(name, now)
        if name == "done":
            self._pace.advance(1.0, now)
        # Otherwise a bar would show the previous phase until the next event, perhaps for long; and
        # with many classes even the first event of "fit" may be minutes away.
        always = name in _ALWAYS_SHOWN or isinstance(self._display, ProgressBar)
        self._report(now, always=always)

    def _begin(self, phase: str, since: float) -> None:
        self._phase, self._pace = phase, Pace(since)

    def _count(self, entry: Mapping[str, Any]) -> None:
        threshold = entry.get("threshold", self._threshold)
        designs = int(entry.get("designs", 0))
        here = self._designs - self._designs_before
        # A smaller count also starts anew: it is of another search at the same threshold.
        if threshold != self._threshold or 0 < designs < here:
            self._threshold, self._designs_before, here = threshold, self._designs, 0
        self._designs = self._designs_before + max(here, designs)

    def _state(self, now: float) -> State:
        return {
            "phase": self._phase,
            "source_sets": self._source_sets,
            "designs": self._designs,
            "front": self._front,
            "hypervolume": self._hypervolume,
            "done": self._pace.done,
            "seconds": now - self._start,
            "seconds_left": self._seconds_left(now),
        }

    def _note_work(self, now: float) -> None:
        """Note what is done of fits and search, which alternate."""
        if self._phase in ("fit", "search"):
            took = self._fit_seconds()
            share = self._pace.done if self._phase == "search" else 0.0
            n_sets = max(self._source_sets - self._past, 0)
            self._fit_times.note(n_sets, took)
            searched = max(now - self._began - took, 0.0)
            self._done = WorkDone(n_sets, took, share, searched, self._fit_times.lately)

    def _seconds_left(self, now: float) -> float | None:
        """Estimate what is left of all phases; of this one if their work is unknown."""
        own = self._pace.seconds_left(now)
        if self._work is None or self._phase not in ("fit", "search", *self._work.after_search):
            return own
        left = seconds_left(self._work, self._done, self._phase, own)
        since = now - self._last  # the last event, which may be overdue
        return max(left - since, left / 2)

    def _report(self, now: float, *, always: bool = False) -> None:
        self._last = now
        self._note_work(now)
        if self._display is not None and (always or now >= self._due):
            self._due = now + self._display.every
            head, done = f"emsco: {self._named_phase()}", self._pace.done
            if self._phase == "done":
                self._display.end(head, self._details)
            else:
                self._display.show(f"{head} {done:.0%}" if done else head, done, self._details)
        if self._callback is not None:
            self._callback(self._state(now))

    def _named_phase(self) -> str:
        searching = self._phase in ("fit", "search", "thresholds", "luck")
        return f"{self._learner} {self._phase}" if searching and self._learner else self._phase

    def _details(self, width: int | None) -> str:
        """Describe what is known now; leave out the least important parts until it fits."""
        state = self._state(self._clock())
        parts = {"source_sets": f"{state['source_sets']:,} source sets"}
        if state["designs"]:
            parts["designs"] = f"{state['designs']:,} designs"
            parts["front"] = f"front {state['front']:,}"
        if state["hypervolume"]:
            parts["hypervolume"] = f"hypervolume {state['hypervolume']:.3f}"
        parts["seconds"] = minutes(state["seconds"])
        if round(state["seconds_left"] or 0):
            parts["seconds_left"] = f"about {minutes(state['seconds_left'])} left"
        for part in _LEFT_OUT_FIRST:
            if width is None or len(", ".join(parts.values())) <= width:
                break
            parts.pop(part, None)
        return ", ".join(parts.values())
