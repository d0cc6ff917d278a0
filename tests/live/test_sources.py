"""Live sources, on real stores: keys get their own values, and everything else is a reason."""

from __future__ import annotations

import asyncio
import time

import pytest
from stores import MARIADB, POSTGRES, http_source, redis_source, sql_source

from emsco.exceptions import ContractError
from emsco.live import CallableSource, RedisSource
from emsco.testing import check_source

KEYS = ["a81f", "77c0", "ä/ö ?&", "A81F", "a81f ", "'; DROP TABLE x; --", "{key}"]
TABLE = {
    key: {"length": i * 1.5, "links": None if i == 3 else float(i)} for i, key in enumerate(KEYS)
}
SQL = {"postgresql": POSTGRES, "mariadb": MARIADB}


def fetched(source, keys, values=None):
    """Open a source, ask once, and close it."""

    async def ask():
        client = source.open(["length", "links"])
        try:
            return await client.fetch(keys, values or {})
        finally:
            await client.close()

    return asyncio.run(ask())


@pytest.mark.parametrize("kind", ["hash", "json"])
@pytest.mark.parametrize("key_field", ["id", None])
def test_redis_keeps_the_contract(kind, key_field):
    """As hashes and as JSON, with the key repeated and without."""
    with redis_source(TABLE, format=kind, key_field=key_field) as source:
        check_source(source, TABLE)
        assert fetched(source, ["a81f"]).verified == (key_field is not None)


@pytest.mark.parametrize("store", SQL)
def test_databases_keep_the_contract(store):
    """Keys that differ by case or by a space at the end are other keys; two rows are ambiguous."""
    with sql_source(SQL[store], TABLE | {"two": TABLE["77c0"]}, twice=["two"]) as source:
        check_source(source, TABLE, reasons={"two": "ambiguous"})


def test_sqlite_keeps_the_contract(tmp_path):
    """The database that needs no server."""
    with sql_source(f"sqlite:///{tmp_path}/rows.db", TABLE, twice=["77c0"]) as source:
        rest = {key: row for key, row in TABLE.items() if key != "77c0"}
        check_source(source, rest, reasons={"77c0": "ambiguous"})


@pytest.mark.parametrize("batch", [False, True])
def test_services_keep_the_contract(batch):
    """One request per row, and one for all."""
    with http_source(TABLE, batch=batch) as (source, service):
        check_source(source, TABLE)
        assert set(service.asked) >= set(TABLE)


def test_functions_keep_the_contract():
    """Sync and async, and pairs in which a key comes twice."""

    async def later(keys, _):
        await asyncio.sleep(0.001)
        return {key: TABLE[key] for key in keys if key in TABLE}

    check_source(CallableSource(function=lambda *_: TABLE), TABLE)
    check_source(CallableSource(function=later), TABLE)
    pairs = [*TABLE.items(), ("two", {}), ("two", {}), ("odd", "no mapping")]
    source = CallableSource(function=lambda *_: pairs)
    check_source(source, TABLE, reasons={"two": "ambiguous", "odd": "error"})


def test_a_source_that_answers_by_position_is_found_out():
    """The mistake that the contract is there for."""
    rows = list(TABLE.values())
    source = CallableSource(function=lambda keys, _: dict(zip(keys, rows, strict=False)))
    with pytest.raises(ContractError, match="is another value"):
        check_source(source, TABLE)


@pytest.mark.parametrize("offset", [-1e9, -7200.0, 7200.0])
def test_answers_that_are_too_old_or_from_the_future_are_stale(offset):
    """By the time of the event that the store gives."""
    moment = time.time() + offset
    table = {
        "new": {"length": 1.0, "links": 2.0},
        "old": {"length": 1.0, "links": 1.0, "at": moment},
    }
    with redis_source(table, max_age=3600) as source:
        found = fetched(source, ["old", "new"])
        assert found.reasons == ["stale", ""]
        assert found.columns["length"] == [None, b"1.0"]
    with http_source(table, max_age=3600) as (service, _):
        assert fetched(service, ["old", "new"]).reasons == ["stale", ""]
    with redis_source(table, max_age=3600, time_field="none") as source:
        assert fetched(source, ["new"]).reasons == ["stale"]  # how old, nobody knows


def test_a_row_that_fails_never_fails_its_batch():
    """A wrong type in Redis, JSON that is none, a service's error, a redirect, a pause."""
    with http_source(TABLE, timeout=0.3) as (source, service):
        odd = {"a81f": (500, {}), "77c0": (200, b"<html>"), "A81F": (302, {}), "{key}": (200, [1])}

        def behave(key):
            if key == "a81f ":
                time.sleep(1)
            return odd.get(key)

        service.behave = behave
        found = fetched(source, list(TABLE))
        reasons = dict(zip(TABLE, found.reasons, strict=True))
        assert reasons.pop("a81f ") == "timeout"
        assert [reasons.pop(key) for key in odd] == ["error"] * 4
        assert set(reasons.values()) == {""}
        assert "elsewhere" not in " ".join(service.asked)


def test_an_answer_for_another_key_is_nobodys():
    """A service that mixes rows up: the key that it repeats says whose they are."""
    with http_source(TABLE) as (source, service):
        service.behave = lambda _: (200, {"id": "77c0", "at": time.time(), **TABLE["77c0"]})
        assert fetched(source, ["a81f"]).reasons == ["missing"]


def test_values_that_requests_use_are_encoded():
    """A value can lead to no other place, and its rows are matched by their key."""
    with http_source({"../a": TABLE["77c0"]}, key_field=None) as (source, service):
        url = source.url.replace("{key}", "{domain}")
        source = type(source)(url=url, time_field="/at")
        assert source.needs == {"domain"}
        found = fetched(source, [17], {"domain": ["../a"]})
        assert found.columns["length"] == [1.5]
        assert service.asked == ["../a"]


def test_a_password_is_hidden_as_the_url_and_as_drivers_spell_it():
    source = RedisSource(key="{key}", url="redis://:p%40ss%2Fword@host:6379/0")
    assert source.redacted("AUTH p@ss/word; p%40ss%2Fword") == "AUTH ***; ***"
