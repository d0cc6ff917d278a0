"""Keys and values that cannot be asked with: they fail their own row, and cost nothing."""

from __future__ import annotations

import asyncio
import uuid

import numpy as np
import pandas as pd
import pytest
import redis
import sqlalchemy as sa
from stores import MARIADB, POSTGRES, REDIS, driven, http_source, redis_source, sql_source

from emsco import CascadeClassifier, StageDesign
from emsco.core.decisions import KINDS
from emsco.exceptions import InvalidKeyError, SourcesError
from emsco.live import (
    CallableSource,
    HTTPSource,
    LiveCascade,
    RedisSource,
    Sources,
    SQLSource,
)
from emsco.live.call_limits import Breaker
from emsco.live.coalescing import CoalescingGate

TABLE = {f"k{i}": {"age": float(i)} for i in range(20)}
MISSING = [None, float("nan"), np.nan, pd.NaT, pd.NA, np.datetime64("NaT")]
UNWRITABLE = [True, np.True_, [1], {"a": 1}, float("inf")]


def asked(source, *calls, **options):
    """Ask a source through its gate, call after call; give what each call got."""

    async def ask():
        gate = CoalescingGate(source, ["age"], 1.0, **options)
        try:
            return [await gate.fetch(keys, values) for keys, values in calls]
        finally:
            await gate.close()

    return asyncio.run(ask())


@pytest.mark.parametrize("kind", ["http", "redis", "sql"])
def test_a_value_that_is_none_never_becomes_text(kind, tmp_path):
    """What is missing, or true, is no part of an address: nothing is asked, nothing is paid."""
    values = [*MISSING, *UNWRITABLE, "eu"]
    keys = [f"k{i}" for i in range(len(values))]
    names = {"None": 1.0, "nan": 1.0, "True": 1.0, "NaT": 1.0, "<NA>": 1.0, "eu": 2.0}
    if kind == "http":
        with http_source({n: {"age": a} for n, a in names.items()}) as (source, service):
            source = HTTPSource(url=f"{service.url}/v1/{{region}}", paid=True)
            (batch,) = asked(source, (keys, {"region": values}))
            assert service.asked == ["eu"]
    elif kind == "redis":
        prefix = uuid.uuid4().hex
        store = redis.Redis.from_url(REDIS)
        for key in keys:
            for name, age in names.items():
                store.hset(f"{prefix}:{name}:{key}", mapping={"age": age})
                store.expire(f"{prefix}:{name}:{key}", 60)
        store.close()
        source = RedisSource(url=REDIS, key=f"{prefix}:{{region}}:{{key}}", paid=True)
        (batch,) = asked(source, (keys, {"region": values}))
    else:
        url = f"sqlite:///{tmp_path}/rows.db"
        engine = sa.create_engine(url)
        with engine.begin() as connection:
            connection.execute(sa.text("CREATE TABLE t (id TEXT, region, age REAL)"))
            for key in keys:
                for region in [*names, 1]:
                    connection.execute(
                        sa.text("INSERT INTO t VALUES (:i, :r, 2.0)"), {"i": key, "r": region}
                    )
        query = "SELECT * FROM t WHERE id IN :keys AND region IN :region"
        source = SQLSource(url=driven(url), query=query, key_field="id", paid=True)
        (batch,) = asked(source, (keys, {"region": values}))
    expected = ["missing"] * len(MISSING) + ["invalid value"] * len(UNWRITABLE) + [""]
    assert batch.reasons == expected
    assert batch.paid == [0.0] * (len(values) - 1) + [1.0]


@pytest.mark.parametrize("key", ["..", ".", "", "%2e%2e", "%252E.", "a/../..", "..\\b", "\udcff"])
def test_a_key_cannot_leave_its_place_in_a_path(key):
    """A key of two dots would ask another address, with the credentials of this one."""
    with http_source({"score": {"age": 1.0}, "k1": {"age": 1.0}}) as (_, service):
        source = HTTPSource(url=f"{service.url}/v1/customers/{{key}}/score", paid=True)
        (batch,) = asked(source, ([key], {}))
        assert (batch.reasons, batch.paid, service.asked) == (["invalid key"], [0.0], [])
        source = HTTPSource(url=f"{service.url}/v1/{{key}}?of={{domain}}")
        (batch,) = asked(source, (["k1"], {"domain": [".."]}))
        assert batch.reasons == [""]  # after the path, dots are text


def test_two_values_cannot_make_dots_together():
    """Nor a value with the text beside it."""
    with http_source({}) as (_, service):
        source = HTTPSource(url=f"{service.url}/v1/.{{key}}/score")
        (batch,) = asked(source, (["."], {}))
        assert (batch.reasons, service.asked) == (["invalid key"], [])


def test_two_rows_never_have_one_address():
    """A value that holds the text between two names could be cut in two ways."""
    prefix = uuid.uuid4().hex
    store = redis.Redis.from_url(REDIS)
    for place in ("eu:1:5", "eu:7", "xaaay"):
        store.hset(f"{prefix}:{place}", mapping={"age": 1.0})
        store.expire(f"{prefix}:{place}", 60)
    store.close()
    source = RedisSource(url=REDIS, key=f"{prefix}:{{region}}:{{key}}")
    rows = (["1:5", "5", "7"], {"region": ["eu", "eu:1", "eu"]})
    assert asked(source, rows)[0].reasons == ["invalid key", "invalid key", ""]
    source = RedisSource(url=REDIS, key=f"{prefix}:{{region}}aa{{key}}")
    rows = (["y", "ay"], {"region": ["xa", "x"]})
    assert asked(source, rows)[0].reasons == ["invalid key"] * 2
    with http_source({"eu-1-5": {"age": 1.0}, "eu-7": {"age": 1.0}}) as (_, service):
        source = HTTPSource(url=f"{service.url}/v1/{{region}}-{{key}}")
        rows = (["1-5", "5", "7"], {"region": ["eu", "eu-1", "eu"]})
        assert asked(source, rows)[0].reasons == ["invalid key", "invalid key", ""]
        source = HTTPSource(url=f"{service.url}/v1/{{region}}/{{key}}")
        assert asked(source, (["eu-7"], {"region": ["a/b"]}))[0].reasons == [""]  # "/" is encoded
    with pytest.raises(SourcesError, match="text between"):
        RedisSource(url=REDIS, key="{region}{key}")


def test_a_text_that_is_no_unicode_fails_alone():
    """One byte that is no UTF-8 failed all rows of its call."""
    with redis_source(TABLE) as source:
        (batch,) = asked(source, (["k1", "\udcff", "k2"], {}))
        assert batch.reasons == ["", "invalid key", ""]


@pytest.mark.parametrize(
    ("url", "bad"),
    [(POSTGRES, "a\0b"), (POSTGRES, 5), (POSTGRES, 2**70), (MARIADB, 5), ("sqlite", 2**70)],
)
def test_bad_keys_open_no_breaker_and_fail_no_batch(url, bad, tmp_path):
    """What a database cannot read as a key is a failure of its row alone."""
    url = f"sqlite:///{tmp_path}/rows.db" if url == "sqlite" else url
    with sql_source(url, TABLE, timeout=5) as source:
        told = asked(source, *[([bad], {})] * 6, (["k1", bad, "k2", "k3"], {}))
    reason = "missing" if url == MARIADB else "invalid key"
    assert [batch.reasons for batch in told[:6]] == [[reason]] * 6
    assert told[6].reasons == ["", reason, "", ""]
    assert told[6].columns["age"] == [1.0, None, 2.0, 3.0]


@pytest.mark.parametrize("status", [400, 404, 410, 422])
def test_what_a_vendor_refuses_opens_no_breaker(status):
    """The vendor is well; the row is not."""
    with http_source(TABLE) as (source, service):
        service.behave = lambda key: None if key in TABLE else (status, {})
        told = asked(source, *[([f"bad{i}"], {}) for i in range(6)], (["k1"], {}))
    reason = "missing" if status in (404, 410) else "invalid key"
    assert [batch.reasons[0] for batch in told] == [reason] * 6 + [""]


def test_a_vendor_that_fails_still_opens_the_breaker():
    """A token that is no longer valid, and a broken service."""
    for status in (401, 429, 503):
        with http_source(TABLE, retries=0) as (source, service):
            service.behave = lambda _, status=status: (status, {})
            told = asked(source, *[([f"k{i}"], {}) for i in range(6)])
        assert [batch.reasons[0] for batch in told] == ["error"] * 5 + ["circuit open"]


@pytest.mark.parametrize("paid", [False, True])
def test_a_refused_batch_is_asked_in_halves_unless_it_is_paid(paid):
    """The bad rows are found; what is paid for is not asked twice."""
    calls = []

    async def ask(keys, _):
        calls.append(list(keys))
        if {"k7", "k11"} & set(keys):
            raise InvalidKeyError("This key cannot be asked for.")
        return {key: TABLE[key] for key in keys}

    source = CallableSource(function=ask, paid=paid, breaker=1)
    told, then = asked(source, (list(TABLE), {}), (["k1"], {}))
    assert then.reasons == [""]
    if paid:
        assert told.reasons == ["invalid key"] * 20
        assert told.paid == [0.0] * 20
        assert len(calls) == 2
    else:
        assert told.reasons == ["invalid key" if k in ("k7", "k11") else "" for k in TABLE]
        assert told.columns["age"][8:11] == [8.0, 9.0, 10.0]
        assert len(calls) < 20


def test_a_batch_that_a_service_refuses_is_asked_in_halves():
    """One request for all rows, answered with 400 because of one."""
    with http_source(TABLE, batch=True) as (source, service):
        service.refuses = lambda keys: "bad" in keys
        (batch,) = asked(source, (["k1", "k2", "bad", "k3"], {}))
        assert batch.reasons == ["", "", "invalid key", ""]


def test_a_source_that_gives_invalid_values_to_half_is_left_alone():
    """By distinct requests: one bad row, asked again and again, is one."""
    breaker = Breaker(failures=5, concurrency=8)
    for _ in range(100):
        breaker.judged([("same", True)])
    assert not breaker.is_open
    breaker.judged([(f"good{i}", False) for i in range(50)])
    breaker.judged([(f"bad{i}", True) for i in range(24)])
    assert not breaker.is_open
    breaker.judged([("bad24", True)])
    assert breaker.is_open


def test_an_integer_key_reads_no_whole_table():
    """MariaDB compares a number with a column of text as numbers: every word is 0."""
    table = {f"word{i}": {"age": float(i)} for i in range(500)} | {"0": {"age": 7.0}}
    with sql_source(MARIADB, table) as source:
        before = _rows_sent()
        (batch,) = asked(source, ([0, "word3"], {}))
        assert batch.columns["age"] == [7.0, 3.0]
        assert asked(source, ([0], {}))[0].columns["age"] == [7.0]
        assert _rows_sent() - before < 100


def _rows_sent():
    """Ask MariaDB how many rows it has read since it started."""
    engine = sa.create_engine(MARIADB.replace("mysql:", "mysql+pymysql:"))
    with engine.connect() as connection:
        (sent,) = connection.execute(sa.text("SHOW GLOBAL STATUS LIKE 'Rows_sent'")).all()
    engine.dispose()
    return int(sent[1])


def test_whole_numbers_still_name_rows_of_a_table_of_numbers(tmp_path):
    """In every database that has them as numbers."""
    for url in (POSTGRES, MARIADB, f"sqlite:///{tmp_path}/rows.db"):
        engine = sa.create_engine(
            url.replace("mysql:", "mysql+pymysql:").replace("postgresql:", "postgresql+psycopg:")
        )
        name = f"emsco_test_{uuid.uuid4().hex}"
        with engine.begin() as connection:
            connection.execute(sa.text(f"CREATE TABLE {name} (id BIGINT, age FLOAT)"))
            rows = f"INSERT INTO {name} VALUES (17, 1), (0, 2), (9007199254740993, 3)"
            connection.execute(sa.text(rows))
        query = f"SELECT id, age FROM {name} WHERE id IN :keys"
        source = SQLSource(url=driven(url), query=query, key_field="id")
        (batch,) = asked(source, ([9007199254740993, 0, 17, 9007199254740992], {}))
        with engine.begin() as connection:
            connection.execute(sa.text(f"DROP TABLE {name}"))
        engine.dispose()
        assert batch.columns["age"] == [3.0, 2.0, 1.0, None]


def test_a_decision_names_the_source_that_cannot_be_asked():
    """The reason is a kind like others, and the row costs nothing."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=200)
    X = (y + 0.1 * rng.normal(size=200))[:, None]
    cascade = CascadeClassifier(design=StageDesign([0])).fit(X, y)
    with http_source({"a": {"x0": 1.0}}, timeout=5) as (source, _):
        live = LiveCascade(cascade, Sources({"x0": source}))
        decisions = live.decide_now(["a", ".."])
        live.close_now()
    assert decisions.reason.tolist() == ["", "invalid key: x0"]
    assert decisions.cost.tolist() == [1.0, 0.0]
    assert "invalid key" in KINDS
