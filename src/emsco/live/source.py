"""The base of live sources: the terms of requests, and a client that makes them.

A source is a frozen description that can be saved in a file. It opens a client, which holds the
connections.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Protocol

from emsco.exceptions import SourcesError
from emsco.live.fetch_result import FetchResult, Freshness, Key, Values

APART = 10.0  # seconds that a paid request may take after its caller has left


class Client(Protocol):
    """Protocol of an opened source, which fetches many keys at once and keeps its connections."""

    async def fetch(self, keys: Sequence[Key], values: Values) -> FetchResult:
        """Fetch the values of these keys.

        Parameters
        ----------
        keys : sequence
            The keys, each once.
        values : mapping of feature to sequence
            The values that requests may use besides the key, one per key.

        The client of a source that `is_idempotent` takes a third argument, `token`: a text that is
        the same if a request is repeated.

        Raises
        ------
        Exception
            If the request failed as a whole. If a single row has no values, its reason says why.
        """

    async def close(self) -> None:
        """Close every connection."""


@dataclass(frozen=True, kw_only=True)
class LiveSource(ABC):
    """The base class of live sources: how a source is fetched, and on what terms.

    Parameters
    ----------
    timeout : float, default=1.0
        The maximum duration of a request, in seconds.
    retries : int, default=None
        How often a failed request is repeated. None: once, or never if requests are paid for.
    concurrency : int, default=32
        The maximum number of simultaneous requests.
    breaker : int, default=5
        The number of consecutive failures after which the source is not asked for a while.
    ttl : float, default=None
        The number of seconds for which an answer is kept for the next caller. None: it is not kept.
    max_age : float, default=None
        The maximum age of an answer, in seconds. None: no limit.
    max_skew : float, default=60.0
        How many seconds the time of an answer may be in the future.
    paid : bool, default=False
        Whether a request costs money even if there is no answer; it is then not repeated.
    max_spend : float, default=None
        The maximum to spend per day, in the unit of the costs. None: no limit.
    time_field : str, default=None
        Where an answer has the time of its event. None: it has none.
    """

    timeout: float = 1.0
    retries: int | None = None
    concurrency: int = 32
    breaker: int = 5
    ttl: float | None = None
    max_age: float | None = None
    max_skew: float = 60.0
    paid: bool = False
    max_spend: float | None = None
    time_field: str | None = None

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is None and name in _OPTIONAL:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
                raise SourcesError(f"`{name}` must be a number, got {value!r}.")
            if value < least or (least == 0 and name in _ABOVE and value == 0):
                than = "above 0" if name in _ABOVE else f"at least {least}"
                raise SourcesError(f"`{name}` must be {than}, got {value!r}.")
        for name in _WHOLE:
            value = getattr(self, name)
            if value is not None and int(value) != value:
                raise SourcesError(f"`{name}` must be a whole number, got {value!r}.")
        if not isinstance(self.paid, bool):
            raise SourcesError(f"`paid` must be true or false, got {self.paid!r}.")
        if self.max_age is not None and not self.is_timed:
            raise SourcesError("`max_age` needs `time_field`: how old is an answer without a time?")
        if self.ttl is not None and self.max_age is not None and self.ttl > self.max_age:
            raise SourcesError(
                f"`ttl` must be at most `max_age` = {self.max_age}, got {self.ttl}: a kept answer "
                "would be too old."
            )
        if self.paid and self.retries and not self.is_idempotent:
            raise SourcesError(
                "A source that is paid for is not asked again: leave out `retries`, or name an "
                "`idempotency_header`."
            )

    @property
    def is_timed(self) -> bool:
        """Whether answers contain the time of their event."""
        return self.time_field is not None

    @property
    def is_idempotent(self) -> bool:
        """Whether a repeated request is charged only once."""
        return False

    @property
    def bills_timeouts(self) -> bool:
        """Whether a request may be charged for that got no answer in time."""
        return True

    @property
    def is_fetched(self) -> bool:
        """Whether values are fetched at all; if not, callers always send them."""
        return True

    @property
    def rows_per_call(self) -> int | None:
        """The maximum number of rows in a request. None: no limit."""
        return _MOST_ROWS

    @property
    def is_spelled(self) -> bool:
        """Whether every value comes as text, so that numbers are spelled out."""
        return False

    @property
    def most_retries(self) -> int:
        """How often a failed request is repeated."""
        if self.retries is not None:
            return int(self.retries)
        return 0 if self.paid else 1

    @property
    def freshness(self) -> Freshness:
        """The limits on the age of an answer."""
        return Freshness(self.max_age, self.max_skew)

    @property
    @abstractmethod
    def needs(self) -> frozenset[str]:
        """The features that a request uses, besides the key."""

    def refused(self, keys: Sequence[Key], values: Values) -> dict[int, str]:
        """Return why rows cannot be asked for, by their place: nothing is paid for these.

        By default, every row can be.
        """
        del keys, values
        return {}

    @abstractmethod
    def open(self, features: Sequence[str]) -> Client:
        """Return a client that fetches these features."""


_LEAST_SECRET = 16  # bytes: shorter ones can be tried out
_MOST_ROWS = 10_000  # databases bind some ten thousands of values at most
_LEAST = {"timeout": 0, "retries": 0, "concurrency": 1, "breaker": 1, "ttl": 0, "max_age": 0,
          "max_skew": 0, "max_spend": 0}  # fmt: skip
_ABOVE = ("timeout", "ttl", "max_age")
_OPTIONAL = ("retries", "ttl", "max_age", "max_spend")
_WHOLE = ("retries", "concurrency", "breaker")


def from_environment(variable: str) -> str:
    """Read an address or a secret from an environment variable."""
    value = os.environ.get(variable)
    if not value:
        raise SourcesError(f"The environment variable {variable} is not set.")
    return value


def long_secret(variable: str) -> bytes:
    """Read a secret that hides keys, and refuse one that could be guessed."""
    secret = from_environment(variable).encode("utf-8", "surrogateescape")
    if len(secret) < _LEAST_SECRET:
        raise SourcesError(
            f"The environment variable {variable} must have at least {_LEAST_SECRET} bytes; "
            "`openssl rand -hex 32` makes such a secret."
        )
    return secret


def address_of(url: str | None, url_env: str | None) -> str:
    """Return the address, as given or from the environment variable."""
    if (url is None) == (url_env is None):
        raise SourcesError("Give `url_env`, the environment variable that holds the address.")
    return url if url is not None else from_environment(str(url_env))


def fields_of(fields: Any, features: Sequence[str]) -> dict[str, str]:
    """Return the field of each feature, by default the one with the same name."""
    named = dict(fields or {})
    unknown = [feature for feature in named if feature not in features]
    if unknown:
        raise SourcesError(f"`fields` names {unknown[0]!r}, which the source does not yield.")
    return {feature: named.get(feature, feature) for feature in features}
