"""How much a client may ask for: bytes, seconds, depth, and a place in the queue."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from emsco.serve.problem_json import RequestProblem, problem

MOST_DEPTH = 16  # of lists and objects in a body; no valid body needs more than three
_MOST_HELD = 64_000_000  # bytes of all bodies that are still coming, unless one alone may have more
_STRINGS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?+', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_ALIKE = bytes.maketrans(b"{}", b"[]")
_TOO_DEEP = b"[" * (MOST_DEPTH + 1)

Receive = Callable[[], Awaitable[Any]]


class ClientGone(Exception):  # noqa: N818  # it is no error of anybody
    """Nobody waits for the answer any more."""


class TaskCancellation:
    """Ends the task that it was made in, for a reason of its own.

    `asyncio.timeout` would do for a timer, and takes three times as long: every request has two.
    """

    __slots__ = ("_is_ended", "_task", "loop")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._task = asyncio.current_task(self.loop)
        self._is_ended = False

    def end(self) -> None:
        """Cancel the task."""
        self._is_ended = True
        if self._task is not None:
            self._task.cancel()

    def is_over(self) -> bool:
        """Return whether this has cancelled the task, which may then go on."""
        if self._is_ended and self._task is not None:
            self._task.uncancel()
        return self._is_ended


class Queue:
    """Lets so many requests be decided at a time, so many more wait, and refuses others at once.

    Parameters
    ----------
    running : int
        The maximum number of requests that are decided.
    waiting : int
        The maximum number of requests that wait.

    Examples
    --------
    >>> import asyncio
    >>> from emsco.serve.request_limits import Queue
    >>> async def ask(queue):
    ...     async with queue:
    ...         await asyncio.sleep(0.01)
    >>> async def ask_four():
    ...     queue = Queue(running=1, waiting=2)
    ...     asked = [ask(queue) for _ in range(4)]
    ...     answers = await asyncio.gather(*asked, return_exceptions=True)
    ...     return [getattr(answer, "status", "answered") for answer in answers]
    >>> asyncio.run(ask_four())
    ['answered', 'answered', 'answered', 429]
    """

    def __init__(self, running: int, waiting: int) -> None:
        self._most_running, self._most_waiting = running, waiting
        self.running = 0
        self._places: deque[asyncio.Future[None]] = deque()

    @property
    def waiting(self) -> int:
        """The number of requests that wait."""
        return len(self._places)

    @property
    def is_full(self) -> bool:
        """Whether another request is refused."""
        return len(self._places) >= self._most_waiting and self.running >= self._most_running

    async def __aenter__(self) -> None:
        if self.running < self._most_running:
            self.running += 1
            return
        if self.is_full:
            raise problem("queue-full")
        place = asyncio.get_running_loop().create_future()
        self._places.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._pass_on()  # it was called up, and has left
            elif place in self._places:  # or who passed a place on has taken it out already
                self._places.remove(place)
            raise

    async def __aexit__(self, *_: object) -> None:
        self._pass_on()

    def _pass_on(self) -> None:
        while self._places:
            place = self._places.popleft()
            if not place.done():
                place.set_result(None)  # who waits longest takes the place over
                return
        self.running -= 1


class BodyReader:
    """Reads the bodies of requests, as far as they are not too large, too slow or too deep.

    Parameters
    ----------
    most : int
        The maximum number of bytes.
    seconds : float
        How long a body may take.
    """

    def __init__(self, most: int, seconds: float) -> None:
        self._most, self._seconds = most, seconds
        self._held = 0  # bytes of bodies that are still coming
        self._most_held = max(_MOST_HELD, 4 * most)

    async def read(
        self, headers: Mapping[bytes, bytes], receive: Receive, *, is_here: bool = False
    ) -> bytes:
        """Read a body of JSON, or raise a problem.

        Parameters
        ----------
        headers : mapping of bytes to bytes
            The headers of the request.
        receive : async callable
            Gives the next part, by ASGI.
        is_here : bool, default=False
            Whether all of it has come, so that nobody waits for it.
        """
        self._check(headers)
        if is_here:
            body: bytes = (await receive()).get("body", b"")
        else:
            body = await self._in_time(receive)
        if len(body) > self._most:
            raise self._too_large()
        if is_too_deep(body):
            raise RequestProblem(
                400, "body-depth", f"The body is nested deeper than {MOST_DEPTH} levels."
            )
        return body

    async def _in_time(self, receive: Receive) -> bytes:
        """Wait for a body, but not for ever."""
        ending = TaskCancellation()
        timer = ending.loop.call_later(self._seconds, ending.end)
        try:
            message = await receive()
            body: bytes = message.get("body", b"")
            if message.get("more_body"):
                body = await self._rest(body, receive)
            elif message["type"] == "http.disconnect":
                raise ClientGone
            return body
        except asyncio.CancelledError:
            if not ending.is_over():
                raise
            told = f"Send the body within {self._seconds:g} seconds."
            raise RequestProblem(408, "body-time", told, {"Connection": "close"}) from None
        finally:
            timer.cancel()

    def _check(self, headers: Mapping[bytes, bytes]) -> None:
        """Refuse by its headers what need not be read."""
        kind = headers.get(b"content-type", b"")
        if kind != b"application/json":
            kind = kind.partition(b";")[0].strip().lower()
        if kind != b"application/json" or b"content-encoding" in headers:
            raise RequestProblem(
                415, "media-type", "Send JSON, not compressed, as `Content-Type: application/json`."
            )
        size = headers.get(b"content-length")
        if size is not None and (not size.isdigit() or int(size[:20]) > self._most):
            raise self._too_large()

    def _too_large(self) -> RequestProblem:
        return RequestProblem(413, "body-size", f"Send at most {self._most:,} bytes.")

    async def _rest(self, begun: bytes, receive: Receive) -> bytes:
        """Read a body that comes in parts, and count what all of these hold."""
        parts, size = [begun], len(begun)
        self._held += size
        try:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone
                part = message.get("body", b"")
                parts.append(part)
                size += len(part)
                self._held += len(part)
                if size > self._most:
                    raise self._too_large()
                if not message.get("more_body"):
                    return b"".join(parts)
                if self._held > self._most_held:
                    raise problem("queue-full")
        finally:
            self._held -= size


def is_too_deep(body: bytes) -> bool:
    """Return whether lists and objects of a body are nested too deep, without parsing it.

    Examples
    --------
    >>> from emsco.serve.request_limits import is_too_deep
    >>> is_too_deep(b'{"known": {"text": "' + b"[" * 100 + b'"}}')
    False
    >>> is_too_deep(b'{"known": ' + b"[" * 100 + b"]" * 100 + b"}")
    True
    """
    if body.count(b"[") + body.count(b"{") <= MOST_DEPTH:
        return False
    left = _STRINGS.sub(b"", body).translate(_ALIKE, _NO_BRACKETS)
    for _ in range(MOST_DEPTH):  # each time without the innermost ones
        if _TOO_DEEP in left:  # seen at once, where to take 16 levels away would take long
            return True
        left = left.replace(b"[]", b"")
    # What is opened and never closed, or the other way round, is no JSON: who parses it says so.
    return b"[]" in left or left.count(b"[") > MOST_DEPTH
