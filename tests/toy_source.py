"""A store of documents by id, in memory, as a kind of source of one's own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from emsco.exceptions import SourcesError
from emsco.live.fetch_result import FetchedRow, FetchResult, Key, Values
from emsco.live.source import (
    BOOLEAN,
    TABLE,
    TEXT,
    LiveSource,
    address_of,
    fields_of,
    number,
    secret,
)

SERVERS: dict[str, dict[str, list[dict]]] = {}  # by URL: the documents of each collection
LOGGER = "toystore"


class ToyStore:
    """What a driver of such a store offers; as drivers do, it logs more than it should."""

    def __init__(self, url: str) -> None:
        logging.getLogger(LOGGER).warning("connecting to %s", url)
        if url not in SERVERS:
            raise ConnectionError(f"nobody answers at {url}")
        self._url, self._collections = url, SERVERS[url]

    async def find(self, collection: str, ids: Sequence[str]) -> list[dict]:
        logging.getLogger(LOGGER).warning("find %s in %s", ids, self._url)
        await asyncio.sleep(0)
        return [one for one in self._collections[collection][::-1] if one["_id"] in ids]


@dataclass(frozen=True, kw_only=True)
class ToySource(LiveSource):
    """A source in a store of documents.

    Parameters
    ----------
    collection : str
        Where the documents are.
    url_env : str, default=None
        The environment variable that holds the URL.
    url : str, default=None
        The URL itself; only possible in Python, not in a file.
    fields : mapping of feature to field, default=None
        The fields whose names differ from the features.
    most : int, default=100
        The maximum number of documents per request.
    strict : bool, default=False
        Whether a document must have every field.
    """

    collection: str = field(metadata=TEXT)
    url_env: str | None = field(default=None, metadata=TEXT)
    url: str | None = secret("url_env")
    fields: Mapping[str, str] | None = field(default=None, metadata=TABLE)
    most: int = field(default=100, metadata=number(least=1, whole=True))
    strict: bool = field(default=False, metadata=BOOLEAN)

    loggers = (LOGGER,)

    @property
    def needs(self) -> frozenset[str]:
        return frozenset()

    @property
    def rows_per_call(self) -> int:
        return self.most

    def open(self, features: Sequence[str]) -> ToyClient:
        return ToyClient(self, features)


class ToyClient:
    """Fetches documents by their ids."""

    def __init__(self, source: ToySource, features: Sequence[str]) -> None:
        self._source, self._fields = source, fields_of(source.fields, features)
        try:
            self._store = ToyStore(address_of(source.url, source.url_env))
        except ConnectionError as error:
            raise SourcesError(str(error)) from None

    async def fetch(self, keys: Sequence[Key], values: Values) -> FetchResult:
        del values
        found = await self._store.find(self._source.collection, [str(key) for key in keys])
        wanted = self._fields.values()
        rows = [
            FetchedRow(one["_id"], {name: one.get(field) for name, field in self._fields.items()})
            for one in found
            if not self._source.strict or all(name in one for name in wanted)
        ]
        return self._source.match(keys, rows, list(self._fields))

    async def close(self) -> None:
        pass
