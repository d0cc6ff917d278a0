"""Minutes at half of what can be done: memory stays as it is, and nothing is left behind."""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from emsco.live import LiveCascade
from tests.soak.live.bars import Bar, tell
from tests.soak.live.problem import make_problem
from tests.soak.live.stock import Stock
from tests.soak.live.stores import Stores
from tests.soak.live.vendor import Vendor

_PART = "soak"
CALLERS = 8  # who measure saturation
PARTS = 10  # of the whole time: of ten minutes, a minute each
GROWTH = 0.05  # of memory, at most
_PAGE = os.sysconf("SC_PAGE_SIZE")


def measure(stores: Stores, *, small: bool) -> list[Bar]:
    """Decide rows for ten minutes; `--small`, for ten seconds."""
    seconds = 10.0 if small else 600.0
    with TemporaryDirectory() as folder, Vendor(Path(folder)) as vendor:
        stock = Stock(make_problem(1_000 if small else 5_000), stores, vendor)
        soak = Soak(stock)
        before = _clients(stores, vendor)
        asyncio.run(soak.run(seconds))
        left = {name: n - before[name] for name, n in _clients(stores, vendor).items()}
    memory = soak.memory
    growth = memory[-1] / memory[1] - 1
    tell(_PART, saturation=soak.saturation, seconds=seconds, decided=soak.counts,
         memory=[round(m / 2**20, 1) for m in memory], tasks=soak.tasks, sockets=soak.sockets,
         connections=left)  # fmt: skip
    failed = soak.counts.total() - soak.counts["as the table"]
    return [
        Bar(f"memory over {seconds:.0f} s at {soak.saturation / 2:.0f} rows a second, half of "
            "saturation: last tenth against the second", f"within {GROWTH:.0%}",
            f"{memory[1] / 2**20:.0f} to {memory[-1] / 2**20:.0f} MB ({growth:+.1%}); "
            f"{failed} of {soak.counts.total():,} rows failed", abs(growth) <= GROWTH),
        Bar("tasks, sockets and connections left behind", "0",
            f"{soak.tasks}, {soak.sockets} and {sum(left.values())}",
            not (soak.tasks or soak.sockets or any(left.values()))),
    ]  # fmt: skip


class Soak:
    """Decisions at an even pace, and what they take of the process."""

    def __init__(self, stock: Stock) -> None:
        self._stock, self._problem = stock, stock.problem
        self.saturation = 0.0  # rows a second
        self.memory: list[float] = []  # bytes, the mean of each tenth
        self.counts: Counter[str] = Counter()
        self.tasks = self.sockets = 0

    async def run(self, seconds: float) -> None:
        """Measure what can be done, do half of it, close, and see what is left."""
        sockets, tasks = _sockets(), len(asyncio.all_tasks())
        async with LiveCascade(self._problem.cascade, self._stock.sources(timeout=10.0)) as live:
            await asyncio.gather(*(live.decide([key]) for key in self._problem.keys[:50]))
            self.saturation = await self._saturate(live, max(1.0, seconds / 40))
            await self._pace(live, seconds)
        await asyncio.sleep(0.2)  # connections are closed by the other side too
        self.tasks = len(asyncio.all_tasks()) - tasks
        self.sockets = _sockets() - sockets

    async def _saturate(self, live: LiveCascade, seconds: float) -> float:
        until, decided = time.perf_counter() + seconds, 0

        async def call(number: int) -> None:
            nonlocal decided
            rng = np.random.default_rng([number, 11])
            while time.perf_counter() < until:
                await live.decide([self._problem.keys[rng.integers(len(self._problem.keys))]])
                decided += 1

        begin = time.perf_counter()
        await asyncio.gather(*(call(number) for number in range(CALLERS)))
        return decided / (time.perf_counter() - begin)

    async def _pace(self, live: LiveCascade, seconds: float) -> None:
        """Begin a call when it is due, however long the others take."""
        rng = np.random.default_rng(13)
        between = 2 / self.saturation
        calls: set[asyncio.Task[Any]] = set()
        begin = due = time.perf_counter()
        sums, samples = [0.0] * PARTS, [0] * PARTS
        while (now := time.perf_counter()) < begin + seconds:
            part = int((now - begin) / seconds * PARTS)
            sums[part] += _memory()
            samples[part] += 1
            while due <= now:
                task = asyncio.ensure_future(
                    self._decide(live, int(rng.integers(len(self._problem.keys))))
                )
                calls.add(task)
                task.add_done_callback(calls.discard)
                due += between
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
        await asyncio.gather(*calls)
        gc.collect()
        self.memory = [total / max(n, 1) for total, n in zip(sums, samples, strict=True)]

    async def _decide(self, live: LiveCascade, row: int) -> None:
        got = await live.decide([self._problem.keys[row]])
        same = got.reason[0] == self._problem.decided.reason[row]
        self.counts["as the table" if same else str(got.reason[0])] += 1


def _memory() -> float:
    """Give the bytes of memory that this process has."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * _PAGE


def _sockets() -> int:
    """Count the sockets that this process has open."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
        except FileNotFoundError:  # the one that lists them
            continue
    return found


def _clients(stores: Stores, vendor: Vendor) -> dict[str, int]:
    """Count the connections that stores have, as they see it."""
    return {
        "Redis": stores.redis.clients(), "PostgreSQL": stores.postgres.clients(),
        "MariaDB": stores.mariadb.clients(), "HTTP": int(vendor.tell("clients")),
    }  # fmt: skip
