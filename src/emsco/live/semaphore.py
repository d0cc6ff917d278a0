"""A semaphore with an adjustable limit, first come, first served."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable


class AdjustableSemaphore:
    """A semaphore whose limit may change while callers wait.

    Parameters
    ----------
    limit : callable
        Returns the current limit.
    """

    def __init__(self, limit: Callable[[], int]) -> None:
        self._limit = limit
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
