"""A large model behind an OpenAI-compatible endpoint, as a final model."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emsco._utils.event_loops import run
from emsco._utils.progress import tell
from emsco.chat.answer_cache import AnswerCache
from emsco.chat.chat_session import ChatAnswer, ChatSession, ChatTerms, open_session
from emsco.chat.endpoint import Endpoint
from emsco.chat.label_reading import LabelSet
from emsco.chat.prompt_template import PromptTemplate
from emsco.chat.retry_policy import RetryPolicy
from emsco.chat.spending import ChatSpending, TokenPrices, check_amount, to_units
from emsco.exceptions import ModelError
from emsco.rows.columns import listed, object_array
from emsco.rows.rows import read_all

_AROUND = 32  # tokens of an answer besides those of its label, for JSON
_NAMED = 5  # rows without an answer in an error


class TrustedAnswers(NamedTuple):
    """Answers with their trust, as `label_answers` takes them; None and NaN where there is none."""

    labels: list[Any]
    trust: NDArray[np.float64]


@dataclass(frozen=True)
class ChatModel:
    """A model that is asked about each row over the chat completions API.

    Its answer is one of `labels`, or there is none: nothing is guessed. Answers are kept in a file
    by the whole request, so that none is paid for twice. It can be used wherever a final model can.

    Parameters
    ----------
    base_url : str
        The address before "/chat/completions", such as "http://127.0.0.1:8000/v1".
    model : str
        The name of the model there.
    prompt : str
        The question about a row. Names in braces stand for its columns: "Is this spam? {text}".
        Missing values are empty; everything else is as it is written.
    labels : sequence of str, bool, int or float
        The possible answers, of which no two may look alike.
    price_in, price_out : float, default=None
        The prices of a million tokens sent and received. None: nothing is counted.
    concurrency : int, default=8
        How many questions are asked at the same time, at most.
    max_spend : float, default=None
        The most that this model may cost, in the unit of the prices, over all processes that use
        the same file of answers. What a call can cost at most is counted before it is made. None:
        no limit.
    answers : path, default="answers.sqlite"
        The file that keeps answers and what they cost. None: they are kept in memory, for a call.
    api_key_env : str, default="OPENAI_API_KEY"
        The environment variable with the key. None: the endpoint needs no key.
    max_tokens : int, default=None
        The longest answer. None: enough for any label; a model that thinks first needs more.
    overhead : int, default=256
        The most tokens that the endpoint adds to a question, such as a prompt of its own. They are
        counted in the upper bound of a call.
    logprobs : bool, default=False
        Whether to ask for log-probabilities, from which `answers_with_trust` has the trust.
    timeout : float, default=60.0
        The most seconds that a call may take.
    retries : int, default=5
        How often a call is repeated at most after status 429 or 5xx or a lost connection.
    backoff : float, default=0.5
        The most seconds before the first repetition; twice as many before each next one. What the
        endpoint asks for by `Retry-After` is kept.

    Examples
    --------
    >>> from emsco.final import ChatModel
    >>> model = ChatModel(
    ...     "http://127.0.0.1:8000/v1", "llama", "Is this spam? {text}", ["spam", "ham"],
    ...     api_key_env=None, price_in=0.15, price_out=0.6, max_spend=20,
    ... )
    >>> import pandas as pd
    >>> print(model.questions(pd.DataFrame({"text": ["Win {money} now!"]}))[0])
    Is this spam? Win {money} now!
    >>> model.predict(messages)  # doctest: +SKIP
    array(['ham', 'spam', 'ham'], dtype='<U4')
    """

    base_url: str
    model: str
    prompt: str
    labels: Sequence[Any]
    price_in: float | None = field(default=None, kw_only=True)
    price_out: float | None = field(default=None, kw_only=True)
    concurrency: int = field(default=8, kw_only=True)
    max_spend: float | None = field(default=None, kw_only=True)
    answers: str | None = field(default="answers.sqlite", kw_only=True)
    api_key_env: str | None = field(default="OPENAI_API_KEY", kw_only=True)
    max_tokens: int | None = field(default=None, kw_only=True)
    overhead: int = field(default=256, kw_only=True)
    logprobs: bool = field(default=False, kw_only=True)
    timeout: float = field(default=60.0, kw_only=True)
    retries: int = field(default=5, kw_only=True)
    backoff: float = field(default=0.5, kw_only=True)

    def __post_init__(self) -> None:
        labels = LabelSet.of(self.labels).labels
        object.__setattr__(self, "labels", labels)
        if self.answers is not None:
            object.__setattr__(self, "answers", _path(self.answers))
        if not isinstance(self.model, str) or not self.model.strip():
            raise ModelError(f"`model` must be the name of a model, got {self.model!r:.80}.")
        for name, least in (("concurrency", 1), ("max_tokens", 1), ("overhead", 0), ("retries", 0)):
            value = getattr(self, name)
            is_whole = isinstance(value, int) and not isinstance(value, bool)
            if not (is_whole and value >= least) and not (name == "max_tokens" and value is None):
                raise ModelError(f"`{name}` must be a whole number from {least} on, got {value!r}.")
        for name in ("timeout", "backoff", "max_spend"):
            check_amount(name, getattr(self, name))
        if self.timeout is None or self.timeout == 0 or self.backoff is None:
            raise ModelError("`timeout` and `backoff` must be numbers of seconds.")
        if not isinstance(self.logprobs, bool):
            raise ModelError(f"`logprobs` must be true or false, got {self.logprobs!r}.")
        _ = self.template, self.terms
        if self.max_spend is not None and self.price_in is None:
            raise ModelError("`max_spend` needs `price_in` and `price_out`, of a million tokens.")
        if self.max_spend is not None and self.answers is None:
            raise ModelError("`max_spend` needs `answers`, the file that keeps what was spent.")

    def __sklearn_clone__(self) -> ChatModel:
        return self  # it is never fitted

    @cached_property
    def template(self) -> PromptTemplate:
        """The prompt, whose columns are known."""
        return PromptTemplate.parse(self.prompt)

    @cached_property
    def terms(self) -> ChatTerms:
        """How the model is asked."""
        labels = LabelSet.of(self.labels)
        return ChatTerms(
            endpoint=Endpoint(self.base_url, self.api_key_env, self.timeout),
            model=self.model,
            labels=labels,
            max_tokens=self.max_tokens or labels.longest + _AROUND,
            logprobs=self.logprobs,
            prices=TokenPrices(self.price_in, self.price_out),
            overhead=self.overhead,
            limit=None if self.max_spend is None else to_units(self.max_spend),
            concurrency=self.concurrency,
            retry=RetryPolicy(self.retries, self.backoff),
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the prompt names."""
        return self.template.columns

    def questions(self, X: Any) -> list[str]:
        """Return the question about each row.

        Parameters
        ----------
        X : pandas or polars frame, or numpy array
            The rows; the columns of an array are x0, x1 and so on.

        Returns
        -------
        list of str
            The questions.
        """
        rows = read_all(X)
        self.template.check(rows.names)
        columns = {name: listed(rows.columns[name]) for name in dict.fromkeys(self.columns)}
        return [self.template.fill(row) for row in _rows_of(columns, rows.n_rows)]

    def question(self, row: Mapping[str, Any]) -> str:
        """Return the question about one row, given as a mapping of column to value."""
        self.template.check(list(row))
        return self.template.fill(row)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the label of each row.

        Parameters
        ----------
        X : pandas or polars frame, or numpy array
            The rows.

        Returns
        -------
        array
            The labels.

        Raises
        ------
        ModelError
            If a row has no answer. Those of the others are kept, and not paid for again.
        EndpointError
            If the model cannot be asked: there is no key or no money left, or it is down.
        """
        found = run(self._ask_all(self.questions(X)))
        lacking = [row for row, answer in enumerate(found) if answer.reason]
        if lacking:
            reasons = ", ".join(f"{row} ({found[row].reason})" for row in lacking[:_NAMED])
            more = f" and {len(lacking) - _NAMED:,} more" if len(lacking) > _NAMED else ""
            raise ModelError(
                f"{self.model} gave no label for {len(lacking):,} of {len(found):,} rows: "
                f"{reasons}{more}. All other answers are kept: leave these rows out, or ask again."
            )
        return _as_array([answer.label for answer in found])

    async def __call__(self, rows: Any) -> list[Any]:
        """Return the label of each row; None where there is none.

        Raises
        ------
        EndpointError
            If the model cannot be asked: there is no key or no money left, or it is down.
        """
        return [answer.label for answer in await self._ask_all(self.questions(rows))]

    def answers_with_trust(self, X: Any) -> TrustedAnswers:
        """Return the label of each row with its probability, for `label_answers`.

        The trust is the probability of the label's tokens, by the endpoint's log-probabilities. A
        row without one has no label either.

        Parameters
        ----------
        X : pandas or polars frame, or numpy array
            The rows.

        Returns
        -------
        TrustedAnswers
            The labels, and the trust in each; None and NaN where there is none.

        Raises
        ------
        ModelError
            If log-probabilities are not asked for, or the endpoint gives none.
        """
        if not self.logprobs:
            raise ModelError("The trust is made of log-probabilities; set `logprobs=True`.")
        found = run(self._ask_all(self.questions(X)))
        if any(answer.label is not None for answer in found) and all(
            answer.trust is None for answer in found
        ):
            raise ModelError(
                f"{self.model} at {self.base_url} gives no log-probabilities, and so no trust."
            )
        trust = [np.nan if answer.trust is None else answer.trust for answer in found]
        labels = [None if answer.trust is None else answer.label for answer in found]
        return TrustedAnswers(labels, np.array(trust, dtype=np.float64))

    def on(self, X: Any) -> RowsOfChat:
        """Return the model as the final one of `label_answers`, which names rows by position.

        Parameters
        ----------
        X : pandas or polars frame, or numpy array
            The rows that positions refer to.

        Returns
        -------
        RowsOfChat
            What answers for some positions.
        """
        return RowsOfChat(self, tuple(self.questions(X)))

    def spending(self) -> ChatSpending:
        """Return what this model has cost so far, by the file of answers.

        Returns
        -------
        ChatSpending
            What is known, and the upper bound of calls whose cost is not known.
        """
        cache = AnswerCache(self.answers)
        try:
            return cache.spending(self.terms.account)
        finally:
            cache.close()

    @asynccontextmanager
    async def session(self) -> AsyncIterator[ChatSession]:
        """Open connections for many questions, which `label_batch` and live sources do."""
        async with open_session(self.terms, AnswerCache(self.answers)) as session:
            yield session

    async def _ask_all(self, questions: Sequence[str]) -> list[ChatAnswer]:
        """Ask many questions; after an error of the endpoint, no new one."""
        found: dict[int, ChatAnswer] = {}
        waiting = iter(enumerate(questions))

        async def work(session: ChatSession) -> None:
            for place, question in waiting:
                if session.end is not None:
                    return
                found[place] = await session.ask(question)
                tell(f"{self.model}: {len(found):,} of {len(questions):,} rows",
                     len(found) / len(questions))  # fmt: skip

        async with self.session() as session:
            workers = [
                asyncio.ensure_future(work(session))
                for _ in range(min(self.concurrency, len(questions)))
            ]
            try:
                for ended in await asyncio.gather(*workers, return_exceptions=True):
                    if isinstance(ended, BaseException):
                        raise ended
            finally:
                for worker in workers:
                    worker.cancel()
        return [found[place] for place in range(len(questions))]

    @asynccontextmanager
    async def open_calls(self) -> AsyncIterator[Callable[[Any], Awaitable[list[Any]]]]:
        """Open connections; give what takes rows, and returns a label or None for each."""
        async with self.session() as session:

            async def call(rows: Any) -> list[Any]:
                answers = await asyncio.gather(*map(session.ask, self.questions(rows)))
                return [answer.label for answer in answers]

            yield call

    def to_data(self) -> dict[str, Any]:
        """Return the settings as plain values: all there is, as keys are read when it is asked."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return values | {"labels": list(self.labels)}

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}


@dataclass(frozen=True)
class RowsOfChat:
    """A model with rows, which is asked by their positions."""

    model: ChatModel
    row_questions: tuple[str, ...] = field(repr=False)

    @property
    def concurrency(self) -> int:
        """How many questions are asked at the same time."""
        return self.model.concurrency

    async def __call__(self, rows: Sequence[int]) -> list[Any]:
        """Return the label of each row, None where there is none."""
        async with self.open_calls() as call:
            return await call(rows)

    @asynccontextmanager
    async def open_calls(self) -> AsyncIterator[Callable[[Sequence[int]], Awaitable[list[Any]]]]:
        """Open connections; give what takes positions, and returns a label or None for each."""
        async with self.model.session() as session:

            async def call(rows: Sequence[int]) -> list[Any]:
                questions = [self.row_questions[row] for row in rows]
                return [
                    answer.label for answer in await asyncio.gather(*map(session.ask, questions))
                ]

            yield call


# Its public path, which pickles and so digests contain, wherever the code is.
ChatModel.__module__ = "emsco.final"


def _rows_of(columns: Mapping[str, Sequence[Any]], n_rows: int) -> Iterator[dict[str, Any]]:
    for row in range(n_rows):
        yield {name: values[row] for name, values in columns.items()}


def _as_array(labels: Sequence[Any]) -> NDArray[Any]:
    """Return labels as an array that changes none: numbers beside text would become text."""
    is_one_kind = len(set(map(type, labels))) <= 1
    return np.array(labels) if is_one_kind else object_array(labels)


def _path(answers: Any) -> str:
    try:
        return str(os.fspath(answers))
    except TypeError:
        raise ModelError(f"`answers` must be the path of a file, got {answers!r:.80}.") from None
