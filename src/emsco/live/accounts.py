"""Accounts of daily spending on sources and of failing sources, for one process or several.

A live cascade reserves money in its accounts before a paid or limited call, and reports the outcome
afterwards. A call that never ended, because its process died, stays counted at full price.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from emsco.core.decisions import BUDGET

_SECONDS = 86_400  # per day


@dataclass(frozen=True)
class RequestContext:
    """The request that a call is made for, for the intents of paid calls."""

    id: str = ""
    tenant: str = ""  # that is charged


NO_REQUEST = RequestContext()


@dataclass(frozen=True)
class Intent:
    """A call that is about to be made."""

    id: str
    source: str
    granted: int  # the rows that may be bought
    held: float  # reserved until the outcome is known
    refused: str = BUDGET  # why the other rows are rejected


class Accounts(Protocol):
    """Protocol of accounts, which count spending and failures for one process or several."""

    async def begin(
        self,
        source: str,
        n_rows: int,
        price: float,
        limit: float | None,
        context: RequestContext = NO_REQUEST,
    ) -> Intent:
        """Reserve money for a call, for as many rows as the daily limit allows."""

    async def end(self, intent: Intent, paid: float, unknown: float) -> None:
        """Record what a call cost and what it may have cost; again if an answer comes late."""

    async def may_try(self, source: str) -> bool:
        """Return whether a trial call to a failing source may be made: one a second in total."""

    async def is_well(self, source: str, *, well: bool) -> None:
        """Report that a source fails, or answers again."""


class OwnAccounts:
    """The accounts of a single process."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._day = -1
        self._spending: dict[str, float] = {}
        self._counted: dict[str, float] = {}  # by intent of today, while its outcome is unknown
        self._first = 0  # the number of the first intent of today
        self._next = 0  # the number of the next intent

    def today(self, source: str) -> float:
        """Return the spending of today (UTC), including calls in progress and unknown charges."""
        day = int(self._clock() // _SECONDS)
        if day != self._day:
            # A call that began yesterday belongs to yesterday, whenever it ends.
            self._day, self._spending, self._counted = day, {}, {}
            self._first = self._next
        return self._spending.get(source, 0.0)

    async def begin(
        self,
        source: str,
        n_rows: int,
        price: float,
        limit: float | None,
        context: RequestContext = NO_REQUEST,  # noqa: ARG002
    ) -> Intent:
        """Reserve money for a call, for as many rows as the daily limit allows."""
        granted = granted_rows(n_rows, price, limit, self.today(source))
        intent = Intent(str(self._next), source, granted, price * granted)
        self._next += 1
        self._count(intent, intent.held)
        return intent

    async def end(self, intent: Intent, paid: float, unknown: float) -> None:
        """Record what a call cost and what it may have cost; again if an answer comes late."""
        self._count(intent, paid + unknown)
        if not unknown:
            self._counted.pop(intent.id, None)

    def _count(self, intent: Intent, amount: float) -> None:
        today = self.today(intent.source)
        if int(intent.id) < self._first:
            return
        before = self._counted.get(intent.id, 0.0)
        self._counted[intent.id] = amount
        self._spending[intent.source] = max(0.0, today + amount - before)

    async def may_try(self, source: str) -> bool:  # noqa: ARG002
        """Return True: the circuit breaker already limits trial calls."""
        return True

    async def is_well(self, source: str, *, well: bool) -> None:
        """Do nothing, because there is only this process."""


def granted_rows(n_rows: int, price: float, limit: float | None, spending: float) -> int:
    """Return how many rows the rest of the daily limit pays for."""
    if limit is None or price <= 0:
        return n_rows
    # Sums of prices are not exact: an excess of a millionth of a price is ignored.
    return max(0, min(n_rows, int((limit - spending) / price + 1e-6)))


@dataclass
class SpendingLimit:
    """What may be spent on trying sources out, all together, and what was.

    `limit` is the maximum; None: nothing may be spent.
    """

    limit: float | None
    spending: float = 0.0
    unknown: float = 0.0  # the part of it that may not have been charged

    def affords(self, n_rows: int, price: float) -> int:
        """Return how many of some rows can still be paid."""
        return granted_rows(n_rows, price, self.limit or 0.0, self.spending)

    def spend(self, amount: float, *, billed: bool = True) -> None:
        """Count an amount that was paid, or may have been."""
        self.spending += amount
        self.unknown += 0.0 if billed else amount


def money(amount: float, unit: str) -> str:
    """Format an amount with its unit."""
    number = f"{amount:,.2f}".removesuffix(".00") if abs(amount) >= 100 else f"{amount:.4g}"
    return f"{number} {unit}".rstrip()
