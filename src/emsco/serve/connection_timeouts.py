"""Connections whose clients say nothing, never end to say it, or do not listen, are closed.

uvicorn closes a connection that is idle after an answer. It waits for ever for the first request,
for the end of headers, however slowly they come and however long they are, and for a client that
does not read its answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEADERS = 65_536  # bytes
SCOPE = "emsco.connection"  # where a request has its connection


class Connection(HttpToolsProtocol):
    """A connection that knows since when it waits for its client."""

    on_leave: Callable[[], None] | None = None  # called when the client leaves
    _since = 0.0  # when the wait began
    _headers = -1  # bytes of headers that have no end yet; -1: there are none
    _is_answering = False
    _is_unread = False  # whether the client does not read what it is sent

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for the first request."""
        self._since = self.loop.time()
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell who decides for this client: to listen by ASGI would take a task a request."""
        super().connection_lost(exc)
        if self.on_leave is not None:
            self.on_leave()

    @property
    def is_gone(self) -> bool:
        """Whether the client has left before it got its answer."""
        return self.cycle.disconnected

    @property
    def has_body(self) -> bool:
        """Whether the body of the request has come, all of it."""
        return not self.cycle.more_body

    def data_received(self, data: bytes) -> None:
        """Take what the client says, unless its headers have no end."""
        super().data_received(data)
        if self._headers >= 0:
            self._headers += len(data)
            if self._headers > MOST_HEADERS and not self.transport.is_closing():
                self.send_400_response("The headers are too long.")

    def on_message_begin(self) -> None:
        """Begin to wait for the end of the headers."""
        self._since, self._headers = self.loop.time(), 0
        super().on_message_begin()
        self.scope[SCOPE] = self  # type: ignore[literal-required]

    def on_headers_complete(self) -> None:
        """Stop waiting: the request is being answered."""
        self._is_answering, self._headers = True, -1
        super().on_headers_complete()
        if getattr(self.server_state, "is_last", False):  # the service ends
            self.cycle.keep_alive = False

    def on_response_complete(self) -> None:
        """Begin to wait for the next request, unless the client has sent it already."""
        self._is_answering = bool(self.pipeline)
        self._since = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Begin to wait until the client reads what it was sent."""
        self._since, self._is_unread = self.loop.time(), True
        super().pause_writing()

    def resume_writing(self) -> None:
        """Stop waiting: the client has read it."""
        self._is_unread = False
        super().resume_writing()

    def close_if_idle(self, seconds: float) -> None:
        """Close it if its client has kept it waiting for so long."""
        if self.loop.time() - self._since <= seconds:
            return
        if self._is_unread:
            self.transport.abort()  # to close it would wait for the client
        elif not self._is_answering and not self.transport.is_closing():
            self.transport.close()
