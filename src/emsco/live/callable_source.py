"""Sources that are Python functions."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from emsco.live.fetch_result import FetchedRow, FetchResult, Freshness, Key, Record, Values, match
from emsco.live.source import LiveSource

Answers: TypeAlias = Mapping[Key, Record] | Iterable[tuple[Key, Record]]
Function: TypeAlias = Callable[[Sequence[Key], Values], Answers | Awaitable[Answers]]


@dataclass(frozen=True, kw_only=True)
class CallableSource(LiveSource):
    """A source that is a Python function.

    Parameters
    ----------
    function : callable
        `function(keys, values)` returns `{key: {feature: value}}`, or pairs of a key and its
        values. It may be async; a function that is not async runs in a separate thread.
    uses : sequence of str, default=()
        The features that the function uses; `values` holds them, with one value per key.
    time_field : str, default=None
        The name, among the values of a key, of the time of the event.
    price_field : str, default=None
        The name, among the values of a key, of the price of the row.

    Examples
    --------
    >>> import asyncio
    >>> from emsco.live import CallableSource
    >>> ages = {"a81f": 3.0, "77c0": 41.0}
    >>> source = CallableSource(
    ...     function=lambda keys, values: {key: {"age": ages[key]} for key in keys if key in ages}
    ... )
    >>> client = source.open(["age"])
    >>> fetched = asyncio.run(client.fetch(["77c0", "none", "a81f"], {}))
    >>> fetched.columns, fetched.reasons
    ({'age': [41.0, None, 3.0]}, ['', 'missing', ''])
    """

    function: Function
    uses: Sequence[str] = ()
    price_field: str | None = None

    @property
    def needs(self) -> frozenset[str]:
        """The features that a request uses, besides the key."""
        return frozenset(self.uses)

    def open(self, features: Sequence[str]) -> CallableClient:
        """Return a client that calls the function."""
        return CallableClient(self, tuple(features), self.freshness)


@dataclass(frozen=True)
class CallableClient:
    """A client that calls a function."""

    source: CallableSource
    features: tuple[str, ...]
    freshness: Freshness

    async def fetch(self, keys: Sequence[Key], values: Values) -> FetchResult:
        """Call the function for these keys."""
        function = self.source.function
        if inspect.iscoroutinefunction(function):
            found = await function(keys, values)
        else:
            found = await asyncio.to_thread(function, keys, values)
            if inspect.isawaitable(found):  # an object with an async `__call__`
                found = await found
        pairs = found.items() if isinstance(found, Mapping) else found
        answers = [self._answer(key, record) for key, record in pairs]
        timed = self.source.is_timed
        return match(keys, answers, self.features, self.freshness, timed=timed)

    def _answer(self, key: Key, record: Any) -> FetchedRow:
        if not isinstance(record, Mapping):
            return FetchedRow(key, None)
        moment = record.get(self.source.time_field) if self.source.time_field else None
        price = record.get(self.source.price_field) if self.source.price_field else None
        return FetchedRow(key, record, moment, price)

    async def close(self) -> None:
        """Do nothing, because a function has no connection."""
