"""A proxy before each store, in a process of its own: it passes on, counts, and may be slow.

It counts bytes, connections, and calls. A call is a connection that a client opens, or what it
sends after both sides were quiet for a while; what follows at once on an answer belongs to the same
call, and a client that only says goodbye makes none.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import NamedTuple

from tests.soak.live.child import Child, serve

_QUIET = 0.3  # seconds without a word from either side, after which a client makes another call
# What clients send when they give up: MariaDB's and PostgreSQL's words for "quit".
_GOODBYES = (b"\x01\0\0\0\x01", b"X\0\0\0\x04")
_CANCEL = b"\0\0\0\x10\x04\xd2\x16\x2e"  # begins PostgreSQL's request to end another connection


class Counted(NamedTuple):
    """What has passed through one proxy."""

    up: int  # bytes to the store
    down: int  # bytes from it
    open: int  # connections that are open now
    calls: list[float]  # when each began, by `time.monotonic`


class Proxies(Child):
    """All proxies, as who uses them sees them."""

    def __init__(self) -> None:
        super().__init__("tests.soak.live.proxy")

    def before(self, port: int) -> int:
        """Put a proxy before a port of 127.0.0.1, and give its own port."""
        return int(self.tell("open", to=port))

    def slow(self, port: int, seconds: float) -> None:
        """Let every byte from the store arrive later by so much, from now on."""
        self.tell("slow", port=port, seconds=seconds)

    def counted(self, port: int) -> Counted:
        """Give what has passed through a proxy since this was asked last."""
        return Counted(*self.tell("count", port=port))


class _Proxy:
    """One proxy: where it leads, how slow it is, and what has passed."""

    def __init__(self, to: int) -> None:
        self.to, self.seconds = to, 0.0
        self.up = self.down = self.open = 0
        self.calls: list[float] = []


class _Client(asyncio.Protocol):
    """The side of a connection to who asks."""

    def __init__(self, proxy: _Proxy) -> None:
        self._proxy = proxy
        self._store: _Store | None = None
        self._early: list[bytes] = []
        self._spoke = -_QUIET
        self._opened: float | None = None
        self.closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connect to the store."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._proxy.open += 1
        self._called()
        self._opened = self._spoke
        self._connecting = asyncio.ensure_future(self._connect())

    async def _connect(self) -> None:
        try:
            _, store = await asyncio.get_running_loop().create_connection(
                lambda: _Store(self._proxy, self), "127.0.0.1", self._proxy.to
            )
        except OSError:
            self.transport.abort()
            return
        if self.closed:
            store.transport.close()
            return
        self._store = store
        for data in self._early:
            store.transport.write(data)

    def _called(self) -> None:
        now = time.monotonic()
        if now - self._spoke >= _QUIET:
            self._proxy.calls.append(now)
        self._spoke = now

    def tell(self, data: bytes) -> None:
        """Pass on what the store says."""
        if not self.closed:
            self._spoke = time.monotonic()
            self.transport.write(data)

    def data_received(self, data: bytes) -> None:
        """Pass on what the client says."""
        self._proxy.up += len(data)
        if data.startswith(_CANCEL):  # no call: it ends one
            self._proxy.calls = [call for call in self._proxy.calls if call != self._opened]
        elif data not in _GOODBYES:
            self._called()
        if self._store is None:
            self._early.append(data)
        else:
            self._store.transport.write(data)

    def connection_lost(self, _: Exception | None) -> None:
        """Leave the store too."""
        self.closed = True
        self._proxy.open -= 1
        if self._store is not None:
            self._store.transport.close()


class _Store(asyncio.Protocol):
    """The side of a connection to the store; what it says waits as long as the proxy is slow."""

    def __init__(self, proxy: _Proxy, client: _Client) -> None:
        self._proxy, self._client = proxy, client
        self._waiting: deque[tuple[float, bytes]] = deque()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way to it."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Pass on what the store says, in order."""
        self._proxy.down += len(data)
        if not self._waiting and not self._proxy.seconds:
            self._client.tell(data)
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + self._proxy.seconds
        if self._waiting:
            due = max(due, self._waiting[-1][0])
        self._waiting.append((due, data))
        loop.call_at(due, self._deliver)

    def _deliver(self) -> None:
        _, data = self._waiting.popleft()
        self._client.tell(data)

    def connection_lost(self, _: Exception | None) -> None:
        """Close the client's side: its store has left."""
        if not self._client.closed:
            self._client.transport.close()


async def _main() -> None:
    proxies: dict[int, _Proxy] = {}
    servers = []

    async def begin(to: int) -> int:
        proxy = _Proxy(to)
        server = await asyncio.get_running_loop().create_server(
            lambda: _Client(proxy), "127.0.0.1", 0, backlog=1024
        )
        servers.append(server)
        port = int(server.sockets[0].getsockname()[1])
        proxies[port] = proxy
        return port

    def slow(port: int, seconds: float) -> bool:
        proxies[port].seconds = seconds
        return True

    def count(port: int) -> Counted:
        proxy = proxies[port]
        counted = Counted(proxy.up, proxy.down, proxy.open, proxy.calls)
        proxy.up, proxy.down, proxy.calls = 0, 0, []
        return counted

    await serve({"open": begin, "slow": slow, "count": count})


if __name__ == "__main__":
    asyncio.run(_main())
