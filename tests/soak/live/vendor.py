"""A vendor: a real HTTP server, in a process of its own, that keeps its own bill.

Every request that it has received is billed, whether or not the answer arrives; one that repeats
the token of another, or is turned away, is not. The bill is a file with a line a request, written
before anything else is done, so that it outlives a kill.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from tests.soak.live.child import Child, serve
from tests.soak.live.ports import free_port

PLAIN = "plain"
BILLED = ("2xx", 404, 500, "timeout", "lost")  # it bills its errors too, but not who is turned away


class Charge(NamedTuple):
    """One line of the bill."""

    moment: float  # of the clock that all processes share, `time.monotonic`
    price: float
    key: str


class Vendor(Child):
    """The vendor, as who asks it sees it.

    Parameters
    ----------
    folder : Path
        Where it keeps its bill.
    """

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self._bill = folder / "bill"
        self._bill.touch()
        super().__init__("tests.soak.live.vendor", str(self.port), str(self._bill))

    @property
    def url(self) -> str:
        """Give its address."""
        return f"http://127.0.0.1:{self.port}"

    def sell(self, answers: dict[str, dict[str, Any]], price: float) -> None:
        """Give it what it answers: a document by key, for each way in which it may answer.

        A document may tell its own price; everything else costs `price`, also no answer at all.
        """
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(answers, file)
            file.flush()
            self.tell("sell", path=file.name, price=price)

    def behave(
        self,
        *,
        way: str = PLAIN,
        delay: tuple[float, float] = (0.0, 0.0),
        dropped: float = 0.0,
        failing: float = 0.0,
        turned_away: float = 0.0,
    ) -> None:
        """Say how it answers from now on.

        Parameters
        ----------
        way : str, default="plain"
            What it answers from.
        delay : pair of float, default=(0.0, 0.0)
            How many seconds an answer takes, at least and at most.
        dropped, failing : float, default=0.0
            The share of requests whose connection is closed without an answer, and of those that
            are answered with status 500.
        turned_away : float, default=0.0
            The share of requests that are answered with status 503, and not billed.
        """
        self.tell(
            "behave", way=way, delay=delay, dropped=dropped, failing=failing,
            turned_away=turned_away,
        )  # fmt: skip

    def bill(self) -> list[Charge]:
        """Read the bill: every request that it has received."""
        charges = []
        for line in self._bill.read_text(encoding="utf-8").splitlines():
            moment, price, key = line.split(" ", 2)
            charges.append(Charge(float(moment), float(price), key))
        return charges

    def billed(self) -> float:
        """Give the sum of the bill."""
        return sum(charge.price for charge in self.bill())


class _Shop:
    """What the vendor has, and how it behaves."""

    def __init__(self, bill: str) -> None:
        self.bill = os.open(bill, os.O_WRONLY | os.O_APPEND)
        self.answers: dict[str, dict[str, tuple[bytes, float]]] = {}
        self.price = 0.0
        self.tokens: set[bytes] = set()
        self.way, self.delay, self.dropped, self.failing = PLAIN, (0.0, 0.0), 0.0, 0.0
        self.turned_away = 0.0
        self.clients = 0

    def sell(self, path: str, price: float) -> None:
        """Read what is answered, by way and key."""
        given = json.loads(Path(path).read_text(encoding="utf-8"))
        self.price = price
        self.answers = {
            way: {k: (json.dumps(d).encode(), d.get("price", price)) for k, d in documents.items()}
            for way, documents in given.items()
        }

    def behave(self, **told: Any) -> bool:
        """Behave in another way from now on."""
        for name, value in told.items():
            setattr(self, name, value)
        return True

    def charge(self, key: str, token: bytes) -> tuple[int, bytes]:
        """Bill a request, once if it repeats a token, and give what to answer."""
        if self.turned_away and random.random() < self.turned_away:
            return 503, b"{}"
        found = self.answers[self.way].get(key)
        status, body, price = (404, b"{}", self.price) if found is None else (200, *found)
        if self.failing and random.random() < self.failing:
            status, price = 500, self.price
            body = json.dumps({"error": f"no answer for {key}"}).encode()
        if token and token in self.tokens:
            price = 0.0
        self.tokens.add(token)
        os.write(self.bill, f"{time.monotonic():.6f} {price} {key}\n".encode())
        return status, body


_HEAD = b"HTTP/1.1 %d Told\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


class _Connection(asyncio.Protocol):
    """One client's connection; requests are read to their end, then billed, then answered."""

    def __init__(self, shop: _Shop) -> None:
        self._shop, self._read = shop, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count a client."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._shop.clients += 1

    def connection_lost(self, _: Exception | None) -> None:
        """Count one less."""
        self._shop.clients -= 1

    def data_received(self, data: bytes) -> None:
        """Take every request whose head has arrived."""
        self._read += data
        while b"\r\n\r\n" in self._read:
            head, _, self._read = self._read.partition(b"\r\n\r\n")
            path = head.split(b" ", 2)[1].decode("ascii")
            token = head.lower().partition(b"\r\nidempotency-key:")[2].partition(b"\r\n")[0]
            status, body = self._shop.charge(unquote(path.rpartition("/")[2]), token.strip())
            delay = random.uniform(*self._shop.delay)
            dropped = self._shop.dropped and random.random() < self._shop.dropped
            answer = _HEAD % (status, len(body)) + body
            end = self._transport.abort if dropped else partial(self._transport.write, answer)
            if delay:
                asyncio.get_running_loop().call_later(delay, end)
            else:
                end()


async def _main(port: int, bill: str) -> None:
    shop = _Shop(bill)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: _Connection(shop), "127.0.0.1", port, backlog=1024, start_serving=False
    )

    async def sell(path: str, price: float) -> bool:
        shop.sell(path, price)
        await server.start_serving()  # not before: an empty shop would answer nonsense
        return True

    async with server:
        await serve({"sell": sell, "behave": shop.behave, "clients": lambda: shop.clients})


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1]), sys.argv[2]))
