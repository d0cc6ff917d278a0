"""Every row gets its own values, whatever it is asked together with, and whatever is left over."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
import uuid
from contextlib import suppress

import pytest
import redis
import sqlalchemy as sa
from stores import MARIADB, POSTGRES, REDIS, driven, http_source, redis_source

from emsco.live import CallableSource, HTTPSource, RedisSource, SQLSource
from emsco.live.coalescing import CoalescingGate

SYNC = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql", "sqlite": "sqlite"}


def asked(source, *calls, pause=0.0):
    """Ask a source through its gate, call after call; give what each call got."""

    async def ask():
        gate, found = CoalescingGate(source, ["age"], 1.0), []
        try:
            for keys, values in calls:
                found.append(await gate.fetch(keys, values))
                await asyncio.sleep(pause)
        finally:
            await gate.close()
        return found

    return asyncio.run(ask())


@pytest.fixture(params=["postgresql", "mariadb", "sqlite"])
def regions(request, tmp_path):
    """Make a table with rows by key, region and year; give what makes a source of columns."""
    urls = {"postgresql": POSTGRES, "mariadb": MARIADB, "sqlite": f"sqlite:///{tmp_path}/rows.db"}
    url = urls[request.param]
    scheme, _, rest = url.partition("://")
    engine = sa.create_engine(f"{SYNC[scheme]}://{rest}")
    name = f"emsco_test_{uuid.uuid4().hex}"
    rows = [
        ("x", "B", 1, 50.0),
        ("X", "B", 1, 60.0),
        ("1", "B", 1, 10.0),
        ("2", "B", 1, 20.0),
        ("2", "A", 2, 30.0),
        ("3", "B", 2, 40.0),
    ]
    with engine.begin() as connection:
        columns = "id VARCHAR(9), region VARCHAR(9), year DECIMAL(9, 2), age FLOAT"
        connection.execute(sa.text(f"CREATE TABLE {name} ({columns})"))
        for row in rows:
            given = dict(zip("iryv", row, strict=True))
            connection.execute(sa.text(f"INSERT INTO {name} VALUES (:i, :r, :y, :v)"), given)

    def make(columns, **options):
        where = "id IN :keys AND region IN :region AND year IN :year"
        query = f"SELECT {columns} FROM {name} WHERE {where}"
        return SQLSource(url=driven(url), query=query, key_field="id", timeout=5, **options)

    yield make
    with engine.begin() as connection:
        connection.execute(sa.text(f"DROP TABLE {name}"))
    engine.dispose()


@pytest.mark.parametrize(
    "columns", ["*", "id, age", "id, region, age", "id, year, age", "id AS id, age, region AS area"]
)
def test_rows_of_a_database_are_matched_by_all_that_they_were_asked_with(regions, columns):
    """(1, A) is missing alone, and it is missing together with (2, B)."""
    keys = ["1", "2", "2", "2", "3", "1"]
    values = {"region": ["A", "B", "A", "A", "B", "B"], "year": [1, 1, 2, 1, 2, 1.0]}
    alone = [
        ([key], {"region": [values["region"][i]], "year": [values["year"][i]]})
        for i, key in enumerate(keys)
    ]
    expected = [None, 20.0, 30.0, None, 40.0, 10.0]
    source = regions(columns)
    assert [one.columns["age"][0] for one in asked(source, *alone)] == expected
    first, then = asked(source, (keys, values), (keys, values))
    for together in (first, then):
        assert together.columns["age"] == expected
        assert together.reasons == ["" if age else "missing" for age in expected]


@pytest.mark.parametrize("columns", ["*", "id, age"])
def test_rows_that_a_database_takes_for_each_other_are_no_other_rows(regions, columns):
    """MariaDB gives both for either of them, also where a call is made in several queries."""
    together = (["x", "X", "1"], {"region": ["B"] * 3, "year": [1] * 3})
    for found in asked(regions(columns), together, together):
        assert found.columns["age"] == [50.0, 60.0, 10.0]


def test_rows_with_one_key_and_other_values_are_asked_for_apart():
    """A function answers by key alone: it cannot tell them apart in one call."""
    ages = {("1", "A"): 10.0, ("1", "B"): 20.0, ("2", "A"): 30.0}

    def ask(keys, values):
        return {k: {"age": ages[k, r]} for k, r in zip(keys, values["region"], strict=True)}

    source = CallableSource(function=ask, uses=["region"])
    rows = (["1", "1", "2", "1"], {"region": ["A", "B", "A", "A"]})
    assert asked(source, rows)[0].columns["age"] == [10.0, 20.0, 30.0, 10.0]
    prefix = f"emsco-test:{uuid.uuid4().hex}"
    store = redis.Redis.from_url(REDIS)
    for (key, region), age in ages.items():
        store.hset(f"{prefix}:{region}:{key}", mapping={"age": age, "id": key})
        store.expire(f"{prefix}:{region}:{key}", 60)
    store.close()
    source = RedisSource(url=REDIS, key=f"{prefix}:{{region}}:{{key}}", key_field="id")
    rows = (["1", "1", "2", "3"], {"region": ["A", "B", "A", "A"]})
    assert asked(source, rows)[0].columns["age"] == [b"10.0", b"20.0", b"30.0", None]


def test_an_answer_without_a_key_is_nobodys():
    """Not of the row whose key is empty, nor of the one that is called None."""
    with http_source({}, batch=True, time_field=None) as (source, service):
        service.table = {"": {}, "None": {}, "True": {}}
        documents = iter([{"age": 1.0}, {"id": None, "age": 2.0}, {"id": True, "age": 3.0}])
        service.answer = lambda _: (200, next(documents))
        (batch,) = asked(source, (["", "None", "True"], {}))
        assert batch.reasons == ["missing"] * 3
    source = CallableSource(function=lambda *_: {None: {"age": 1.0}, True: {"age": 2.0}})
    assert asked(source, (["None", "True"], {}))[0].reasons == ["missing"] * 2
    with redis_source({"": {"age": 1.0}}, key_field="none", time_field=None) as source:
        assert asked(source, ([""], {}))[0].reasons == ["missing"]


@pytest.mark.parametrize("kind", ["hash", "json"])
def test_a_reply_that_names_another_row_takes_nothing_from_it(kind):
    """Redis replies by position: the row that is named has a reply of its own."""
    table = {"a": {"age": 1.0}, "b": {"age": 2.0, "id": "a"}, "c": {"age": 3.0}}
    with redis_source(table, format=kind) as source:
        (batch,) = asked(source, (["a", "b", "c"], {}))
        assert batch.reasons == ["", "missing", ""]
        assert [age and float(age) for age in batch.columns["age"]] == [1.0, None, 3.0]


class LeavesOver:
    """A vendor that sends more than an answer: a whole second one, at once or later."""

    def __init__(self, pause, *, chunked=False):
        self.pause, self.chunked, self.connections = pause, chunked, 0
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=[connection], daemon=True).start()

    def _serve(self, connection):
        with connection, suppress(OSError):
            self._answer_all(connection)

    def _answer_all(self, connection):
        asked = b""
        while True:
            while b"\r\n\r\n" not in asked:
                part = connection.recv(9999)
                if not part:
                    return
                asked += part
            head, _, asked = asked.partition(b"\r\n\r\n")
            number = float(head.split()[1].rpartition(b"/")[2])
            answer, more = self._answer(number), self._answer(-1.0)
            if self.pause:
                connection.sendall(answer)
                time.sleep(self.pause)
                connection.sendall(more)
            else:
                connection.sendall(answer + more)

    def _answer(self, age):
        body = f'{{"age": {age}}}'.encode()
        if self.chunked:
            framed = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
            return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + framed
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)

    def close(self):
        self._server.close()


@pytest.mark.parametrize("pause", [0.0, 0.05])
@pytest.mark.parametrize("chunked", [False, True])
def test_what_is_left_of_an_answer_is_nobodys(pause, chunked):
    """The bytes after an answer were the next customer's answer."""
    vendor = LeavesOver(pause, chunked=chunked)
    source = HTTPSource(url=f"{vendor.url}/v1/{{key}}")
    found = asked(source, *[([f"{i}"], {}) for i in range(5)], pause=3 * pause)
    vendor.close()
    assert [one.columns["age"][0] for one in found] == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert vendor.connections == 5


def test_left_over_bytes_that_nobody_has_seen_yet_end_a_connection():
    """They wait in the socket while the process is busy, and the next request comes first."""
    vendor = LeavesOver(0.05)
    source = HTTPSource(url=f"{vendor.url}/v1/{{key}}")

    async def ask():
        gate = CoalescingGate(source, ["age"], 1.0)
        found = [(await gate.fetch(["1"], {})).columns["age"][0]]
        time.sleep(0.2)  # busy, so that nobody reads what arrives
        found.append((await gate.fetch(["2"], {})).columns["age"][0])
        await gate.close()
        return found

    assert asyncio.run(ask()) == [1.0, 2.0]
    vendor.close()


def test_connections_are_used_again():
    """Where nothing is left over: opening one takes longer than asking."""
    with http_source({"a": {"age": 1.0}}) as (source, service):
        peers = set()
        service.behave = lambda _: peers.add(threading.get_ident())  # a thread per connection
        found = asked(source, *[(["a"], {})] * 5)
        assert [one.reasons for one in found] == [[""]] * 5
        assert len(peers) == 1
