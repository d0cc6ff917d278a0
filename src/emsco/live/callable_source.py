"""Sources without a store: Python functions, and values that callers send with every row."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from emsco.core.decisions import MISSING
from emsco.live.fetch_result import FetchedRow, FetchResult, Key, Record, Values
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
        return CallableClient(self, tuple(features))


@dataclass(frozen=True)
class CallableClient:
    """A client that calls a function."""

    source: CallableSource
    features: tuple[str, ...]

    @cached_property
    def _is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.source.function)

    async def fetch(self, keys: Sequence[Key], values: Values) -> FetchResult:
        """Call the function for these keys."""
        function: Any = self.source.function
        if self._is_async:
            found = await function(keys, values)
        else:
            found = await asyncio.to_thread(function, keys, values)
            if inspect.isawaitable(found):  # an object with an async `__call__`
                found = await found
        pairs = found.items() if isinstance(found, Mapping) else found
        answers = [self._answer(key, record) for key, record in pairs]
        return self.source.match(keys, answers, self.features)

    def _answer(self, key: Key, record: Any) -> FetchedRow:
        if not isinstance(record, Mapping):
            return FetchedRow(key, None)
        moment = record.get(self.source.time_field) if self.source.time_field else None
        price = record.get(self.source.price_field) if self.source.price_field else None
        return FetchedRow(key, record, moment, price)

    async def close(self) -> None:
        """Do nothing, because a function has no connection."""


@dataclass(frozen=True, kw_only=True)
class KnownSource(LiveSource):
    """A source whose values callers always send, as `known`. Nothing is ever fetched for it.

    A row without these values is rejected with the reason `missing`, and costs nothing.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from emsco import CascadeClassifier, Costs, Source, StageDesign
    >>> from emsco.live import CallableSource, KnownSource, LiveCascade, Sources
    >>> X, y = load_iris(return_X_y=True)
    >>> form = Source("form", cost=0, features=["x2", "x3"])
    >>> lab = Source("lab", cost=9, features=["x0", "x1"])
    >>> design = StageDesign.from_stages([["form"], ["lab"]])
    >>> cascade = CascadeClassifier(design=design, costs=Costs([form, lab])).fit(X, y)
    >>> def ask_the_lab(keys, values):
    ...     return {key: {"x0": X[key, 0], "x1": X[key, 1]} for key in keys}
    >>> sources = Sources({"form": KnownSource(), "lab": CallableSource(function=ask_the_lab)})
    >>> with_form = {"x2": X[[3, 70], 2], "x3": X[[3, 70], 3]}
    >>> live = LiveCascade(cascade, sources)
    >>> live.decide_now(keys=[3, 70], known=with_form).cost
    array([0., 9.])
    >>> print(live.decide_now(keys=[3])[0].reason)
    missing: form
    >>> live.close_now()
    """

    @property
    def needs(self) -> frozenset[str]:
        """Nothing: there is no request."""
        return frozenset()

    @property
    def is_fetched(self) -> bool:
        """False: callers send the values."""
        return False

    def open(self, features: Sequence[str]) -> KnownClient:
        """Return a client for rows whose callers sent no values."""
        return KnownClient(tuple(features))


@dataclass(frozen=True)
class KnownClient:
    """A client that has no values for any key."""

    features: tuple[str, ...]

    async def fetch(self, keys: Sequence[Key], values: Values) -> FetchResult:
        """Return "missing" for every key, at no cost."""
        del values
        n_keys = len(keys)
        columns = {name: [None] * n_keys for name in self.features}
        return FetchResult(columns, [MISSING] * n_keys, prices=[0.0] * n_keys)

    async def close(self) -> None:
        """Do nothing, because there is no connection."""
