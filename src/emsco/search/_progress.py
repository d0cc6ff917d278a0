"""Progress of a search: reported to a callback at every event, and to the terminal at times."""

from __future__ import annotations

import importlib
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, TextIO

State = dict[str, Any]

_BAR_WIDTH = 12
_BAR_EVERY = 0.1  # seconds between two updates of the bar
_LINES_EVERY = 2.0
_KNOWN_FROM = (0.01, 0.5)  # share and seconds of a phase before its end can be estimated
_ALWAYS_SHOWN = ("read", "fit", "done")  # phases: their beginning is a line at once
_LEFT_OUT_FIRST = ("hypervolume", "source_sets", "seconds", "front")  # if a line is too long


class Progress:
    """The progress of a running search, as a context manager around it.

    Parameters
    ----------
    callback : callable, default=None
        Called with a new dict at every event: `phase` ("read", "fit", "search", "thresholds",
        "luck", "refit" or "done"), `source_sets` fitted, `designs` evaluated, the size of the
        `front` and its `hypervolume` as last known, the share `done` of the phase, `seconds` since
        the start, and `seconds_left` of the phase, None while unknown. An exception in it stops the
        search.
    verbose : int, default=0
        0 prints nothing; 1 shows a bar if standard error is a terminal and rich is installed,
        otherwise a line every two seconds; 2 prints a line at every event, on standard error.
    total_sets : int, default=None
        The maximum number of source sets; None if unknown.
    clock : callable, default=time.monotonic
        Returns seconds.

    Examples
    --------
    >>> from emsco.search._progress import Progress
    >>> with Progress(lambda state: print(state["phase"], state["done"]), total_sets=8) as progress:
    ...     progress.fitted(4)
    ...     progress.searched({"designs": 12, "front": 3, "done": 0.25})
    fit 0.5
    search 0.25
    done 1.0
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
        self._verbose = verbose
        self._total_sets = total_sets
        self._clock = clock
        self._output: _Lines | _Bar | None = None
        self._due = -float("inf")  # when the output may be written next
        self._start = self._last = clock()
        self._source_sets = 0
        self._designs = 0
        self._designs_before = 0  # at earlier thresholds
        self._threshold: Any = None
        self._front = 0
        self._hypervolume = 0.0
        self._past = 0  # source sets that a checkpoint has
        self._begin("fit", self._start)

    def __enter__(self) -> Progress:
        self._output = _output(self._verbose)
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
            if self._output is not None:
                self._output.close()

    def goes_on(self, source_sets: int) -> None:
        """Report how many source sets a checkpoint has, which need not be fitted again."""
        self._past = source_sets
        if self._output is not None:
            self._output.say(f"emsco: goes on from a checkpoint with {source_sets:,} source sets")

    def begin_fits(self, total_sets: int | None) -> None:
        """Report that fits begin, and how many source sets there are at most, if it is known."""
        self._total_sets = total_sets
        self.phase("fit")

    def fitted(self, source_sets: int) -> None:
        """Report how many source sets are fitted so far."""
        now = self._clock()
        self._source_sets = int(source_sets)
        if self._phase == "fit" and self._total_sets:
            self._advance(source_sets / self._total_sets, now)
        if source_sets <= self._past:  # from the checkpoint, faster than what is left
            self._since, self._done_before = now, self._done
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
        self._advance(entry.get("done", 0.0), now)
        self._report(now)

    def phase(self, name: str) -> None:
        """Report that another phase begins."""
        now = self._clock()
        self._begin(name, now)
        if name == "done":
            self._advance(1.0, now)
        # Otherwise a bar would show the previous phase until the next event, perhaps for long; and
        # with many classes even the first event of "fit" may be minutes away.
        self._report(now, always=name in _ALWAYS_SHOWN or isinstance(self._output, _Bar))

    def _begin(self, phase: str, since: float) -> None:
        self._phase, self._since = phase, since
        self._done = 0.0  # share of the phase
        self._done_before = 0.0  # the part that came from a checkpoint
        self._expected = 0.0  # seconds that the phase takes from `since` to its end

    def _advance(self, done: float, now: float) -> None:
        # Only if the share grows: time that passes between two steps does not mean slowness.
        if done > self._done:
            self._done = min(float(done), 1.0)
            share = (self._done - self._done_before) / (1 - self._done_before)
            self._expected = (now - self._since) / share

    def _count(self, entry: Mapping[str, Any]) -> None:
        threshold = entry.get("threshold", self._threshold)
        designs = int(entry.get("designs", 0))
        here = self._designs - self._designs_before
        # A smaller count also starts anew: it is of another search at the same threshold.
        if threshold != self._threshold or 0 < designs < here:
            self._threshold, self._designs_before, here = threshold, self._designs, 0
        self._designs = self._designs_before + max(here, designs)

    def _seconds_left(self, now: float) -> float | None:
        if self._done == 1:
            return 0.0
        elapsed, gained = now - self._since, self._done - self._done_before
        if gained < _KNOWN_FROM[0] or elapsed < _KNOWN_FROM[1]:
            return None
        # If a step is overdue, the estimate grows again, instead of "0 left" for minutes.
        overdue = elapsed * (1 - self._done) / gained / 2
        return max(self._expected - elapsed, overdue)

    def _report(self, now: float, *, always: bool = False) -> None:
        self._last = now
        is_due = self._output is not None and (always or now >= self._due)
        if self._callback is None and not is_due:
            return
        state = {
            "phase": self._phase,
            "source_sets": self._source_sets,
            "designs": self._designs,
            "front": self._front,
            "hypervolume": self._hypervolume,
            "done": self._done,
            "seconds": now - self._start,
            "seconds_left": self._seconds_left(now),
        }
        if self._output is not None and is_due:
            self._output.show(state)
            self._due = now + self._output.every
        if self._callback is not None:
            self._callback(state)  # last, because the dict is its own now


class _Lines:
    """Progress as lines of text, at least `every` seconds apart."""

    def __init__(self, stream: TextIO, every: float) -> None:
        self.stream, self.every = stream, every

    def show(self, state: State) -> None:
        width = shutil.get_terminal_size().columns if self.stream.isatty() else None
        self.say(_line(state, width))

    def say(self, text: str) -> None:
        self.stream.write(f"{text}\n")
        self.stream.flush()

    def close(self) -> None:
        """Leave the lines where they are."""


class _Bar:
    """Progress as a bar of rich, replaced by a line of text when the search has succeeded."""

    every = _BAR_EVERY

    def __init__(self, console: Any) -> None:
        rich = importlib.import_module("rich.progress")
        self.console = console
        self.bar = rich.Progress(
            rich.TextColumn("{task.description}", markup=False),
            rich.BarColumn(_BAR_WIDTH),
            rich.TextColumn("{task.fields[details]}", markup=False),
            console=console,
            transient=True,
            auto_refresh=False,  # no thread: user code may fork
            # Text printed to a terminal goes above the bar; a file still gets what is written.
            redirect_stdout=sys.stdout is not None and sys.stdout.isatty(),
        )
        self.task = self.bar.add_task("", total=1.0, details="")

    def show(self, state: State) -> None:
        width = self.console.width
        if state["phase"] == "done":
            self.close()
            self.say(_line(state, width))
            return
        head = _head(state)
        details = _known(state, width - len(head) - _BAR_WIDTH - 2)
        self.bar.update(self.task, description=head, completed=state["done"], details=details)
        self.bar.start()
        self.bar.refresh()

    def say(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False)

    def close(self) -> None:
        self.bar.stop()


def _output(verbose: int) -> _Lines | _Bar | None:
    """Choose the output; rich is used if it is installed."""
    if verbose < 1 or sys.stderr is None:
        return None
    if verbose < 2 and sys.stderr.isatty():
        try:
            console = importlib.import_module("rich.console").Console(stderr=True)
        except ImportError:
            pass
        else:
            if console.is_interactive:
                return _Bar(console)
    return _Lines(sys.stderr, _LINES_EVERY if verbose < 2 else 0.0)


def _line(state: State, width: int | None = None) -> str:
    head = f"{_head(state)}: "
    return head + _known(state, None if width is None else width - len(head))


def _head(state: State) -> str:
    share = f" {state['done']:.0%}" if state["done"] and state["phase"] != "done" else ""
    return f"emsco: {state['phase']}{share}"


def _known(state: State, width: int | None = None) -> str:
    """Describe what is known; leave out the least important parts until it fits."""
    parts = {"source_sets": f"{state['source_sets']:,} source sets"}
    if state["designs"]:
        parts["designs"] = f"{state['designs']:,} designs"
        parts["front"] = f"front {state['front']:,}"
    if state["hypervolume"]:
        parts["hypervolume"] = f"hypervolume {state['hypervolume']:.3f}"
    parts["seconds"] = _minutes(state["seconds"])
    if round(state["seconds_left"] or 0):
        parts["seconds_left"] = f"about {_minutes(state['seconds_left'])} left"
    for part in _LEFT_OUT_FIRST:
        if width is None or len(", ".join(parts.values())) <= width:
            break
        parts.pop(part, None)
    return ", ".join(parts.values())


def _minutes(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
