"""A state in a database: an SQLite file for processes on one machine, or PostgreSQL."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from emsco.core.decisions import ERROR, STATE_LOST
from emsco.exceptions import StateError, require
from emsco.live.accounts import NO_REQUEST, Intent, RequestContext
from emsco.serve.check_period import CheckPeriod, PeriodTerms, Step, Turn, take_turn
from emsco.serve.state.base import (
    DONE,
    INCARNATION,
    KEEP_FOR,
    OTHER,
    PAUSE,
    RUNNING,
    UNSEEN_FOR,
    VERSION,
    AuditMark,
    Claim,
    Concern,
    DaySpending,
    OpenIntent,
    State,
    VersionedValue,
    check_version,
    day_number,
    day_of,
    intent_of,
    share_of,
    to_text,
)
from emsco.serve.state.executors import Executor
from emsco.serve.state.sql_statements import statements, tables

if TYPE_CHECKING:
    import sqlalchemy as sa

_TIDY_EVERY = 3600.0  # seconds
_AT_ONCE = 1000  # ids per query
_NO_DAY = -1  # instead of a number of rows: the account of today's limit does not exist yet


class SQLState(State):
    """A state in a database; `State` says what its methods do."""

    def __init__(
        self,
        lane: Executor,
        address: str,  # without secrets, for messages
        prefix: str,  # of the names of tables
        *,
        deployment: str,
        clock: Callable[[], float] | None,  # None: that of PostgreSQL, or of this machine
        create: bool,
    ) -> None:
        super().__init__(deployment)
        self._lane, self._address, self._prefix, self._create = lane, address, prefix, create
        self._clock = time.time if clock is None and not lane.is_postgres else clock
        self._sql = statements(prefix, deployment, is_postgres=lane.is_postgres)
        self._tidying: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()

    async def open(self) -> None:
        found = await self._lane.run(self._find_version)
        if found is None:
            if not self._create:
                raise StateError(f"There is no state at {self._address}.")
            await self._lane.make(self._make_tables)
            found = await self._lane.run(self._find_version)
        check_version(found, self._address)
        if self._create:
            self._tidying = asyncio.ensure_future(self._keep_tidy())

    def _find_version(self, connection: sa.Connection) -> int | None:
        if not require("sqlalchemy", "live").inspect(connection).has_table(f"{self._prefix}meta"):
            return None
        version: int = connection.execute(self._sql["version"]).scalar_one()
        return version

    def _make_tables(self, connection: sa.Connection) -> None:
        for statement in tables(self._prefix):
            connection.exec_driver_sql(statement)
        connection.execute(self._sql["set_version"], {"version": VERSION})

    async def close(self) -> None:
        if self._tidying is not None:
            self._tidying.cancel()
            await asyncio.wait([self._tidying])
        await self._lane.finish()
        await self._finish_apart()
        await self._lane.close()

    async def ping(self) -> None:
        await self._write("probe", "unprobe")

    async def server(self) -> str:
        return str((await self._rows("server"))[0][0])

    async def concerns(self) -> list[Concern]:
        return []  # a database does not lose data

    # Statements

    async def _write(self, *names: str, **values: Any) -> None:
        """Run statements that return no rows, in one transaction."""

        def work(connection: sa.Connection) -> None:
            for name in names:
                connection.execute(self._sql[name], values)

        await self._lane.run(work)

    async def _rows(self, name: str, /, **values: Any) -> list[Any]:
        """Run a statement and return its rows."""

        def work(connection: sa.Connection) -> Any:
            return connection.execute(self._sql[name], values).all()

        found: list[Any] = await self._lane.run(work)
        return found

    def _now(self) -> float | None:
        return None if self._clock is None else self._clock()

    # Requests

    async def claim(self, id: str, body: str, lease: float) -> Claim:  # noqa: A002
        values = {"id": id, "body": body, "lease": lease, "now": self._now()}

        def work(connection: sa.Connection) -> Any:
            while True:
                row = connection.execute(self._sql["claim"], values).first()
                if row is not None:
                    return row.attempt
                row = connection.execute(self._sql["claimed"], {"id": id}).first()
                if row is not None:  # otherwise it was dropped in between
                    return row

        found = await self._lane.run(work)
        if isinstance(found, int):
            return self._claimed(id, found)
        if found.body != body:
            return Claim(OTHER)
        return Claim(RUNNING) if found.answer is None else Claim(DONE, found.answer)

    async def renew(self, id: str, lease: float) -> bool:  # noqa: A002
        values = {"id": id, "attempt": self._attempt(id), "lease": lease, "now": self._now()}
        return bool(await self._rows("renew", **values))

    async def answer(self, id: str, text: str) -> str:  # noqa: A002
        def work(connection: sa.Connection) -> str | None:
            if connection.execute(self._sql["answer"], {"id": id, "text": text}).first():
                return text
            row = connection.execute(self._sql["claimed"], {"id": id}).first()
            return None if row is None else row.answer

        return self._answered(id, await self._lane.run(work))

    async def drop(self, id: str) -> None:  # noqa: A002
        await self._write("lapse", "drop", id=id, attempt=self._attempt(id))

    # Accounts

    async def begin(
        self,
        source: str,
        n_rows: int,
        price: float,
        limit: float | None,
        context: RequestContext = NO_REQUEST,
    ) -> Intent:
        id_ = uuid4().hex
        values = {
            "id": id_, "source": source, "tenant": context.tenant, "request": context.id,
            "attempt": self._attempt(context.id), "rows": n_rows, "price": price, "limit": limit,
            "now": self._now(), "incarnation": self.incarnation,
        }  # fmt: skip
        is_capped = limit is not None and price != 0

        def undo(granted: int | None) -> None:
            if granted is not None and granted > 0:
                self._begin_apart(self.end(intent_of(id_, source, price, granted), 0.0, 0.0))

        def once(connection: sa.Connection) -> int | None:
            if is_capped:
                return self._begin_capped(connection, values)
            free: int | None = connection.execute(self._sql["begin"], values).scalar()
            return free

        granted = await self._lane.run(once, undo)
        if granted == _NO_DAY:
            async with self._opening:  # only one connection creates the account
                while (granted := await self._lane.run(once, undo)) == _NO_DAY:
                    await self._lane.make(lambda connection: self._open_day(connection, values))
        refused = STATE_LOST if granted is None and await self._is_lost() else ERROR
        return intent_of(id_, source, price, granted, refused)

    async def _is_lost(self) -> bool:
        if self.incarnation is None:
            return False
        stored = await self.get_value(INCARNATION + self.deployment)
        return stored is None or stored.text != self.incarnation

    def _begin_capped(self, connection: sa.Connection, values: dict[str, Any]) -> int | None:
        if self._lane.is_postgres:
            granted, has_day = connection.execute(self._sql["begin_capped"], values).one()
            return granted if has_day else _NO_DAY
        if not connection.execute(self._sql["has_day"], values).scalar():
            return _NO_DAY
        row = connection.execute(self._sql["cap"], values).first()
        if row is None:
            return None
        if row.granted:
            more = {"granted": row.granted, "day": row.day}
            connection.execute(self._sql["begin_capped"], values | more)
        return int(row.granted)

    def _open_day(self, connection: sa.Connection, values: dict[str, Any]) -> None:
        """Create the account of today's limit, with what was already paid to the source today."""
        if self._lane.is_postgres:
            connection.execute(self._sql["alone"])
        if connection.execute(self._sql["open_day"], values).rowcount:
            connection.execute(self._sql["adopt"], values)

    async def end(self, intent: Intent, paid: float, unknown: float) -> None:
        names = ("end",) if self._lane.is_postgres else ("end_cap", "end")
        await self._write(*names, id=intent.id, paid=paid, unknown=unknown)

    async def may_try(self, source: str) -> bool:
        return bool(await self._rows("may_try", source=source, pause=PAUSE, now=self._now()))

    async def is_well(self, source: str, *, well: bool) -> None:
        await self._write("is_well" if well else "is_failing", source=source)

    async def failing(self) -> set[str]:
        return {row.source for row in await self._rows("failing")}

    async def spend(self, day: str | None = None) -> list[DaySpending]:
        values = {"day": None if day is None else day_number(day)}

        def work(connection: sa.Connection) -> Any:
            return [connection.execute(self._sql[name], values).all() for name in ("open", "spend")]

        begun, totals = await self._lane.run(work)
        found: dict[Any, list[OpenIntent]] = {}
        for row in begun:
            account = found.setdefault((row.source, row.tenant, row.day), [])
            account.append(OpenIntent(*row[:7]))
        return [
            DaySpending(source, tenant, day_of(day), paid, unknown, tuple(found.get(account, ())))
            for source, tenant, day, paid, unknown in totals
            for account in [(source, tenant, day)]
        ]

    async def settle(self, source: str, day: str, charged: float) -> float:
        values: dict[str, Any] = {"source": source, "day": day_number(day)}
        found = []

        def work(connection: sa.Connection) -> None:
            # Write first, so that no one changes what is read.
            connection.execute(self._sql["hold"], values)
            unknown = float(connection.execute(self._sql["unknown"], values).scalar_one())
            shares = values | {"share": share_of(charged, unknown)}
            for name in ("settle_cap", "settle_intents", "settle_spent"):
                connection.execute(self._sql[name], shares)
            found.append(unknown)

        await self._lane.make(work)
        return found[-1]

    # Periods of spot checks

    async def turn(self, steps: Sequence[Step], terms: PeriodTerms) -> Turn:
        name = f"period:{self.deployment}"
        if not steps:
            stored = await self.get_value(name)
            is_there = stored is not None and stored.text
            return Turn([], CheckPeriod.from_data(json.loads(is_there)) if is_there else None)
        held = {"name": name, "incarnation": INCARNATION + self.deployment, "now": self._now()}

        def work(connection: sa.Connection) -> Turn:
            row = connection.execute(self._sql["hold_value"], held).one()
            if self.incarnation is not None and row.incarnation != self.incarnation:
                return Turn.lost(steps)
            before = CheckPeriod.from_data(json.loads(row.text)) if row.text else None
            taken = take_turn(before, steps, terms, self._identity(row.server), row.now)
            if taken.period is not None:
                text = json.dumps(taken.period.to_data())
                connection.execute(self._sql["keep"], {"name": name, "text": text})
            return taken

        taken: Turn = await self._lane.transact(work)
        return taken

    # Small values

    async def keep(self, name: str, text: str, was: int | None = None) -> bool:
        if was is None:
            await self._write("keep", name=name, text=text)
            return True
        if was == 0:
            return bool(await self._rows("keep_first", name=name, text=text))
        return bool(await self._rows("keep_if", name=name, text=text, was=was))

    async def get_value(self, name: str) -> VersionedValue | None:
        rows = await self._rows("kept", name=name)
        return VersionedValue(*rows[0]) if rows else None

    # Audited rows

    async def mark(self, rows: Sequence[AuditMark]) -> None:
        values = [
            {
                "id": row.id, "at": row.at, "model": row.model, "label": to_text(row.label),
                "accepted": int(row.accepted), "reason": row.reason,
                "exit_stage": int(row.exit_stage),
            }
            for row in rows
        ]  # fmt: skip
        if values:
            await self._lane.run(lambda connection: connection.execute(self._sql["mark"], values))

    async def marked(self, ids: Sequence[str]) -> list[AuditMark]:
        found = []
        for first in range(0, len(ids), _AT_ONCE):
            found += await self._rows("marked", ids=list(ids[first : first + _AT_ONCE]))
        return [_marked(row) for row in found]

    async def label(self, id: str, label: Any) -> bool:  # noqa: A002
        values = {"id": id, "label": to_text(label), "now": self._now()}
        return bool(await self._rows("label", **values))

    async def due(
        self, before: float, since: float = 0.0, model: str | None = None
    ) -> list[AuditMark]:
        return [
            _marked(row) for row in await self._rows("due", before=before, since=since, model=model)
        ]

    async def forget(self, before: float) -> None:
        await self._write("forget_labels", "forget_marks", before=before)

    # Clean-up

    async def tidy(self) -> None:
        """Delete ids after a week and unmarked labels after a day; add up old intents."""
        values = {"now": self._now(), "keep": KEEP_FOR, "unseen": UNSEEN_FOR}
        adding = () if self._lane.is_postgres else ("add_up",)
        tidying = ("tidy_intents", "tidy_claims", "tidy_labels", "tidy_caps")
        await self._write(*adding, *tidying, **values)

    async def _keep_tidy(self) -> None:
        while True:
            # At a random time in each process, and not while the service starts.
            await asyncio.sleep(random.uniform(0.5, 1.0) * _TIDY_EVERY)
            with suppress(StateError):  # retried next time
                await self.tidy()


def _marked(row: Any) -> AuditMark:
    truth = None if row.truth is None else json.loads(row.truth)
    label = json.loads(row.label)
    return AuditMark(
        row.id, row.at, row.model, label, bool(row.accepted), row.reason, row.exit_stage, truth
    )
