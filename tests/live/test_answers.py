"""Answers that cannot be used fail their own row: too deep, too long, twice named, or packed."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
import time
import tracemalloc
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
import redis
from stores import REDIS, http_source, redis_source

from emsco import CascadeClassifier, StageDesign
from emsco.live import CallableSource, HTTPSource, LiveCascade, Sources
from emsco.live.coalescing import CoalescingGate
from emsco.live.typed_columns import to_column
from emsco.rows.column_reader import BOOLEAN, NUMBER, NUMERIC_CATEGORY, ColumnReader

DEEP = "[" * 100_000 + "]" * 100_000
HUGE = "1" + "0" * 400
TABLE = {f"k{i}": {"age": float(i)} for i in range(4)}


def asked(source, *calls):
    """Ask a source through its gate, call after call; give what each call got."""

    async def ask():
        gate = CoalescingGate(source, ["age"], 1.0)
        try:
            return [await gate.fetch(keys, {}) for keys in calls]
        finally:
            await gate.close()

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("kind", "others"), [(NUMBER, [0, 2]), (NUMERIC_CATEGORY, [0, 2]), (BOOLEAN, [])]
)
def test_booleans_are_values_where_training_had_them(kind, others):
    """True is not 1, unless the column held true and false."""
    reader = ColumnReader(kind, missing_seen=True)
    assert to_column([True, 1.0, np.False_, None], reader)[1] == others


def test_a_boolean_for_a_number_is_rejected():
    """In a live decision, fetched and known."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=200)
    X = (y + 0.1 * rng.normal(size=200))[:, None]
    cascade = CascadeClassifier(design=StageDesign([0])).fit(X, y)
    given = {"a": True, "b": 1.0}
    source = CallableSource(function=lambda keys, _: {key: {"x0": given[key]} for key in keys})
    live = LiveCascade(cascade, Sources({"x0": source}))
    assert live.decide_now(["a", "b"]).reason.tolist() == ["invalid value: x0", ""]
    known = {"x0": [True, 1.0]}
    assert live.decide_now(["a", "b"], known).reason.tolist() == ["invalid value: x0", ""]
    live.close_now()


@pytest.mark.parametrize("body", ['{"age": 1, "age": 2}', '{"age": 1, "more": {"a": 1, "a": 1}}'])
def test_a_name_that_comes_twice_is_refused(body):
    """Which of the two is meant, nobody knows."""
    with http_source(TABLE, key_field=None, time_field=None) as (source, service):
        service.behave = lambda key: (200, body.encode()) if key == "k1" else None
        (batch,) = asked(source, list(TABLE))
        assert batch.reasons == ["", "invalid value", "", ""]
    with redis_source(TABLE, format="json", key_field=None, time_field=None) as source:
        _store(source, "k1", body)
        assert asked(source, list(TABLE))[0].reasons == ["", "invalid value", "", ""]


def _store(source, key, text):
    store = redis.Redis.from_url(REDIS)
    store.set(source.key.replace("{key}", key), text)
    store.close()


def test_a_deep_document_fails_alone():
    """It can be read by no recursion."""
    with redis_source(TABLE, format="json") as source:
        _store(source, "k1", DEEP)
        assert asked(source, list(TABLE))[0].reasons == ["", "invalid value", "", ""]
    with http_source(TABLE) as (source, service):
        service.behave = lambda key: (200, DEEP.encode()) if key == "k1" else None
        assert asked(source, list(TABLE))[0].reasons == ["", "invalid value", "", ""]


def test_what_redis_holds_in_another_way_opens_no_breaker():
    """A list where a hash should be, and text that is no JSON."""
    name = f"emsco-test:{uuid.uuid4().hex}"
    store = redis.Redis.from_url(REDIS)
    with redis_source(TABLE, key_field=None, time_field=None) as source:
        odd = source.key.replace("{key}", name)
        store.rpush(odd, "a")
        found = asked(source, *[[name]] * 6, ["k1"])
        store.delete(odd)
        assert [one.reasons for one in found] == [["invalid value"]] * 6 + [[""]]
    with redis_source(TABLE, format="json") as source:
        _store(source, "k1", "no JSON")
        found = asked(source, *[["k1"]] * 6, ["k2"])
        assert [one.reasons for one in found] == [["invalid value"]] * 6 + [[""]]
    store.close()


@pytest.mark.parametrize("field", ["at", "price", "age"])
@pytest.mark.parametrize("batch", [False, True])
def test_a_number_of_400_digits_fails_alone(field, batch):
    """As a time, as a price and as a value."""
    with http_source(TABLE, batch=batch, price_field="/price", max_age=60) as (source, service):
        plain = service.answer

        def answer(key):
            status, document = plain(key)
            return status, {**document, field: int(HUGE)} if key == "k1" else document

        service.answer = answer
        (found,) = asked(source, list(TABLE))
    expected = {"at": "stale", "price": "invalid value", "age": ""}[field]
    assert found.reasons == ["", expected, "", ""]
    if field == "age":
        reader = ColumnReader(NUMBER, missing_seen=True)
        column, _ = to_column(found.columns["age"], reader)
        assert reader.invalid(reader.read(column)).tolist() == [False, True, False, False]


def test_functions_may_give_numbers_that_are_too_large():
    """The same, without JSON in between."""
    rows = {"a": {"age": 1.0, "cost": 10**400, "at": 1.0}, "b": {"age": 2.0, "at": 10**400}}
    source = CallableSource(function=lambda *_: rows, price_field="cost", time_field="at")
    assert asked(source, ["a", "b"])[0].reasons == ["invalid value", ""]


class Packing:
    """A vendor that packs its answers, whatever it was asked for."""

    def __init__(self, body, encoding):
        self.wanted = []
        vendor = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):  # named by the standard library
                vendor.wanted.append(self.headers.get("Accept-Encoding"))
                self.send_response(200)
                self.send_header("Content-Encoding", encoding)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                """Be quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/{{key}}"
        threading.Thread(target=self._server.serve_forever, args=[0.02], daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()


BOMB = gzip.compress(b"[" + b" " * 200_000_000 + b"]", 1)


@pytest.mark.parametrize(
    ("body", "encoding"),
    [
        (gzip.compress(BOMB), "gzip, gzip"),
        (BOMB, "gzip"),
        (b"no gzip", "gzip"),
        (gzip.compress(b'{"age": 1}')[:-9], "gzip"),
        (b'{"age": 1}', "br"),
    ],
    # Named here: the bytes of gzip hold the time of day, and two workers must find the same tests.
    ids=["packed twice", "a bomb", "not packed", "cut short", "another packing"],
)
def test_a_packed_answer_takes_no_memory(body, encoding):
    """It is unpacked within the limit of an answer, or not at all."""
    with Packing(body, encoding) as vendor:
        source = HTTPSource(url=vendor.url, timeout=5)
        tracemalloc.start()
        begin = time.perf_counter()
        found = asked(source, *[[f"k{i}"] for i in range(6)])
        seconds = time.perf_counter() - begin
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert [one.reasons for one in found] == [["invalid value"]] * 6
    assert most < 100e6
    assert seconds < 10


@pytest.mark.parametrize("compressed", [False, True])
def test_packed_answers_are_asked_for_by_name(compressed):
    """And are read."""
    body = gzip.compress(json.dumps({"age": 4.0}).encode())
    with Packing(body, "gzip") as vendor:
        (found,) = asked(HTTPSource(url=vendor.url, compressed=compressed), ["a"])
        assert (found.reasons, found.columns) == ([""], {"age": [4.0]})
        assert vendor.wanted == ["gzip" if compressed else "identity"]
    text = Sources({"v": HTTPSource(url="https://v.example/{key}", compressed=True)}).to_toml()
    assert "compressed = true" in text


def test_a_source_of_invalid_values_is_left_alone():
    """When half of the last 50 requests got them; a row that is asked for often is one request."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=200)
    X = (y + 0.1 * rng.normal(size=200))[:, None]
    cascade = CascadeClassifier(design=StageDesign([0])).fit(X, y)
    source = CallableSource(
        function=lambda keys, _: {k: {"x0": "soon" if k.startswith("bad") else 1.0} for k in keys}
    )
    live = LiveCascade(cascade, Sources({"x0": source}))
    for _ in range(60):
        assert live.decide_now(["bad"]).reason[0] == "invalid value: x0"
    for i in range(30):
        assert live.decide_now([f"good{i}"]).accepted[0]
    live.decide_now([f"bad{i}" for i in range(24)])
    assert live.decide_now(["good"]).reason[0] == ""
    live.decide_now([f"bad{i}" for i in range(25)])
    assert live.decide_now(["good"]).reason[0] == "circuit open: x0"
    live.close_now()
