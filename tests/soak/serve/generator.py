"""Load from a process of its own: as much as is answered, or so many requests per second.

wrk tells no latency by status, and waits for answers before it sends more. This one can send at an
even pace, whatever becomes of it, and measures from the moment when a request was due.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

_ROOT = Path(__file__).parents[3]
_TICK = 0.001  # seconds
_AT_ONCE = 64  # clients that greet
_LAST = 60.0  # seconds that the last answers may take


@dataclass(frozen=True)
class Found:
    """What became of requests.

    Parameters
    ----------
    begun : float
        When the first was sent, by `time.monotonic`.
    seconds : float
        For how long they were sent.
    sent, lost : int
        How many there were, and how many got no answer.
    statuses : dict of int to int
        Their answers.
    p50, p99 : dict of int to float
        How many seconds answers took, by status.
    with_retry : int
        Answers that say when to ask again.
    """

    begun: float
    seconds: float
    sent: int
    lost: int
    statuses: dict[int, int]
    p50: dict[int, float]
    p99: dict[int, float]
    with_retry: int

    @property
    def answered(self) -> float:
        """Decisions per second."""
        return self.statuses.get(200, 0) / self.seconds

    @property
    def offered(self) -> float:
        """Requests per second."""
        return self.sent / self.seconds


def load(
    port: int,
    keys: Sequence[str],
    seconds: float,
    *,
    clients: int,
    rate: float | None = None,
    core: str | None = None,
    token: str | None = None,
) -> Found:
    """Ask for rows in a process of its own.

    Parameters
    ----------
    port : int
        Where the service answers.
    keys : sequence of str
        The rows, one after the other.
    seconds : float
        For how long.
    clients : int
        The number of connections.
    rate : float, default=None
        How many requests per second are sent. None: each client sends the next when it has an
        answer.
    core : str, default=None
        The core that the process runs on.
    token : str, default=None
        The token that is sent. None: none is.
    """
    told = {"port": port, "keys": list(keys), "seconds": seconds, "clients": clients, "rate": rate,
            "token": token}  # fmt: skip
    pinned = [] if core is None else ["taskset", "-c", core]
    done = subprocess.run(
        [*pinned, sys.executable, "-m", __name__], cwd=_ROOT, input=json.dumps(told), text=True,
        stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    found = json.loads(done.stdout)
    by_status = ("statuses", "p50", "p99")
    read = {name: {int(status): n for status, n in found[name].items()} for name in by_status}
    return Found(**found | read)


class _Connection(asyncio.Protocol):
    """One client; answers are read just as far as they must be."""

    def __init__(self, on_answer: Callable[[_Connection, int, bool], None]) -> None:
        self._on_answer, self._read = on_answer, b""
        self.due = 0.0
        self.is_waiting = self.is_lost = False

    def connection_made(self, transport: Any) -> None:
        """Begin."""
        self._transport = transport

    def connection_lost(self, _: Exception | None) -> None:
        """Note that no answer comes any more."""
        self.is_lost = True

    def send(self, request: bytes, due: float) -> None:
        """Send a request."""
        self.due, self.is_waiting = due, True
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        """Read an answer."""
        read = self._read + data
        head, found, body = read.partition(b"\r\n\r\n")
        if found:
            head = head.lower()
            length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
            if len(body) >= length:
                self._read, self.is_waiting = b"", False
                self._on_answer(self, int(head[9:12]), b"\r\nretry-after:" in head)
                return
        self._read = read


class _Load:
    """All clients, and what became of their requests."""

    def __init__(self, port: int, keys: list[str], token: str | None) -> None:
        self._port = port
        self._requests = [_request(key, token) for key in keys]
        self._taken: dict[int, list[float]] = {}
        self._retries: Counter[int] = Counter()
        self.sent = 0
        self._idle: deque[_Connection] = deque()
        self._until = 0.0
        self._is_paced = False

    def _answered(self, connection: _Connection, status: int, again: bool) -> None:
        if not self._until:
            return  # a greeting
        now = time.perf_counter()
        self._taken.setdefault(status, []).append(now - connection.due)
        self._retries[status] += again
        if self._is_paced:
            self._idle.append(connection)
        elif now < self._until:
            self._send(connection, now)

    def _send(self, connection: _Connection, due: float) -> None:
        connection.send(self._requests[self.sent % len(self._requests)], due)
        self.sent += 1

    async def run(self, seconds: float, clients: int, rate: float | None) -> dict[str, Any]:
        """Send, and wait for the last answers."""
        loop = asyncio.get_running_loop()
        made = [
            (await loop.create_connection(
                lambda: _Connection(self._answered), "127.0.0.1", self._port
            ))[1] for _ in range(clients)
        ]  # fmt: skip
        await _greet(made)
        begun, begin = time.monotonic(), time.perf_counter()
        self._until, self._is_paced = begin + seconds, rate is not None
        if rate is None:
            for connection in made:
                self._send(connection, time.perf_counter())
            await asyncio.sleep(seconds)
        else:
            self._idle.extend(made)
            await self._pace(begin, rate)
        took = time.perf_counter() - begin
        last = time.perf_counter() + _LAST
        while any(c.is_waiting and not c.is_lost for c in made) and time.perf_counter() < last:
            await asyncio.sleep(0.01)
        answered = sum(len(taken) for taken in self._taken.values())
        return {
            "begun": begun, "seconds": took, "sent": self.sent, "lost": self.sent - answered,
            "statuses": {status: len(taken) for status, taken in self._taken.items()},
            "p50": {s: float(np.percentile(taken, 50)) for s, taken in self._taken.items()},
            "p99": {s: float(np.percentile(taken, 99)) for s, taken in self._taken.items()},
            "with_retry": self._retries.total(),
        }  # fmt: skip

    async def _pace(self, begin: float, rate: float) -> None:
        """Send what is due; what no client can send yet is sent late, and measured so."""
        number = 0
        while (now := time.perf_counter()) < self._until:
            while self._idle and (due := begin + number / rate) <= now:
                connection = self._idle.popleft()
                if connection.is_lost:
                    continue
                self._send(connection, due)
                number += 1
            await asyncio.sleep(_TICK)


async def _greet(clients: Sequence[_Connection]) -> None:
    """Let every client be accepted, some at a time: a thousand at once keep the service busy."""
    greeting = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for first in range(0, len(clients), _AT_ONCE):
        some = clients[first : first + _AT_ONCE]
        for client in some:
            client.send(greeting, 0.0)
        while any(client.is_waiting and not client.is_lost for client in some):
            await asyncio.sleep(_TICK)


def _request(key: str, token: str | None) -> bytes:
    body = json.dumps({"key": key}).encode()
    head = ["POST /v1/decide HTTP/1.1", "Host: localhost", "Content-Type: application/json",
            f"Content-Length: {len(body)}"]  # fmt: skip
    if token is not None:
        head.append(f"Authorization: Bearer {token}")
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


if __name__ == "__main__":
    import uvloop

    told = json.loads(sys.stdin.read())
    made = _Load(told.pop("port"), told.pop("keys"), told.pop("token"))
    print(json.dumps(uvloop.run(made.run(**told))))
