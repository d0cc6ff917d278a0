"""A chat model as a live source: its answer to a question about the row is a feature."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import cached_property

from emsco.chat.chat_model import ChatModel
from emsco.chat.chat_session import ChatSession
from emsco.chat.spending import UNIT
from emsco.core.decisions import INVALID_VALUE
from emsco.exceptions import EndpointError, ModelError, SourcesError
from emsco.live.fetch_result import FetchedRow, FetchResult, Key, Values
from emsco.live.source import APART, LIST, TEXT, LiveSource, number, seconds


@dataclass(frozen=True, kw_only=True)
class ChatSource(LiveSource):
    """A live source that asks a chat model.

    Its only feature is the label that the model answers. A row whose answer is no label is rejected
    as an invalid value. The key of the endpoint is read from the environment.

    Parameters
    ----------
    base_url : str
        The address before "/chat/completions".
    model : str
        The name of the model there.
    prompt : str
        The question. Names in braces stand for the key, known values or features of required
        sources.
    labels : sequence of str, bool, int or float
        The possible answers.
    price_in, price_out : float, default=None
        The prices of a million tokens sent and received. With them, the price of a row is what the
        endpoint counted, and that in the costs is what is reserved.
    api_key_env : str, default="OPENAI_API_KEY"
        The environment variable with the key; "" if there is none.
    answers : str, default=None
        A file that keeps answers, so that a question is never paid for twice. None: none is kept.
    max_tokens : int, default=None
        The longest answer. None: enough for any label.

    Examples
    --------
    >>> from emsco.live import ChatSource
    >>> source = ChatSource(
    ...     base_url="http://127.0.0.1:8000/v1", model="llama", prompt="Is this spam? {text}",
    ...     labels=["spam", "ham"], api_key_env="",
    ... )
    >>> sorted(source.needs)
    ['text']
    """

    base_url: str = field(metadata=TEXT)
    model: str = field(metadata=TEXT)
    prompt: str = field(metadata=TEXT)
    labels: Sequence[str | bool | int | float] = field(metadata=LIST)
    price_in: float | None = field(default=None, metadata=number())
    price_out: float | None = field(default=None, metadata=number())
    api_key_env: str = field(default="OPENAI_API_KEY", metadata=TEXT)
    answers: str | None = field(default=None, metadata=TEXT)
    max_tokens: int | None = field(default=None, metadata=number(least=1, whole=True))
    timeout: float = field(default=30.0, metadata=seconds(above=0))

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "labels", tuple(self.labels))  # lists from files compare equal
        try:
            _ = self.chat
        except ModelError as error:
            raise SourcesError(str(error)) from None
        if self.is_timed:
            raise SourcesError("`time_field` is not for chat models: their answers have no time.")

    @cached_property
    def chat(self) -> ChatModel:
        """The model that is asked."""
        return ChatModel(
            self.base_url, self.model, self.prompt, self.labels,
            price_in=self.price_in, price_out=self.price_out, concurrency=int(self.concurrency),
            answers=self.answers, api_key_env=self.api_key_env or None, max_tokens=self.max_tokens,
            # The answer to a paid request is still read after its caller is gone.
            timeout=self.timeout + (APART if self.paid else 0.0), retries=0,
        )  # fmt: skip

    @property
    def price_field(self) -> str | None:
        """Where an answer has its price: in what the endpoint counted, if tokens have prices."""
        return None if self.price_in is None else "usage"

    @cached_property
    def needs(self) -> frozenset[str]:
        """The features that a question uses, besides the key."""
        return frozenset(self.chat.columns) - {"key"}

    @property
    def rows_per_call(self) -> int | None:
        """One: each row is a question."""
        return 1

    def open(self, features: Sequence[str]) -> ChatClient:
        """Return a client that asks for this feature."""
        if len(features) != 1:
            raise SourcesError(
                f"A chat model gives one feature, its label; the costs name {list(features)}."
            )
        return ChatClient(self, features[0])

    def _secrets(self) -> Iterator[str]:
        key = os.environ.get(self.api_key_env, "") if self.api_key_env else ""
        if key:
            yield key


class ChatClient:
    """Connections to a chat model, opened with the first question."""

    def __init__(self, source: ChatSource, feature: str) -> None:
        source.chat.terms.endpoint.key()  # named before anybody waits for it, if it is missing
        self._source, self._feature = source, feature
        self._opened: tuple[AsyncExitStack, ChatSession] | None = None
        self._opening = asyncio.Lock()

    async def fetch(self, keys: Sequence[Key], values: Values) -> FetchResult:
        """Ask about these rows."""
        session = await self._session()
        rows = [
            {"key": key, **{name: values[name][i] for name in self._source.needs}}
            for i, key in enumerate(keys)
        ]
        questions = [self._source.chat.question(row) for row in rows]
        try:
            found = await asyncio.gather(*map(session.ask, questions))
        except EndpointError as error:
            await self._drop(session)  # the next question tries again
            raise ConnectionError(str(error)) from error
        lost = [answer.reason for answer in found if answer.is_lost]
        if lost:
            raise ConnectionError(lost[0])
        priced = self._source.price_in is not None
        answers = [
            FetchedRow(
                key,
                None if answer.label is None else {self._feature: answer.label},
                price=answer.cost / UNIT if priced else None,
                reason=INVALID_VALUE,
            )
            for key, answer in zip(keys, found, strict=True)
        ]
        return self._source.match(keys, answers, [self._feature], verified=False)

    async def _session(self) -> ChatSession:
        async with self._opening:
            if self._opened is None:
                stack = AsyncExitStack()
                session = await stack.enter_async_context(self._source.chat.session())
                self._opened = stack, session
            return self._opened[1]

    async def _drop(self, session: ChatSession) -> None:
        """Close a session that has ended, unless another one was opened since."""
        if self._opened is not None and self._opened[1] is session:
            await self.close()

    async def close(self) -> None:
        """Close every connection."""
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened[0].aclose()
