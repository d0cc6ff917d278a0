"""What is spent on sources in a day, and which of them fail: for one process, or for many.

A live cascade asks its accounts before a call that is paid for or limited, and tells them what came
of it. A call that was begun and never ended, because its process died, stays counted at full price.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from emsco.core.decisions import BUDGET

_SECONDS = 86_400  # of a day


@dataclass(frozen=True)
class Intent:
    """A call that is about to be made.

    Parameters
    ----------
    id : str
        Its id.
    source : str
        What is asked.
    granted : int
        For how many rows there is money.
    held : float
        What is counted for it until its outcome is known.
    refused : str, default="budget"
        Why the other rows are rejected.
    """

    id: str
    source: str
    granted: int
    held: float
    refused: str = BUDGET


class Accounts(Protocol):
    """Protocol of what counts spending and failures, in one process or for many."""

    async def begin(self, source: str, n_rows: int, price: float, limit: float | None) -> Intent:
        """Hold the money for a call, for as many rows as the limit of the day allows."""

    async def end(self, intent: Intent, spent: float, unknown: float) -> None:
        """Count what a call cost, and what it may have cost; again if an answer comes late."""

    async def may_try(self, source: str) -> bool:
        """Return whether a trial call to a failing source may be made: one a second for all."""

    async def is_well(self, source: str, *, well: bool) -> None:
        """Tell everybody that a source fails, or answers again."""


class OwnAccounts:
    """What one process spends.

    Parameters
    ----------
    clock : callable, default=time.time
        Gives the seconds since 1970.

    Examples
    --------
    >>> import asyncio
    >>> from emsco.live.accounts import OwnAccounts
    >>> accounts = OwnAccounts()
    >>> intent = asyncio.run(accounts.begin("whois", 5, price=2.0, limit=7.0))
    >>> intent.granted, accounts.today("whois")
    (3, 6.0)
    >>> asyncio.run(accounts.end(intent, spent=4.0, unknown=0.0))
    >>> accounts.today("whois")
    4.0
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._day = -1
        self._spent: dict[str, float] = {}
        self._counted: dict[str, float] = {}  # by intent of today, while its outcome is not known
        self._first = 0  # the number of the first intent of today
        self._next = 0  # the number of the next intent

    def today(self, source: str) -> float:
        """Return what was spent today (UTC), calls under way and unknown charges included."""
        day = int(self._clock() // _SECONDS)
        if day != self._day:
            # A call that was begun yesterday belongs to yesterday, whenever it ends.
            self._day, self._spent, self._counted = day, {}, {}
            self._first = self._next
        return self._spent.get(source, 0.0)

    async def begin(self, source: str, n_rows: int, price: float, limit: float | None) -> Intent:
        """Hold the money for a call, for as many rows as the limit of the day allows."""
        granted = granted_rows(n_rows, price, limit, self.today(source))
        intent = Intent(str(self._next), source, granted, price * granted)
        self._next += 1
        self._count(intent, intent.held)
        return intent

    async def end(self, intent: Intent, spent: float, unknown: float) -> None:
        """Count what a call cost, and what it may have cost; again if an answer comes late."""
        self._count(intent, spent + unknown)
        if not unknown:
            self._counted.pop(intent.id, None)

    def _count(self, intent: Intent, amount: float) -> None:
        today = self.today(intent.source)
        if int(intent.id) < self._first:
            return
        before = self._counted.get(intent.id, 0.0)
        self._counted[intent.id] = amount
        self._spent[intent.source] = max(0.0, today + amount - before)

    async def may_try(self, source: str) -> bool:  # noqa: ARG002  # the breaker has counted already
        """Return whether a trial call to a failing source may be made: one a second for all."""
        return True

    async def is_well(self, source: str, *, well: bool) -> None:
        """Tell nobody: there is only this process."""


def granted_rows(n_rows: int, price: float, limit: float | None, spent: float) -> int:
    """Return for how many rows the money of the day is enough.

    Examples
    --------
    >>> from emsco.live.accounts import granted_rows
    >>> granted_rows(5, price=0.1, limit=0.3, spent=0.0)
    3
    """
    if limit is None or price == 0:
        return n_rows
    # Sums of prices are not exact: a millionth of a price too much is none.
    return max(0, min(n_rows, int((limit - spent) / price + 1e-6)))
