"""Hostile keys, values and answers at every kind of source: nobody gets what is another's."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from emsco.core.decisions import kind_of
from emsco.exceptions import InvalidKeyError
from emsco.live import (
    CallableSource,
    HTTPSource,
    LiveCascade,
    RedisSource,
    Sources,
    SQLSource,
)
from tests.soak.live.bars import Bar, tell
from tests.soak.live.hostile_rows import (
    ABSENT,
    BOOLEAN,
    FUNCTION,
    HTTP,
    HUGE,
    JSON,
    LIST,
    MARIADB,
    NAMES,
    OTHER,
    POSTGRES,
    REDIS,
    REFUSED,
    SQLITE,
    TEXT,
    Rows,
)
from tests.soak.live.hostile_vendor import TOO_LARGE, HostileVendor, document
from tests.soak.live.stores import Stores

AT_ONCE, CALLS = 500, 4  # rows of a call, and calls at a time
PATIENCE = 60.0  # seconds: nothing fails here because the machine is busy
_PART = "hostile"


class _Found(NamedTuple):
    """What the live cascade decided, row by row, and by which values."""

    decided: list[Any]
    values: list[dict[str, Any]]
    seconds: float


def measure(stores: Stores, *, small: bool) -> list[Bar]:
    """Decide 100,000 rows, 2% of them hostile; `--small`, 2,000."""
    rows = Rows(2_000 if small else 100_000)
    with TemporaryDirectory() as folder, HostileVendor(rows.n_rows) as vendor:
        sources = _filled(rows, stores, Path(folder) / "rows.db", vendor.port)
        found = asyncio.run(_decide(rows, sources))
    honest = [row for row in range(rows.n_rows) if row not in rows.spoiled]
    table = [rows.decided[_cascade(row)][row] for row in range(rows.n_rows)]
    wrong = [
        row for row, one in enumerate(found.decided)
        if one.accepted and (not _exists(rows, row) or one.label != table[row].label
                             or not table[row].accepted)
    ]  # fmt: skip
    foreign = _foreign(rows, found.values)
    differing = [row for row in honest if _told(found.decided[row]) != _told(table[row])]
    reasons = Counter(kind_of(found.decided[row].reason) or "accepted" for row in rows.spoiled)
    n_asked = Counter(name for values in found.values for name in values)
    tell(_PART, rows=rows.n_rows, hostile=len(rows.spoiled), wrong=wrong[:9], foreign=foreign[:9],
         differing=[(row, found.decided[row].reason) for row in differing[:9]], reasons=reasons,
         values=n_asked, seconds=round(found.seconds, 1))  # fmt: skip
    told = ", ".join(f"{name} {n:,}" for name, n in reasons.most_common())
    of = f"{rows.n_rows:,} rows, {len(rows.spoiled):,} of them hostile"
    return [
        Bar(f"{of}: wrong labels accepted", "0", f"{len(wrong)}", not wrong),
        Bar(f"values of another row, of {n_asked.total():,} at {len(NAMES)} sources", "0",
            f"{len(foreign)}", not foreign),
        Bar(f"{len(honest):,} honest rows: labels, reasons, stages", "equal the table",
            f"{len(differing)} differ", not differing),
        Bar("what became of hostile rows", "told", told, True),
    ]  # fmt: skip


def _told(decision: Any) -> tuple[Any, ...]:
    return decision.label, decision.accepted, decision.exit_stage, decision.reason


def _cascade(row: int) -> int:
    """Say which cascade decides a row: call by call, the one or the other."""
    return row // AT_ONCE % 2


def _exists(rows: Rows, row: int) -> bool:
    """Say whether a row is asked for by its own name."""
    return rows.ask(row) == rows.name(row)


def _foreign(rows: Rows, values: list[dict[str, Any]]) -> list[tuple[int, str]]:
    """Name the rows that were judged by a value of another row, or by any where they have none."""
    owner = {value: row for row in range(rows.n_rows) for value in rows.values[row].tolist()}
    return [
        (row, name)
        for row, held in enumerate(values)
        for name, value in held.items()
        if owner.get(_number(value), row) != row
        or (_number(value) in owner and not _exists(rows, row))
    ]


def _number(value: Any) -> float | None:
    """Read a value as the number that it is or spells; None if it is none."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


async def _decide(rows: Rows, sources: Sources) -> _Found:
    """Decide all rows, some calls at a time."""
    decided: list[Any] = [None] * rows.n_rows
    values: list[dict[str, Any]] = [{}] * rows.n_rows
    starts = iter(range(0, rows.n_rows, AT_ONCE))
    begin = time.perf_counter()

    async def work(lives: Sequence[LiveCascade]) -> None:
        for start in starts:
            asked = [rows.ask(row) for row in range(start, min(start + AT_ONCE, rows.n_rows))]
            held: list[dict[str, Any]] = []
            found = await lives[_cascade(start)].decide(
                [key for key, _ in asked], {"region": [region for _, region in asked]}, values=held
            )
            decided[start : start + len(asked)] = list(found)
            values[start : start + len(asked)] = held

    staged, at_once = (LiveCascade(cascade, sources) for cascade in rows.cascades)
    async with staged, at_once:
        await asyncio.gather(*(work((staged, at_once)) for _ in range(CALLS)))
    return _Found(decided, values, time.perf_counter() - begin)


def _filled(rows: Rows, stores: Stores, file: Path, port: int) -> Sources:
    """Fill the stores, and say how each is asked."""
    _fill_redis(rows, stores)
    _fill_postgres(rows, stores)
    _fill_mariadb(rows, stores)
    _fill_sqlite(rows, file)
    terms: dict[str, Any] = {"timeout": PATIENCE}
    at: dict[str, Any] = {"url": stores.redis.url(), "key_field": "id"}
    return Sources({
        REDIS: RedisSource(key="hash:{region}:{key}", **at, **terms),
        JSON: RedisSource(key="json:{region}:{key}", format="json", **at, **terms),
        POSTGRES: SQLSource(url=stores.postgres.url(), **_query(POSTGRES, "id, region"), **terms),
        MARIADB: SQLSource(url=stores.mariadb.url(), **_query(MARIADB, "id, region"), **terms),
        # Without the region: each is asked for by a query of its own.
        SQLITE: SQLSource(url=f"sqlite+aiosqlite:///{file}", **_query(SQLITE, "id"), **terms),
        FUNCTION: CallableSource(function=_function(rows), uses=["region"], **terms),
        HTTP: HTTPSource(url=f"http://127.0.0.1:{port}/v1/{{region}}/{{key}}", **terms),
    })  # fmt: skip


def _query(source: str, columns: str) -> dict[str, Any]:
    table = f"hostile_{source}"
    where = "id IN :keys AND region IN :region"
    return {
        "query": f"SELECT {columns}, value AS {source} FROM {table} WHERE {where}",
        "key_field": "id",
    }


def _held(rows: Rows, source: str) -> list[tuple[str, str, Any]]:
    """Give what a database holds: key, region and value of each row."""
    held = []
    for row in range(rows.n_rows):
        way = rows.way(row, source)
        if way != ABSENT:
            value = rows.value(row, source)
            held.append((*rows.name(row), f"{value} or so" if way == TEXT else value))
    return held


def _fill_redis(rows: Rows, stores: Stores) -> None:
    with stores.redis.admin() as admin:
        pipeline = admin.pipeline(transaction=False)
        for row in range(rows.n_rows):
            key, region = rows.name(row)
            value, way = rows.value(row, REDIS), rows.way(row, REDIS)
            at = f"hash:{region}:{key}"
            if way == LIST:
                pipeline.rpush(at, value)
            elif way != ABSENT:
                odd = {TEXT: "soon", HUGE: str(TOO_LARGE)}.get(way, value)
                if way == OTHER:
                    odd, key = rows.value(rows.other(row), REDIS), rows.name(rows.other(row))[0]
                pipeline.hset(at, mapping={"id": key, REDIS: odd})
            told = document(rows, row, JSON)
            if rows.way(row, JSON) == OTHER:
                told = json.dumps({"id": rows.name(rows.other(row))[0],
                                   JSON: rows.value(rows.other(row), JSON)})  # fmt: skip
            if told is not None:
                pipeline.set("json:{1}:{0}".format(*rows.name(row)), told)
            if row % 1000 == 999:
                pipeline.execute()
        pipeline.execute()


def _fill_postgres(rows: Rows, stores: Stores) -> None:
    with stores.postgres.admin() as admin, admin.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS hostile_postgres")
        cursor.execute(
            "CREATE TABLE hostile_postgres (id text, region text, value double precision)"
        )
        with cursor.copy("COPY hostile_postgres FROM STDIN") as copy:
            for held in _held(rows, POSTGRES):
                copy.write_row(held)
        cursor.execute("CREATE INDEX ON hostile_postgres (id)")
        cursor.execute("ANALYZE hostile_postgres")


def _fill_mariadb(rows: Rows, stores: Stores) -> None:
    with stores.mariadb.admin() as admin, admin.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS test.hostile_mariadb")
        cursor.execute(
            "CREATE TABLE test.hostile_mariadb (id varchar(40), region varchar(9), value double, "
            "KEY (id))"
        )
        cursor.executemany(
            "INSERT INTO test.hostile_mariadb VALUES (%s, %s, %s)", _held(rows, MARIADB)
        )


def _fill_sqlite(rows: Rows, file: Path) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE hostile_sqlite (id TEXT, region TEXT, value)")
        connection.executemany("INSERT INTO hostile_sqlite VALUES (?, ?, ?)", _held(rows, SQLITE))
        connection.execute("CREATE INDEX of_id ON hostile_sqlite (id)")
    connection.close()


def _function(rows: Rows) -> Any:
    """Give a function that answers for the rows, some of them as it should not."""

    async def fetch(keys: Any, values: Any) -> dict[Any, dict[str, Any]]:
        found = {}
        for name in zip(keys, values["region"], strict=True):
            row = None if isinstance(name[1], list) else rows.row_of.get(name)
            if row is None:
                continue
            way = rows.way(row, FUNCTION)
            if way == REFUSED:
                raise InvalidKeyError("This key cannot be asked for.")
            value: Any = rows.value(row, FUNCTION)
            value = {BOOLEAN: True, HUGE: TOO_LARGE, TEXT: str(value)}.get(way, value)
            if way != ABSENT:
                found[name[0]] = {FUNCTION: value}
        return found

    return fetch
