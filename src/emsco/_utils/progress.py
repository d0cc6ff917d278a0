"""Progress of long tasks: reported by what works, for callers that watch it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")
Watcher = Callable[[str, float], object]  # called with the task and the share of it that is done
_watchers: list[Watcher] = []
COMPILE = "compile kernels, once for this installation"
_KNOWN_FROM = (0.01, 0.5)  # share and seconds of a task before its end can be estimated


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Report the progress of all tasks inside the block to a watcher.

    Examples
    --------
    >>> from emsco._utils.progress import followed, watching
    >>> with watching(lambda what, done: print(what, done)):
    ...     total = sum(followed([1, 2], "add"))
    add 0.0
    add 0.5
    add 1.0
    """
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


def tell(what: str, done: float = 0.0) -> None:
    """Report the current task, and which share of it is done."""
    for watcher in _watchers:
        watcher(what, done)


def followed(items: Sequence[Item], what: str) -> Iterator[Item]:
    """Yield items one by one, and report which share of them is done."""
    for i, item in enumerate(items):
        tell(what, i / len(items))
        yield item
    if items:
        tell(what, 1.0)


class Pace:
    """How far a task is, and how many seconds are left of it."""

    def __init__(self, since: float) -> None:
        self._since = since
        self.done = 0.0  # the share that is done
        self._before = 0.0  # the share that was done at `since`
        self._expected = 0.0  # seconds from `since` to the end

    def advance(self, done: float, now: float) -> None:
        """Set the share that is done; only growth counts, because steps take time."""
        if done > self.done:
            self.done = min(float(done), 1.0)
            self._expected = (now - self._since) * (1 - self._before) / (self.done - self._before)

    def restart(self, now: float) -> None:
        """Leave out what is done so far: it says nothing about the speed of the rest."""
        self._since, self._before = now, self.done

    def seconds_left(self, now: float) -> float | None:
        """Estimate the seconds that are left; None while unknown."""
        if self.done == 1:
            return 0.0
        elapsed, gained = now - self._since, self.done - self._before
        if gained < _KNOWN_FROM[0] or elapsed < _KNOWN_FROM[1]:
            return None
        # If a step is overdue, the estimate grows again, instead of "0 left" for minutes.
        overdue = elapsed * (1 - self.done) / gained / 2
        return max(self._expected - elapsed, overdue)
