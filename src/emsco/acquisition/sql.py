"""Sources in a database, with one query for all keys and bound values."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any

from emsco.acquisition.fetched import Answered, Fetched, Key, Values, match
from emsco.acquisition.quiet import quieten, quietly
from emsco.acquisition.source import LiveSource, address_of, fields_of
from emsco.exceptions import SourcesError, require

KEYS = "keys"
_BOUND = re.compile(r"(?<![:\w]):([A-Za-z_]\w*)")


@dataclass(frozen=True, kw_only=True)
class SQLSource(LiveSource):
    """A source in a database that SQLAlchemy supports.

    Parameters
    ----------
    query : str
        A query with `IN :keys`, such as "SELECT id, dns_record FROM dns WHERE id IN :keys". Other
        names after a colon are features; the list of all their values is passed for them.
    key_field : str
        The column of the result that repeats the key. It is compared byte for byte, even if the
        database ignores case or trailing spaces.
    url_env : str, default=None
        The environment variable that holds the address, with an async driver:
        postgresql+asyncpg://, mysql+asyncmy://, sqlite+aiosqlite://.
    url : str, default=None
        The address itself; only possible in Python, not in a file.
    fields : mapping of feature to column, default=None
        The columns whose names differ from the features.
    time_field : str, default=None
        The column that holds the time of the event.
    """

    query: str
    key_field: str
    url_env: str | None = None
    url: str | None = field(default=None, repr=False)
    fields: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if KEYS not in self._bound:
            raise SourcesError(f"`query` must ask for `IN :{KEYS}`, got {self.query!r}.")

    @property
    def _bound(self) -> frozenset[str]:
        return frozenset(_BOUND.findall(self.query))

    @cached_property
    def needs(self) -> frozenset[str]:
        """The features that a request uses, besides the key."""
        return self._bound - {KEYS}

    def open(self, features: Sequence[str]) -> SQLClient:
        """Return a client that fetches these features."""
        return SQLClient(self, features)


class SQLClient:
    """Connections to a database."""

    def __init__(self, source: SQLSource, features: Sequence[str]) -> None:
        sqlalchemy = require("sqlalchemy", "live")
        engines = require("sqlalchemy.ext.asyncio", "live")
        quieten("asyncmy")  # its warnings show rows
        self._source = source
        self._ending: set[asyncio.Task[None]] = set()
        self._fields = fields_of(source.fields, features)
        lists = [sqlalchemy.bindparam(name, expanding=True) for name in (KEYS, *source.needs)]
        self._query = sqlalchemy.text(source.query).bindparams(*lists)
        address = address_of(source.url, source.url_env)
        try:
            self._engine = engines.create_async_engine(
                address,
                poolclass=sqlalchemy.AsyncAdaptedQueuePool,  # for SQLite too
                pool_size=source.concurrency,
                max_overflow=0,
                hide_parameters=True,  # keys are personal data, also in the text of an error
                isolation_level="AUTOCOMMIT",  # one statement that reads needs no transaction
                pool_reset_on_return=None,  # so there is nothing to roll back
            )
            # SQLite runs in a thread, which nothing interrupts: its query is waited for.
            self._is_in_thread = self._engine.dialect.name == "sqlite"
        except (sqlalchemy.exc.SQLAlchemyError, ValueError, ImportError):  # may show the address
            raise SourcesError(
                "The address of a database cannot be used; it must name an async driver that is "
                "installed, as in postgresql+asyncpg://user@host/database."
            ) from None

    async def fetch(self, keys: Sequence[Key], values: Values) -> Fetched:
        """Fetch the values of these keys in one query."""
        try:
            with quietly():
                found = await self._ask(keys, values) if len(keys) else []
        except SourcesError:
            raise
        except Exception as error:  # whose text may show keys
            raise ConnectionError(f"The query failed: {type(error).__name__}.") from None
        features, timed = list(self._fields), self._source.is_timed
        return match(keys, found, features, self._source.freshness, timed=timed)

    async def _ask(self, keys: Sequence[Key], values: Values) -> list[Answered]:
        bound = {KEYS: list(keys)} | {n: list(dict.fromkeys(values[n])) for n in self._source.needs}
        connection = await self._connect()
        asking = asyncio.ensure_future(self._execute(connection, bound))
        try:
            found = await asyncio.shield(asking)
        except BaseException:
            # Cancelled or failed: what is still on its way must not reach the next caller.
            if not self._is_in_thread:
                asking.cancel()
            self._keep(asyncio.ensure_future(_drop(connection, asking)))
            raise
        await asyncio.shield(self._keep(asyncio.ensure_future(connection.close())))
        return found

    async def _execute(self, connection: Any, bound: dict[str, list[Any]]) -> list[Answered]:
        result = await connection.execute(self._query, bound)
        return [self._answer(row) for row in result.mappings()]

    async def _connect(self) -> Any:
        """Take a connection; one that is opened for a caller who has left is closed again."""
        opening = asyncio.ensure_future(self._open())
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            self._keep(asyncio.ensure_future(_close_opened(opening)))
            raise

    async def _open(self) -> Any:
        return await self._engine.connect()

    def _keep(self, task: asyncio.Task[None]) -> asyncio.Task[None]:
        """Hold a task until it is done: the loop itself holds none."""
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        return task

    def _answer(self, row: Mapping[str, Any]) -> Answered:
        lacking = [name for name in self._fields.values() if name not in row]
        if self._source.key_field not in row or lacking:
            wanted = [self._source.key_field, *lacking]
            raise SourcesError(f"The query gives no column {wanted[-1]!r}.")
        record = {feature: _plain(row[column]) for feature, column in self._fields.items()}
        moment = row.get(self._source.time_field) if self._source.time_field else None
        return Answered(row[self._source.key_field], record, _plain(moment))

    async def close(self) -> None:
        """Close every connection."""
        await asyncio.gather(*self._ending, return_exceptions=True)
        await self._engine.dispose()


async def _drop(connection: Any, asking: asyncio.Task[Any]) -> None:
    """Close a connection for good, as soon as nothing runs on it."""
    await asyncio.gather(asking, return_exceptions=True)
    await connection.invalidate()
    await connection.close()


async def _close_opened(opening: asyncio.Task[Any]) -> None:
    with suppress(Exception):
        await (await opening).close()


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value
