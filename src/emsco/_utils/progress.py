"""Progress of long tasks, for callers that watch it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")
Watcher = Callable[[str, float], object]  # called with the task and the share of it that is done
_watchers: list[Watcher] = []
COMPILE = "compile kernels, once for this installation"


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
