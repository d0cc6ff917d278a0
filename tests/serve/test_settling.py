"""Unknown charges are settled manually, by the vendor's bill, and never by time."""

from __future__ import annotations

import asyncio
import uuid

import pytest
import sqlalchemy as sa
from contract import Clock, asked_by, begin, opened, totals
from stores import POSTGRES
from test_state import STORES, store

from emsco.exceptions import StateError

NOON = 20_000 * 86_400 + 43_200.0
DAY, NEXT = "2024-10-04", "2024-10-05"


@pytest.fixture(params=STORES)
def address(request, tmp_path):
    """Return an empty address."""
    with store(request.param, tmp_path) as found:
        yield found


async def spend(state, source, *outcomes, price=2.0, limit=20.0):
    """Make calls of one row; None: a call whose process died."""
    begun = []
    for number, outcome in enumerate(outcomes):
        with asked_by(f"{source}-{number}", tenant=f"shop-{number % 2}"):
            intent = await begin(state, source, 1, price, limit)
        assert intent.granted == 1
        begun.append(intent)
        if outcome is not None:
            await state.end(intent, *outcome)
    return begun


@pytest.mark.parametrize(("charged", "left"), [(0.0, 9), (3.0, 7), (8.0, 5)])
def test_unknown_charges_become_what_the_bill_says(address, charged, left):
    """Those of one source on one day, for all tenants; the daily limit follows."""

    async def story():
        clock = Clock(NOON)
        async with opened(address, clock=clock) as state:
            unknown = (0.0, 2.0)
            await spend(state, "whois", unknown, (2.0, 0.0), unknown, None, unknown)
            await spend(state, "other", unknown)
            clock.now += 86_400
            await spend(state, "whois", unknown)
            clock.now -= 86_400
            assert await state.settle("whois", DAY, charged) == 8.0
            assert await totals(state, DAY) == {
                "whois": (pytest.approx(2.0 + charged), 0.0), "other": (0.0, 2.0)
            }  # fmt: skip
            assert not any(one.open for one in await state.spend(DAY) if one.source == "whois")
            assert await totals(state, NEXT) == {"whois": (0.0, 2.0)}
            with asked_by("later"):
                assert (await begin(state, "whois", 50, 2.0, 20.0)).granted == left
            assert await state.settle("nobody", DAY, 0.0) == 0.0

    asyncio.run(story())


def test_more_than_is_unknown_cannot_be_settled(address):
    """The bill then includes calls that this state does not know."""

    async def story():
        async with opened(address, clock=Clock(NOON)) as state:
            await spend(state, "whois", (0.0, 2.0))
            for wrong in (2.1, -1.0, float("nan")):
                with pytest.raises(StateError, match="from 0 to 2"):
                    await state.settle("whois", DAY, wrong)
            assert await totals(state) == {"whois": (0.0, 2.0)}

    asyncio.run(story())


@pytest.mark.parametrize("ended", [True, False], ids=["unanswered", "under way"])
def test_an_answer_that_comes_after_it_counts_as_it_is(address, ended):
    """It is what was paid for the call, whatever was settled."""

    async def story():
        async with opened(address, clock=Clock(NOON)) as state:
            (late,) = await spend(state, "whois", (0.0, 2.0) if ended else None)
            await state.settle("whois", DAY, 0.0)
            await state.end(late, 1.5, 0.0)
            assert await totals(state) == {"whois": (1.5, 0.0)}
            with asked_by("later"):
                assert (await begin(state, "whois", 50, 2.0, 20.0)).granted == 9

    asyncio.run(story())


def test_what_was_not_charged_may_be_bought_again(address):
    """A request whose process died was refused the source; settled to nothing, it is not."""

    async def story():
        clock = Clock(NOON)
        async with opened(address, clock=clock) as state:
            await state.claim("order", "body", 30.0)
            with asked_by("order"):
                await begin(state, "whois", 1, 2.0, 20.0)
            clock.now += 60
            await state.claim("order", "body", 30.0)
            with asked_by("order"):
                assert (await begin(state, "whois", 1, 2.0, 20.0)).granted == 0
                await state.settle("whois", DAY, 0.0)
                assert (await begin(state, "whois", 1, 2.0, 20.0)).granted == 1

    asyncio.run(story())


def test_a_week_later_they_are_still_unknown(address):
    """Old charges are not forgotten, and can still be settled."""

    async def story():
        clock = Clock(NOON)
        async with opened(address, clock=clock) as state:
            await spend(state, "whois", (0.0, 2.0), None, (2.0, 0.0))
            clock.now += 30 * 86_400
            if hasattr(state, "tidy"):
                await state.tidy()
            assert await totals(state) == {"whois": (2.0, 4.0)}
            assert await state.settle("whois", DAY, 4.0) == 4.0
            assert await totals(state) == {"whois": (6.0, 0.0)}

    asyncio.run(story())


@pytest.mark.parametrize("level", ["serializable", "repeatable read"])
def test_a_server_with_a_stricter_isolation_refuses_no_call(level, tmp_path):
    """100 calls begin and end at once, with a limit, on connections that would be stricter."""

    async def story(address):
        async with opened(address, timeout=30.0) as state:

            async def buy(number):
                with asked_by(f"order-{number}"):
                    intent = await begin(state, "whois", 1, 1.0, 290.0)
                await state.end(intent, float(intent.granted), 0.0)
                return intent.granted

            for first in (0, 100, 200):  # the first ones wait while the day is opened
                numbers = range(first, first + 100)
                found = await asyncio.gather(*map(buy, numbers), return_exceptions=True)
                assert [one for one in found if isinstance(one, Exception)] == []
            assert sum(found) == 90
            assert await totals(state) == {"whois": (290.0, 0.0)}

    role = f"t{uuid.uuid4().hex[:12]}"
    engine = sa.create_engine(POSTGRES.replace("postgresql://", "postgresql+psycopg://"))
    with engine.begin() as connection:
        connection.execute(sa.text(f"CREATE ROLE {role} SUPERUSER LOGIN"))
        connection.execute(
            sa.text(f"ALTER ROLE {role} SET default_transaction_isolation = '{level}'")
        )
    try:
        with store("postgresql", tmp_path) as address:
            asyncio.run(story(address.replace("postgres@", f"{role}@")))
    finally:
        with engine.begin() as connection:
            connection.execute(sa.text(f"DROP OWNED BY {role}"))
            connection.execute(sa.text(f"DROP ROLE {role}"))
        engine.dispose()
