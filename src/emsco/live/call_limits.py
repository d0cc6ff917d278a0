"""Which calls to a source may run: a semaphore, and a breaker that stops calls while it fails.

Why no library is used: an open breaker must allow only one trial call per second, and afterwards
the number of concurrent calls must grow from one. In purgatory 3.0, circuitbreaker 2.1 and
aiobreaker 1.2, calls that arrive during a trial call are made too, and after it all calls resume at
once; pybreaker 1.4 is asynchronous with tornado only. The rest of a breaker is a counter.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable

_PAUSE = 1.0  # seconds between trial calls
JUDGED = 50  # the number of requests whose validity is remembered
_MOST_INVALID = JUDGED // 2


class Breaker:
    """Decides whether a source may be called, and with how many concurrent calls.

    It opens after some consecutive failures, and when half of the last 50 different requests got
    invalid values. While it is open, one trial call per second is allowed. After the first success,
    one call at a time is allowed, then two, then four, up to the limit of the source. A failure
    before that opens it at once.
    """

    def __init__(
        self, failures: int, concurrency: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most, self._concurrency, self._clock = failures, concurrency, clock
        self._failures = 0
        self._tried: float | None = None  # when the last trial began; None: it is closed
        self.limit = concurrency  # the maximum number of concurrent calls
        self._judged: dict[Hashable, bool] = {}  # whether a request got invalid values

    @property
    def is_open(self) -> bool:
        """Whether only trial calls are made."""
        return self._tried is not None

    @property
    def has_invalid(self) -> bool:
        """Whether one of the last requests got invalid values."""
        return bool(self._judged)

    @property
    def is_blocked(self) -> bool:
        """Whether not even a trial call may be made now."""
        return self._tried is not None and self._clock() - self._tried < _PAUSE

    def allows(self) -> bool:
        """Return whether a call may be made now; while it is open, one per second."""
        if self.is_blocked:
            return False
        if self._tried is not None:
            self._tried = self._clock()
        return True

    def open(self) -> None:
        """Open the breaker, for example because the source fails for other processes."""
        if self._tried is None:
            self._tried, self.limit = self._clock(), 1

    def note(self, *, answered: bool) -> None:
        """Record the outcome of a call."""
        if not answered:
            self._failures += 1
            if self.limit < self._concurrency or self._failures >= self._most:
                self.open()
            return
        self._failures = 0
        if self._tried is not None:
            self._tried, self.limit = None, 1
        else:
            self.limit = min(2 * self.limit, self._concurrency)

    def judged(self, requests: Iterable[tuple[Hashable, bool]]) -> None:
        """Record answered requests, and whether their values are invalid.

        A request counts once, however often it is made: one bad row must not open the breaker for
        all.
        """
        # Valid requests matter only after an invalid one, because they displace it.
        judged, any_invalid = self._judged, False
        for request, invalid in requests:
            if not (invalid or judged):
                continue
            judged.pop(request, None)
            judged[request] = invalid
            any_invalid |= invalid
            if len(judged) > JUDGED:
                del judged[next(iter(judged))]
        if any_invalid and sum(judged.values()) >= _MOST_INVALID:
            judged.clear()
            self.open()
        elif not any(judged.values()):
            judged.clear()

    def close(self) -> None:
        """Close the breaker, because the source answered another process."""
        if self._tried is not None:
            self.note(answered=True)


class AdjustableSemaphore:
    """A semaphore whose limit may change while callers wait: first come, first served."""

    def __init__(self, limit: Callable[[], int]) -> None:
        self._limit = limit  # returns the current one
        self.running = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def waiting(self) -> int:
        """The number of callers that wait."""
        return len(self._waiting)

    async def __aenter__(self) -> None:
        if not self._waiting and self.running < self._limit():
            self.running += 1
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():  # acquired just now: pass it on
                self._free()
            elif place in self._waiting:  # otherwise `_free` has removed it
                self._waiting.remove(place)
            raise

    async def __aexit__(self, *_: object) -> None:
        self._free()

    def _free(self) -> None:
        self.running -= 1
        while self._waiting and self.running < self._limit():
            place = self._waiting.popleft()
            if not place.done():
                self.running += 1
                place.set_result(None)
