"""All rows through four stores, a stage each: decided as on the table, and asked only as needed."""

from __future__ import annotations

import asyncio
import re
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from emsco.live import LiveCascade
from tests.soak.live.bars import Bar, tell
from tests.soak.live.problem import INDEX, NAMES, PAGE, URL, WHOIS, Problem, make_problem
from tests.soak.live.stock import Stock
from tests.soak.live.stores import Stores
from tests.soak.live.vendor import Vendor

AT_ONCE = 1_000  # rows of a call
PATIENCE = 60.0  # seconds: nothing fails here because the machine is busy
_FIELDS = ("label", "accepted", "reason", "exit_stage")
_MONEY = ("paid", "saved")
_PART = "table"


def measure(stores: Stores, *, small: bool) -> list[Bar]:
    """Decide all 11,430 rows; `--small`, 1,000."""
    problem = make_problem(1_000 if small else None)
    with TemporaryDirectory() as folder, Vendor(Path(folder)) as vendor:
        stock = Stock(problem, stores, vendor)
        _reset(stores)
        decided, _ = asyncio.run(_decide(problem, stock, problem.keys))
        asked = _asked(stores, vendor)
        timed = problem.keys[: 300 if small else 3_000]
        _, staged = asyncio.run(_decide(problem, stock, timed))
        _, eager = asyncio.run(_decide(make_problem(staged=False), stock, timed))
    differing = sum(
        int((np.concatenate([getattr(part, field) for part in decided]) != expected).sum())
        for field in _FIELDS
        for expected in [getattr(problem.decided, field)]
    )
    needed = {
        name: Counter(np.array(problem.keys)[problem.needed(name)].tolist()) for name in NAMES
    }
    counts = {name: (asked[name].total(), needed[name].total()) for name in NAMES}
    right = counts[PAGE][0] == counts[PAGE][1] and counts[URL][0] == counts[URL][1]
    right &= all(asked[name] == needed[name] for name in (INDEX, WHOIS))
    receipts = [row.receipt for part in decided for row in part]
    spent, saved = (sum(getattr(receipt, what) for receipt in receipts) for what in _MONEY)
    tell(_PART, rows=len(problem.keys), differing=differing, asked_needed=counts, spent=spent,
         saved=saved, timed_rows=len(timed), seconds=staged, seconds_at_once=eager)  # fmt: skip
    told = ", ".join(f"{name} {had:,} of {wanted:,}" for name, (had, wanted) in counts.items())
    return [
        Bar(f"{len(problem.keys):,} rows: labels, acceptance, reasons, stages", "equal the table",
            f"{differing} differ", not differing),
        Bar("rows asked of each store, by its own counters", "those that needed it", told, right),
        Bar("money saved", "told", f"{saved / (saved + spent):.0%} of {saved + spent:,.0f}", True),
        Bar(f"time saved, {len(timed):,} rows in calls of {AT_ONCE:,}", "told",
            f"{eager - staged:.1f} of {eager:.1f} s", True),
    ]  # fmt: skip


async def _decide(problem: Problem, stock: Stock, keys: list[str]) -> tuple[list[Any], float]:
    """Decide rows, so many at once; give the decisions and the seconds."""
    calls = [keys[start : start + AT_ONCE] for start in range(0, len(keys), AT_ONCE)]
    async with LiveCascade(problem.cascade, stock.sources(timeout=PATIENCE)) as live:
        begin = time.perf_counter()
        decided = [await live.decide(call) for call in calls]
        return decided, time.perf_counter() - begin


def _reset(stores: Stores) -> None:
    """Let the stores count from nothing."""
    with stores.redis.admin() as redis:
        redis.config_resetstat()
    with stores.postgres.admin() as postgres:
        postgres.execute("SELECT pg_stat_statements_reset()")
    for setting in ("log_output = 'TABLE'", "general_log = 1"):
        stores.mariadb.ask(f"SET GLOBAL {setting}")
    stores.mariadb.ask("TRUNCATE mysql.general_log")


def _asked(stores: Stores, vendor: Vendor) -> dict[str, Counter[str]]:
    """Read how often each store was asked for each key; "" where it tells no keys."""
    with stores.redis.admin() as redis:
        commands: Any = redis.info("commandstats")
    with stores.postgres.admin() as postgres:
        given = postgres.execute(
            "SELECT coalesce(sum(rows), 0) FROM pg_stat_statements WHERE query LIKE %s",
            [f"SELECT %FROM {PAGE} WHERE%"],
        ).fetchone()
    stores.mariadb.ask("SET GLOBAL general_log = 0")
    queries = stores.mariadb.ask(
        "SELECT argument FROM mysql.general_log WHERE user_host LIKE 'live%'"
    )
    gets = sum(commands.get(f"cmdstat_{c}", {"calls": 0})["calls"] for c in ("hmget", "get"))
    return {
        URL: Counter({"": gets}),
        PAGE: Counter({"": int(given[0]) if given else 0}),
        INDEX: Counter(key for (query,) in queries for key in _KEY.findall(str(query))),
        WHOIS: Counter(charge.key for charge in vendor.bill()),
    }


_KEY = re.compile(r"site-\d{5}")
