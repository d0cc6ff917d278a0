"""An LRU cache with a TTL."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")

MAX_ENTRIES = 100_000  # answers of one source


class Cache(Generic[T]):
    """An LRU cache with a TTL.

    Parameters
    ----------
    ttl : float or None
        The number of seconds for which a value is cached. None: nothing is cached.
    most : int, default=100_000
        The maximum number of values.
    clock : callable, default=time.monotonic
        Returns the time in seconds.

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
        most: int = MAX_ENTRIES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ttl, self._most, self._clock = ttl, most, clock
        self._entries: OrderedDict[Hashable, tuple[float, T]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable) -> T | None:
        """Return the value of a key; None if there is none, or it has expired."""
        found = self._entries.get(key)
        if found is None or self._ttl is None:
            return None
        until, value = found
        if self._clock() > until:
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return value

    def put(self, key: Hashable, value: T) -> None:
        """Add or replace a value."""
        if self._ttl is None:
            return
        self._entries[key] = (self._clock() + self._ttl, value)
        self._entries.move_to_end(key)
        while len(self._entries) > self._most:
            self._entries.popitem(last=False)
