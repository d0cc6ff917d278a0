"""Answers kept for the next caller, for a while and not too many."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")

MOST_KEPT = 100_000  # answers of one source


class Cache(Generic[T]):
    """Keeps values for some seconds; of too many, those used longest ago are dropped.

    Parameters
    ----------
    ttl : float or None
        For how many seconds a value is kept. None: not at all.
    most : int, default=100_000
        How many values are kept.
    clock : callable, default=time.monotonic
        Gives the time in seconds.

    Examples
    --------
    >>> from emsco.live.cache import Cache
    >>> now = 0.0
    >>> cache = Cache(ttl=10.0, most=2, clock=lambda: now)
    >>> for name in "abc":
    ...     cache.put(name, name.upper())
    >>> cache.get("a") is None, cache.get("c")
    (True, 'C')
    >>> now = 11.0
    >>> cache.get("c") is None
    True
    """

    def __init__(
        self,
        ttl: float | None,
        most: int = MOST_KEPT,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ttl, self._most, self._clock = ttl, most, clock
        self._kept: OrderedDict[Hashable, tuple[float, T]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Hashable) -> T | None:
        """Give what is kept under a key; None where nothing is, or where it was kept too long."""
        found = self._kept.get(key)
        if found is None or self._ttl is None:
            return None
        until, value = found
        if self._clock() > until:
            del self._kept[key]
            return None
        self._kept.move_to_end(key)
        return value

    def put(self, key: Hashable, value: T) -> None:
        """Keep a value."""
        if self._ttl is None:
            return
        self._kept[key] = (self._clock() + self._ttl, value)
        self._kept.move_to_end(key)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
