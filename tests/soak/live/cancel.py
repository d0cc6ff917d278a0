"""Calls cancelled at random moments: no row ever gets another row's value.

Every store holds values that tell the key that they are for. Redis and the vendor are asked without
`key_field`, so that nothing but the connection itself keeps answers apart.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from emsco.core.decisions import TIMEOUT
from emsco.live import HTTPSource, RedisSource, SQLSource
from emsco.live.coalescing import CoalescingGate
from emsco.live.source import LiveSource
from tests.soak.live.bars import Bar, tell
from tests.soak.live.stores import Stores
from tests.soak.live.vendor import PLAIN, Vendor

_PART = "cancel"
KEYS = 2_000
MOST_ROWS = 6  # of a call
WORKERS = 6  # before each source
FEATURES = ("one", "two")
SHARES = {"Redis": 0.35, "PostgreSQL": 0.2, "MariaDB": 0.2, "HTTP": 0.2, "HTTP, paid": 0.05}
PATIENCE = 10.0  # seconds: no call ends by itself
_BEAT = 0.05  # seconds between looks at whether the machine stands still
_LONGER = 1.3  # a call is cancelled within so many times of what calls took so far


def value(key: str, feature: str) -> float:
    """Give the value that tells its key."""
    return int(key[1:]) * 2.0 + FEATURES.index(feature)


def measure(stores: Stores, *, small: bool) -> list[Bar]:
    """Cancel 100,000 calls, most where they are quick; `--small`, 600."""
    n_calls = 600 if small else 100_000
    with TemporaryDirectory() as folder, Vendor(Path(folder)) as vendor:
        sources = _filled(stores, vendor)
        callers = {
            name: Callers(source, int(n_calls * SHARES[name])) for name, source in sources.items()
        }
        stood_still = asyncio.run(_all(callers))
    for name, caller in callers.items():
        tell(_PART, source=name, latency=caller.latency, **caller.counts, wrong=caller.wrong[:5])
    counts: Counter[str] = sum((caller.counts for caller in callers.values()), Counter())
    wrong = sum(len(caller.wrong) for caller in callers.values())
    told = f"{wrong} of {counts['rows']:,} rows"
    if counts["late"]:
        told += f", {counts['late']} late; the machine stood still for {stood_still:.1f} s"
    # An answer that never comes was sent elsewhere, unless nobody could read it in time.
    was_lost = counts["late"] and stood_still < PATIENCE / 2
    return [
        Bar(f"{counts['cancelled']:,} calls cancelled at random, all four stores, "
            f"{counts['answered']:,} others beside them", "no row gets another row's value",
            told, not wrong and not was_lost and counts["cancelled"] >= n_calls),
    ]  # fmt: skip


async def _all(callers: dict[str, Callers]) -> float:
    """Ask all sources at once; give how long this process could do nothing, at most, in seconds."""
    standing = asyncio.ensure_future(_longest_pause())
    await asyncio.gather(*(caller.run() for caller in callers.values()))
    standing.cancel()
    return await standing


async def _longest_pause() -> float:
    """Sleep shortly again and again until cancelled, and give how late it woke at worst."""
    loop, longest = asyncio.get_running_loop(), 0.0
    with suppress(asyncio.CancelledError):
        while True:
            begin = loop.time()
            await asyncio.sleep(_BEAT)
            longest = max(longest, loop.time() - begin - _BEAT)
    return longest


class Callers:
    """Callers before one source, of whom two in three lose their patience.

    Parameters
    ----------
    source : LiveSource
        The source.
    n_cancelled : int
        How many calls to cancel before they are answered.
    """

    def __init__(self, source: LiveSource, n_cancelled: int) -> None:
        self._source, self._left = source, n_cancelled
        self.latency = 0.005  # seconds, of calls that were answered, lately
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []

    async def run(self) -> None:
        """Ask until enough calls were cancelled."""
        gate = CoalescingGate(self._source, FEATURES, 1.0)
        await asyncio.gather(*(self._work(gate, number) for number in range(WORKERS)))
        await gate.close()

    async def _work(self, gate: CoalescingGate, number: int) -> None:
        rng = np.random.default_rng([number, 5])
        loop = asyncio.get_running_loop()
        while self._left > 0:
            drawn = rng.choice(KEYS, int(rng.integers(1, MOST_ROWS)), replace=False)
            keys = [f"k{row}" for row in drawn]
            begin = loop.time()
            asking = asyncio.ensure_future(gate.fetch(keys, {}))
            if number % 3:
                await asyncio.wait([asking], timeout=rng.uniform(0, _LONGER * self.latency))
                asking.cancel()
            try:
                found = await asking
            except asyncio.CancelledError:
                self.counts["cancelled"] += 1
                self._left -= 1
                continue
            self.latency += 0.05 * (loop.time() - begin - self.latency)
            self.counts["answered"] += 1
            self._check(keys, found)

    def _check(self, keys: list[str], found: Any) -> None:
        """Hold every row against its key; a row that is missing had its answer sent elsewhere."""
        for i, (key, reason) in enumerate(zip(keys, found.reasons, strict=True)):
            self.counts["rows"] += 1
            expected = [value(key, feature) for feature in FEATURES]
            if reason == TIMEOUT:
                self.counts["late"] += 1
                continue
            values = [] if reason else [float(found.columns[name][i]) for name in FEATURES]
            if values != expected:
                self.wrong.append(f"{key}: {reason or values}")


def _filled(stores: Stores, vendor: Vendor) -> dict[str, LiveSource]:
    """Fill the stores, and say how each is asked; the vendor paid and not paid for."""
    records = {
        key: {"id": key} | {feature: value(key, feature) for feature in FEATURES}
        for key in (f"k{row}" for row in range(KEYS))
    }
    with stores.redis.admin() as redis:
        pipeline = redis.pipeline(transaction=False)
        for key, record in records.items():
            pipeline.set(f"cancel:{key}", json.dumps(record))
        pipeline.execute()
    rows = [tuple(record.values()) for record in records.values()]
    made = (
        "CREATE TABLE {} (id varchar(20) PRIMARY KEY, one double precision, two double precision)"
    )
    with stores.postgres.admin() as postgres, postgres.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS cancel")
        cursor.execute(made.format("cancel"))
        cursor.executemany("INSERT INTO cancel VALUES (%s, %s, %s)", rows)
    with stores.mariadb.admin() as mariadb, mariadb.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS test.cancel")
        cursor.execute(made.format("test.cancel"))
        cursor.executemany("INSERT INTO test.cancel VALUES (%s, %s, %s)", rows)
    vendor.sell({PLAIN: records}, price=1.0)
    vendor.behave(delay=(0.0, 0.003))
    terms: dict[str, Any] = {"timeout": PATIENCE, "retries": 0, "breaker": 1_000_000}
    query: dict[str, Any] = {"query": "SELECT * FROM cancel WHERE id IN :keys", "key_field": "id"}
    url = f"{vendor.url}/v1/{{key}}"
    return {
        "Redis": RedisSource(url=stores.redis.url(), key="cancel:{key}", format="json", **terms),
        "PostgreSQL": SQLSource(url=stores.postgres.url(), **query, **terms),
        "MariaDB": SQLSource(url=stores.mariadb.url(), **query, **terms),
        "HTTP": HTTPSource(url=url, concurrency=8, **terms),
        "HTTP, paid": HTTPSource(url=url, concurrency=8, paid=True, **terms),
    }
