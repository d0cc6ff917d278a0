"""What the stores hold: the rows as they are, and spoiled in one way or another.

A way of being spoiled hits half of the rows, another half at each source. Stores hold every way at
once and are switched from one to the other at run time.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco.live import HTTPSource, RedisSource, Sources, SQLSource
from tests.soak.live.problem import INDEX, NAMES, PAGE, URL, WHOIS, Problem
from tests.soak.live.stores import Stores
from tests.soak.live.vendor import BILLED, PLAIN, Vendor

OTHER, MISSING, TEXT, COLUMN, STALE, LARGE = (
    "answers for other keys", "half of the rows missing", "text for numbers",
    "a column of text", "stale rows", "values times a million",
)  # fmt: skip
# The reason with which a row that is hit must be rejected.
REASONS = {OTHER: "missing", MISSING: "missing", TEXT: "invalid value", COLUMN: "invalid value",
           STALE: "stale", LARGE: "out of range"}  # fmt: skip
WAYS = (PLAIN, *REASONS)
MAX_AGE = 86400.0
_DISCOUNT = 0.4  # of the vendor's price, for a row in ten, as its answer tells
Record = dict[str, Any]


class Stock:
    """The stores with their rows in them.

    Parameters
    ----------
    problem : Problem
        The rows.
    stores : Stores
        Redis, PostgreSQL and MariaDB.
    vendor : Vendor
        The service behind HTTP.
    ways : sequence of str, default=("plain",)
        The ways in which rows are held.
    filled : sequence of str, default=all of them
        The sources that are filled; the vendor always is.
    """

    def __init__(
        self,
        problem: Problem,
        stores: Stores,
        vendor: Vendor,
        ways: Sequence[str] = (PLAIN,),
        filled: Sequence[str] = NAMES,
    ) -> None:
        self.problem, self.stores, self.vendor, self.ways = problem, stores, vendor, tuple(ways)
        self.way = PLAIN
        self._values = {
            name: problem.X[list(problem.features(name))].to_dict("records") for name in NAMES
        }
        self._now = time.time()
        fill = {URL: self._fill_redis, PAGE: self._fill_postgres, INDEX: self._fill_mariadb}
        for name in set(filled) & set(fill):
            for way in self.ways:
                fill[name](way)
        self.restock()

    def restock(self) -> None:
        """Give the vendor its answers, which it forgets when it is killed."""
        price = {source.name: source.cost for source in self.problem.costs.sources}[WHOIS]
        self.vendor.sell({way: self._documents(way, price) for way in self.ways}, price)

    def hit(self, source: str, way: str) -> NDArray[np.bool_]:
        """Say which rows are hit at a source; the last ones never, which others are taken for."""
        n_rows = len(self.problem.keys)
        if way == PLAIN:
            return np.zeros(n_rows, dtype=np.bool_)
        rng = np.random.default_rng([WAYS.index(way), NAMES.index(source)])
        hit = rng.random(n_rows) < 0.5
        # The columns of a table have one type, so that there every row is hit, or none.
        if way in (TEXT, COLUMN) and (way == COLUMN or source in (PAGE, INDEX)):
            hit[:] = way == COLUMN and source == PAGE
        hit[self.asked :] = False
        if way == LARGE:  # what is zero stays so
            hit &= (self.problem.X[list(self.problem.features(source))] != 0).any(axis=1).to_numpy()
        return hit

    @property
    def asked(self) -> int:
        """How many rows are asked for: all but a few, whose answers others get."""
        return len(self.problem.keys) * 9 // 10

    def records(self, source: str, way: str) -> dict[str, Record]:
        """Give the record under each key; none where it is missing."""
        keys, values = self.problem.keys, self._values[source]
        hit = self.hit(source, way)
        found = {}
        for row, key in enumerate(keys):
            if hit[row] and way == MISSING:
                continue
            at = row
            if hit[row] and way == OTHER:
                at = self.asked + row % (len(keys) - self.asked)
            record = {"id": keys[at], "at": self._now, **values[at]}
            if hit[row] and way == STALE:
                record["at"] = self._now - 10 * MAX_AGE
            if hit[row] and way in (TEXT, COLUMN, LARGE):
                for name, value in values[at].items():
                    record[name] = value * 1e6 if way == LARGE else f"{value} or so"
            found[key] = record
        return found

    def _documents(self, way: str, price: float) -> dict[str, Record]:
        """Give the vendor's answers, some of which cost less and say so."""
        hit = dict(zip(self.problem.keys, self.hit(WHOIS, way), strict=True))
        return {
            key: record
            | {"price": price * _DISCOUNT if key.endswith("0") and not hit[key] else price}
            for key, record in self.records(WHOIS, way).items()
        }

    def _fill_redis(self, way: str) -> None:
        with self.stores.redis.admin(db=self.ways.index(way)) as admin:
            admin.flushdb()
            pipeline = admin.pipeline(transaction=False)
            for number, (key, record) in enumerate(self.records(URL, way).items()):
                pipeline.hset(f"url:{key}", mapping=record)
                if number % 1000 == 999:
                    pipeline.execute()
            pipeline.execute()

    def _table(self, source: str, way: str) -> str:
        return source if way == PLAIN else f"{source}_{self.ways.index(way)}"

    def _columns(self, source: str) -> list[str]:
        return ["asked", "id", "at", *self.problem.features(source)]

    def _fill_postgres(self, way: str) -> None:
        table, columns = self._table(PAGE, way), self._columns(PAGE)
        kind = "text" if way == COLUMN else "double precision"
        typed = ", ".join(f'"{name}" {kind}' for name in columns[3:])
        with self.stores.postgres.admin() as admin, admin.cursor() as cursor:
            cursor.execute(f"DROP TABLE IF EXISTS {table}")
            cursor.execute(
                f"CREATE TABLE {table} (asked text PRIMARY KEY, id text, at double precision, "
                f"{typed})"
            )
            with cursor.copy(f"COPY {table} FROM STDIN") as copy:
                for key, record in self.records(PAGE, way).items():
                    copy.write_row([key, *(record[name] for name in columns[1:])])
            cursor.execute(f"ANALYZE {table}")
            cursor.execute("CHECKPOINT")

    def _fill_mariadb(self, way: str) -> None:
        table, columns = f"test.{self._table(INDEX, way)}", self._columns(INDEX)
        typed = ", ".join(f"`{name}` double" for name in columns[3:])
        rows = [
            [key, *(record[name] for name in columns[1:])]
            for key, record in self.records(INDEX, way).items()
        ]
        with self.stores.mariadb.admin() as admin, admin.cursor() as cursor:
            cursor.execute(f"DROP TABLE IF EXISTS {table}")
            cursor.execute(
                f"CREATE TABLE {table} (asked varchar(40) PRIMARY KEY, id varchar(40), at double, "
                f"{typed})"
            )
            cursor.executemany(
                f"INSERT INTO {table} VALUES ({', '.join(['%s'] * len(columns))})", rows
            )

    def switch(self, way: str) -> None:
        """Let all stores hold their rows in another way; at once, and for every client."""
        for step in [PLAIN, way] if PLAIN not in (self.way, way) else [way]:
            self._swap(self.way if step == PLAIN else step)
            self.way = step
        self.vendor.behave(way=way)

    def _swap(self, way: str) -> None:
        """Exchange what is plain and what is spoiled."""
        if way == PLAIN:
            return
        with self.stores.redis.admin() as admin:
            admin.swapdb(0, self.ways.index(way))
        page, index = self._table(PAGE, way), self._table(INDEX, way)
        with self.stores.postgres.admin() as admin, admin.transaction():
            admin.execute(f"ALTER TABLE {PAGE} RENAME TO aside")
            admin.execute(f"ALTER TABLE {page} RENAME TO {PAGE}")
            admin.execute(f"ALTER TABLE aside RENAME TO {page}")
        self.stores.mariadb.ask(
            f"RENAME TABLE test.{INDEX} TO test.aside, test.{index} TO test.{INDEX}, "
            f"test.aside TO test.{index}"
        )

    def sources(self, ports: Mapping[str, int] | None = None, **options: Any) -> Sources:
        """Say how each source is fetched; through proxies where `ports` names theirs."""
        ports = ports or {}
        terms: dict[str, Any] = {"key_field": "id", "time_field": "at", "max_age": MAX_AGE}
        whois = terms | {"key_field": "/id", "time_field": "/at"} | options
        terms |= options
        stores, query = self.stores, self._query
        at = f"http://127.0.0.1:{ports.get(WHOIS, self.vendor.port)}"
        return Sources({
            URL: RedisSource(url=stores.redis.url(ports.get(URL)), key="url:{key}", **terms),
            PAGE: SQLSource(
                url=stores.postgres.url(ports.get(PAGE)), query=query(PAGE, '"'), **terms
            ),
            INDEX: SQLSource(
                url=stores.mariadb.url(ports.get(INDEX)), query=query(INDEX, "`"), **terms
            ),
            WHOIS: HTTPSource(
                url=f"{at}/v1/{{key}}", price_field="/price", paid=True, billed=BILLED, **whois
            ),
        })  # fmt: skip

    def _query(self, source: str, quote: str) -> str:
        named = ", ".join(f"{quote}{name}{quote}" for name in self._columns(source)[1:])
        return f"SELECT {named} FROM {source} WHERE asked IN :keys"
