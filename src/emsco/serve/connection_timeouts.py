"""Connections that close when the client is idle, sends endless headers or does not read.

uvicorn closes a connection that is idle after a response. It waits forever for the first request,
for the end of headers, however slow and long they are, and for a client that does not read its
response.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEADERS = 65_536  # bytes
SCOPE = "emsco.connection"  # the key of the connection in the ASGI scope


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
