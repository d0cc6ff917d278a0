"""Limits of requests: idle connections, body size, time and nesting depth, and the queue.

uvicorn closes a connection that is idle after a response. It waits forever for the first request,
for the end of headers, however slow and long they are, and for a client that does not read its
response.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from emsco.live.call_limits import AdjustableSemaphore
from emsco.serve.problem_json import RequestProblem, problem

MOST_HEADERS = 65_536  # bytes
SCOPE = "emsco.connection"  # the key of the connection in the ASGI scope
MOST_DEPTH = 16  # of lists and objects in a body; a valid body needs at most three
_MOST_HELD = 64_000_000  # bytes of all bodies being received; more if a single one may be larger
_STRINGS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?+', re.DOTALL)
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_ALIKE = bytes.maketrans(b"{}", b"[]")
_TOO_DEEP = b"[" * (MOST_DEPTH + 1)

Receive = Callable[[], Awaitable[Any]]


class Connection(HttpToolsProtocol):
    """A connection that knows how long it has been waiting for its client."""

    on_leave: Callable[[], None] | None = None  # called when the client disconnects
    _since = 0.0  # when the wait began
    _headers = -1  # bytes of incomplete headers; -1: no headers are being received
    _is_answering = False
    _is_unread = False  # whether the client does not read the response

    def connection_made(self, transport: Any) -> None:
        """Start to wait for the first request."""
        self._since = self.loop.time()
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the request being decided: ASGI would need an extra task per request."""
        super().connection_lost(exc)
        if self.on_leave is not None:
            self.on_leave()

    @property
    def is_gone(self) -> bool:
        """Whether the client has disconnected before its response."""
        return self.cycle.disconnected

    @property
    def has_body(self) -> bool:
        """Whether the whole body of the request has arrived."""
        return not self.cycle.more_body

    def data_received(self, data: bytes) -> None:
        """Receive data, and refuse headers that are too long."""
        super().data_received(data)
        if self._headers >= 0:
            self._headers += len(data)
            if self._headers > MOST_HEADERS and not self.transport.is_closing():
                self.send_400_response("The headers are too long.")

    def on_message_begin(self) -> None:
        """Start to wait for the end of the headers."""
        self._since, self._headers = self.loop.time(), 0
        super().on_message_begin()
        self.scope[SCOPE] = self  # type: ignore[literal-required]

    def on_headers_complete(self) -> None:
        """Stop waiting: the request is being answered."""
        self._is_answering, self._headers = True, -1
        super().on_headers_complete()
        if getattr(self.server_state, "is_last", False):  # the service is shutting down
            self.cycle.keep_alive = False

    def on_response_complete(self) -> None:
        """Start to wait for the next request, unless the client has already sent it."""
        self._is_answering = bool(self.pipeline)
        self._since = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Start to wait until the client reads the response."""
        self._since, self._is_unread = self.loop.time(), True
        super().pause_writing()

    def resume_writing(self) -> None:
        """Stop waiting: the client has read it."""
        self._is_unread = False
        super().resume_writing()

    def close_if_idle(self, seconds: float) -> None:
        """Close the connection if it has waited for its client for more than `seconds`."""
        if self.loop.time() - self._since <= seconds:
            return
        if self._is_unread:
            self.transport.abort()  # `close` would wait for the client
        elif not self._is_answering and not self.transport.is_closing():
            self.transport.close()


class ClientGone(Exception):  # noqa: N818  # not an error
    """The client has disconnected before its answer."""


class TaskCancellation:
    """Cancels the task in which it was created, and tells its cancellation from others.

    `asyncio.timeout` would do the same for timers but takes three times as long, and every request
    has two.
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
        """Return whether this object has cancelled the task; if so, the task may continue."""
        if self._is_ended and self._task is not None:
            self._task.uncancel()
        return self._is_ended


class Queue(AdjustableSemaphore):
    """Limits how many requests run and how many wait; any further request is refused at once."""

    def __init__(self, running: int, waiting: int) -> None:
        super().__init__(lambda: running)
        self._most_running, self._most_waiting = running, waiting

    @property
    def is_full(self) -> bool:
        """Whether the next request is refused."""
        return self.waiting >= self._most_waiting and self.running >= self._most_running

    async def __aenter__(self) -> None:
        if self.is_full:
            raise problem("queue-full")
        await super().__aenter__()


class BodyReader:
    """Reads request bodies, and refuses those that are too large, too slow or nested too deep."""

    def __init__(self, most: int, seconds: float) -> None:
        self._most, self._seconds = most, seconds
        self._held = 0  # bytes of bodies that are still being received
        self._most_held = max(_MOST_HELD, 4 * most)

    async def read(
        self, headers: Mapping[bytes, bytes], receive: Receive, *, is_here: bool = False
    ) -> bytes:
        """Read a JSON body, or raise a problem."""
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
        """Receive a body within the time limit."""
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
            message = f"Send the body within {self._seconds:g} seconds."
            raise RequestProblem(408, "body-time", message, {"Connection": "close"}) from None
        finally:
            timer.cancel()

    def _check(self, headers: Mapping[bytes, bytes]) -> None:
        """Refuse a request by its headers, before its body is read."""
        kind = headers.get(b"content-type", b"")
        if kind != b"application/json":
            kind = kind.partition(b";")[0].strip().lower()
        if kind != b"application/json" or b"content-encoding" in headers:
            raise RequestProblem(
                415, "media-type", "Send uncompressed JSON with `Content-Type: application/json`."
            )
        size = headers.get(b"content-length")
        if size is not None and (not size.isdigit() or int(size[:20]) > self._most):
            raise self._too_large()

    def _too_large(self) -> RequestProblem:
        return RequestProblem(413, "body-size", f"Send at most {self._most:,} bytes.")

    async def _rest(self, begun: bytes, receive: Receive) -> bytes:
        """Receive a body in parts, and count the bytes held by all such bodies."""
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
    """Return whether a body's lists and objects are nested too deep, without parsing it."""
    if body.count(b"[") + body.count(b"{") <= MOST_DEPTH:
        return False
    left = _STRINGS.sub(b"", body).translate(_ALIKE, _NO_BRACKETS)
    for _ in range(MOST_DEPTH):  # each pass removes the innermost pairs
        if _TOO_DEEP in left:  # a quick test, because removing 16 levels would take long
            return True
        left = left.replace(b"[]", b"")
    # Unbalanced brackets are not valid JSON: the parser reports them.
    return b"[]" in left or left.count(b"[") > MOST_DEPTH
