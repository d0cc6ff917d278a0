"""Questions to one endpoint, some at the same time: answers that are there already, money, retries.

Every call goes through the same steps: is its answer there; may it be afforded; send it; write down
what it cost, and the answer. A call that was sent is never given up by us, as it may be paid for.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple

from emsco.chat.answer_cache import AnswerCache
from emsco.chat.chat_protocol import (
    REFUSABLE,
    ChatReply,
    ChatRequest,
    encode,
    label_of,
    read_reply,
    read_usage,
    refused_option,
)
from emsco.chat.endpoint import (
    Endpoint,
    EndpointAnswer,
    EndpointConnection,
    LostAnswerError,
    NotSentError,
)
from emsco.chat.group_commit import GroupedWrites
from emsco.chat.label_reading import LabelSet
from emsco.chat.retry_policy import LONGEST_PAUSE, RetryPolicy
from emsco.chat.spending import UNIT, TokenPrices, bound
from emsco.exceptions import EndpointError

_MANY = 10  # questions one after another without any answer: the endpoint is down
UNCHARGED = (503, 529)  # of the statuses from 500 on: it was too busy to begin


class ChatAnswer(NamedTuple):
    """The answer to one row: its label, the trust in it, or the reason why there is none."""

    label: Any
    trust: float | None
    reason: str
    cost: int  # of the calls for it
    is_lost: bool = False  # no answer came, not even one that is no label


@dataclass(frozen=True)
class ChatTerms:
    """All that decides how a model is asked, and what may be spent on it."""

    endpoint: Endpoint
    model: str
    labels: LabelSet
    max_tokens: int
    logprobs: bool
    prices: TokenPrices
    overhead: int
    limit: int | None  # of the account
    concurrency: int
    retry: RetryPolicy

    @property
    def account(self) -> str:
        """Whose money it is: of one model at one address."""
        return f"{self.endpoint.base_url} {self.model}"

    def first(self, question: str) -> ChatRequest:
        """Return the first request for a question."""
        return ChatRequest.of(self.model, self.labels, self.max_tokens, self.logprobs, question)

    def digest(self, body: bytes) -> str:
        """Return what an answer is found by: a digest of the whole request and its address."""
        return sha256(self.endpoint.url.encode() + b"\0" + body).hexdigest()

    def reservation(self, body: bytes) -> int:
        """Return the most that a call can cost."""
        return self.prices.cost(bound(body, self.overhead, self.max_tokens))


class _Call(NamedTuple):
    """What became of a request: a reply, or why there is none, and what it cost."""

    reply: ChatReply | None
    reason: str
    cost: int = 0
    refuses: str | None = None  # an option of the request


class ChatSession:
    """A model being asked; `open_session` makes one."""

    def __init__(
        self, terms: ChatTerms, cache: AnswerCache, connection: EndpointConnection
    ) -> None:
        self._terms, self._cache, self._connection = terms, cache, connection
        self._store = GroupedWrites(cache)
        self._slots = asyncio.Semaphore(terms.concurrency)
        self._flights: dict[str, asyncio.Task[_Call]] = {}
        self._n_open = 0  # calls whose cost is not written down yet
        self._settled = asyncio.Event()  # of the next one that is
        self._ended = asyncio.Event()
        self._resume = 0.0  # when the endpoint wants to be asked again
        self._n_silent = 0  # questions one after another without any answer
        self._has_answered = False
        self._end: EndpointError | None = None
        self._refused = cache.refused(terms.account)

    @property
    def end(self) -> EndpointError | None:
        """Why nothing more can be asked; None if it can."""
        return self._end

    async def ask(self, question: str) -> ChatAnswer:
        """Ask about a row; an answer that is no label is asked for once more.

        Raises
        ------
        EndpointError
            If nothing can be asked: there is no money left, or the endpoint is down.
        """
        request = self._terms.first(question)
        call = await self._answer(request)
        cost = call.cost
        label = label_of(call.reply, self._terms.labels)
        if label is None and not call.reason and not (call.reply and call.reply.is_refused):
            call = await self._answer(request.again(call.reply))
            label = label_of(call.reply, self._terms.labels)
            cost += call.cost
        if label is None:
            reason = call.reason or _reason(call.reply)
            return ChatAnswer(None, None, reason, cost, is_lost=bool(call.reason))
        assert call.reply is not None
        return ChatAnswer(label, call.reply.trust, "", cost)

    async def _answer(self, request: ChatRequest) -> _Call:
        """Return the reply to a request, without the options that the endpoint refuses."""
        for _ in range(len(REFUSABLE) + 1):
            body = request.body(self._refused)
            sent = encode(body)
            digest = self._terms.digest(sent)
            flight = self._flights.get(digest)
            if flight is None:
                reply = await self._store.run(self._cache.find, digest)
                if reply is not None:
                    return _Call(reply, "")
                flight = self._flights.get(digest)  # another question may be the same
            if flight is None:
                if self._end is not None:
                    raise self._end
                flight = asyncio.create_task(self._send(body, sent, digest))
                self._flights[digest] = flight
                flight.add_done_callback(partial(self._land, digest))
            # Shielded: who asked may be gone before the answer, which is kept nevertheless.
            call = await asyncio.shield(flight)
            if call.refuses is None:
                return call
            if call.refuses not in self._refused:
                self._refused = tuple(sorted({*self._refused, call.refuses}))
                await self._store.run(self._cache.refuse, self._terms.account, self._refused)
        return call

    def _land(self, digest: str, flight: asyncio.Task[_Call]) -> None:
        del self._flights[digest]
        if not flight.cancelled():
            flight.exception()  # whoever asked has it as well, if still there

    async def _send(self, body: dict[str, Any], sent: bytes, digest: str) -> _Call:
        """Send a request, again if it may be repeated; record what it cost and its answer."""
        cost, reason = 0, ""
        for attempt in range(self._terms.retry.retries + 1):
            async with self._slots:
                await self._wait()
                if self._end is not None:
                    raise self._end
                reservation = await self._reserve(sent, digest)
                answer = None
                try:
                    answer = await self._connection.post(sent)
                except NotSentError as error:
                    reason = str(error)
                    await self._settle(reservation, 0, digest)
                except LostAnswerError as error:
                    reason = str(error)
                    await self._settle(reservation, None, digest)
                if answer is not None:
                    call = await self._judge(answer, body, sent, digest, reservation)
                    cost += call.cost
                    if not _is_repeated(answer.status):
                        return call._replace(cost=cost)
                    reason = call.reason
            if attempt < self._terms.retry.retries:
                await self._pause(attempt, answer)
        self._n_silent += 1
        if self._n_silent >= _MANY:
            self._stop(f"is down: {reason}, {_MANY} questions in turn")
        return _Call(None, reason, cost)

    async def _judge(
        self, answer: EndpointAnswer, body: dict[str, Any], sent: bytes, digest: str,
        reservation: int,
    ) -> _Call:  # fmt: skip
        """Record an answer, and return what it means."""
        status, document = answer.status, answer.document
        if 200 <= status < 300:
            usage, reply = read_usage(document), read_reply(document, self._terms.labels)
            cost = None if usage is None else self._terms.prices.cost(usage)
            await self._settle(reservation, cost, digest, reply)
            most = self._terms.reservation(sent)
            if self._terms.limit is not None and cost is not None and cost > most:
                self._stop(
                    "charges more tokens than its requests can have, so that `max_spend` cannot "
                    f"be kept: {usage} for {len(sent):,} bytes. Raise `overhead` to what it adds"
                )
            if reply is not None:
                self._n_silent, self._has_answered = 0, True
            else:
                self._count_fault("the answers are none of a chat model")
            return _Call(reply, "", cost or 0)
        is_free = status < 500 or status in UNCHARGED
        await self._settle(reservation, 0 if is_free else None, digest)
        reason = f"it answered with status {status}" + (
            f" ({answer.error})" if answer.error else ""
        )
        refuses = None if self._has_answered else refused_option(status, document, body)
        if refuses is not None:
            return _Call(None, reason, refuses=refuses)
        if status < 400:
            self._stop(f"redirects to another address (status {status}), which is not followed: "
                       "the key is for this one alone")  # fmt: skip
        if status in (401, 402, 403, 404, 405):
            self._stop(f"takes no questions: {reason}")
        if not _is_repeated(status):
            self._count_fault(reason)
        return _Call(None, reason)

    def _count_fault(self, why: str) -> None:
        """Stop if no question from the first on is taken: then it is not the rows that are odd."""
        self._n_silent += not self._has_answered
        if self._n_silent >= _MANY:
            self._stop(f"takes no question: {why}, {_MANY} questions in turn")

    def _stop(self, why: str) -> None:
        if self._end is None:
            self._end = EndpointError(
                f"{self._terms.model} at {self._terms.endpoint.base_url} {why}. The answers that "
                "came are kept."
            )
            self._ended.set()
        raise self._end

    async def _wait(self) -> None:
        """Wait until the endpoint wants to be asked."""
        while (left := self._resume - time.monotonic()) > 0:
            await self._sleep(left)
            if self._end is not None:
                return

    async def _pause(self, attempt: int, answer: EndpointAnswer | None) -> None:
        """Wait before a repetition; nobody asks before the time that the endpoint named."""
        after = None if answer is None else answer.retry_after
        if after is not None and after > LONGEST_PAUSE:
            self._stop(f"asks to wait for {after:,.0f} seconds")
        if after is not None:
            self._resume = max(self._resume, time.monotonic() + after)
        await self._sleep(self._terms.retry.pause(attempt, after))

    async def _sleep(self, seconds: float) -> None:
        """Wait, but not beyond the end of the session."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ended.wait()

    async def _reserve(self, sent: bytes, digest: str) -> int:
        """Write down what a call can cost; wait for other calls if these may leave enough."""
        terms, amount = self._terms, self._terms.reservation(sent)
        while True:
            settled = self._settled
            found = await self._store.run(
                self._cache.reserve, terms.account, digest, amount, terms.limit
            )
            if found is not None:
                self._n_open += 1
                return int(found)
            if not settled.is_set() and not self._n_open:
                spending = await self._store.run(self._cache.spending, terms.account)
                self._stop(
                    f"may cost {amount / UNIT:.6g} for the next question, beyond `max_spend`: "
                    f"{spending.known:.6g} are spent, and up to {spending.unknown:.6g} more are "
                    f"unknown, as {spending.n_unknown:,} calls brought no answer with its cost"
                )
            await settled.wait()

    async def _settle(
        self, reservation: int, cost: int | None, digest: str, reply: ChatReply | None = None
    ) -> None:
        await self._store.run(
            self._cache.settle, self._terms.account, reservation, cost, digest, reply
        )
        self._n_open -= 1
        self._settled.set()
        self._settled = asyncio.Event()

    async def close(self) -> None:
        """Wait for the calls that are in flight, without beginning others."""
        if self._end is None:
            self._end = EndpointError("The session was closed.")
        self._ended.set()
        try:
            while self._flights:
                await asyncio.wait(self._flights.values())
        finally:
            self._store.close()


@asynccontextmanager
async def open_session(terms: ChatTerms, cache: AnswerCache) -> AsyncIterator[ChatSession]:
    """Open the connections to an endpoint, and close them and the file at the end."""
    try:
        async with terms.endpoint.connect() as connection:
            session = ChatSession(terms, cache, connection)
            try:
                yield session
            finally:
                await session.close()
    finally:
        cache.close()


def _is_repeated(status: int) -> bool:
    return status == 429 or status >= 500


def _reason(reply: ChatReply | None) -> str:
    if reply is None:
        return "the answer was none of a chat model"
    if reply.is_refused:
        return "the model refused to answer"
    if reply.finish == "length":
        return "the answer was cut off"
    return "the answer was no label"
