"""The gate before a source: who may ask, who shares an answer, what is kept, and what is paid.

A request is a key with the values that it uses. Requests that are under way are shared: they obey
no single caller's deadline, and the caller who asked first pays.
"""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from emsco.acquisition.bought import CACHED, FETCHED, SHARED, Batch, Bought, Spending
from emsco.acquisition.breaker import Breaker
from emsco.acquisition.cache import Cache
from emsco.acquisition.fetched import Fetched, Key, Values, key_text
from emsco.acquisition.slots import Slots
from emsco.acquisition.source import APART, LiveSource
from emsco.exceptions import SourcesError
from emsco.words.decisions import ACCEPTED, BUDGET, CIRCUIT_OPEN, DEADLINE, ERROR, TIMEOUT

Request: TypeAlias = Any  # a key, or a key and the values that it is used with

_RETRIED = 0.1  # of a source's calls, at most
_FIRST_RETRIES = 1.0  # that are allowed before there were enough calls to count
_JITTER = 0.05  # seconds, at most, before a call is repeated


@dataclass(eq=False)
class _Flight:
    """A call under way: where each request is in it, what it may cost, and how many wait."""

    places: dict[Request, int]
    held: float
    task: asyncio.Task[Batch] | None = None
    waiting: int = 0
    is_sent: bool = False

    @property
    def is_landed(self) -> bool:
        return self.task is not None and self.task.done() and not self.task.cancelled()


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
    spending : Spending, default=None
        Where to count what is spent. None: a new one.
    """

    def __init__(
        self,
        source: LiveSource,
        features: Sequence[str],
        price: float,
        spending: Spending | None = None,
    ) -> None:
        self.source, self.price = source, price
        self.features = tuple(features)
        self.spending = Spending() if spending is None else spending
        self.calls = self.retried = 0
        self._client: Any = source.open(features)  # takes `token` too, if it is idempotent
        self._needs = sorted(source.needs)
        self._breaker = Breaker(int(source.breaker), int(source.concurrency))
        self._slots = Slots(lambda: self._breaker.limit)
        self._cache: Cache[Bought] = Cache(source.ttl)
        self._flying: dict[Request, _Flight] = {}
        # Paid calls that nobody waits for any more: a request that is among them is not paid again.
        self._apart: dict[asyncio.Task[None], None] = {}
        self._late: dict[Request, tuple[asyncio.Future[Batch], int]] = {}

    async def fetch(self, keys: Sequence[Key], values: Values, until: float | None = None) -> Batch:
        """Fetch rows: from what is kept, from calls under way, or by a call of their own.

        `until` is a time of the event loop's clock, beyond which a row is not waited for.
        """
        requests = self._requests(keys, values)
        kept = self._kept(requests)
        joined: dict[int, _Flight] = {}
        fresh: dict[Request, int] = {}
        for i, request in enumerate(requests):
            if i in kept:
                continue
            if request in self._flying:
                joined[i] = self._flying[request]
            else:
                fresh.setdefault(request, i)  # who asks first pays
        refused = self._hold(fresh)
        own = self._launch(fresh, keys, values)
        await self._wait({*own, *joined.values()}, until)
        if len(own) == 1 and own[0].is_landed and len(own[0].places) == len(keys):
            return _result(own[0])
        rows = []
        flights = {request: flight for flight in own for request in flight.places}
        for i, request in enumerate(requests):
            if i in kept:
                rows.append(kept[i])
            elif request in refused:
                rows.append(Bought(None, BUDGET))
            elif i in joined:
                rows.append(self._collect(joined[i], request, is_first=False))
            else:
                rows.append(self._collect(flights[request], request, is_first=fresh[request] == i))
        return Batch.of(rows, self.features)

    def _requests(self, keys: Sequence[Key], values: Values) -> list[Request]:
        asked = [key if type(key) is str else (type(key).__name__, key_text(key)) for key in keys]
        if not self._needs:
            return asked
        used = [values[name] for name in self._needs]
        # By type and text: True, 1 and 1.0 are equal in Python, and different requests.
        return [
            (key, *((type(v[i]).__name__, str(v[i])) for v in used)) for i, key in enumerate(asked)
        ]

    def _kept(self, requests: list[Request]) -> dict[int, Bought]:
        """Give the rows whose answers are kept and not too old."""
        found: dict[int, Bought] = {}
        for i, request in enumerate(requests if len(self._cache) else ()):
            kept = self._cache.get(request)
            if kept is None:
                continue
            age = None if kept.moment is None else time.time() - kept.moment
            if not (self.source.is_timed and self.source.freshness.is_stale(age)):
                found[i] = kept._replace(how=CACHED, paid=0.0)
        return found

    def _hold(self, fresh: dict[Request, int]) -> set[Request]:
        """Hold the money for requests; those beyond what a day may cost are taken out."""
        limit, price = self.source.max_spend, self.price
        if limit is None:
            self.spending.hold(price * len(fresh))
            return set()
        refused = set()
        for request in list(fresh):
            if self.spending.today + price > limit:
                refused.add(request)
                del fresh[request]
            else:
                self.spending.hold(price)
        return refused

    def _launch(
        self, fresh: dict[Request, int], keys: Sequence[Key], values: Values
    ) -> list[_Flight]:
        """Begin calls for requests that nobody has made."""
        late = [request for request in fresh if request in self._late]
        flights = []
        for request in late:
            self.spending.release(self.price)
            flight = _Flight({request: 0}, held=0.0)
            flights.append(self._fly(flight, self._follow(*self._late[request])))
        asked = [request for request in fresh if request not in self._late]
        size = self.source.rows_per_call or len(asked) or 1
        for first in range(0, len(asked), size):
            chunk = asked[first : first + size]
            places = [fresh[request] for request in chunk]
            used = {name: [values[name][i] for i in places] for name in self._needs}
            flight = _Flight(dict(zip(chunk, range(size), strict=False)), self.price * len(chunk))
            work = self._call(flight, [keys[i] for i in places], used)
            flights.append(self._fly(flight, work))
        return flights

    def _fly(self, flight: _Flight, work: Coroutine[Any, Any, Batch]) -> _Flight:
        flight.task = asyncio.ensure_future(work)
        self._flying.update(dict.fromkeys(flight.places, flight))
        flight.task.add_done_callback(lambda _: self._land(flight))
        return flight

    def _land(self, flight: _Flight) -> None:
        for request in flight.places:
            if self._flying.get(request) is flight:
                del self._flying[request]
        if not flight.is_landed and not (self.source.paid and flight.is_sent):
            self.spending.release(flight.held)

    async def _wait(self, flights: set[_Flight], until: float | None) -> None:
        """Wait for calls; one that nobody waits for is ended, unless it may be charged for."""
        if not flights:
            return
        for flight in flights:
            flight.waiting += 1
        loop = asyncio.get_running_loop()
        left = None if until is None else max(0.0, until - loop.time())
        try:
            await asyncio.wait([f.task for f in flights if f.task is not None], timeout=left)
        finally:
            for flight in flights:
                flight.waiting -= 1
                is_charged = self.source.paid and flight.is_sent
                if not flight.waiting and flight.task and not flight.task.done() and not is_charged:
                    flight.task.cancel()

    def _collect(self, flight: _Flight, request: Request, *, is_first: bool) -> Bought:
        """Give the row that a call brought, or say that it came too late."""
        if not flight.is_landed:
            if is_first and self.source.paid and flight.is_sent:
                return Bought(None, DEADLINE, paid=self.price, billed=False)
            return Bought(None, DEADLINE)
        row = _result(flight)[flight.places[request]]
        return row if is_first else row._replace(how=SHARED, paid=0.0, billed=True)

    async def _call(self, flight: _Flight, keys: Sequence[Key], values: Values) -> Batch:
        """Call the source, again where it failed and may be asked again; keep what it answers."""
        if self._breaker.is_blocked:
            batch = Batch.all_alike(len(keys), CIRCUIT_OPEN)
        else:
            async with self._slots:
                batch = await self._tries(flight, keys, values)
        self._settle(flight, batch)
        self._keep(flight.places, batch)
        return batch

    def _settle(self, flight: _Flight, batch: Batch) -> None:
        """Count what a call cost, in the place of what was held for it."""
        paid = sum(amount for amount, sure in zip(batch.paid, batch.billed, strict=True) if sure)
        total = sum(batch.paid)
        if flight.is_sent and self.source.paid:
            self.spending.unknown += total - paid - flight.held
        self.spending.paid += paid
        self.spending.release(flight.held - total)

    def _keep(self, requests: Iterable[Request], batch: Batch) -> None:
        """Keep answers for who asks next; failures are not kept."""
        if self.source.ttl is None:
            return
        for request, row in zip(requests, batch, strict=True):
            if row.reason == ACCEPTED:
                self._cache.put(request, row)

    async def _tries(self, flight: _Flight, keys: Sequence[Key], values: Values) -> Batch:
        tries = 1 + (self.source.most_retries if self._may_repeat else 0)
        # The same for every repetition, so that the service charges once.
        token = {"token": uuid.uuid4().hex} if self.source.is_idempotent else {}
        batch = Batch.all_alike(len(keys), CIRCUIT_OPEN)
        for number in range(tries):
            if not self._breaker.allows():
                return batch
            if number:
                if self.retried + 1 > max(_FIRST_RETRIES, _RETRIED * self.calls):
                    return batch
                self.retried += 1
                await asyncio.sleep(random.uniform(0, _JITTER))  # spreads calls
            self.calls += 1
            if not flight.is_sent:
                flight.is_sent = True
                self.spending.unknown += flight.held if self.source.paid else 0.0
            request = self._client.fetch(keys, values, **token)
            batch, answered = await self._try(flight, request, is_last=number == tries - 1)
            if answered:
                self._breaker.succeeded()
                return batch
            self._breaker.failed()
        return batch

    @property
    def _may_repeat(self) -> bool:
        return not self.source.paid or self.source.is_idempotent

    async def _try(
        self, flight: _Flight, request: Coroutine[Any, Any, Fetched], *, is_last: bool
    ) -> tuple[Batch, bool]:
        """Ask once: what came, and whether anything did."""
        n_rows = len(flight.places)
        try:
            if self.source.paid and is_last:
                fetched = await self._outlived(flight, request)
            else:  # ended in place, which is quicker; its connection is closed when that is done
                async with asyncio.timeout(self.source.timeout):
                    fetched = await request
            batch = self._read(fetched, n_rows)
        except TimeoutError:
            return self._unanswered(n_rows, TIMEOUT), False
        except Exception:  # whatever a source raises, its rows are rejected
            return self._unanswered(n_rows, ERROR), False
        return batch, not {ERROR, TIMEOUT}.issuperset(batch.reasons)

    async def _outlived(self, flight: _Flight, request: Coroutine[Any, Any, Fetched]) -> Fetched:
        """Wait for a paid request, which goes on by itself if it takes too long."""
        asking = asyncio.ensure_future(request)
        try:
            await asyncio.wait([asking], timeout=self.source.timeout)
        finally:
            if not asking.done():
                late: asyncio.Future[Batch] = asyncio.get_running_loop().create_future()
                self._late.update({request: (late, i) for request, i in flight.places.items()})
                self._begin(self._finish(flight, asking, late))
        if not asking.done():
            raise TimeoutError
        return asking.result()

    def _begin(self, work: Any) -> None:
        """Run something apart from every caller, and hold it: the loop itself does not."""
        task = asyncio.ensure_future(work)
        self._apart[task] = None
        task.add_done_callback(lambda done: self._apart.pop(done, None))

    async def _finish(
        self, flight: _Flight, asking: asyncio.Future[Fetched], late: asyncio.Future[Batch]
    ) -> None:
        """Wait for the late answer of a paid call, and count and keep it."""
        n_rows = len(flight.places)
        batch = self._unanswered(n_rows, TIMEOUT)
        try:
            done, _ = await asyncio.wait([asking], timeout=APART)
            if done:
                batch = self._read(asking.result(), n_rows)
                paid = sum(amount for amount, sure in zip(batch.paid, batch.billed, strict=True)
                           if sure)  # fmt: skip
                self.spending.paid += paid
                self.spending.unknown += sum(batch.paid) - paid - flight.held
                self.spending.release(flight.held - sum(batch.paid))
                self._keep(flight.places, batch)
        except Exception:
            batch = self._unanswered(n_rows, ERROR)  # it stays unknown
        finally:
            for request in flight.places:
                self._late.pop(request, None)
            if not late.done():
                late.set_result(batch)
            if not asking.done():
                await _end(asking)

    async def _follow(self, late: asyncio.Future[Batch], place: int) -> Batch:
        """Wait for a paid call that another caller began and left, and do not pay again."""
        done, _ = await asyncio.wait([late], timeout=self.source.timeout)
        if not done:
            return Batch.all_alike(1, TIMEOUT)
        row = late.result()[place]
        return Batch.of([row._replace(how=SHARED, paid=0.0, billed=True)], self.features)

    def _unanswered(self, n_rows: int, reason: str) -> Batch:
        if not self.source.paid:
            return Batch.all_alike(n_rows, reason)
        return Batch.all_alike(n_rows, reason, paid=self.price, billed=False)

    def _read(self, fetched: Fetched, n_rows: int) -> Batch:
        """Give what came as rows, with what each costs."""
        columns = {name: fetched.columns[name] for name in self.features}
        reasons = fetched.reasons
        if any(len(column) != n_rows for column in (*columns.values(), reasons)):
            raise SourcesError(f"The source must give one value per key, for {n_rows} keys.")
        paid, billed = [self.price] * n_rows, [True] * n_rows
        if fetched.prices is not None:
            paid = [self.price if price is None else price for price in fetched.prices]
        if any(reasons):
            lost = (self.price, False) if self.source.paid else (0.0, True)
            for i, reason in enumerate(reasons):
                if reason in (ERROR, TIMEOUT):
                    paid[i], billed[i] = lost
        now, ages = time.time(), fetched.ages
        moments = None if ages is None else [None if age is None else now - age for age in ages]
        return Batch(columns, reasons, [FETCHED] * n_rows, paid, billed, moments, fetched.verified)

    async def close(self) -> None:
        """End what is under way, and close every connection."""
        tasks: list[Any] = [flight.task for flight in self._flying.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        apart = list(self._apart)
        for task in apart:
            task.cancel()
        await asyncio.gather(*apart, return_exceptions=True)
        await self._client.close()


def _result(flight: _Flight) -> Batch:
    assert flight.task is not None  # it has landed
    return flight.task.result()


async def _end(asking: asyncio.Future[Any]) -> None:
    """Cancel a call, and wait until it has closed its connection."""
    asking.cancel()
    await asyncio.wait([asking])
    if not asking.cancelled():
        asking.exception()  # looked at, or the event loop would print it
