"""The base class of live sources, and the protocol of their clients.

A source is a frozen description that can be saved in a file. It opens a client, which holds the
connections. The metadata of its fields say what they hold: reading files, checks, redaction and
documentation go over the fields, so that a kind of source is one class.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from math import isfinite
from typing import Any, ClassVar, Protocol
from urllib.parse import unquote, urlsplit

from emsco.core.decisions import ACCEPTED, AMBIGUOUS, INVALID_VALUE, MISSING, STALE
from emsco.exceptions import SourcesError
from emsco.live.fetch_result import (
    FetchedRow,
    FetchResult,
    Key,
    Record,
    Values,
    key_text,
    to_moment,
)

APART = 10.0  # seconds that a paid request may still take after its caller is gone

# What a field holds, in its metadata: in a file, each is checked and read accordingly.
TEXT, TABLE, LIST, BOOLEAN = ({"value": name} for name in ("text", "table", "list", "boolean"))


def number(*, above: float | None = None, least: float = 0, whole: bool = False) -> dict[str, Any]:
    """Return the metadata of a field with a number."""
    return {"value": "number", "above": above, "least": least, "whole": whole}


def seconds(*, above: float | None = None) -> dict[str, Any]:
    """Return the metadata of a field with a number of seconds; in a file, also "300ms" or "7d"."""
    return number(above=above) | {"value": "seconds"}


def secret(variable: str) -> Any:
    """Return a field with a secret, which is never shown and must not be in a file.

    `variable` is the field with the name of an environment variable that holds the secret, or with
    a mapping to such names, if this one is a mapping to secrets.
    """
    return field(default=None, repr=False, metadata={"value": "secret", "variable": variable})


class Client(Protocol):
    """Protocol of an open source, which fetches many keys at once and holds the connections."""

    async def fetch(self, keys: Sequence[Key], values: Values) -> FetchResult:
        """Fetch the values of these keys, each of which comes once.

        `values` are those that requests may use besides the key, one per key. The client of a
        source that `is_idempotent` takes a third argument, `token`: a string that is the same if a
        request is repeated. An exception means that the request failed as a whole; if a single row
        has no values, its reason says why.
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

    timeout: float = field(default=1.0, metadata=seconds(above=0))
    retries: int | None = field(default=None, metadata=number(whole=True))
    concurrency: int = field(default=32, metadata=number(least=1, whole=True))
    breaker: int = field(default=5, metadata=number(least=1, whole=True))
    ttl: float | None = field(default=None, metadata=seconds(above=0))
    max_age: float | None = field(default=None, metadata=seconds(above=0))
    max_skew: float = field(default=60.0, metadata=seconds())
    paid: bool = field(default=False, metadata=BOOLEAN)
    max_spend: float | None = field(default=None, metadata=number())
    time_field: str | None = field(default=None, metadata=TEXT)

    # Loggers of libraries that this kind uses: what they log about its requests is dropped, because
    # it may contain secrets, and keys, which are personal data.
    loggers: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if "least" in one.metadata and not (value is None and one.default is None):
                _check_number(one.name, value, one.metadata)
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

    def is_stale(self, age: float | None) -> bool:
        """Return whether an answer is too old or dated in the future.

        With `max_age`, an answer without a time counts as stale too.
        """
        if self.max_age is None:
            return age is not None and age < -self.max_skew
        return age is None or age > self.max_age or age < -self.max_skew

    def match(
        self,
        keys: Sequence[Key],
        answers: Iterable[FetchedRow],
        features: Sequence[str],
        *,
        verified: bool = True,
    ) -> FetchResult:
        """Match answers to the keys that they are for.

        Keys are compared as text, byte for byte. A key without an answer is `missing`, a key with
        two or more is `ambiguous`, and answers for keys that were not requested are ignored.
        `verified` says whether answers repeat their key.
        """
        by_key: dict[str, FetchedRow | None] = {}
        for answer in answers:
            if answer.key is None or isinstance(answer.key, _NO_KEYS):
                continue  # as text, it would match the key "None"
            text = key_text(answer.key)
            by_key[text] = None if text in by_key else answer
        now = time.time()
        records: list[Record] = [{}] * len(keys)
        reasons = [ACCEPTED] * len(keys)
        ages: list[float | None] = [None] * len(keys)
        prices: list[float | None] = [None] * len(keys)
        for i, key in enumerate(keys):
            found = by_key.get(key_text(key), _NOTHING)
            if found is None or found is _NOTHING:
                reasons[i] = AMBIGUOUS if found is None else MISSING
                continue
            is_endless = False
            if isinstance(found.price, int | float) and not isinstance(found.price, bool):
                is_endless = found.price > _MOST_PRICE
                prices[i] = float(found.price) if 0 <= found.price <= _MOST_PRICE else None
            if found.record is None or is_endless:
                reasons[i] = found.reason if found.record is None else INVALID_VALUE
                continue
            if self.is_timed:
                moment = to_moment(found.time)
                ages[i] = None if moment is None else now - moment
                if self.is_stale(ages[i]):
                    reasons[i] = STALE
                    continue
            records[i] = found.record
        columns = {name: [record.get(name) for record in records] for name in features}
        priced = any(price is not None for price in prices)
        return FetchResult(
            columns, reasons, ages if self.is_timed else None, prices if priced else None, verified
        )

    def redacted(self, text: str) -> str:
        """Return a text in which the secrets of this source are replaced by three asterisks.

        Examples
        --------
        >>> from emsco.live import RedisSource
        >>> page = RedisSource(key="{key}", url="redis://:hunter2@host:6379/0")
        >>> page.redacted("AUTH hunter2 failed at redis://:hunter2@host:6379/0.")
        'AUTH *** failed at ***.'
        """
        for hidden in sorted(self._secrets(), key=len, reverse=True):
            text = text.replace(hidden, "***")
        return text

    def _secrets(self) -> Iterator[str]:
        """Yield the values of secret fields, those in the environment, and passwords in URLs."""
        for one in fields(self):
            if "variable" not in one.metadata:
                continue
            variables = _values(getattr(self, one.metadata["variable"]))
            in_environment = [os.environ.get(variable, "") for variable in variables]
            for value in filter(None, [*_values(getattr(self, one.name)), *in_environment]):
                yield value
                try:
                    password = urlsplit(value).password or value
                except ValueError:  # not a URL
                    continue
                yield password
                yield unquote(password)  # as drivers know it


_NOTHING = FetchedRow(None, None)
_MOST_PRICE = sys.float_info.max
_NO_KEYS = (bool, list, dict)
_LEAST_SECRET = 16  # bytes; a shorter secret can be guessed
_MOST_ROWS = 10_000  # databases allow some ten thousand bound values per query


def _check_number(name: str, value: Any, limits: Mapping[str, Any]) -> None:
    """Check the value of a field with a number by its metadata."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise SourcesError(f"`{name}` must be a number, got {value!r}.")
    above, least = limits["above"], limits["least"]
    if value < least or (above is not None and value <= above):
        limit = f"at least {least}" if above is None else f"above {above}"
        raise SourcesError(f"`{name}` must be {limit}, got {value!r}.")
    if limits["whole"] and int(value) != value:
        raise SourcesError(f"`{name}` must be a whole number, got {value!r}.")


def _values(value: str | Mapping[str, str] | None) -> list[str]:
    """Return a text, or the values of a mapping, as a list."""
    if value is None:
        return []
    return [value] if isinstance(value, str) else [*value.values()]


# Set in the tasks of requests. A filter of a logger gets nothing but the record, so no parameter
# can say whose request it is about.
IN_REQUEST: ContextVar[bool] = ContextVar("IN_REQUEST", default=False)


def open_quietly(source: LiveSource, features: Sequence[str]) -> Client:
    """Open a source; what its `loggers` log about its requests is dropped from now on."""
    for logger in source.loggers:
        logging.getLogger(logger).addFilter(_is_foreign)  # added only once by `logging`
    before = IN_REQUEST.set(True)
    try:
        return source.open(features)
    finally:
        IN_REQUEST.reset(before)


def _is_foreign(_: logging.LogRecord) -> bool:
    return not IN_REQUEST.get()


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


def fields_of(
    named: Mapping[str, str] | None, features: Sequence[str], what: str = "fields", root: str = ""
) -> dict[str, str]:
    """Return the field of each feature, by default the one with the same name below the root."""
    for feature in named or ():
        if feature not in features:
            raise SourcesError(f"`{what}` names {feature!r}, which is not a feature of the source.")
    return {feature: (named or {}).get(feature, root + feature) for feature in features}
