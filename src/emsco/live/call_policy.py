"""Calls to one source: concurrency, retries, accounting and late answers."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from emsco.core.decisions import (
    ACCEPTED,
    BUDGET,
    CIRCUIT_OPEN,
    ERROR,
    INVALID_KEY,
    INVALID_VALUE,
    TIMEOUT,
)
from emsco.exceptions import InvalidKeyError, SourcesError
from emsco.live.accounts import NO_REQUEST, Accounts, Intent, OwnAccounts, RequestContext
from emsco.live.call_limits import AdjustableSemaphore, Breaker
from emsco.live.fetch_result import FetchResult, Key, UnbilledError, Values, is_unbilled, key_text
from emsco.live.purchases import FETCHED, SHARED, PurchaseBatch, SourceSpending
from emsco.live.source import APART, LiveSource, open_quietly

Request: TypeAlias = Any  # a key, or a key and the values that it is used with

_RETRIED = 0.1  # maximum share of retries among the calls of a source
_FIRST_RETRIES = 1.0  # retries that are always allowed
_JITTER = 0.05  # maximum delay before a retry, in seconds
_UNANSWERED = (ERROR, TIMEOUT, INVALID_VALUE)  # the price is unknown, unless the answer states it


@dataclass(eq=False)
class Flight:
    """A call in flight: the position of each request, how far it has got, and who waits for it.

    `is_counting`: money is being reserved, and nothing was sent yet. `batch` is set once there is
    an answer, even if its cost is not in the accounts yet.
    """

    places: Mapping[Request, int]
    context: RequestContext = NO_REQUEST
    is_counting: bool = False
    is_sent: bool = False
    intent: Intent | None = None
    price: float = 0.0  # reserved for each row
    owed: Sequence[int] = ()  # rows that an earlier attempt may be billed for
    batch: PurchaseBatch | None = None
    task: asyncio.Task[PurchaseBatch] | None = None
    waiting: int = 0
    waiters: list[asyncio.Future[None]] = field(default_factory=list)

    @property
    def is_landed(self) -> bool:
        """Whether the call has ended by itself."""
        return self.task is not None and self.task.done() and not self.task.cancelled()

    def result(self) -> PurchaseBatch:
        """Return the answer of a call that has landed, or raise its error."""
        assert self.task is not None
        return self.task.result()

    @property
    def answer(self) -> PurchaseBatch | None:
        """The answer; None if there is none yet."""
        return self.result() if self.batch is None and self.is_landed else self.batch

    @cached_property
    def shared(self) -> PurchaseBatch:
        """The answer for all but the first who asked: they do not pay."""
        assert self.answer is not None
        return self.answer.free(SHARED)

    def wake(self) -> None:
        """Wake everyone who waits for it."""
        for waiter in self.waiters:
            wake(waiter)


def wake(waiter: asyncio.Future[None]) -> None:
    """Wake one who waits for a call, unless it was woken before."""
    if not waiter.done():
        waiter.set_result(None)


class SourceCaller:
    """Calls one source, within its concurrency and the money in the accounts.

    `price` is that of a row, unless the answer states it. `keep` is called with the requests and
    the batch of each answer, including late ones.
    """

    def __init__(
        self,
        source: LiveSource,
        features: Sequence[str],
        price: float,
        name: str,
        spending: SourceSpending,
        accounts: Accounts,
        keep: Callable[[Mapping[Request, int], PurchaseBatch], None],
    ) -> None:
        self.source, self.features, self.price, self.name = source, tuple(features), price, name
        self.breaker = Breaker(int(source.breaker), int(source.concurrency))
        self.calls = self.retried = 0
        # Paid calls that nobody waits for any more; a request among them is not paid for again.
        self.late: dict[Request, tuple[asyncio.Future[PurchaseBatch], int]] = {}
        self._client: Any = open_quietly(source, features)  # takes `token` too, if idempotent
        self._spending, self._accounts, self._keep = spending, accounts, keep
        self._is_counted = source.paid or source.max_spend is not None
        self._is_shared = not isinstance(accounts, OwnAccounts)
        self._slots = AdjustableSemaphore(lambda: self.breaker.limit)
        self._apart: dict[asyncio.Task[None], None] = {}
        self._dearest = price  # the highest price of an answer so far, within the limit
        self._is_broke = False  # the last call could not be paid for

    async def call(self, job: Flight, keys: Sequence[Key], values: Values) -> PurchaseBatch:
        """Call the source, with retries if they are allowed, and keep its answers."""
        n_rows = len(keys)
        if self.breaker.is_blocked:
            return self._left_alone(n_rows)
        async with self._slots:
            was_open = self.breaker.is_open
            if not self.breaker.allows():
                return self._left_alone(n_rows)
            job.is_counting, job.price = True, self._dearest
            granted, refused = n_rows, BUDGET
            if self._is_counted:
                job.intent = await self._accounts.begin(
                    self.name, n_rows, job.price, self.source.max_spend, job.context
                )
                granted, refused = job.intent.granted, job.intent.refused
                self._is_broke = not granted and refused == BUDGET
            if not granted:
                return PurchaseBatch.failed([refused] * n_rows)
            # After the money: a trial that cannot be paid for must not take the place of another.
            if was_open and not await self._accounts.may_try(self.name):
                if job.intent is not None:
                    await self._accounts.end(job.intent, 0.0, 0.0)
                return self._left_alone(n_rows)
            job.is_counting, job.is_sent = False, True
            if granted < n_rows:
                keys = keys[:granted]
                values = {name: column[:granted] for name, column in values.items()}
            try:
                batch = await self._tries(job, keys, values)
            except asyncio.CancelledError:
                if job.intent is not None and not self.source.paid:
                    self._begin(self._accounts.end(job.intent, 0.0, 0.0))
                raise
        job.batch = batch
        if granted < n_rows:
            rest = PurchaseBatch.failed([refused] * n_rows)
            job.batch = rest.replaced(range(granted), batch)
        await self._settle(job, batch)
        self._keep(job.places, batch)
        return job.batch

    def _left_alone(self, n_rows: int) -> PurchaseBatch:
        """Reject rows while the breaker is open; the reason is "budget" if there is no money."""
        return PurchaseBatch.failed([BUDGET if self._is_broke else CIRCUIT_OPEN] * n_rows)

    async def _settle(self, job: Flight, batch: PurchaseBatch) -> None:
        """Record what a call cost."""
        paid = batch.known
        unknown = sum(batch.paid) - paid
        self._spending.paid += paid
        if self.source.paid:
            self._spending.unknown += unknown - job.price * len(batch)
        if job.intent is not None:
            await self._accounts.end(job.intent, paid, unknown)

    async def _tries(self, job: Flight, keys: Sequence[Key], values: Values) -> PurchaseBatch:
        if self.source.paid:
            self._spending.unknown += job.price * len(keys)  # until an answer comes
        may_repeat = not self.source.paid or self.source.is_idempotent
        left = 1 + (self.source.most_retries if may_repeat else 0)
        # The same for every retry, so that the service charges once.
        token = {"token": uuid.uuid4().hex} if self.source.is_idempotent else {}
        while True:
            left -= 1
            self.calls += 1
            request = self._client.fetch(keys, values, **token)
            try:
                batch, answered = await self._try(job, request, len(keys), is_last=not left)
            except InvalidKeyError:
                batch, answered = await self._refused(job, keys, values), True
            was_open = self._is_shared and self.breaker.is_open
            self.breaker.note(answered=answered)
            if was_open or (self._is_shared and self.breaker.is_open):
                await self._accounts.is_well(self.name, well=answered)
            if answered:
                if INVALID_VALUE in batch.reasons:
                    odd = [i for i, reason in enumerate(batch.reasons) if reason == INVALID_VALUE]
                    self.judged([(key_text(keys[i]), True) for i in odd])
                return batch
            if not left or not await self._may_call_again():
                return batch
            job.owed = [i for i, sure in enumerate(batch.billed) if not sure]

    async def _refused(self, job: Flight, keys: Sequence[Key], values: Values) -> PurchaseBatch:
        """Find the rows that a source refuses, by bisection; a paid source is not called again."""
        refused = PurchaseBatch.failed([INVALID_KEY] * len(keys))
        rows = [(refused, i) for i in range(len(keys))]
        until = time.monotonic() + self.source.timeout
        open_ = [] if self.source.paid else [range(len(keys))]  # parts that were refused
        while open_:
            part = open_.pop()
            middle = len(part) // 2
            for half in (part[:middle], part[middle:]) if middle else ():
                batch = self._unanswered(job, len(half), TIMEOUT)
                if time.monotonic() < until:
                    self.calls += 1
                    used = {name: [column[i] for i in half] for name, column in values.items()}
                    request = self._client.fetch([keys[i] for i in half], used)
                    try:
                        batch, _ = await self._try(job, request, len(half), is_last=True)
                    except InvalidKeyError:
                        open_.append(half)
                        continue
                for place, i in enumerate(half):
                    rows[i] = batch, place
        return PurchaseBatch.of(rows, self.features)

    def judged(self, requests: Sequence[tuple[Key, bool]]) -> None:
        """Record answered requests, and whether their values are invalid."""
        was_open = self.breaker.is_open
        self.breaker.judged(requests)
        if self._is_shared and self.breaker.is_open and not was_open:
            self._begin(self._accounts.is_well(self.name, well=False))

    async def _may_call_again(self) -> bool:
        if self.breaker.is_open or self.retried + 1 > max(_FIRST_RETRIES, _RETRIED * self.calls):
            return False
        self.retried += 1
        await asyncio.sleep(random.uniform(0, _JITTER))  # spreads retries
        return not self.breaker.is_open

    async def _try(
        self, job: Flight, request: Coroutine[Any, Any, FetchResult], n_rows: int, *, is_last: bool
    ) -> tuple[PurchaseBatch, bool]:
        """Make one attempt; return the rows, and whether the source answered."""
        try:
            if self.source.paid and is_last:
                fetched = await self._outlived(job, request, n_rows)
            else:  # cancelled in place, which is faster and also closes its connection
                async with asyncio.timeout(self.source.timeout):
                    fetched = await request
            batch = self._read(job, fetched, n_rows)
        except InvalidKeyError:
            raise
        except TimeoutError as error:
            return self._unanswered(job, n_rows, TIMEOUT, error), False
        except Exception as error:  # whatever a source raises only rejects its rows
            return self._unanswered(job, n_rows, ERROR, error), False
        return batch, not {ERROR, TIMEOUT}.issuperset(batch.reasons)

    async def _outlived(
        self, job: Flight, request: Coroutine[Any, Any, FetchResult], n_rows: int
    ) -> FetchResult:
        """Wait for a paid request, which continues in the background after its timeout."""
        asking = asyncio.ensure_future(request)
        try:
            await asyncio.wait([asking], timeout=self.source.timeout)
        finally:
            if not asking.done():
                late: asyncio.Future[PurchaseBatch] = asyncio.get_running_loop().create_future()
                self.late.update({key: (late, i) for key, i in job.places.items() if i < n_rows})
                self._begin(self._finish(job, asking, late, n_rows))
        if not asking.done():
            raise TimeoutError
        return asking.result()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a background task, and keep a reference to it until it is done."""
        task = asyncio.ensure_future(work)
        self._apart[task] = None
        task.add_done_callback(lambda done: self._apart.pop(done, None))

    async def _finish(
        self,
        job: Flight,
        asking: asyncio.Future[FetchResult],
        late: asyncio.Future[PurchaseBatch],
        n_rows: int,
    ) -> None:
        """Wait for the late answer of a paid call, record its cost and keep it."""
        batch = self._unanswered(job, n_rows, TIMEOUT)
        try:
            done, _ = await asyncio.wait([asking], timeout=APART)
            if done:
                try:
                    batch = self._read(job, asking.result(), n_rows)
                except Exception as error:
                    batch = self._unanswered(job, n_rows, ERROR, error)
            elif not self.source.bills_timeouts:
                batch = self._unanswered(job, n_rows, TIMEOUT, UnbilledError())
            await self._settle(job, batch)
            self._keep(job.places, batch)
        except Exception:
            batch = self._unanswered(job, n_rows, ERROR)  # its cost stays unknown
        finally:
            for request in job.places:
                if self.late.get(request, (None,))[0] is late:
                    del self.late[request]
            if not late.done():
                late.set_result(batch)
            if not asking.done():
                asking.cancel()
                await asyncio.wait([asking])  # until it has closed its connection
                if not asking.cancelled():
                    asking.exception()  # retrieved, or the event loop would log it

    def _unanswered(
        self, job: Flight, n_rows: int, reason: str, error: BaseException | None = None
    ) -> PurchaseBatch:
        """Return rows that all failed, at the reserved price if they may be billed."""
        free = PurchaseBatch.failed([reason] * n_rows)
        if not self.source.paid:
            return free
        return self._with_owed(job, free) if is_unbilled(error) else free.unsure(job.price)

    def _with_owed(self, job: Flight, batch: PurchaseBatch) -> PurchaseBatch:
        """Add what an earlier attempt may be billed for, if the last one was free."""
        owed = [i for i in job.owed if batch.reasons[i] != ACCEPTED and not batch.paid[i]]
        return batch.unsure(job.price, owed) if owed else batch

    def _read(self, job: Flight, fetched: FetchResult, n_rows: int) -> PurchaseBatch:
        """Convert a result to rows with their costs."""
        columns = {name: fetched.columns[name] for name in self.features}
        reasons = fetched.reasons
        if {*map(len, columns.values()), len(reasons)} != {n_rows}:
            raise SourcesError(f"The source must return one value per key, for {n_rows} keys.")
        paid, billed = [self.price] * n_rows, [True] * n_rows
        if fetched.prices is not None:
            paid = [self.price if price is None else price for price in fetched.prices]
            # Later calls reserve the highest price so far, unless it is above the whole limit.
            if self._dearest < (highest := max(paid, default=0.0)) <= (self.source.max_spend or 0):
                self._dearest = highest
        if any(reasons):
            lost = (job.price, False) if self.source.paid else (0.0, True)
            for i, reason in enumerate(reasons):
                if reason in _UNANSWERED and not (fetched.prices and fetched.prices[i] is not None):
                    paid[i], billed[i] = lost
        now, ages = time.time(), fetched.ages
        moments = None if ages is None else [None if age is None else now - age for age in ages]
        batch = PurchaseBatch(
            columns, reasons, [FETCHED] * n_rows, paid, billed, moments, fetched.verified
        )
        return self._with_owed(job, batch) if job.owed else batch

    async def close(self) -> None:
        """Cancel what is in progress, and close every connection."""
        apart = list(self._apart)
        for task in apart:
            task.cancel()
        await asyncio.gather(*apart, return_exceptions=True)
        await self._client.close()
