"""The vendor's bill under random cancellation: no less than what is known, no more than told."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from emsco.live import HTTPSource, LiveCascade, Sources
from tests.soak.live.bars import Bar, tell
from tests.soak.live.problem import NAMES, WHOIS, Problem, make_problem
from tests.soak.live.stock import Stock
from tests.soak.live.stores import Stores
from tests.soak.live.vendor import Vendor

_PART = "bill"
WORKERS = 16
MOST_ROWS = 3  # of a call
DELAY = (0.0, 0.4)  # seconds that the vendor takes, at least and at most
PATIENCE = 0.3  # seconds after which a source gives up, so that some answers come late
_CENT = 1e-6
_BAR = "receipts <= known <= bill <= known and unknown"


class Case(NamedTuple):
    """How the vendor behaves, and how it is asked."""

    vendor: Mapping[str, Any] = MappingProxyType({})
    source: Mapping[str, Any] = MappingProxyType({})
    live: Mapping[str, Any] = MappingProxyType({})


CASES = {
    "cancelled": Case(),
    "cancelled, with a deadline": Case(live={"deadline": 0.25}),
    "cancelled, connections dropped and errors": Case({"dropped": 0.1, "failing": 0.1}),
    "cancelled, a third turned away and not billed": Case({"turned_away": 0.33}),
    "cancelled, answers kept": Case(source={"ttl": 5.0}),
    "cancelled, few at a time": Case(source={"concurrency": 6}),
    "cancelled, dropped, and asked again by the same token": Case(
        {"dropped": 0.3}, {"idempotency_header": "Idempotency-Key", "retries": 1}
    ),
}


class Account(NamedTuple):
    """What each side says was spent."""

    receipts: float
    paid: float
    bill: float
    unknown: float

    @property
    def is_fair(self) -> bool:
        """Whether what is known is billed, and what is billed was told."""
        steps = (self.receipts, self.paid, self.bill, self.paid + self.unknown)
        return all(less <= more + _CENT for less, more in pairwise(steps))

    def __str__(self) -> str:
        return (f"{self.receipts:,.0f} <= {self.paid:,.0f} <= {self.bill:,.0f} <= "
                f"{self.paid + self.unknown:,.0f}")  # fmt: skip


def measure(stores: Stores, *, small: bool) -> list[Bar]:
    """Cancel a third of 3,000 calls in each case; `--small`, of 60."""
    problem = make_problem(1_000 if small else 5_000)
    bars = []
    with TemporaryDirectory() as folder, Vendor(Path(folder)) as vendor:
        stock = Stock(problem, stores, vendor, filled=[WHOIS])
        for name, case in CASES.items():
            before = vendor.billed()
            vendor.behave(delay=DELAY, **case.vendor)
            calls = Calls(problem, 60 if small else 3_000)
            account = asyncio.run(calls.make(stock, case))
            account = account._replace(bill=account.bill - before)
            tell(_PART, case=name, calls=calls.made, **account._asdict())
            is_used = account.bill > 0 and min(calls.made.values()) > 0
            bars.append(
                Bar(f"the vendor's bill, {name}", _BAR,
                    str(account), account.is_fair and is_used)
            )  # fmt: skip
    return bars


class Calls:
    """Calls of which some are cancelled, and what the receipts of the others say."""

    def __init__(self, problem: Problem, n_calls: int) -> None:
        self._problem, self._left = problem, n_calls
        # What the stages before need is known, so that nothing but the vendor is asked.
        known = [feature for name in NAMES[:-1] for feature in problem.features(name)]
        self._rows = np.flatnonzero(problem.needed(WHOIS))
        self._known = {feature: problem.X[feature].to_numpy() for feature in known}
        self.made = Counter(answered=0, cancelled=0)
        self._receipts = 0.0

    async def make(self, stock: Stock, case: Case) -> Account:
        """Make them all; then close, with the last ones under way."""
        sources = dict(stock.sources(timeout=10.0))
        whois = sources[WHOIS]
        assert isinstance(whois, HTTPSource)
        terms = {"timeout": PATIENCE, "breaker": 1_000_000, **case.source}
        sources[WHOIS] = replace(whois, **terms)
        async with LiveCascade(self._problem.cascade, Sources(sources), **case.live) as live:
            await asyncio.gather(*(self._work(live, n) for n in range(WORKERS)))
            last = [asyncio.ensure_future(self._decide(live, n, 0)) for n in range(WORKERS)]
            await asyncio.sleep(0.02)
        await asyncio.gather(*last, return_exceptions=True)
        await asyncio.sleep(0.3)  # what the vendor has received, it has billed by then
        spending = live.spending[WHOIS]
        return Account(self._receipts, spending.paid, stock.vendor.billed(), spending.unknown)

    async def _work(self, live: LiveCascade, number: int) -> None:
        rng = np.random.default_rng([number, 3])
        while self._left > 0:
            self._left -= 1
            asked = asyncio.ensure_future(self._decide(live, number, int(rng.integers(2**30))))
            if rng.random() < 0.33:
                await asyncio.sleep(rng.uniform(0, PATIENCE))
                asked.cancel()
            try:
                known = await asked  # not in the line below, which would forget what others add
                self._receipts += known
                self.made["answered"] += 1
            except asyncio.CancelledError:
                self.made["cancelled"] += 1

    async def _decide(self, live: LiveCascade, number: int, seed: int) -> float:
        """Decide rows that need the vendor; give what their receipts know to be paid to it."""
        rng = np.random.default_rng([number, seed])
        rows = rng.choice(self._rows, int(rng.integers(1, MOST_ROWS)), replace=False)
        known = {feature: column[rows].tolist() for feature, column in self._known.items()}
        got = await live.decide([self._problem.keys[row] for row in rows], known=known)
        paid: float = sum(
            fetch.paid
            for row in got
            for fetch in row.receipt.fetches
            if fetch.source == WHOIS and fetch.billed
        )
        return paid
