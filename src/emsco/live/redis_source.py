"""Redis sources, as hashes or JSON text, with one pipeline for all keys."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from emsco.core.decisions import ACCEPTED, ERROR, INVALID_VALUE
from emsco.exceptions import SourcesError, require
from emsco.live.fetch_result import (
    FetchedRow,
    FetchResult,
    Key,
    UnbilledError,
    Values,
    as_text,
    key_text,
    to_moment,
)
from emsco.live.json_document import read_document
from emsco.live.source import TABLE, TEXT, LiveSource, address_of, fields_of, secret
from emsco.live.template import Template

HASH, JSON = "hash", "json"


@dataclass(frozen=True, kw_only=True)
class RedisSource(LiveSource):
    """A source in Redis, with a hash or JSON text per key.

    Redis replies by position. `key_field` names the field that repeats the key, by which a reply is
    verified; without it, receipts show `verified=False`.

    Parameters
    ----------
    key : str
        The Redis key, such as "page:{key}"; names in braces may also be features.
    url_env : str, default=None
        The environment variable that holds the URL, such as redis://host:6379/0.
    url : str, default=None
        The URL itself; only possible in Python, not in a file.
    format : {"hash", "json"}, default="hash"
        What is stored under a key.
    fields : mapping of feature to field, default=None
        The fields whose names differ from the features.
    key_field : str, default=None
        The field that repeats the key.
    time_field : str, default=None
        The field that holds the time of the event: seconds since 1970, or a date.
    """

    key: str = field(metadata=TEXT)
    url_env: str | None = field(default=None, metadata=TEXT)
    url: str | None = secret("url_env")
    format: str = field(default=HASH, metadata=TEXT)
    fields: Mapping[str, str] | None = field(default=None, metadata=TABLE)
    key_field: str | None = field(default=None, metadata=TEXT)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.format not in (HASH, JSON):
            raise SourcesError(f"`format` must be {HASH!r} or {JSON!r}, got {self.format!r}.")
        if "key" not in self.template.names:
            raise SourcesError(f"`key` must contain {{key}}, got {self.key!r}.")

    @cached_property
    def template(self) -> Template:
        """The Redis key, with names to fill in."""
        return Template.parse(self.key, "key")

    @cached_property
    def needs(self) -> frozenset[str]:
        """The features that a request uses, besides the key."""
        return frozenset(self.template.names) - {"key"}

    @property
    def is_spelled(self) -> bool:
        """Whether every value comes as text, as in hashes."""
        return self.format == HASH

    def refused(self, keys: Sequence[Key], values: Values) -> dict[int, str]:
        """Return the reasons of rows that cannot be requested, by position."""
        return self.template.unfilled(keys, values, str)

    def open(self, features: Sequence[str]) -> RedisClient:
        """Return a client that fetches these features."""
        return RedisClient(self, features)


class RedisClient:
    """Connections to Redis, each used by one request at a time.

    A redis-py pipeline starts two tasks per request and creates an object per command, which takes
    longer than Redis itself. So commands are sent over its connections directly.
    """

    def __init__(self, source: RedisSource, features: Sequence[str]) -> None:
        redis = require("redis.asyncio", "live")
        self._source = source
        self._template = source.template
        self._fields = fields_of(source.fields, features)
        extra = [source.key_field, source.time_field]
        self._wanted = list(dict.fromkeys([*self._fields.values(), *filter(None, extra)]))
        self._refusal = redis.ResponseError
        address = address_of(source.url, source.url_env)
        try:
            # No retries and no timeout of requests here: the caller handles both.
            self._pool = redis.ConnectionPool.from_url(
                address,
                retry=no_retry(),
                socket_connect_timeout=source.timeout,
                socket_timeout=None,
            )
        except ValueError:  # its message may contain the URL
            raise SourcesError(
                "The Redis URL cannot be used; it must look like redis://host:6379/0."
            ) from None
        self._free: list[Any] = []

    async def fetch(self, keys: Sequence[Key], values: Values) -> FetchResult:
        """Fetch the values of these keys in one round trip."""
        texts = [key_text(key) for key in keys]
        places = self._places(texts, values)
        if self._source.format == HASH:
            replies = await self._ask([("HMGET", place, *self._wanted) for place in places])
        else:
            replies = await self._ask([("GET", place) for place in places])
        whole = self._read_whole(texts, replies)
        if whole is not None:
            return whole
        answers = map(self._read, keys, replies)
        found = [answer for answer in answers if answer is not None]
        verified = self._source.key_field is not None
        return self._source.match(keys, found, list(self._fields), verified=verified)

    async def _ask(self, commands: Sequence[tuple[str, ...]]) -> list[Any]:
        """Send commands at once; return the reply to each, or the error of Redis."""
        connection = self._free.pop() if self._free else self._pool.make_connection()
        replies: list[Any] = []
        try:
            await self._connect(connection)
            await connection.send_packed_command(connection.pack_commands(commands))
            for _ in commands:
                try:
                    replies.append(await connection.read_response())
                except self._refusal as refused:
                    replies.append(refused)
        except BaseException:
            # Pending replies must not reach the next request.
            await connection.disconnect(nowait=True)
            raise
        self._free.append(connection)
        return replies

    async def _connect(self, connection: Any) -> None:
        """Connect if it is closed or has unread data; if that fails, nothing was sent."""
        try:
            await self._pool.ensure_connection(connection)
        except Exception as error:
            raise UnbilledError("There is no connection to Redis.") from error

    def _places(self, texts: list[str], values: Values) -> list[str]:
        """Return the Redis key of each row."""
        names, parts = self._template.names, self._template.parts
        if names == ("key",):
            return [parts[0] + text + parts[1] for text in texts]
        return [
            self._template.fill({n: text if n == "key" else values[n][i] for n in names}, str)
            for i, text in enumerate(texts)
        ]

    def _read_whole(self, texts: list[str], replies: list[Any]) -> FetchResult | None:
        """Read hashes by column; None if some row is missing, stale or for another key.

        This is a fast path for the usual case: reading row by row takes as long as fetching.
        """
        if self._source.format != HASH or set(map(type, replies)) != {list}:
            return None
        fields = dict(zip(self._wanted, zip(*replies, strict=True), strict=True))
        key_field, time_field = self._source.key_field, self._source.time_field
        if key_field is None:
            if any(None in column for column in fields.values()):
                return None
        elif [*map(as_text, fields[key_field])] != texts:
            return None
        ages = None
        if time_field is not None:
            now, moments = time.time(), map(to_moment, fields[time_field])
            ages = [None if moment is None else now - moment for moment in moments]
            if any(map(self._source.is_stale, ages)):
                return None
        columns = {feature: [*fields[field_]] for feature, field_ in self._fields.items()}
        reasons = [ACCEPTED] * len(texts)
        return FetchResult(columns, reasons, ages, verified=key_field is not None)

    def _read(self, key: Key, reply: Any) -> FetchedRow | None:
        """Read one reply; None if nothing is stored under its key, or the row of another one."""
        if isinstance(reply, Exception):
            is_other = str(reply).startswith("WRONGTYPE")  # the key holds another type
            return FetchedRow(key, None, reason=INVALID_VALUE if is_other else ERROR)
        if reply is None or (isinstance(reply, list) and all(value is None for value in reply)):
            return None
        is_hash = self._source.format == HASH
        stored = dict(zip(self._wanted, reply, strict=True)) if is_hash else read_document(reply)
        if not isinstance(stored, dict):
            return FetchedRow(key, None, reason=INVALID_VALUE)
        field_, moment = self._source.key_field, self._source.time_field
        echoed = key if field_ is None else stored.get(field_)
        if echoed is None or isinstance(echoed, list | dict) or key_text(echoed) != key_text(key):
            return None
        record = {feature: stored.get(f) for feature, f in self._fields.items()}
        return FetchedRow(echoed, record, stored.get(moment or ""))

    async def close(self) -> None:
        """Close every connection."""
        while self._free:
            await self._free.pop().disconnect()


def no_retry() -> Any:
    """Return the retry policy of redis-py that never retries."""
    no_backoff = require("redis.backoff", "live").NoBackoff()
    return require("redis.asyncio.retry", "live").Retry(no_backoff, 0)
