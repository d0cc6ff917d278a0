"""HTTP sources that answer in JSON, with one request per row or one for all rows."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from emsco.core.decisions import ACCEPTED, INVALID_KEY, INVALID_VALUE, TIMEOUT
from emsco.exceptions import InvalidKeyError, SourcesError
from emsco.live.fetch_result import (
    FetchedRow,
    FetchResult,
    Key,
    UnbilledError,
    Values,
    is_unbilled,
    key_text,
)
from emsco.live.http_connections import MOST_BYTES, Connections, Response
from emsco.live.json_document import UNREADABLE, check_pointer, look_up, read_document, unpacked
from emsco.live.source import (
    APART,
    BOOLEAN,
    LIST,
    TABLE,
    TEXT,
    LiveSource,
    fields_of,
    from_environment,
    secret,
)
from emsco.live.template import Template

# `_REFUSED` are the statuses of a service that cannot read a key.
_OK, _NOT_FOUND, _REFUSED = range(200, 300), (404, 410), (400, 422)
_DOTS = {".", ".."}  # change the path of a URL
_encoded = partial(quote, safe="")

NO_ANSWER, LOST = "timeout", "lost"  # no answer in time; the connection was lost after sending
BILLED: tuple[int | str, ...] = ("2xx", 404, 410, 502, 504, NO_ANSWER, LOST)
_CLASSES = tuple(f"{first}xx" for first in range(1, 6))


@dataclass(frozen=True, kw_only=True)
class HTTPSource(LiveSource):
    """An HTTP source that answers in JSON.

    The host is fixed, values are encoded, and redirects are not followed, so that no value can send
    a request elsewhere.

    Parameters
    ----------
    url : str
        The URL, such as "https://whois.example/v1/{domain}". Names in braces stand for the key,
        known values or features of required sources.
    features : mapping of feature to JSON pointer, default=None
        The position of each feature in the answer. None: "/" and its name.
    batch : bool, default=False
        Whether one request is made for all keys: {"keys": [...], "values": {feature: [...]}} is
        posted, and an array of answers is expected.
    rows : str, default=""
        The JSON pointer of that array.
    key_field : str, default=None
        The JSON pointer of the field that repeats the key; required with `batch`.
    time_field, price_field : str, default=None
        The JSON pointers of the time of the event and of the price of the row.
    headers_env : mapping of header to environment variable, default=None
        Headers whose values are secrets, read from environment variables.
    idempotency_header : str, default=None
        The header that makes the service charge a repeated request only once.
    compressed : bool, default=False
        Whether to request answers compressed with gzip.
    billed : sequence of int or str, default=None
        The outcomes that the service may charge for, if it is paid: statuses (404), status classes
        ("2xx"), "timeout" if no answer came in time, "lost" if the connection was lost after
        sending. None: "2xx", 404, 410, 502, 504, "timeout" and "lost". A refused connection never
        costs anything.
    headers : mapping of header to value, default=None
        Further headers; only possible in Python, not in a file.
    """

    url: str = field(metadata=TEXT)
    features: Mapping[str, str] | None = field(default=None, metadata=TABLE)
    batch: bool = field(default=False, metadata=BOOLEAN)
    rows: str = field(default="", metadata=TEXT)
    key_field: str | None = field(default=None, metadata=TEXT)
    price_field: str | None = field(default=None, metadata=TEXT)
    headers_env: Mapping[str, str] | None = field(default=None, metadata=TABLE)
    idempotency_header: str | None = field(default=None, metadata=TEXT)
    compressed: bool = field(default=False, metadata=BOOLEAN)
    billed: Sequence[int | str] | None = field(default=None, metadata=LIST)
    headers: Mapping[str, str] | None = secret("headers_env")

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            host = urlsplit(self.url)
            _ = host.port
        except ValueError as error:
            raise SourcesError(f"`url` is not a valid URL: {error}.") from None
        if host.scheme not in ("http", "https") or not host.hostname:
            raise SourcesError("`url` must start with https:// or http:// and have a host.")
        if "{" in host.netloc:
            raise SourcesError("`url` must have a fixed host, without names in braces.")
        if host.username or host.password:
            raise SourcesError("`url` must not contain a user or password: use `headers_env`.")
        if self.batch and self.template.names:
            raise SourcesError(
                "`url` must not have names in braces with `batch`: one request is for all keys."
            )
        if self.batch and self.key_field is None:
            raise SourcesError("`batch` needs `key_field`, by which answers are matched.")
        if not self.batch and not self.template.names:
            raise SourcesError("`url` must contain {key}, or another name that identifies rows.")
        pointers = {"rows": self.rows, "key_field": self.key_field, "time_field": self.time_field,
                    "price_field": self.price_field, **(self.features or {})}  # fmt: skip
        for name, pointer in pointers.items():
            if pointer is not None:
                check_pointer(pointer, name)
        if self.billed is not None and not self.paid:
            raise SourcesError("`billed` needs `paid = true`: other sources charge nothing.")
        if isinstance(self.billed, list):
            object.__setattr__(self, "billed", tuple(self.billed))  # lists from files compare equal
        _ = self.billing

    @cached_property
    def template(self) -> Template:
        """The URL, with names to fill in."""
        return Template.parse(self.url, "url")

    @cached_property
    def billing(self) -> Billing:
        """The outcomes that the service may charge for."""
        return Billing.of(BILLED if self.billed is None else self.billed)

    @property
    def bills_timeouts(self) -> bool:
        """Whether a request that timed out may be charged."""
        return self.billing.timeout

    @cached_property
    def _segments(self) -> list[tuple[tuple[str, ...], list[str]]]:
        """The path segments that contain names: the names, and the texts around them."""
        names = iter(self.template.names)
        path = re.split("[?#]", "\0".join(self.template.parts).partition("://")[2])[0]
        found = []
        for segment in path.split("/"):
            texts = segment.split("\0")
            held = tuple(next(names) for _ in texts[1:])
            if held:
                found.append((held, texts))
        return found

    def refused(self, keys: Sequence[Key], values: Values) -> dict[int, str]:
        """Return the reasons of rows that cannot be requested, by position."""
        if self.batch:
            return {}
        found = self.template.unfilled(keys, values, _encoded)
        for held, texts in self._segments:
            columns = [keys if name == "key" else values[name] for name in held]
            for i, row in enumerate(zip(*columns, strict=True)):
                written = [key_text(value) for value in row]
                if i not in found and ("" in written or _leads_elsewhere(texts, written)):
                    found[i] = INVALID_KEY
        return found

    @property
    def is_idempotent(self) -> bool:
        """Whether a repeated request is charged only once."""
        return self.idempotency_header is not None

    @cached_property
    def needs(self) -> frozenset[str]:
        """The features that a request uses, besides the key."""
        return frozenset(self.template.names) - {"key"}

    @property
    def rows_per_call(self) -> int | None:
        """The maximum number of rows in a request. None: no limit."""
        return super().rows_per_call if self.batch else 1

    def open(self, features: Sequence[str]) -> HTTPClient:
        """Return a client that fetches these features."""
        return HTTPClient(self, features)


@dataclass(frozen=True)
class Billing:
    """The outcomes of an HTTP request that the vendor may charge for."""

    statuses: frozenset[int]
    timeout: bool
    lost: bool

    @classmethod
    def of(cls, billed: Sequence[Any]) -> Billing:
        """Read statuses (404), classes of them ("2xx"), "timeout" and "lost"."""
        statuses: set[int] = set()
        for one in () if isinstance(billed, str) else billed:
            if one in _CLASSES:
                first = 100 * int(one[0])
                statuses.update(range(first, first + 100))
            elif type(one) is int and 100 <= one < 600:
                statuses.add(one)
            elif one not in (NO_ANSWER, LOST):
                raise SourcesError(
                    "`billed` must list statuses such as 404, status classes such as '2xx', "
                    f"{NO_ANSWER!r} or {LOST!r}, got {one!r}."
                )
        if 200 not in statuses:
            raise SourcesError(
                "`billed` must be a list that contains 200 or '2xx': a paid source is paid for "
                "its answers."
            )
        return cls(frozenset(statuses), NO_ANSWER in billed, LOST in billed)


class HTTPClient:
    """Connections to an HTTP service."""

    def __init__(self, source: HTTPSource, features: Sequence[str]) -> None:
        self._source, self._template = source, source.template
        self._names = tuple(features)
        self._pointers = fields_of(source.features, features, "features", "/")
        headers = dict(source.headers or {})
        for header, variable in (source.headers_env or {}).items():
            headers[header] = from_environment(variable)
        if source.compressed:
            headers["Accept-Encoding"] = "gzip"
        # The answer to a paid request is still read after its caller is gone.
        longest = source.timeout + (APART if source.paid else 0.0)
        self._connections = Connections(headers, longest)

    async def fetch(
        self, keys: Sequence[Key], values: Values, token: str | None = None
    ) -> FetchResult:
        """Fetch the values of these keys; `token` is the same if a request is repeated."""
        header = self._source.idempotency_header
        sent = {header: token} if header is not None and token is not None else {}
        if self._source.batch:
            return await self._fetch_batch(keys, values, sent)
        return await self._fetch_each(keys, values, sent)

    async def _fetch_each(
        self, keys: Sequence[Key], values: Values, headers: Mapping[str, str]
    ) -> FetchResult:
        rows = [{name: values[name][i] for name in self._source.needs} for i in range(len(keys))]
        requests = [self._fetch_one(key, row, headers) for key, row in zip(keys, rows, strict=True)]
        found = await asyncio.gather(*requests)
        answers = [answer for answer, _, _ in found if answer is not None]
        fetched = self._matched(keys, answers)
        for i, (_, reason, _) in enumerate(found):
            if reason:
                fetched.reasons[i] = reason
        if all(is_billed for _, _, is_billed in found):
            return fetched
        prices = fetched.prices or [None] * len(keys)
        charged = [price if one[2] else 0.0 for price, one in zip(prices, found, strict=True)]
        return fetched._replace(prices=charged)

    def _matched(self, keys: Sequence[Key], answers: list[FetchedRow]) -> FetchResult:
        is_verified = self._source.key_field is not None
        return self._source.match(keys, answers, self._names, verified=is_verified)

    async def _fetch_one(
        self, key: Key, row: Mapping[str, Any], headers: Mapping[str, str]
    ) -> tuple[FetchedRow | None, str, bool]:
        """Fetch one row; return it, the reason if there is none, and whether it may be billed."""
        url = self._template.fill({"key": key_text(key), **row}, _encoded)
        try:
            response = await self._request("GET", url, headers=headers)
        except TimeoutError as error:
            return None, TIMEOUT, not is_unbilled(error)
        except ConnectionError as error:
            return FetchedRow(key, None), ACCEPTED, not is_unbilled(error)
        is_billed = response.status in self._source.billing.statuses
        if response.status in _NOT_FOUND:
            return None, ACCEPTED, is_billed
        if response.status in _REFUSED:
            return None, INVALID_KEY, is_billed
        return self._answer(key, _document(response)), ACCEPTED, is_billed

    async def _request(self, method: str, url: str, **options: Any) -> Response:
        """Make a request; an error shows whether the request may be billed."""
        billing = self._source.billing
        try:
            return await self._connections.request(method, url, **options)
        except TimeoutError as error:
            if billing.timeout or is_unbilled(error):
                raise
            raise TimeoutError(str(error)) from UnbilledError("The request is not billed.")
        except ConnectionError as error:
            if billing.lost or is_unbilled(error):
                raise
            raise UnbilledError(str(error)) from None

    async def _fetch_batch(
        self, keys: Sequence[Key], values: Values, headers: Mapping[str, str]
    ) -> FetchResult:
        body = {
            "keys": [key_text(key) for key in keys],
            "values": {n: [*v] for n, v in values.items()},
        }
        url = self._source.url
        response = await self._request("POST", url, json=body, headers=headers)
        is_billed = response.status in self._source.billing.statuses
        if response.status in _REFUSED and not is_billed:
            raise InvalidKeyError(f"The service answered with status {response.status}.")
        rows = look_up(_document(response), self._source.rows)
        if response.status not in _OK or not isinstance(rows, list):
            failed = ConnectionError if is_billed else UnbilledError
            raise failed(f"The service answered with status {response.status}.")
        return self._matched(keys, [self._answer(None, row) for row in rows])

    def _answer(self, key: Key, document: Any) -> FetchedRow:
        source = self._source
        if document is UNREADABLE:
            return FetchedRow(key, None, reason=INVALID_VALUE)
        if not isinstance(document, dict):
            return FetchedRow(key, None)
        if source.key_field is not None:
            key = look_up(document, source.key_field)
        moment = look_up(document, source.time_field) if source.time_field else None
        price = look_up(document, source.price_field) if source.price_field else None
        record = {feature: look_up(document, at) for feature, at in self._pointers.items()}
        return FetchedRow(key, record, moment, price)

    async def close(self) -> None:
        """Close every connection."""
        await self._connections.close()


def _document(response: Response) -> Any:
    """Parse the JSON of an answer; None if it is not valid JSON or its status is an error."""
    if response.status not in _OK:
        return None
    body = unpacked(response.body, response.encoding, MOST_BYTES)
    return UNREADABLE if body is None else read_document(body)


def _leads_elsewhere(texts: Sequence[str], written: Sequence[str]) -> bool:
    """Return whether a path segment contains "." or ".." as a step, even if encoded twice."""
    whole = texts[0] + "".join(map(str.__add__, written, texts[1:]))
    while "%" in whole and (decoded := unquote(whole)) != whole:
        whole = decoded
    return "." in whole and not _DOTS.isdisjoint(re.split(r"[/\\]", whole))
