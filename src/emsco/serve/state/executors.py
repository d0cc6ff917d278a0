"""Executors of work on a store: in groups, in a thread, or with a pool of async connections.

Work on a database is a function of a connection. SQLite runs concurrent work in one transaction,
with one disk sync for all of it. PostgreSQL runs each piece of work separately, as one statement
and thus in one round trip.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from emsco.exceptions import StateError, require
from emsco.serve.state.base import unusable

if TYPE_CHECKING:
    import sqlalchemy as sa
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

    Work: TypeAlias = Callable[[sa.Connection], Any]

W = TypeVar("W")
Left = Callable[[Any], None]

_MOST = 200  # operations per batch, so that the first does not wait for long
_CONNECTIONS = 16  # to PostgreSQL, per process
_OLDEST_SQLITE = (3, 35)  # the first version with RETURNING
_PAUSE = 0.05  # seconds between attempts to open a file that another process is creating
# Two processes that create the same tables or accounts at once would fail; this lock prevents it.
_MAKING = 0x656D73636F
# Overrides the default of the server, the role or the URL: statements lock the rows they change,
# and a stricter isolation level would abort those that had to wait.
_ISOLATION = "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED"


class GroupCommit(Generic[W]):
    """Collects operations while a batch is running, and runs them all in the next batch.

    A single operation does not wait for others. An operation is run even if its caller is
    cancelled.
    """

    def __init__(self, do: Callable[[Sequence[W]], Awaitable[Sequence[Any]]]) -> None:
        self._do = do
        self._waiting: list[tuple[W, asyncio.Future[Any], Left | None]] = []
        self._working: asyncio.Task[None] | None = None

    async def run(self, work: W, left: Left | None = None) -> Any:
        """Run an operation and return its result; `left` receives it if the caller is cancelled."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((work, future, left))
        if self._working is None:
            self._working = asyncio.ensure_future(self._work())
        try:
            return await future
        except asyncio.CancelledError:
            if future.done():  # just before the cancellation
                _leave(future, left)
            raise

    async def _work(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:_MOST], self._waiting[_MOST:]
                outcomes: Sequence[Any]
                try:
                    outcomes = await self._do([work for work, _, _ in batch])
                except Exception as error:
                    outcomes = [error] * len(batch)
                for (_, future, left), outcome in zip(batch, outcomes, strict=True):
                    failed = isinstance(outcome, Exception)
                    if future.done():  # the caller was cancelled
                        if left is not None and not failed:
                            left(outcome)
                    elif failed:
                        future.set_exception(outcome)
                    else:
                        future.set_result(outcome)
        finally:
            self._working = None

    async def finish(self) -> None:
        """Wait until all operations are done."""
        while self._working is not None:
            await asyncio.wait([self._working])


class ThreadExecutor(GroupCommit["Work"]):
    """Runs work on an SQLite file, in a thread."""

    is_postgres = False

    def __init__(self, path: Path, timeout: float, *, writes: bool = True) -> None:
        super().__init__(self._batch)
        self._path, self._timeout, self._writes = path, timeout, writes
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="emsco-state")
        self._connection: sa.Connection | None = None

    async def make(self, work: Work) -> None:
        """Run work in a separate transaction, one at a time."""
        await self.run(work)

    async def transact(self, work: Work) -> Any:
        """Run work in one transaction, and return its result."""
        return await self.run(work)

    async def _batch(self, works: Sequence[Work]) -> list[Any]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._transact, works)

    def _transact(self, works: Sequence[Work]) -> list[Any]:
        has_begun = False
        try:
            with _named(str(self._path)):
                if self._connection is None:
                    self._connection = self._connect()
                with self._connection.begin():
                    has_begun = True
                    return [work(self._connection) for work in works]
        except Exception as error:
            if len(works) == 1 or not has_begun:
                return [error] * len(works)
        # One of them failed and everything was rolled back: run each separately.
        return [outcome for work in works for outcome in self._transact([work])]

    def _connect(self) -> sa.Connection:
        sqlalchemy, driver = require("sqlalchemy", "live"), require("sqlite3")
        if driver.sqlite_version_info < _OLDEST_SQLITE:
            raise StateError(
                f"A state needs SQLite 3.35 or later, but this Python has {driver.sqlite_version}."
            )
        if self._writes:
            _keep_private(self._path)
        engine = sqlalchemy.create_engine(
            sqlalchemy.URL.create("sqlite", database=str(self._path)),
            connect_args={"timeout": self._timeout},
            poolclass=sqlalchemy.NullPool,
            hide_parameters=True,
        )
        sqlalchemy.event.listen(engine, "connect", self._prepare)
        sqlalchemy.event.listen(engine, "begin", self._begin)
        connection: sa.Connection = engine.connect()
        return connection

    def _prepare(self, connection: Any, _: Any) -> None:
        connection.isolation_level = None  # otherwise the driver begins transactions itself
        if not self._writes:
            return
        until = time.monotonic() + self._timeout
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                break
            except require("sqlite3").OperationalError:
                # Another process is doing the same, and SQLite does not wait for it.
                if time.monotonic() > until:
                    raise
                time.sleep(_PAUSE)
        connection.execute("PRAGMA synchronous = FULL")  # transactions are on disk when committed

    def _begin(self, connection: sa.Connection) -> None:
        # A transaction that reads before it writes would fail if another one wrote in between.
        connection.exec_driver_sql("BEGIN IMMEDIATE" if self._writes else "BEGIN")

    async def close(self) -> None:
        """Disconnect."""
        if self._connection is not None:
            closing, self._connection = self._connection, None
            await asyncio.get_running_loop().run_in_executor(self._thread, closing.close)
        self._thread.shutdown()


def _keep_private(path: Path) -> None:
    """Restrict a file, created if needed, and SQLite's files next to it to their owner."""
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    for beside in ("", "-wal", "-shm"):  # SQLite creates them with the permissions of the file
        with suppress(OSError):  # it does not exist, or belongs to another user
            os.chmod(f"{path}{beside}", 0o600)


class PoolExecutor:
    """Runs work on PostgreSQL, with several connections.

    Connections are kept here and not returned to a pool of SQLAlchemy each time, which would take
    longer than a statement.
    """

    is_postgres = True

    def __init__(self, address: str, safe_address: str, timeout: float) -> None:
        engines = require("sqlalchemy.ext.asyncio", "live")
        sqlalchemy = require("sqlalchemy", "live")
        self._engine: AsyncEngine = engines.create_async_engine(
            "postgresql+asyncpg://",
            async_creator=self._dial,
            poolclass=sqlalchemy.NullPool,
            isolation_level="AUTOCOMMIT",
            hide_parameters=True,
        )
        self._address, self._safe_address, self._timeout = address, safe_address, timeout
        self._idle: list[AsyncConnection] = []
        self._slots = asyncio.Semaphore(_CONNECTIONS)
        self._running: set[asyncio.Task[Any]] = set()

    async def _dial(self) -> Any:
        """Connect with the driver itself, which understands all options of a URL."""
        asyncpg = require("asyncpg", "live")
        try:
            connection = await asyncpg.connect(self._address, timeout=self._timeout)
            await connection.execute(_ISOLATION, timeout=self._timeout)
            return connection
        except ValueError:  # its text may contain the URL
            raise StateError(
                "The URL of PostgreSQL is not valid; it must look like "
                "postgresql://user@host:5432/database."
            ) from None
        except (asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            raise unusable(self._safe_address, error) from error

    async def run(self, work: Work, left: Left | None = None) -> Any:
        """Run work, even if the caller is cancelled; `left` then receives the result."""
        task = asyncio.ensure_future(self._run(work))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(lambda done: _leave(done, left))
            raise

    async def _run(self, work: Work) -> Any:
        with _named(self._safe_address):
            async with asyncio.timeout(self._timeout), self._slots:
                connection = self._idle.pop() if self._idle else await self._engine.connect()
                try:
                    outcome = await connection.run_sync(work)
                except BaseException:
                    # Idle connections may be broken, too, if the server was restarted.
                    idle, self._idle = self._idle, []
                    for one in [connection, *idle]:
                        await one.invalidate()
                        await one.close()
                    raise
                self._idle.append(connection)
                return outcome

    async def make(self, work: Work) -> None:
        """Run work in a separate transaction, one at a time."""
        whole = self._engine.execution_options(isolation_level="READ COMMITTED")
        text = require("sqlalchemy", "live").text
        with _named(self._safe_address):
            async with asyncio.timeout(self._timeout), whole.begin() as connection:
                await connection.execute(text(f"SELECT pg_advisory_xact_lock({_MAKING})"))
                await connection.run_sync(work)

    async def transact(self, work: Work) -> Any:
        """Run work in one transaction, and return its result."""

        def whole(connection: sa.Connection) -> Any:
            # The connection commits by itself; if the work fails, it is closed, and nothing is.
            connection.exec_driver_sql("BEGIN")
            outcome = work(connection)
            connection.exec_driver_sql("COMMIT")
            return outcome

        return await self.run(whole)

    async def finish(self) -> None:
        """Wait for the work in progress."""
        await asyncio.gather(*self._running, return_exceptions=True)

    async def close(self) -> None:
        """Disconnect."""
        idle, self._idle = self._idle, []
        for connection in idle:
            await connection.close()
        await self._engine.dispose()


Executor: TypeAlias = ThreadExecutor | PoolExecutor


def _leave(done: asyncio.Future[Any], left: Left | None) -> None:
    """Pass on the result of work whose caller was cancelled; retrieve its error, if any."""
    if not done.cancelled() and done.exception() is None and left is not None:
        left(done.result())


@contextmanager
def _named(address: str) -> Iterator[None]:
    """Raise database errors as `StateError` with the URL of the state."""
    errors = require("sqlalchemy", "live").exc
    try:
        yield
    except TimeoutError:
        raise StateError(f"The state at {address} did not respond in time.") from None
    except errors.DBAPIError as error:
        raise unusable(address, error.orig or error) from error
    except (errors.SQLAlchemyError, OSError) as error:
        raise unusable(address, error) from error
