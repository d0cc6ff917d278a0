"""Connections to a service, each used by one request at a time and closed if that is cancelled.

Bytes that a service sends after its answer must never become the answer to another request. httpx
0.28 reads them as such and does not expose them; h11, its HTTP parser, does. So h11 is used here
without httpx: a connection with bytes left over, or that receives bytes without a request, is
closed.
"""

from __future__ import annotations

import asyncio
import json as json_
import os
import select
import ssl
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from emsco.exceptions import require
from emsco.live.fetch_result import UnbilledError

MOST_BYTES = 2**24  # of an answer
_MOST_HEAD = 100_000  # bytes of its headers
_SAFE = "!#$%&'()*+,/:;=?@[]~|"  # not quoted; "%" keeps encoded characters as they are
_PORTS = {"http": 80, "https": 443}


class Response(NamedTuple):
    """The answer of a service."""

    status: int
    body: bytes
    encoding: str = ""  # how the body is compressed; several are joined by commas


class Connections:
    """Connections to a service.

    `timeout` is the maximum number of seconds to wait for the next part of an answer.
    """

    def __init__(self, headers: Mapping[str, str], timeout: float) -> None:
        self._h11 = require("h11", "live")
        self._headers = {"accept": "*/*", "accept-encoding": "identity", "user-agent": "emsco"}
        self._headers |= {name.lower(): value for name, value in headers.items()}
        self._timeout = timeout
        self._verified: ssl.SSLContext | None = None  # slow to create, so created once
        self._free: list[_Wire] = []
        self._opened: set[_Wire] = set()

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, json: Any = None
    ) -> Response:
        """Make a request, and read its whole answer.

        The `TimeoutError` or `ConnectionError` of one that failed has an `UnbilledError` as its
        cause if nothing was sent.
        """
        parts = urlsplit(url)
        sent = {"host": parts.netloc.encode("idna").decode(), **self._headers, **(headers or {})}
        body = b""
        if json is not None:
            body = json_.dumps(json).encode()
            sent |= {"content-type": "application/json", "content-length": str(len(body))}
        target = quote(parts.path or "/", safe=_SAFE)
        if parts.query:
            target += "?" + quote(parts.query, safe=_SAFE)
        wire: _Wire | None = None
        try:
            request = self._h11.Request(method=method, target=target, headers=[*sent.items()])
            wire = self._unused() or await self._open(
                parts.scheme, parts.hostname or "", parts.port
            )
            response = await wire.ask(request, body, self._timeout)
        except BaseException as error:
            if wire is not None:  # a pending answer must not reach the next request
                wire.end()
            unsent = UnbilledError("Nothing was sent.") if wire is None else None
            if isinstance(error, TimeoutError):
                raise TimeoutError("The service did not answer in time.") from unsent
            if isinstance(error, OSError | self._h11.ProtocolError | UnicodeError):
                raise ConnectionError(f"The request failed: {type(error).__name__}.") from unsent
            raise
        if wire.is_clean():
            self._free.append(wire)
        else:
            wire.end()
        return response

    def _unused(self) -> _Wire | None:
        """Take a free connection on which nothing has arrived since its last answer."""
        while self._free:
            wire = self._free.pop()
            if wire.is_silent():
                return wire
            wire.end()
        return None

    async def _open(self, scheme: str, host: str, port: int | None) -> _Wire:
        """Open a connection."""
        loop = asyncio.get_running_loop()
        if scheme == "https" and self._verified is None:
            self._verified = await asyncio.to_thread(_verified)
        async with asyncio.timeout(self._timeout):
            _, wire = await loop.create_connection(
                lambda: _Wire(self._h11, self._opened),
                host,
                port or _PORTS[scheme],
                ssl=self._verified if scheme == "https" else None,
            )
        return wire

    async def close(self) -> None:
        """Close every connection."""
        self._free.clear()
        opened = list(self._opened)
        for wire in opened:
            wire.end()
        await asyncio.gather(*(wire.closed for wire in opened))


class _Wire(asyncio.Protocol):
    """One connection; anything that arrives besides the answer to a request closes it."""

    def __init__(self, h11: Any, opened: set[_Wire]) -> None:
        self._h11, self._opened = h11, opened
        self._state = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MOST_HEAD)
        self._transport: Any = None
        self._is_asked = False
        self._arrived: asyncio.Future[None] | None = None
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._opened.add(self)

    def data_received(self, data: bytes) -> None:
        if not self._is_asked:
            self.end()
            return
        with suppress(self._h11.RemoteProtocolError):  # after the end: `is_clean` detects it
            self._state.receive_data(data)
        self._wake()

    def eof_received(self) -> None:
        if self._is_asked:
            with suppress(self._h11.RemoteProtocolError):
                self._state.receive_data(b"")
        self._wake()

    def connection_lost(self, _: Exception | None) -> None:
        self.eof_received()
        self._opened.discard(self)
        if not self.closed.done():
            self.closed.set_result(None)

    def _wake(self) -> None:
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)

    async def ask(self, request: Any, body: bytes, timeout: float) -> Response:
        """Send a request, and read its whole answer."""
        self._is_asked = True
        sent = self._state.send(request)
        if body:
            sent += self._state.send(self._h11.Data(data=body))
        self._transport.write(sent + self._state.send(self._h11.EndOfMessage()))
        head, read = None, bytearray()
        while True:
            event = self._state.next_event()
            if event is self._h11.NEED_DATA:
                await self._next_part(timeout)
            elif isinstance(event, self._h11.Response):
                head = event
            elif isinstance(event, self._h11.Data):
                read += event.data
                if len(read) > MOST_BYTES:
                    raise ConnectionError(f"The answer is larger than {MOST_BYTES} bytes.")
            elif isinstance(event, self._h11.EndOfMessage) and head is not None:
                found = [value for name, value in head.headers if name == b"content-encoding"]
                encoding = b", ".join(found).decode("latin-1").strip().lower()
                return Response(head.status_code, bytes(read), encoding)
            elif not isinstance(event, self._h11.InformationalResponse):
                raise ConnectionError("The service closed the connection.")

    async def _next_part(self, timeout: float) -> None:
        if self.closed.done():
            raise ConnectionError("The service closed the connection.")
        self._arrived = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(timeout):
                await self._arrived
        finally:
            self._arrived = None

    def is_clean(self) -> bool:
        """Return whether nothing is left of an answer, and prepare for the next request."""
        self._is_asked = False
        left, is_ended = self._state.trailing_data
        done = self._h11.DONE
        states = {self._state.our_state, self._state.their_state}
        if left or is_ended or states != {done}:
            return False
        self._state.start_next_cycle()
        return not self._transport.is_closing()

    def is_silent(self) -> bool:
        """Return whether nothing has arrived since the last answer: no bytes, no end of stream."""
        if self._transport.is_closing():
            return False
        descriptor = self._transport.get_extra_info("socket").fileno()
        if not hasattr(select, "poll"):  # on Windows
            return not select.select([descriptor], [], [], 0)[0]
        polled = select.poll()
        polled.register(descriptor, select.POLLIN)
        return not polled.poll(0)

    def end(self) -> None:
        """Close the connection, without waiting for it."""
        self._transport.abort()


def _verified() -> ssl.SSLContext:
    """Return a context that trusts the authorities of the environment, or else of certifi."""
    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    if not file and not folder:
        file = require("certifi", "live").where()
    verified = ssl.create_default_context(cafile=file, capath=folder)
    verified.set_alpn_protocols(["http/1.1"])
    return verified
