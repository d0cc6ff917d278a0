"""Much that is asked at once, done in one go: one transaction, or one round trip."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

W = TypeVar("W")

_MOST = 200  # in one batch, so that the first of them does not wait for long

Left = Callable[[Any], None]


class GroupCommit(Generic[W]):
    """Collects what is asked while a batch is under way, and does it all in the next one.

    Who is alone waits for nothing but the work itself. What was asked is done, even if who asked
    for it has left.

    Parameters
    ----------
    do : callable
        Does a batch, and returns what came of each part: a result, or an exception.

    Examples
    --------
    >>> import asyncio
    >>> from emsco.serve.state.group_commit import GroupCommit
    >>> async def double(numbers):
    ...     print(f"a batch of {len(numbers)}")
    ...     return [2 * number for number in numbers]
    >>> async def main():
    ...     batches = GroupCommit(double)
    ...     return await asyncio.gather(*(batches.run(number) for number in (1, 2, 3)))
    >>> asyncio.run(main())
    a batch of 3
    [2, 4, 6]
    """

    def __init__(self, do: Callable[[Sequence[W]], Awaitable[Sequence[Any]]]) -> None:
        self._do = do
        self._waiting: list[tuple[W, asyncio.Future[Any], Left | None]] = []
        self._working: asyncio.Task[None] | None = None

    async def run(self, work: W, left: Left | None = None) -> Any:
        """Do some work, and return what comes of it; `left` takes that if the caller has left."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((work, future, left))
        if self._working is None:
            self._working = asyncio.ensure_future(self._work())
        try:
            return await future
        except asyncio.CancelledError:
            is_done = future.done() and not future.cancelled()
            if left is not None and is_done and future.exception() is None:
                left(future.result())  # it was done just before the caller left
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
                    _tell(future, outcome, left)
        finally:
            self._working = None

    async def finish(self) -> None:
        """Wait until everything is done."""
        while self._working is not None:
            await asyncio.wait([self._working])


def _tell(future: asyncio.Future[Any], outcome: Any, left: Left | None) -> None:
    failed = isinstance(outcome, Exception)
    if future.done():  # who asked was cancelled
        if left is not None and not failed:
            left(outcome)
    elif failed:
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
