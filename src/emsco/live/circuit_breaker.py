"""A circuit breaker: a source that fails again and again is left alone, and then met carefully.

Why it is our own: while a breaker is open, one trial call a second must be all, and afterwards the
number of calls must grow from one. In purgatory 3.0, circuitbreaker 2.1 and aiobreaker 1.2 every
call that arrives while a trial is under way is made too, and after it all calls return at once;
pybreaker 1.4 is asynchronous with tornado only. What we need besides is a counter.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable

_PAUSE = 1.0  # seconds between trial calls
JUDGED = 50  # requests whose values are remembered as valid or not
_MOST_INVALID = JUDGED // 2


class Breaker:
    """Says whether a source may be asked, and how many calls may be under way.

    It opens after some failures in a row, and when half of the last 50 different requests got
    values that are invalid. While it is open, one trial call a second is allowed;
    after the first that succeeds the source is asked again, by one call at a time, then by two, by
    four, until its own limit is reached. A failure on the way opens it at once.

    Parameters
    ----------
    failures : int
        After how many failures in a row it opens.
    concurrency : int
        How many calls the source takes at a time when it is well.
    clock : callable, default=time.monotonic
        Gives the time in seconds.

    Examples
    --------
    >>> from emsco.live.circuit_breaker import Breaker
    >>> now = 0.0
    >>> breaker = Breaker(failures=2, concurrency=32, clock=lambda: now)
    >>> breaker.failed()
    >>> breaker.allows()
    True
    >>> breaker.failed()
    >>> breaker.allows()
    False
    >>> now = 1.5  # time for a trial call
    >>> breaker.allows(), breaker.allows()
    (True, False)
    >>> breaker.succeeded()
    >>> breaker.limit
    1
    """

    def __init__(
        self, failures: int, concurrency: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most, self._concurrency, self._clock = failures, concurrency, clock
        self._failures = 0
        self._tried: float | None = None  # when the last trial began; None: it is closed
        self._limit = concurrency
        self._judged: dict[Hashable, bool] = {}  # whether a request got invalid values

    @property
    def is_open(self) -> bool:
        """Whether the source is left alone."""
        return self._tried is not None

    @property
    def is_blocked(self) -> bool:
        """Whether not even a trial call may be made now."""
        return self._tried is not None and self._clock() - self._tried < _PAUSE

    @property
    def limit(self) -> int:
        """How many calls may be under way."""
        return self._limit

    def allows(self) -> bool:
        """Say whether a call may be made now; while it is open, one a second may."""
        if self.is_blocked:
            return False
        if self._tried is not None:
            self._tried = self._clock()
        return True

    def open(self) -> None:
        """Leave the source alone, because it fails for others."""
        if self._tried is None:
            self._tried, self._limit = self._clock(), 1

    def note(self, *, answered: bool) -> None:
        """Note a call."""
        if answered:
            self.succeeded()
        else:
            self.failed()

    def judged(self, requests: Iterable[tuple[Hashable, bool]]) -> None:
        """Note requests that were answered, and whether their values are invalid.

        A request counts once, however often it is made: one bad row must not close a source for
        everybody.
        """
        judged, any_invalid = self._judged, False
        for request, invalid in requests:
            judged.pop(request, None)
            judged[request] = invalid
            any_invalid |= invalid
            if len(judged) > JUDGED:
                del judged[next(iter(judged))]
        if any_invalid and sum(judged.values()) >= _MOST_INVALID:
            judged.clear()
            self.open()

    def succeeded(self) -> None:
        """Note a call that was answered."""
        self._failures = 0
        if self._tried is not None:
            self._tried, self._limit = None, 1
        else:
            self._limit = min(2 * self._limit, self._concurrency)

    def failed(self) -> None:
        """Note a call that was not answered."""
        self._failures += 1
        recovering = self._limit < self._concurrency
        if self._tried is not None:
            return
        if recovering or self._failures >= self._most:
            self.open()

    def close(self) -> None:
        """Ask the source again, because somebody else has seen it answer."""
        if self._tried is not None:
            self.succeeded()
