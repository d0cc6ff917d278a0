"""Calls to one source: how many at a time, whether again, what they cost, and late answers."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from emsco.acquisition.accounts import Accounts, Intent, OwnAccounts
from emsco.acquisition.bought import FETCHED, Batch, Spending
from emsco.acquisition.breaker import Breaker
from emsco.acquisition.fetched import Fetched, Key, Values
from emsco.acquisition.slots import Slots
from emsco.acquisition.source import APART, LiveSource
from emsco.exceptions import SourcesError
from emsco.words.decisions import BUDGET, CIRCUIT_OPEN, ERROR, TIMEOUT

Request: TypeAlias = Any  # a key, or a key and the values that it is used with

_RETRIED = 0.1  # of a source's calls, at most
_FIRST_RETRIES = 1.0  # that are allowed before there were enough calls to count
_JITTER = 0.05  # seconds, at most, before a call is repeated


@dataclass(eq=False)
class Job:
    """One call to be made: where each request is in it, and whether money may be spent by now."""

    places: Mapping[Request, int]
    is_sent: bool = False
    intent: Intent | None = None


class Caller:
    """Calls one source.

    Parameters
    ----------
    source : LiveSource
        How it is fetched.
    features : sequence of str
        What it yields.
    price : float
        What a row costs, where the answer does not say.
    name : str
        The name of the source.
    spending : Spending
        Where to count what is spent.
    accounts : Accounts
        Who is asked before money is spent.
    keep : callable
        Called with the requests and the batch of each answer, late ones too.
    """

    def __init__(
        self,
        source: LiveSource,
        features: Sequence[str],
        price: float,
        name: str,
        spending: Spending,
        accounts: Accounts,
        keep: Callable[[Mapping[Request, int], Batch], None],
    ) -> None:
        self.source, self.features, self.price, self.name = source, tuple(features), price, name
        self.breaker = Breaker(int(source.breaker), int(source.concurrency))
        self.calls = self.retried = 0
        # Paid calls that nobody waits for any more: a request that is among them is not paid again.
        self.late: dict[Request, tuple[asyncio.Future[Batch], int]] = {}
        self._client: Any = source.open(features)  # takes `token` too, if it is idempotent
        self._spending, self._accounts, self._keep = spending, accounts, keep
        self._is_counted = source.paid or source.max_spend is not None
        self._is_shared = not isinstance(accounts, OwnAccounts)
        self._slots = Slots(lambda: self.breaker.limit)
        self._apart: dict[asyncio.Task[None], None] = {}

    async def call(self, job: Job, keys: Sequence[Key], values: Values) -> Batch:
        """Call the source, again where it failed and may be asked again; keep what it answers."""
        n_rows = len(keys)
        if self.breaker.is_blocked:
            return Batch.all_alike(n_rows, CIRCUIT_OPEN)
        async with self._slots:
            was_open = self.breaker.is_open
            if not self.breaker.allows() or (
                was_open and not await self._accounts.may_try(self.name)
            ):
                return Batch.all_alike(n_rows, CIRCUIT_OPEN)
            job.is_sent = True
            granted, refused = n_rows, BUDGET
            if self._is_counted:
                limit = self.source.max_spend
                job.intent = await self._accounts.begin(self.name, n_rows, self.price, limit)
                granted, refused = job.intent.granted, job.intent.refused
            if not granted:
                return Batch.all_alike(n_rows, refused)
            if granted < n_rows:
                keys = keys[:granted]
                values = {name: column[:granted] for name, column in values.items()}
            try:
                batch = await self._tries(job, keys, values)
            except asyncio.CancelledError:
                if job.intent is not None and not self.source.paid:
                    self._begin(self._accounts.end(job.intent, 0.0, 0.0))
                raise
        await self._settle(job, batch)
        self._keep(job.places, batch)
        return batch.padded(n_rows, refused)

    async def _settle(self, job: Job, batch: Batch) -> None:
        """Count what a call cost."""
        paid = batch.known
        unknown = sum(batch.paid) - paid
        self._spending.paid += paid
        if self.source.paid:
            self._spending.unknown += unknown - self.price * len(batch)
        if job.intent is not None:
            await self._accounts.end(job.intent, paid, unknown)

    async def _tries(self, job: Job, keys: Sequence[Key], values: Values) -> Batch:
        if self.source.paid:
            self._spending.unknown += self.price * len(keys)  # until an answer comes
        tries = 1 + (self.source.most_retries if self._may_repeat else 0)
        # The same for every repetition, so that the service charges once.
        token = {"token": uuid.uuid4().hex} if self.source.is_idempotent else {}
        batch = self._unanswered(len(keys), ERROR)
        for number in range(tries):
            if number and not await self._may_call_again():
                return batch
            self.calls += 1
            request = self._client.fetch(keys, values, **token)
            batch, answered = await self._try(job, request, len(keys), is_last=number == tries - 1)
            was_open = self.breaker.is_open
            self.breaker.note(answered=answered)
            if self._is_shared and (was_open or self.breaker.is_open):
                await self._accounts.is_well(self.name, well=answered)
            if answered:
                return batch
        return batch

    async def _may_call_again(self) -> bool:
        if self.breaker.is_open or self.retried + 1 > max(_FIRST_RETRIES, _RETRIED * self.calls):
            return False
        self.retried += 1
        await asyncio.sleep(random.uniform(0, _JITTER))  # spreads calls
        return not self.breaker.is_open

    @property
    def _may_repeat(self) -> bool:
        return not self.source.paid or self.source.is_idempotent

    async def _try(
        self, job: Job, request: Coroutine[Any, Any, Fetched], n_rows: int, *, is_last: bool
    ) -> tuple[Batch, bool]:
        """Ask once: what came, and whether anything did."""
        try:
            if self.source.paid and is_last:
                fetched = await self._outlived(job, request, n_rows)
            else:  # ended in place, which is quicker; its connection is closed when that is done
                async with asyncio.timeout(self.source.timeout):
                    fetched = await request
            batch = self._read(fetched, n_rows)
        except TimeoutError:
            return self._unanswered(n_rows, TIMEOUT), False
        except Exception:  # whatever a source raises, its rows are rejected
            return self._unanswered(n_rows, ERROR), False
        return batch, not {ERROR, TIMEOUT}.issuperset(batch.reasons)

    async def _outlived(
        self, job: Job, request: Coroutine[Any, Any, Fetched], n_rows: int
    ) -> Fetched:
        """Wait for a paid request, which goes on by itself if it takes too long."""
        asking = asyncio.ensure_future(request)
        try:
            await asyncio.wait([asking], timeout=self.source.timeout)
        finally:
            if not asking.done():
                late: asyncio.Future[Batch] = asyncio.get_running_loop().create_future()
                self.late.update(
                    {asked: (late, i) for asked, i in job.places.items() if i < n_rows}
                )
                self._begin(self._finish(job, asking, late, n_rows))
        if not asking.done():
            raise TimeoutError
        return asking.result()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something apart from every caller, and hold it: the loop itself does not."""
        task = asyncio.ensure_future(work)
        self._apart[task] = None
        task.add_done_callback(lambda done: self._apart.pop(done, None))

    async def _finish(
        self,
        job: Job,
        asking: asyncio.Future[Fetched],
        late: asyncio.Future[Batch],
        n_rows: int,
    ) -> None:
        """Wait for the late answer of a paid call, and count and keep it."""
        batch = self._unanswered(n_rows, TIMEOUT)
        try:
            done, _ = await asyncio.wait([asking], timeout=APART)
            if done:
                batch = self._read(asking.result(), n_rows)
                await self._settle(job, batch)
                self._keep(job.places, batch)
        except Exception:
            batch = self._unanswered(n_rows, ERROR)  # it stays unknown
        finally:
            for request in job.places:
                if self.late.get(request, (None,))[0] is late:
                    del self.late[request]
            if not late.done():
                late.set_result(batch)
            if not asking.done():
                await _end(asking)

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
        apart = list(self._apart)
        for task in apart:
            task.cancel()
        await asyncio.gather(*apart, return_exceptions=True)
        await self._client.close()


async def _end(asking: asyncio.Future[Any]) -> None:
    """Cancel a call, and wait until it has closed its connection."""
    asking.cancel()
    await asyncio.wait([asking])
    if not asking.cancelled():
        asking.exception()  # looked at, or the event loop would print it
