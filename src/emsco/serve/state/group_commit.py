"""Group commit for concurrent operations: one transaction, or one round trip."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

W = TypeVar("W")

_MOST = 200  # operations per batch, so that the first does not wait for long

Left = Callable[[Any], None]


class GroupCommit(Generic[W]):
    """Collects operations while a batch is running, and runs them all in the next batch.

    A single operation does not wait for others. An operation is run even if its caller is
    cancelled.
    """

    def __init__(self, do: Callable[[Sequence[W]], Awaitable[Sequence[Any]]]) -> None:
        self._do = do
        self._waiting: list[tuple[W, asyncio.Future[Any], Left | None]] = []
        self._working: asyncio.Task[None] | None = None

    async def run(self, work: W, left: Left | None = None) -> Any:
        """Run an operation and return its result; `left` receives it if the caller is cancelled."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((work, future, left))
        if self._working is None:
            self._working = asyncio.ensure_future(self._work())
        try:
            return await future
        except asyncio.CancelledError:
            is_done = future.done() and not future.cancelled()
            if left is not None and is_done and future.exception() is None:
                left(future.result())  # it was done just before the cancellation
            raise

    async def _work(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:_MOST], self._waiting[_MOST:]
                outcomes: Sequence[Any]
                try:
                    outcomes = await self._do([work for work, _, _ in batch])
                except Exception as error:
                    outcomes = [error] * len(batch)
                for (_, future, left), outcome in zip(batch, outcomes, strict=True):
                    _set_outcome(future, outcome, left)
        finally:
            self._working = None

    async def finish(self) -> None:
        """Wait until all operations are done."""
        while self._working is not None:
            await asyncio.wait([self._working])


def _set_outcome(future: asyncio.Future[Any], outcome: Any, left: Left | None) -> None:
    failed = isinstance(outcome, Exception)
    if future.done():  # the caller was cancelled
        if left is not None and not failed:
            left(outcome)
    elif failed:
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
