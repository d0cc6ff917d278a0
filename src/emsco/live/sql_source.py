"""SQL sources, with one query for all keys and bound values."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from math import isfinite
from typing import Any

import numpy as np

from emsco.exceptions import InvalidKeyError, SourcesError, require
from emsco.live.fetch_result import (
    FetchedRow,
    FetchResult,
    Key,
    UnbilledError,
    Values,
    as_text,
    key_text,
)
from emsco.live.source import TABLE, TEXT, LiveSource, address_of, fields_of, secret
from emsco.live.template import unwritten

KEYS = "keys"
_BOUND = re.compile(r"(?<![:\w]):([A-Za-z_]\w*)")


@dataclass(frozen=True, kw_only=True)
class SQLSource(LiveSource):
    """A source in a database that SQLAlchemy supports.

    Parameters
    ----------
    query : str
        A query with `IN :keys`, such as "SELECT id, dns_record FROM dns WHERE id IN :keys". Other
        names after a colon are features, as in `region IN :region`. Rows are matched by these too,
        if the result has columns of the same names; if not, there is a separate query for each of
        their values.
    key_field : str
        The column of the result that repeats the key. It is compared byte for byte, even if the
        database ignores case or trailing spaces.
    url_env : str, default=None
        The environment variable that holds the URL, with an async driver:
        postgresql+asyncpg://, mysql+asyncmy://, sqlite+aiosqlite://.
    url : str, default=None
        The URL itself; only possible in Python, not in a file.
    fields : mapping of feature to column, default=None
        The columns whose names differ from the features.
    time_field : str, default=None
        The column that holds the time of the event.
    """

    query: str = field(metadata=TEXT)
    key_field: str = field(metadata=TEXT)
    url_env: str | None = field(default=None, metadata=TEXT)
    url: str | None = secret("url_env")
    fields: Mapping[str, str] | None = field(default=None, metadata=TABLE)

    loggers = ("asyncmy",)  # its warnings contain rows

    def __post_init__(self) -> None:
        super().__post_init__()
        if KEYS not in self._bound:
            raise SourcesError(f"`query` must contain `IN :{KEYS}`, got {self.query!r}.")

    @property
    def _bound(self) -> frozenset[str]:
        return frozenset(_BOUND.findall(self.query))

    @cached_property
    def needs(self) -> frozenset[str]:
        """The features that a request uses, besides the key."""
        return self._bound - {KEYS}

    def refused(self, keys: Sequence[Key], values: Values) -> dict[int, str]:
        """Return the reasons of rows that cannot be requested, by position."""
        return unwritten(keys, values)

    def open(self, features: Sequence[str]) -> SQLClient:
        """Return a client that fetches these features."""
        return SQLClient(self, features)


class SQLClient:
    """Connections to a database."""

    def __init__(self, source: SQLSource, features: Sequence[str]) -> None:
        sqlalchemy = require("sqlalchemy", "live")
        engines = require("sqlalchemy.ext.asyncio", "live")
        self._source = source
        self._ending: set[asyncio.Task[None]] = set()
        self._fields = fields_of(source.fields, features)
        self._needs = sorted(source.needs)
        self._echoed: list[str] | None = None  # needs that the result repeats, once known
        self._data_error = sqlalchemy.exc.DataError
        lists = [sqlalchemy.bindparam(name, expanding=True) for name in (KEYS, *source.needs)]
        self._query = sqlalchemy.text(source.query).bindparams(*lists)
        address = address_of(source.url, source.url_env)
        try:
            self._engine = engines.create_async_engine(
                address,
                poolclass=sqlalchemy.AsyncAdaptedQueuePool,  # for SQLite too
                pool_size=source.concurrency,
                max_overflow=0,
                hide_parameters=True,  # keys are personal data, also in error messages
                isolation_level="AUTOCOMMIT",  # one statement that reads needs no transaction
                pool_reset_on_return=None,  # so there is nothing to roll back
            )
            # SQLite runs in a thread, which cannot be interrupted: its query is awaited.
            self._is_in_thread = self._engine.dialect.name == "sqlite"
            # MariaDB converts a text column to numbers when it is compared with a number: every
            # word becomes 0. So values are sent as text, which also works for numeric columns.
            self._is_spelled = self._engine.dialect.name in ("mysql", "mariadb")
        except (sqlalchemy.exc.SQLAlchemyError, ValueError, ImportError):  # may show the URL
            raise SourcesError(
                "The database URL cannot be used; it must name an installed async driver, as in "
                "postgresql+asyncpg://user@host/database."
            ) from None

    async def fetch(self, keys: Sequence[Key], values: Values) -> FetchResult:
        """Fetch the values of these keys in one query."""
        try:
            found = await self._ask(keys, values) if len(keys) else []
        except (SourcesError, UnbilledError):
            raise
        except Exception as error:  # its message may contain keys
            if self._is_of_data(error):
                raise InvalidKeyError("The database cannot read a key.") from None
            raise ConnectionError(f"The query failed: {type(error).__name__}.") from None
        if self._needs:  # a row is identified by its key and these values
            used = zip(*(map(_spelled, values[name]) for name in self._needs), strict=True)
            keys = [(key_text(key), *row) for key, row in zip(keys, used, strict=True)]
        return self._source.match(keys, found, list(self._fields))

    def _is_of_data(self, error: Exception) -> bool:
        """Return whether a query failed because of its values, not because of the database."""
        state = str(getattr(getattr(error, "orig", None), "sqlstate", None) or "")
        wrong = (self._data_error, OverflowError, UnicodeError)
        return state.startswith("22") or isinstance(error, wrong)

    async def _ask(self, keys: Sequence[Key], values: Values) -> list[FetchedRow]:
        connection = await self._connect()
        asking = asyncio.ensure_future(self._ask_parts(connection, keys, values))
        try:
            found = await asyncio.shield(asking)
        except BaseException as error:
            # Cancelled or failed: a pending result must not reach the next caller.
            if isinstance(error, Exception) and self._is_of_data(error):  # nothing is pending
                self._keep(asyncio.ensure_future(connection.close()))
                raise
            if not self._is_in_thread:
                asking.cancel()
            self._keep(asyncio.ensure_future(_drop(connection, asking)))
            raise
        await asyncio.shield(self._keep(asyncio.ensure_future(connection.close())))
        return found

    async def _ask_parts(
        self, connection: Any, keys: Sequence[Key], values: Values
    ) -> list[FetchedRow]:
        """Make one query for all rows that share the values that the result does not repeat."""
        found: list[FetchedRow] = []
        places = range(len(keys))
        if self._echoed is None and self._needs:  # the first row shows what the result repeats
            found += await self._ask_part(connection, keys, values, places[:1], self._needs)
            places = places[1:]
        apart = [name for name in self._needs if name not in (self._echoed or ())]
        parts: dict[tuple[Any, ...], list[int]] = {} if apart or not places else {(): [*places]}
        for i in places if apart else ():
            parts.setdefault(tuple(values[name][i] for name in apart), []).append(i)
        for part in parts.values():
            found += await self._ask_part(connection, keys, values, part, apart)
        return found

    async def _ask_part(
        self,
        connection: Any,
        keys: Sequence[Key],
        values: Values,
        places: Sequence[int],
        apart: Sequence[str],
    ) -> list[FetchedRow]:
        """Query rows that share their values of some features."""
        bound = {name: list(dict.fromkeys(values[name][i] for i in places)) for name in self._needs}
        bound[KEYS] = [keys[i] for i in places]
        alike = {name: values[name][places[0]] for name in apart}
        found = await self._execute(connection, bound, alike)
        if len(places) == len(keys):
            return found
        # A database that ignores case, say, may return rows that another query of this call needs.
        own = set(map(key_text, bound[KEYS]))
        return [answer for answer in found if answer.key is not None and answer.key[0] in own]

    async def _execute(
        self, connection: Any, bound: dict[str, list[Any]], apart: Mapping[str, Any]
    ) -> list[FetchedRow]:
        if self._is_spelled:
            bound = {name: [*map(_spelled, column)] for name, column in bound.items()}
        result = await connection.execute(self._query, bound)
        if self._echoed is None:
            named = set(result.keys())
            self._echoed = [name for name in self._needs if name in named]
        return [self._answer(row, apart) for row in result.mappings()]

    async def _connect(self) -> Any:
        """Take a connection; close it again if its caller is gone by then."""
        opening = asyncio.ensure_future(self._open())
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            self._keep(asyncio.ensure_future(_close_opened(opening)))
            raise

    async def _open(self) -> Any:
        try:
            return await self._engine.connect()
        except Exception as error:  # its message may contain the URL
            raise UnbilledError(f"The query failed: {type(error).__name__}.") from None

    def _keep(self, task: asyncio.Task[None]) -> asyncio.Task[None]:
        """Keep a reference to a task until it is done, as the event loop has only weak ones."""
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)
        return task

    def _answer(self, row: Mapping[str, Any], apart: Mapping[str, Any]) -> FetchedRow:
        lacking = [name for name in self._fields.values() if name not in row]
        if self._source.key_field not in row or lacking:
            wanted = [self._source.key_field, *lacking]
            raise SourcesError(f"The query must return a column {wanted[-1]!r}.")
        record = {feature: _plain(row[column]) for feature, column in self._fields.items()}
        moment = row.get(self._source.time_field) if self._source.time_field else None
        key = row[self._source.key_field]
        if self._needs and key is not None:
            used = [row[n] if n in row else apart[n] for n in self._needs]
            key = (key_text(key), *map(_spelled, used))
        return FetchedRow(key, record, _plain(moment))

    async def close(self) -> None:
        """Close every connection."""
        await asyncio.gather(*self._ending, return_exceptions=True)
        await self._engine.dispose()


async def _drop(connection: Any, asking: asyncio.Task[Any]) -> None:
    """Discard a connection as soon as nothing runs on it."""
    await asyncio.gather(asking, return_exceptions=True)
    await connection.invalidate()
    await connection.close()


async def _close_opened(opening: asyncio.Task[Any]) -> None:
    with suppress(Exception):
        await (await opening).close()


def _spelled(value: Any) -> str:
    """Return a value as text; a whole number gets no fraction, whatever its type."""
    is_broken = isinstance(value, float | Decimal | np.floating) and isfinite(value)
    if is_broken and value == value // 1:
        value = int(value)
    return str(as_text(value))


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value
