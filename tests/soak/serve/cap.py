"""Two replicas and one state: a daily cap holds, by the vendor's own bill, at saturation."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.soak.live.bars import Bar, tell
from tests.soak.serve.client import Client
from tests.soak.serve.kept import Kept
from tests.soak.serve.process import serving
from tests.soak.serve.world import PRICES, WHOIS, World

_PART = "cap"
CLIENTS = 64  # of each replica: as many as it decides at a time
DELAY = (0.0, 0.02)  # seconds that the vendor takes, at least and at most
_BUDGET = f"budget: {WHOIS}"


class Spent(NamedTuple):
    """What was spent under a cap, by the vendor's bill and by the state."""

    cap: float
    bill: float
    counted: float  # paid and unknown, by `emsco spend`
    refused: int  # rows that were rejected for want of money

    @property
    def holds(self) -> bool:
        """Whether the cap was reached and not exceeded, and the rest refused."""
        reached = self.cap - PRICES[WHOIS] < self.bill + 1e-6
        return self.bill <= self.cap + 1e-6 and self.bill <= self.counted + 1e-6 and (
            reached and self.refused > 0
        )  # fmt: skip


@dataclass
class Load:
    """Clients of two replicas, and what they were answered."""

    keys: list[str]
    statuses: Counter[int] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    refused: int = 0

    async def run(self, ports: list[int], seconds: float, refused: int) -> None:
        """Ask as quickly as answers come, until so many rows were refused for want of money."""
        begin = time.perf_counter()
        until = begin + seconds
        self.refused = refused
        await asyncio.gather(
            *(self._work(port, number, until) for port in ports for number in range(CLIENTS))
        )
        self.seconds = time.perf_counter() - begin

    async def _work(self, port: int, number: int, until: float) -> None:
        with Client(port) as client:
            while self.keys and (
                time.perf_counter() < until or self.reasons[_BUDGET] < self.refused
            ):
                body = {"key": self.keys.pop(), "receipt": True}
                if number % 2:
                    body["id"] = f"cap-{body['key']}"
                answer = await client.decide(body)
                self.statuses[answer.status] += 1
                if answer.status == 200:
                    self.reasons[answer.json["decisions"][0]["reason"]] += 1

    @property
    def rate(self) -> float:
        """Answers per second."""
        return self.statuses[200] / self.seconds


def measure(world: World, *, small: bool) -> list[Bar]:
    """Spend the money for 1,000 rows, and try to spend as much again; `--small`, for 60."""
    bars = []
    world.vendor.behave(delay=DELAY)
    rows = 60 if small else 1_000
    cap = rows * PRICES[WHOIS] + 1.0  # a bit more than so many rows, and less than another one
    world.write_sources(max_spend=cap)
    for kind in ("Redis", "PostgreSQL"):
        kept, before = Kept(world, kind, "cap"), world.vendor.billed()
        kept.begin()
        load = Load(world.keys.copy())
        with (
            serving(world, state=kept.address, waits=False) as one,
            serving(world, state=kept.address, waits=False) as other,
        ):
            one.wait_ready()
            other.wait_ready()
            asyncio.run(load.run([one.port, other.port], 2.0 if small else 30.0, rows))
            codes = [one.end(), other.end()]
        bill = world.vendor.billed() - before
        counted = sum(spent["paid"] + spent["unknown"] for spent in kept.spend())
        spent = Spent(cap, bill, counted, load.reasons[_BUDGET])
        tell(_PART, state=kind, rate=load.rate, statuses=load.statuses, reasons=load.reasons,
             codes=codes, **spent._asdict())  # fmt: skip
        bars.append(Bar(
            f"two replicas, a cap of {cap:,.0f} a day in {kind}: the vendor's bill",
            "reached, never exceeded",
            f"{bill:,.0f}; {spent.refused:,} rows were refused; {load.rate:,.0f} requests per "
            f"second by {2 * CLIENTS} clients", spent.holds and set(load.statuses) == {200},
        ))  # fmt: skip
    world.write_sources()
    world.vendor.behave()
    return bars
