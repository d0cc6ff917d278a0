"""What takes long says how far it is, to whoever watches; nobody does unless asked to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

Item = TypeVar("Item")
Watcher = Callable[[str, float], object]  # told what is done, and which share of it
_watchers: list[Watcher] = []
COMPILE = "compile kernels, once for this installation"


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Let somebody be told of all that is followed meanwhile.

    Examples
    --------
    >>> from emsco._ground.progress import followed, watching
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
    """Say what is done now, and which share of it is."""
    for watcher in _watchers:
        watcher(what, done)


def followed(items: Sequence[Item], what: str) -> Iterator[Item]:
    """Give items one by one, and say how many of them are dealt with."""
    for i, item in enumerate(items):
        tell(what, i / len(items))
        yield item
    if items:
        tell(what, 1.0)
