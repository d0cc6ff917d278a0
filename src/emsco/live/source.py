"""The base class of live sources, and the protocol of their clients.

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

APART = 10.0  # seconds that a paid request may still take after its caller is gone


class Client(Protocol):
    """Protocol of an open source, which fetches many keys at once and holds the connections."""

    async def fetch(self, keys: Sequence[Key], values: Values) -> FetchResult:
        """Fetch the values of these keys.

        Parameters
        ----------
        keys : sequence
            The keys, each once.
        values : mapping of feature to sequence
            The values that requests may use besides the key, one per key.

        The client of a source that `is_idempotent` takes a third argument, `token`: a string that
        is the same if a request is repeated.

        Raises
        ------
        Exception
            If the request failed as a whole. If a single row has no values, its reason says why.
        """

    async def close(self) -> None:
        """Close every connection."""


@dataclass(frozen=True, kw_only=True)
class LiveSource(ABC):
    """Base class of live sources, with the settings that all of them share.

    Parameters
    ----------
    timeout : float, default=1.0
        The maximum duration of a request, in seconds.
    retries : int, default=None
        How often a failed request is repeated. None: once, or never if requests are paid for.
    concurrency : int, default=32
        The maximum number of simultaneous requests.
    breaker : int, default=5
        The number of consecutive failures after which the source is not called for a while.
    ttl : float, default=None
        The number of seconds for which an answer is cached. None: it is not cached.
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
            raise SourcesError("`max_age` needs `time_field`, from which the age is computed.")
        if self.ttl is not None and self.max_age is not None and self.ttl > self.max_age:
            raise SourcesError(
                f"`ttl` must be at most `max_age` = {self.max_age}, got {self.ttl}: a cached "
                "answer would be too old."
            )
        if self.paid and self.retries and not self.is_idempotent:
            raise SourcesError(
                "Requests to a paid source are not repeated: omit `retries`, or set "
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
        """Whether a request that timed out may be charged."""
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
        """Whether every value comes as text, numbers included."""
        return False

    @property
    def most_retries(self) -> int:
        """The maximum number of times that a failed request is repeated."""
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
        """Return the reasons of rows that cannot be requested, by position; they cost nothing.

        By default, every row can be requested.
        """
        del keys, values
        return {}

    @abstractmethod
    def open(self, features: Sequence[str]) -> Client:
        """Return a client that fetches these features."""


_LEAST_SECRET = 16  # bytes; a shorter secret can be guessed
_MOST_ROWS = 10_000  # databases allow some ten thousand bound values per query
_LEAST = {"timeout": 0, "retries": 0, "concurrency": 1, "breaker": 1, "ttl": 0, "max_age": 0,
          "max_skew": 0, "max_spend": 0}  # fmt: skip
_ABOVE = ("timeout", "ttl", "max_age")
_OPTIONAL = ("retries", "ttl", "max_age", "max_spend")
_WHOLE = ("retries", "concurrency", "breaker")


def from_environment(variable: str) -> str:
    """Read a URL or a secret from an environment variable."""
    value = os.environ.get(variable)
    if not value:
        raise SourcesError(f"The environment variable {variable} is not set.")
    return value


def long_secret(variable: str) -> bytes:
    """Read the secret for the HMAC of keys; raise an error if it is too short."""
    secret = from_environment(variable).encode("utf-8", "surrogateescape")
    if len(secret) < _LEAST_SECRET:
        raise SourcesError(
            f"The environment variable {variable} must have at least {_LEAST_SECRET} bytes; "
            "`openssl rand -hex 32` generates such a secret."
        )
    return secret


def address_of(url: str | None, url_env: str | None) -> str:
    """Return the URL, from the argument or from the environment variable."""
    if (url is None) == (url_env is None):
        raise SourcesError(
            "Set exactly one of `url` and `url_env`, the environment variable that holds the URL."
        )
    return url if url is not None else from_environment(str(url_env))


def fields_of(fields: Any, features: Sequence[str]) -> dict[str, str]:
    """Return the field of each feature, by default the one with the same name."""
    named = dict(fields or {})
    unknown = [feature for feature in named if feature not in features]
    if unknown:
        raise SourcesError(f"`fields` names {unknown[0]!r}, which is not a feature of the source.")
    return {feature: named.get(feature, feature) for feature in features}
