"""`emsco spend`, with real stores: what was spent, and calls that have no outcome."""

from __future__ import annotations

import asyncio
import json
import uuid

import pytest
import redis
import sqlalchemy as sa
from commands import call
from stores import POSTGRES, REDIS

from emsco.serve.state import RequestContext, open_state

NOON = 1_700_000_000.0  # 2023-11-14, 22:13:20 UTC
PREFIX = f"t{uuid.uuid4().hex[:12]}"


async def fill(address):
    """Spend something on two days, and leave a call without an outcome."""
    now = NOON
    state = await open_state(address, clock=lambda: now)
    context = RequestContext("order-7", "shop")
    await state.end(await state.begin("whois", 3, 2.5, 100.0, context), 7.5, 0.0)
    await state.end(await state.begin("dns", 1, 12_345.678, None, context), 0.0, 12_345.678)
    now += 86_400
    context = RequestContext("order-8", "bank")
    await state.begin("whois", 2, 2.5, 100.0, context)
    await state.close()


@pytest.fixture(scope="module", params=["sqlite", "postgresql", "redis"])
def state(request, tmp_path_factory):
    """Give the address of a state with some spending in it."""
    folder = tmp_path_factory.mktemp("spend")
    address = {
        "sqlite": str(folder / "state.sqlite"),
        "postgresql": f"{POSTGRES}?prefix={PREFIX}",
        "redis": f"{REDIS}?prefix={PREFIX}",
    }[request.param]
    asyncio.run(fill(address))
    yield address
    with redis.Redis.from_url(REDIS) as client:
        for key in client.scan_iter(f"{PREFIX}:*"):
            client.delete(key)
    engine = sa.create_engine(POSTGRES.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        for table in sa.inspect(connection).get_table_names():
            if table.startswith(f"{PREFIX}_"):
                connection.execute(sa.text(f"DROP TABLE {table}"))
    engine.dispose()


def test_spending_is_shown_by_source_tenant_and_day(state):
    called = call("spend", state)
    assert called.code == 0
    lines = called.out.splitlines()
    assert [line.split() for line in lines[:4]] == [
        ["source", "tenant", "day", "paid", "unknown"],
        ["dns", "shop", "2023-11-14", "0", "12,345.68"],
        ["whois", "shop", "2023-11-14", "7.5", "0"],
        ["whois", "bank", "2023-11-15", "0", "5"],
    ]


def test_calls_without_an_outcome_are_listed(state):
    out = call("spend", state).out
    assert "Calls without an outcome." in out
    begun = out.splitlines()[-1].split()
    assert begun[:7] == ["2023-11-15", "22:13:20", "whois", "bank", "order-8", "2", "5"]
    assert len(begun) == 8
    # On the day before, every call has one.
    assert "outcome" not in call("spend", state, "--day", "2023-11-14").out


def test_a_day_is_shown_by_itself(state):
    out = call("spend", state, "--day", "2023-11-15").out
    assert "bank" in out
    assert "shop" not in out
    assert call("spend", state, "--day", "2023-11-16").out == "Nothing was spent on 2023-11-16.\n"
    called = call("spend", state, "--day", "today")
    assert called.code == 2
    assert "The day must look like" in called.err


def test_programs_get_json(state):
    found = json.loads(call("spend", state, "--json").out)
    assert [(one["source"], one["tenant"], one["day"]) for one in found] == [
        ("dns", "shop", "2023-11-14"),
        ("whois", "shop", "2023-11-14"),
        ("whois", "bank", "2023-11-15"),
    ]
    assert [(one["paid"], one["unknown"]) for one in found] == [(0, 12_345.678), (7.5, 0), (0, 5)]
    (begun,) = found[-1]["open"]
    assert (begun["request"], begun["rows"], begun["held"]) == ("order-8", 2, 5.0)
    assert begun["at"] == NOON + 86_400


def test_the_state_may_be_named_by_the_environment(state, monkeypatch):
    """Where its password is not seen in the list of processes."""
    monkeypatch.setenv("EMSCO_STATE", state)
    assert call("spend").out == call("spend", state).out


def test_a_state_that_is_not_there_is_not_made(tmp_path):
    path = tmp_path / "typo.sqlite"
    called = call("spend", path)
    assert called.code == 2
    assert called.err == f"emsco: There is no state at {path}.\n"
    assert not path.exists()
    called = call("spend", f"{REDIS}?prefix=nobody_has_used_this")
    assert called.code == 2
    assert "There is no state at redis://" in called.err


def test_a_new_state_has_spent_nothing(tmp_path):
    async def make(path):
        await (await open_state(str(path))).close()

    asyncio.run(make(tmp_path / "state.sqlite"))
    assert call("spend", tmp_path / "state.sqlite").out == "Nothing was spent.\n"


def test_unknown_charges_are_settled_by_the_bill(tmp_path):
    """While the service runs; it says what it did, and refuses what is not the whole question."""
    address = str(tmp_path / "state.sqlite")
    asyncio.run(fill(address))

    async def while_open():
        running = await open_state(address)
        told = await asyncio.to_thread(
            call, "spend", address, "--settle", "dns", "--day", "2023-11-14", "--charged", "345.678"
        )
        await running.close()
        return told

    told = asyncio.run(while_open())
    assert told.code == 0
    assert told.out == (
        "Of 12,345.68 unknown for dns on 2023-11-14, 345.68 was charged and 12,000 was not.\n"
    )
    told = call("spend", address, "--settle", "dns", "--day", "2023-11-14", "--charged", "0")
    assert told.out == "Nothing is unknown for dns on 2023-11-14.\n"
    (dns,) = [
        one for one in json.loads(call("spend", address, "--json").out) if one["source"] == "dns"
    ]
    assert (dns["paid"], dns["unknown"]) == (pytest.approx(345.678), 0.0)
    told = call("spend", address, "--settle", "whois", "--day", "2023-11-15", "--charged", "6")
    assert told.code == 2
    assert "must be from 0 to 5, got 6.0" in told.err
    for wrong in (
        ["--settle", "dns"],
        ["--charged", "0"],
        ["--settle", "dns", "--day", "2023-11-14"],
    ):
        told = call("spend", address, *wrong)
        assert told.code == 2
        assert "--settle needs --day and --charged" in told.err
    missing = str(tmp_path / "none.sqlite")
    assert (
        call("spend", missing, "--settle", "a", "--day", "2023-11-14", "--charged", "0").code == 2
    )
    assert not (tmp_path / "none.sqlite").exists()
