"""A limit over midnight: calls under way belong to their day, and each day has its own money.

The clock of the accounts is set so that midnight (UTC) comes in the middle. Every row is asked for
once, so that the vendor's bill has each key at most once.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from emsco.live import LiveCascade, Sources
from emsco.live.accounts import Accounts, OwnAccounts
from emsco.serve.state import open_state
from tests.soak.live.bars import Bar, tell
from tests.soak.live.problem import NAMES, WHOIS, Problem, make_problem
from tests.soak.live.stock import Stock
from tests.soak.live.stores import Stores
from tests.soak.live.vendor import Vendor

_PART = "midnight"
_MIDNIGHT = 20_000 * 86_400.0
DELAY = (0.0, 0.3)  # seconds that the vendor takes, so that many calls are under way at midnight
DROPPED = 0.1  # of requests get no answer
WORKERS = 8

Clock = Callable[[], float]


class Outcome(NamedTuple):
    """What came of it."""

    wrong: int  # accepted labels that the table would not have given
    reasons: dict[str, int]
    twice: int  # keys that were billed more than once
    bill: float
    most: float  # what both days allow


def measure(stores: Stores, *, small: bool) -> list[Bar]:
    """Ask for 2,000 rows over a midnight with each kind of accounts; `--small`, for 240."""
    n_rows, seconds = (240, 1.0) if small else (2_000, 5.0)
    problem = make_problem(1_000 if small else 8_000)
    bars = []
    with TemporaryDirectory() as folder, Vendor(Path(folder)) as vendor:
        stock = Stock(problem, stores, vendor, filled=[WHOIS])
        redis = f"{stores.redis.url()}?prefix=midnight"
        for where in ("of the process", str(Path(folder, "state.sqlite")), redis):
            kind = where.partition("://")[0].rpartition(".")[2]
            outcome = asyncio.run(_cross(stock, where, n_rows, seconds))
            tell(_PART, accounts=kind, **outcome._asdict())
            is_used = outcome.most / 2 < outcome.bill <= outcome.most + 1e-6
            bars.append(
                Bar(f"a limit over midnight, accounts {kind}",
                    "0 wrong, 0 billed twice, no more than both days allow, and more than one",
                    f"{outcome.wrong} wrong, {outcome.twice} twice, {outcome.bill:,.0f} of "
                    f"{outcome.most:,.0f}", not outcome.wrong and not outcome.twice and is_used)
            )  # fmt: skip
    return bars


async def _cross(stock: Stock, where: str, n_rows: int, seconds: float) -> Outcome:
    problem, begun = stock.problem, None

    def clock() -> float:
        return _MIDNIGHT - seconds + (0.0 if begun is None else time.monotonic() - begun)

    stock.vendor.behave(delay=DELAY, dropped=DROPPED)
    rows = np.flatnonzero(problem.needed(WHOIS))[:n_rows]
    price = {source.name: source.cost for source in problem.costs.sources}[WHOIS]
    limit = price * len(rows) / 5
    sources = dict(stock.sources(timeout=5.0))
    sources[WHOIS] = replace(sources[WHOIS], max_spend=limit, breaker=1_000_000)
    before = len(stock.vendor.bill())
    async with (
        _accounts(where, clock) as accounts,
        LiveCascade(problem.cascade, Sources(sources), accounts=accounts) as live,
    ):
        asking = _Asking(problem, live, rows.tolist(), 2 * seconds)
        begun = time.monotonic()
        await asyncio.gather(*(asking.work() for _ in range(WORKERS)))
    charges = stock.vendor.bill()[before:]
    twice = sum(n > 1 for n in Counter(charge.key for charge in charges).values())
    bill = sum(charge.price for charge in charges)
    return Outcome(asking.wrong, dict(asking.reasons), twice, bill, 2 * limit)


@asynccontextmanager
async def _accounts(where: str, clock: Clock) -> AsyncIterator[Accounts]:
    if where == "of the process":
        yield OwnAccounts(clock)
        return
    state = await open_state(where, clock=clock)
    try:
        yield state
    finally:
        await state.close()


class _Asking:
    """Asks for every row once, evenly over some seconds."""

    def __init__(
        self, problem: Problem, live: LiveCascade, rows: list[int], seconds: float
    ) -> None:
        self._problem, self._live, self._left = problem, live, rows[::-1]
        self._pause = seconds * WORKERS / len(rows)
        known = [feature for name in NAMES[:-1] for feature in problem.features(name)]
        self._known = {feature: problem.X[feature].to_numpy() for feature in known}
        self.wrong = 0
        self.reasons: Counter[str] = Counter()

    async def work(self) -> None:
        """Ask for a row, and go on without waiting for it."""
        under_way = []
        while self._left:
            under_way.append(asyncio.ensure_future(self._ask(self._left.pop())))
            await asyncio.sleep(self._pause)
        await asyncio.gather(*under_way)

    async def _ask(self, row: int) -> None:
        known = {feature: [column[row].item()] for feature, column in self._known.items()}
        (got,) = await self._live.decide([self._problem.keys[row]], known=known)
        self.reasons[got.reason] += 1
        table = self._problem.decided[row]
        self.wrong += got.accepted and (not table.accepted or got.label != table.label)
