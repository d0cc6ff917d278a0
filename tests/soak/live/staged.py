"""Stage by stage against everything at once, with latencies as in the costs."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from emsco.live import LiveCascade
from tests.soak.live.bars import Bar, tell
from tests.soak.live.problem import INDEX, LATENCY, NAMES, PAGE, URL, WHOIS, Problem, make_problem
from tests.soak.live.proxy import Proxies
from tests.soak.live.stock import Stock
from tests.soak.live.stores import Stores
from tests.soak.live.vendor import Vendor

_PART = "staged"
CALLERS = 4
PATIENCE = 30.0  # seconds: nothing fails here because the machine is busy


class Spent(NamedTuple):
    """What decisions took, a row each."""

    bytes: float
    money: float
    p50: float  # seconds
    p99: float


def measure(stores: Stores, *, small: bool) -> list[Bar]:
    """Decide 3,000 rows one by one in both ways; `--small`, 80."""
    n_rows = 80 if small else 3_000
    with TemporaryDirectory() as folder, Vendor(Path(folder)) as vendor, Proxies() as proxies:
        stock = Stock(make_problem(n_rows), stores, vendor)
        behind = {URL: stores.redis.port, PAGE: stores.postgres.port, INDEX: stores.mariadb.port,
                  WHOIS: vendor.port}  # fmt: skip
        ports = {name: proxies.before(port) for name, port in behind.items()}
        for name in NAMES:
            proxies.slow(ports[name], LATENCY[name])
        spent = {
            way: asyncio.run(_decide(make_problem(n_rows, staged=staged), stock, proxies, ports))
            for way, staged in (("staged", True), ("everything at once", False))
        }
    for way, found in spent.items():
        tell(_PART, way=way, rows=n_rows, **found._asdict())
    one, other = spent.values()
    return [
        Bar("bytes a decision, staged / everything at once", "less",
            f"{one.bytes:,.0f} / {other.bytes:,.0f}", one.bytes < other.bytes),
        Bar("money a decision, staged / everything at once", "less",
            f"{one.money:.1f} / {other.money:.1f}", one.money < other.money),
        Bar("p50 of a decision, staged / everything at once", "told",
            f"{1000 * one.p50:.0f} / {1000 * other.p50:.0f} ms", True),
        Bar("p99 of a decision, staged / everything at once", "told",
            f"{1000 * one.p99:.0f} / {1000 * other.p99:.0f} ms", True),
    ]  # fmt: skip


async def _decide(problem: Problem, stock: Stock, proxies: Proxies, ports: dict[str, int]) -> Spent:
    """Decide all rows, one a call, by a few callers at a time."""
    taken, paid = [], 0.0
    sources = stock.sources(ports, timeout=PATIENCE)
    async with LiveCascade(problem.cascade, sources) as live:
        await asyncio.gather(*(live.decide([key]) for key in problem.keys[: 2 * CALLERS]))
        for port in ports.values():
            proxies.counted(port)  # what it took to connect is not counted
        keys = iter(problem.keys)

        async def call() -> None:
            nonlocal paid
            for key in keys:
                begin = time.perf_counter()
                got = await live.decide([key])
                taken.append(time.perf_counter() - begin)
                paid += float(got.cost[0])

        await asyncio.gather(*(call() for _ in range(CALLERS)))
        counted = [proxies.counted(port) for port in ports.values()]
    n_rows = len(problem.keys)
    p50, p99 = np.percentile(taken, [50, 99])
    return Spent(
        sum(c.up + c.down for c in counted) / n_rows, paid / n_rows, float(p50), float(p99)
    )
