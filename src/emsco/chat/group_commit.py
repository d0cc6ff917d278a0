"""Group commit: what many tasks write at the same time reaches the disk at once.

Waiting for the disk takes longer than everything else here, and as long for one change as for many.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from emsco.chat.answer_cache import AnswerCache

Found = TypeVar("Found")


class GroupedWrites:
    """Runs functions of a cache in a thread, all that wait in one transaction.

    A function has returned when what it wrote is on the disk.
    """

    def __init__(self, cache: AnswerCache) -> None:
        self._cache = cache
        self._thread = ThreadPoolExecutor(1)
        self._waiting: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []
        self._is_busy = False

    async def run(self, function: Callable[..., Found], *values: Any) -> Found:
        """Run a function, together with those that others wait for."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Found] = loop.create_future()
        self._waiting.append((partial(function, *values), future))
        if not self._is_busy:
            self._begin(loop)
        return await future

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        group, self._waiting = self._waiting, []
        self._is_busy = True
        work = loop.run_in_executor(self._thread, self._commit, [work for work, _ in group])
        work.add_done_callback(partial(self._end, loop, [future for _, future in group]))

    def _commit(self, group: list[Callable[[], Any]]) -> list[Any]:
        with self._cache.transaction():
            return [work() for work in group]

    def _end(
        self,
        loop: asyncio.AbstractEventLoop,
        futures: list[asyncio.Future[Any]],
        work: asyncio.Future[list[Any]],
    ) -> None:
        self._is_busy = False
        if self._waiting:
            self._begin(loop)
        error = work.exception()
        for place, future in enumerate(futures):
            if future.done():  # whoever waited is gone
                continue
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(work.result()[place])

    def close(self) -> None:
        """Wait for what is being written."""
        self._thread.shutdown(wait=True)
