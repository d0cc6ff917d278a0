"""Request coalescing: all callers of a process share the calls and the cache of a source.

A request is a key with the values that it uses. Requests in flight are shared: they are not bound
to a single caller's deadline, and the first caller pays.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

from emsco.core.decisions import ACCEPTED, DEADLINE, TIMEOUT
from emsco.exceptions import EmscoError, LateStateError, SourcesError
from emsco.live.accounts import NO_REQUEST, Accounts, OwnAccounts, RequestContext
from emsco.live.call_policy import Flight, Request, SourceCaller, wake
from emsco.live.fetch_result import Key, Values, key_text
from emsco.live.purchases import CACHED, SHARED, PurchaseBatch, SourceSpending
from emsco.live.source import IN_REQUEST, LiveSource

_NO_ROWS = PurchaseBatch.failed([])
_CachedRow: TypeAlias = tuple[tuple[Any, ...], float | None, bool]  # values, moment, verified


class CoalescingGate:
    """An open source, shared by all callers of this process.

    `price` is that of a row, unless the answer states it. `spending` counts what is spent, and
    `accounts` reserve money before it is spent; by default both are this gate's own. `name` is that
    of the source, for the accounts.
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
        self._cache: Cache[_CachedRow] = Cache(source.ttl)
        self._flying: dict[Request, Flight] = {}

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
        cached, places = self._cached(requests)
        if len(places) == len(keys) and keys:
            return cached
        joined: dict[int, Flight] = {}
        fresh: dict[Request, int] = {}
        for i, request in enumerate(requests):
            if i in places:
                continue
            if request in self._flying:
                joined[i] = self._flying[request]
            else:
                fresh.setdefault(request, i)  # the first row pays
        own = self._launch(fresh, keys, values, context)
        await self._wait({*own, *joined.values()}, until)
        if len(own) == 1 and len(own[0].places) == len(keys) and own[0].is_landed:  # usual
            return own[0].result()
        rows = []
        flights = {request: flight for flight in own for request in flight.places}
        for i, request in enumerate(requests):
            if i in places:
                rows.append((cached, places[i]))
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
        rest = PurchaseBatch.failed([refused.get(i, ACCEPTED) for i in range(len(keys))])
        places = [i for i in range(len(keys)) if i not in refused]
        if not places:
            return rest
        used = {name: [values[name][i] for i in places] for name in self._needs}
        batch = await self.fetch([keys[i] for i in places], used, until, context)
        return rest.replaced(places, batch)

    def _requests(self, keys: Sequence[Key], values: Values) -> list[Request]:
        typed = [key if type(key) is str else (type(key).__name__, key_text(key)) for key in keys]
        if not self._needs:
            return typed
        used = [values[name] for name in self._needs]
        # By type and text: True, 1 and 1.0 are equal in Python, but are different requests.
        return [
            (key, *((type(v[i]).__name__, str(v[i])) for v in used)) for i, key in enumerate(typed)
        ]

    def _cached(self, requests: list[Request]) -> tuple[PurchaseBatch, dict[int, int]]:
        """Return rows whose answers are cached and not too old, and the position of each."""
        found: list[_CachedRow] = []
        places: dict[int, int] = {}
        for i, request in enumerate(requests if len(self._cache) else ()):
            row = self._cache.get(request)
            if row is None:
                continue
            age = None if row[1] is None else time.time() - row[1]
            if not (self.source.is_timed and self.source.is_stale(age)):
                places[i] = len(found)
                found.append(row)
        if not found:
            return _NO_ROWS, places
        values, moments, verified = zip(*found, strict=True)
        columns = map(list, zip(*values, strict=True))
        batch = PurchaseBatch.failed([ACCEPTED] * len(found), how=CACHED)
        return replace(
            batch,
            columns=dict(zip(self.features, columns, strict=False)),
            moments=[*moments] if any(moment is not None for moment in moments) else None,
            verified=all(verified),
        ), places

    def _launch(
        self,
        fresh: dict[Request, int],
        keys: Sequence[Key],
        values: Values,
        context: RequestContext,
    ) -> list[Flight]:
        """Start calls for requests that are not in flight."""
        late = self.caller.late
        flights = [
            self._fly(Flight({request: 0}), partial(self._follow, *late[request]))
            for request in fresh
            if request in late
        ]
        requests = [request for request in fresh if request not in late]
        for chunk in [requests] if len(requests) == 1 else self._chunks(requests):
            places = [fresh[request] for request in chunk]
            used = {name: [values[name][i] for i in places] for name in self._needs}
            flight = Flight({request: i for i, request in enumerate(chunk)}, context)
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

    def _fly(self, flight: Flight, work: Callable[[], Awaitable[PurchaseBatch]]) -> Flight:
        flight.task = asyncio.get_running_loop().create_task(self._flown(flight, work))
        self._flying.update(dict.fromkeys(flight.places, flight))
        return flight

    async def _flown(
        self, flight: Flight, work: Callable[[], Awaitable[PurchaseBatch]]
    ) -> PurchaseBatch:
        """Make a call and wake its waiters, sooner than the callbacks of a task would."""
        IN_REQUEST.set(True)  # of this task alone
        try:
            return await work()
        finally:
            self._land(flight)
            flight.wake()

    def _land(self, flight: Flight) -> None:
        for request in flight.places:
            if self._flying.get(request) is flight:
                del self._flying[request]

    async def _wait(self, flights: set[Flight], until: float | None) -> None:
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

    async def _wait_for(self, flight: Flight, until: float | None) -> None:
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        flight.waiters.append(waiter)
        if until is None:
            await waiter
            return
        timer = loop.call_at(until, wake, waiter)
        try:
            await waiter
        finally:
            timer.cancel()

    def _collect(
        self, flight: Flight, request: Request, *, is_first: bool
    ) -> tuple[PurchaseBatch, int]:
        """Return the row of a call, rejected with "deadline" if it is not there yet."""
        batch = flight.answer
        if batch is not None:
            return batch if is_first else flight.shared, flight.places[request]
        if flight.is_counting:  # the money is not reserved yet
            raise LateStateError("The accounts did not answer before the deadline.")
        late = PurchaseBatch.failed([DEADLINE])
        may_be_billed = is_first and self.source.paid and flight.is_sent
        return late.unsure(self.price) if may_be_billed else late, 0

    def _keep(self, requests: Iterable[Request], batch: PurchaseBatch) -> None:
        """Cache answers, but not failures."""
        if self.source.ttl is None:
            return
        for i, request in zip(range(len(batch)), requests, strict=False):  # some were not paid for
            if batch.reasons[i] == ACCEPTED:
                values = tuple(batch.columns[feature][i] for feature in self.features)
                moment = None if batch.moments is None else batch.moments[i]
                self._cache.put(request, (values, moment, batch.verified))

    async def _follow(self, late: asyncio.Future[PurchaseBatch], place: int) -> PurchaseBatch:
        """Wait for a paid call that another caller started and left, without paying again."""
        done, _ = await asyncio.wait([late], timeout=self.source.timeout)
        if not done:
            return PurchaseBatch.failed([TIMEOUT])
        return PurchaseBatch.of([(late.result(), place)], self.features).free(SHARED)

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


def open_gate(
    name: str,
    source: LiveSource,
    features: Sequence[str],
    price: float,
    spending: SourceSpending | None = None,
    accounts: Accounts | None = None,
) -> CoalescingGate:
    """Open a source; raise an error that says why it cannot be opened.

    A URL may contain a password, and the error messages of its parsers may contain parts of it: no
    such message is passed on.
    """
    try:
        return CoalescingGate(source, features, price, spending, accounts, name)
    except SourcesError as error:
        raise SourcesError(f"Source {name!r}: {source.redacted(str(error))}") from None
    except EmscoError:
        raise
    except ImportError as error:
        raise SourcesError(f"Source {name!r} needs a driver: {error}; install it.") from None
    except Exception as error:
        variable = getattr(source, "url_env", None)
        where = "" if variable is None else f" in the environment variable {variable}"
        raise SourcesError(
            f"Source {name!r}: its URL{where} cannot be used ({type(error).__name__})."
        ) from None


_T = TypeVar("_T")
_MOST_CACHED = 100_000  # answers of one source


class Cache(Generic[_T]):
    """An LRU cache with a TTL in seconds; None: nothing is cached."""

    def __init__(
        self,
        ttl: float | None,
        most: int = _MOST_CACHED,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ttl, self._most, self._clock = ttl, most, clock
        self._entries: OrderedDict[Hashable, tuple[float, _T]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable) -> _T | None:
        """Return the value of a key; None if there is none, or it has expired."""
        found = self._entries.get(key)
        if found is None or self._ttl is None:
            return None
        until, value = found
        if self._clock() > until:
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return value

    def put(self, key: Hashable, value: _T) -> None:
        """Add or replace a value."""
        if self._ttl is None:
            return
        self._entries[key] = (self._clock() + self._ttl, value)
        self._entries.move_to_end(key)
        while len(self._entries) > self._most:
            self._entries.popitem(last=False)
