"""The gate before a source: who may ask, who shares an answer, what is kept, and what is paid.

A request is a key with the values that it uses. Requests that are under way are shared: they obey
no single caller's deadline, and the caller who asked first pays.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from emsco.acquisition.breaker import Breaker
from emsco.acquisition.cache import Cache
from emsco.acquisition.fetched import Fetched, Key, Values, key_text
from emsco.acquisition.source import LiveSource
from emsco.words.decisions import (
    ACCEPTED,
    BUDGET,
    CIRCUIT_OPEN,
    DEADLINE,
    ERROR,
    TIMEOUT,
)

FETCHED, CACHED, SHARED = "fetched", "cached", "shared"
_APART = 10.0  # seconds that a paid call may take after its caller has left
_RETRIED = 0.1  # of a source's calls, at most
_FIRST_RETRIES = 1.0  # that are allowed before there were enough calls to count
_JITTER = 0.05  # seconds, at most, before a call is repeated


class Bought(NamedTuple):
    """What one row got of a source: values, or the reason why it got none."""

    values: tuple[Any, ...] | None
    reason: str = ACCEPTED
    how: str = FETCHED
    paid: float = 0.0
    billed: bool = True  # False: it is not known whether the source charges for it
    moment: float | None = None  # of the event, in seconds since 1970
    verified: bool = True


@dataclass(eq=False)
class _Flight:
    """A call under way, and how many wait for it."""

    task: asyncio.Task[list[Bought]]
    waiting: int = 0


@dataclass
class Spending:
    """What a source was paid today, in UTC, and calls of which nobody knows."""

    day: str = ""
    paid: float = 0.0
    unknown: int = 0

    def today(self) -> float:
        """Give what was paid today."""
        day = datetime.now(UTC).date().isoformat()
        if day != self.day:
            self.day, self.paid = day, 0.0
        return self.paid


class Gate:
    """One source, open, with all callers of this process before it.

    Parameters
    ----------
    source : LiveSource
        How it is fetched.
    features : sequence of str
        What it yields.
    price : float
        What a row costs, where the answer does not say.
    """

    def __init__(self, source: LiveSource, features: Sequence[str], price: float) -> None:
        self.source, self.price = source, price
        self.features = tuple(features)
        self.spending = Spending()
        self.calls = self.retried = 0
        self._client = source.open(features)
        self._needs = sorted(source.needs)
        self._breaker = Breaker(int(source.breaker), int(source.concurrency))
        self._cache: Cache[Bought] = Cache(source.ttl)
        self._flying: dict[Hashable, tuple[_Flight, int]] = {}
        self._running = 0
        self._freed = asyncio.Condition()
        self._apart: set[asyncio.Task[Any]] = set()

    async def fetch(
        self, keys: Sequence[Key], values: Values, until: float | None = None
    ) -> list[Bought]:
        """Fetch rows: from what is kept, from calls under way, or by a call of their own.

        `until` is a time of the event loop's clock, beyond which a row is not waited for.
        """
        requests = [
            (key_text(key), *(values[name][i] for name in self._needs))
            for i, key in enumerate(keys)
        ]
        found: list[Bought | None] = [self._kept(request) for request in requests]
        fresh: dict[Any, int] = {}
        for i, request in enumerate(requests):
            if found[i] is None and request not in self._flying:
                fresh.setdefault(request, i)  # who asks first pays
        flights: dict[_Flight, None] = {}
        own = self._launch(fresh, keys, values, found) if fresh else None
        places: list[tuple[_Flight, int] | None] = [None] * len(keys)
        for i, request in enumerate(requests):
            if found[i] is None:
                places[i] = self._flying[request]
                flights[places[i][0]] = None  # type: ignore[index]  # set in the line above
        await self._wait(list(flights), until)
        first: set[int] = set(fresh.values())
        for i, at in enumerate(places):
            if at is not None:
                found[i] = self._collect(*at, is_first=at[0] is own and i in first)
        return [row for row in found if row is not None]

    def _kept(self, request: Hashable) -> Bought | None:
        kept = self._cache.get(request)
        if kept is None:
            return None
        age = None if kept.moment is None else time.time() - kept.moment
        if self.source.is_timed and self.source.freshness.is_stale(age):
            return None
        return kept._replace(how=CACHED, paid=0.0)

    def _launch(
        self,
        fresh: dict[Any, int],
        keys: Sequence[Key],
        values: Values,
        found: list[Bought | None],
    ) -> _Flight | None:
        """Begin a call for requests that nobody has made, as far as the day's money goes."""
        for request, i in list(fresh.items()):
            limit, price = self.source.max_spend, self.price
            if limit is not None and self.spending.today() + price > limit:
                found[i] = Bought(None, BUDGET)
                del fresh[request]
            else:
                self.spending.paid += price  # held until the answer says what it was
        if not fresh:
            return None
        places = list(fresh.values())
        asked = [keys[i] for i in places]
        used = {name: [values[name][i] for i in places] for name in self._needs}
        flight = _Flight(asyncio.ensure_future(self._call(list(fresh), asked, used)))
        for place, request in enumerate(fresh):
            self._flying[request] = (flight, place)
        flight.task.add_done_callback(lambda _: self._land(fresh, flight))
        return flight

    def _land(self, requests: dict[Any, int], flight: _Flight) -> None:
        for request in requests:
            if self._flying.get(request, (None,))[0] is flight:
                del self._flying[request]
        if flight.task.cancelled():
            self.spending.paid -= self.price * len(requests)

    async def _wait(self, flights: list[_Flight], until: float | None) -> None:
        """Wait for calls; one that nobody waits for any more is ended, unless it is paid for."""
        if not flights:
            return
        for flight in flights:
            flight.waiting += 1
        loop = asyncio.get_running_loop()
        left = None if until is None else max(0.0, until - loop.time())
        try:
            await asyncio.wait([flight.task for flight in flights], timeout=left)
        finally:
            for flight in flights:
                flight.waiting -= 1
                if not flight.waiting and not flight.task.done() and not self.source.paid:
                    flight.task.cancel()

    def _collect(self, flight: _Flight, place: int, *, is_first: bool) -> Bought:
        """Give the row that a call brought, or say that it came too late."""
        if not flight.task.done() or flight.task.cancelled():
            if is_first and self.source.paid:
                self.spending.unknown += 1
                return Bought(None, DEADLINE, paid=self.price, billed=False)
            return Bought(None, DEADLINE)
        row = flight.task.result()[place]
        return row if is_first else row._replace(how=SHARED, paid=0.0)

    async def _call(self, requests: list[Any], keys: list[Key], values: Values) -> list[Bought]:
        """Call the source, again where it failed and may be asked again; keep what it answers."""
        held = self.price * len(keys)
        async with _Slot(self):
            rows = await self._tries(requests, keys, values)
        self.spending.paid += sum(row.paid for row in rows) - held
        self.spending.unknown += sum(not row.billed for row in rows)
        self._keep(requests, rows)
        return rows

    def _keep(self, requests: list[Any], rows: list[Bought]) -> None:
        """Keep answers for who asks next; failures are not kept."""
        for request, row in zip(requests, rows, strict=True):
            if row.reason == ACCEPTED:
                self._cache.put(request, row)

    async def _tries(self, requests: list[Any], keys: list[Key], values: Values) -> list[Bought]:
        tries = 1 + (self.source.most_retries if self._may_repeat else 0)
        rows: list[Bought] = []
        for number in range(tries):
            if not self._breaker.allows():
                return rows or [Bought(None, CIRCUIT_OPEN)] * len(keys)
            if number:
                if self.retried + 1 > max(_FIRST_RETRIES, _RETRIED * self.calls):
                    return rows
                self.retried += 1
                await asyncio.sleep(random.uniform(0, _JITTER))  # spreads calls
            self.calls += 1
            rows, answered = await self._try(requests, keys, values)
            if answered:
                self._breaker.succeeded()
                return rows
            self._breaker.failed()
        return rows

    @property
    def _may_repeat(self) -> bool:
        return not self.source.paid or self.source.is_idempotent

    async def _try(
        self, requests: list[Any], keys: list[Key], values: Values
    ) -> tuple[list[Bought], bool]:
        """Ask once: what came, and whether anything did."""
        asking = asyncio.ensure_future(self._client.fetch(keys, values))
        try:
            done, _ = await asyncio.wait([asking], timeout=self.source.timeout)
            if done:
                rows = self._read(asking.result())
                failed = all(row.reason in (ERROR, TIMEOUT) for row in rows)
                return rows, not failed
            reason = TIMEOUT
        except asyncio.CancelledError:
            self._leave(asking, requests)
            raise
        except Exception:
            reason = ERROR
        self._leave(asking, requests)
        return [self._unanswered(reason)] * len(keys), False

    def _leave(self, asking: asyncio.Future[Fetched], requests: list[Any]) -> None:
        """End a call that nobody waits for; one that is paid for may still bring its answer."""
        if asking.done():
            return
        if not self.source.paid:
            asking.cancel()
        keeping = asyncio.ensure_future(asyncio.wait([asking], timeout=_APART))
        self._apart.add(keeping)

        def end(_: Any) -> None:
            self._apart.discard(keeping)
            if asking.done() and not asking.cancelled() and asking.exception() is None:
                late = self._read(asking.result())
                self.spending.unknown -= sum(row.billed for row in late)
                self._keep(requests, late)
            asking.cancel()

        keeping.add_done_callback(end)

    def _unanswered(self, reason: str) -> Bought:
        if not self.source.paid:
            return Bought(None, reason)
        return Bought(None, reason, paid=self.price, billed=False)

    def _read(self, fetched: Fetched) -> list[Bought]:
        """Give what came as rows, with what each costs."""
        columns = [fetched.columns[name] for name in self.features]
        now = time.time()
        rows = []
        for i, reason in enumerate(fetched.reasons):
            if reason in (ERROR, TIMEOUT):
                rows.append(self._unanswered(reason))
                continue
            price = None if fetched.prices is None else fetched.prices[i]
            age = None if fetched.ages is None else fetched.ages[i]
            rows.append(
                Bought(
                    tuple(column[i] for column in columns) if reason == ACCEPTED else None,
                    reason,
                    paid=self.price if price is None else price,
                    moment=None if age is None else now - age,
                    verified=fetched.verified,
                )
            )
        return rows

    async def close(self) -> None:
        """End what is under way, and close every connection."""
        tasks = [flight.task for flight, _ in self._flying.values()]
        for task in [*tasks, *self._apart]:
            task.cancel()
        await asyncio.gather(*tasks, *self._apart, return_exceptions=True)
        await self._client.close()


class _Slot:
    """A place among the calls that a source takes at a time."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def __aenter__(self) -> None:
        gate = self._gate
        async with gate._freed:
            await gate._freed.wait_for(lambda: gate._running < gate._breaker.limit)
            gate._running += 1

    async def __aexit__(self, *_: object) -> None:
        gate = self._gate
        gate._running -= 1
        async with gate._freed:
            gate._freed.notify_all()
