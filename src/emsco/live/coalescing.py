"""Request coalescing: all callers of a process share the calls and the cache of a source.

A request is a key with the values that it uses. Requests in flight are shared: they are not bound
to a single caller's deadline, and the first caller pays.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from emsco.core.decisions import ACCEPTED, DEADLINE, TIMEOUT
from emsco.exceptions import LateStateError
from emsco.live.accounts import NO_REQUEST, Accounts, OwnAccounts, RequestContext
from emsco.live.cache import Cache
from emsco.live.call_policy import CallJob, Request, SourceCaller
from emsco.live.fetch_result import Key, Values, key_text
from emsco.live.purchases import CACHED, SHARED, Purchase, PurchaseBatch, SourceSpending
from emsco.live.source import LiveSource


@dataclass(eq=False)
class _Flight(CallJob):
    """A call in flight, and who waits for it."""

    task: asyncio.Task[PurchaseBatch] | None = None
    waiting: int = 0
    waiters: list[asyncio.Future[None]] = field(default_factory=list)

    @property
    def is_landed(self) -> bool:
        return self.task is not None and self.task.done() and not self.task.cancelled()

    def wake(self) -> None:
        """Wake everyone who waits for it."""
        for waiter in self.waiters:
            _wake(waiter)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class CoalescingGate:
    """An open source, shared by all callers of this process.

    Parameters
    ----------
    source : LiveSource
        The source.
    features : sequence of str
        The features that it yields.
    price : float
        The price of a row, unless the answer states it.
    spending : SourceSpending, default=None
        Counts what is spent. None: a new one.
    accounts : Accounts, default=None
        Where money is reserved before it is spent. None: accounts of this process alone.
    name : str, default=""
        The name of the source, for the accounts.
    """

    def __init__(
        self,
        source: LiveSource,
        features: Sequence[str],
        price: float,
        spending: SourceSpending | None = None,
        accounts: Accounts | None = None,
        name: str = "",
    ) -> None:
        self.source, self.price = source, price
        self.features = tuple(features)
        self.spending = SourceSpending() if spending is None else spending
        self.accounts = OwnAccounts() if accounts is None else accounts
        self.caller = SourceCaller(
            source, features, price, name, self.spending, self.accounts, self._keep
        )
        self._needs = sorted(source.needs)
        self._cache: Cache[Purchase] = Cache(source.ttl)
        self._flying: dict[Request, _Flight] = {}

    async def fetch(
        self,
        keys: Sequence[Key],
        values: Values,
        until: float | None = None,
        context: RequestContext = NO_REQUEST,
    ) -> PurchaseBatch:
        """Fetch rows from the cache, from calls in flight, or by new calls.

        `until` is the deadline for all rows, on the event loop's clock.
        """
        refused = self.source.refused(keys, values)
        if refused:
            return await self._fetch_others(refused, keys, values, until, context)
        requests = self._requests(keys, values)
        cached = self._cached(requests)
        joined: dict[int, _Flight] = {}
        fresh: dict[Request, int] = {}
        for i, request in enumerate(requests):
            if i in cached:
                continue
            if request in self._flying:
                joined[i] = self._flying[request]
            else:
                fresh.setdefault(request, i)  # the first row pays
        own = self._launch(fresh, keys, values, context)
        await self._wait({*own, *joined.values()}, until)
        if len(own) == 1 and own[0].is_landed and len(own[0].places) == len(keys):
            return _result(own[0])
        rows = []
        flights = {request: flight for flight in own for request in flight.places}
        for i, request in enumerate(requests):
            if i in cached:
                rows.append(cached[i])
            elif i in joined:
                rows.append(self._collect(joined[i], request, is_first=False))
            else:
                rows.append(self._collect(flights[request], request, is_first=fresh[request] == i))
        return PurchaseBatch.of(rows, self.features)

    async def _fetch_others(
        self,
        refused: dict[int, str],
        keys: Sequence[Key],
        values: Values,
        until: float | None,
        context: RequestContext,
    ) -> PurchaseBatch:
        """Fetch the rows that can be requested; the others get the reason why they cannot."""
        places = [i for i in range(len(keys)) if i not in refused]
        rows = [Purchase(None, refused.get(i, ACCEPTED)) for i in range(len(keys))]
        if places:
            used = {name: [values[name][i] for i in places] for name in self._needs}
            got = await self.fetch([keys[i] for i in places], used, until, context)
            for i, row in zip(places, got, strict=True):
                rows[i] = row
        return PurchaseBatch.of(rows, self.features)

    def _requests(self, keys: Sequence[Key], values: Values) -> list[Request]:
        typed = [key if type(key) is str else (type(key).__name__, key_text(key)) for key in keys]
        if not self._needs:
            return typed
        used = [values[name] for name in self._needs]
        # By type and text: True, 1 and 1.0 are equal in Python, but are different requests.
        return [
            (key, *((type(v[i]).__name__, str(v[i])) for v in used)) for i, key in enumerate(typed)
        ]

    def _cached(self, requests: list[Request]) -> dict[int, Purchase]:
        """Return the rows whose answers are cached and not too old."""
        found: dict[int, Purchase] = {}
        for i, request in enumerate(requests if len(self._cache) else ()):
            row = self._cache.get(request)
            if row is None:
                continue
            age = None if row.moment is None else time.time() - row.moment
            if not (self.source.is_timed and self.source.freshness.is_stale(age)):
                found[i] = row._replace(how=CACHED, paid=0.0)
        return found

    def _launch(
        self,
        fresh: dict[Request, int],
        keys: Sequence[Key],
        values: Values,
        context: RequestContext,
    ) -> list[_Flight]:
        """Start calls for requests that are not in flight."""
        late = self.caller.late
        flights = [
            self._fly(_Flight({request: 0}), partial(self._follow, *late[request]))
            for request in fresh
            if request in late
        ]
        requests = [request for request in fresh if request not in late]
        for chunk in [requests] if len(requests) == 1 else self._chunks(requests):
            places = [fresh[request] for request in chunk]
            used = {name: [values[name][i] for i in places] for name in self._needs}
            flight = _Flight({request: i for i, request in enumerate(chunk)}, context)
            work = partial(self.caller.call, flight, [keys[i] for i in places], used)
            flights.append(self._fly(flight, work))
        return flights

    def _chunks(self, requests: list[Request]) -> Iterator[list[Request]]:
        """Divide requests into calls of limited size, without duplicate keys in a call."""
        apart: list[list[Request]] = [requests]
        if self._needs:  # a key may occur with different values
            apart, often = [], Counter[Any]()
            for request in requests:
                if often[request[0]] == len(apart):
                    apart.append([])
                apart[often[request[0]]].append(request)
                often[request[0]] += 1
        for part in apart:
            size = self.source.rows_per_call or len(part) or 1
            for first in range(0, len(part), size):
                yield part[first : first + size]

    def _fly(self, flight: _Flight, work: Callable[[], Awaitable[PurchaseBatch]]) -> _Flight:
        flight.task = asyncio.get_running_loop().create_task(self._flown(flight, work))
        self._flying.update(dict.fromkeys(flight.places, flight))
        return flight

    async def _flown(
        self, flight: _Flight, work: Callable[[], Awaitable[PurchaseBatch]]
    ) -> PurchaseBatch:
        """Make a call and wake its waiters, sooner than the callbacks of a task would."""
        try:
            return await work()
        finally:
            self._land(flight)
            flight.wake()

    def _land(self, flight: _Flight) -> None:
        for request in flight.places:
            if self._flying.get(request) is flight:
                del self._flying[request]

    async def _wait(self, flights: set[_Flight], until: float | None) -> None:
        """Wait for calls; cancel one that nobody waits for, unless it may be charged."""
        for flight in flights:
            flight.waiting += 1
        try:
            for flight in flights:
                if flight.task is not None and not flight.task.done():
                    await self._wait_for(flight, until)
        finally:
            for flight in flights:
                flight.waiting -= 1
                is_charged = self.source.paid and flight.is_sent
                if not flight.waiting and flight.task and not flight.task.done() and not is_charged:
                    self._land(flight)  # nobody else may join it
                    flight.task.cancel()

    async def _wait_for(self, flight: _Flight, until: float | None) -> None:
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        flight.waiters.append(waiter)
        if until is None:
            await waiter
            return
        timer = loop.call_at(until, _wake, waiter)
        try:
            await waiter
        finally:
            timer.cancel()

    def _collect(self, flight: _Flight, request: Request, *, is_first: bool) -> Purchase:
        """Return the row of a call, rejected with "deadline" if it is not there yet.

        Raises
        ------
        LateStateError
            If the accounts have not reserved the money yet.
        """
        if not flight.is_landed and flight.batch is None:
            if flight.is_counting:
                raise LateStateError("The accounts did not answer before the deadline.")
            if is_first and self.source.paid and flight.is_sent:
                return Purchase(None, DEADLINE, paid=self.price, billed=False)
            return Purchase(None, DEADLINE)
        batch = _result(flight) if flight.batch is None else flight.batch
        row = batch[flight.places[request]]
        return row if is_first else row._replace(how=SHARED, paid=0.0, billed=True)

    def _keep(self, requests: Iterable[Request], batch: PurchaseBatch) -> None:
        """Cache answers, but not failures."""
        if self.source.ttl is None:
            return
        for request, row in zip(requests, batch, strict=False):  # some could not be paid for
            if row.reason == ACCEPTED:
                self._cache.put(request, row)

    async def _follow(self, late: asyncio.Future[PurchaseBatch], place: int) -> PurchaseBatch:
        """Wait for a paid call that another caller started and left, without paying again."""
        done, _ = await asyncio.wait([late], timeout=self.source.timeout)
        if not done:
            return PurchaseBatch.all_alike(1, TIMEOUT)
        row = late.result()[place]
        return PurchaseBatch.of([row._replace(how=SHARED, paid=0.0, billed=True)], self.features)

    async def close(self) -> None:
        """Cancel what is in flight, and close every connection."""
        flights = list(self._flying.values())
        tasks: list[Any] = [flight.task for flight in flights]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for flight in flights:
            flight.wake()  # in case its task never started
        await self.caller.close()


def _result(flight: _Flight) -> PurchaseBatch:
    assert flight.task is not None  # it has landed
    return flight.task.result()
