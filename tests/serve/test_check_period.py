"""Periods of spot checks: the machine in memory, and every store beside it, step by step."""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import sys
from pathlib import Path

import pytest
from contract import Clock, opened
from hypothesis import given
from hypothesis import strategies as st
from own_redis import own_redis
from test_state import STORES, store

from emsco.exceptions import StateError
from emsco.serve.check_period import (
    ACCEPTED_LOSS,
    CHANGED,
    CHEAP,
    CHECK,
    FINAL,
    RESTARTED,
    Admission,
    CheckOutcome,
    CheckPeriod,
    PeriodTerms,
    StoreIdentity,
    take_turn,
)
from emsco.serve.incarnation import accept, begin
from emsco.serve.state import open_state

TERMS = PeriodTerms("settings", 40, 0.0, tolerated=2, rate=0.3)
DAILY = PeriodTerms("settings", 0, 86_400.0, tolerated=2, rate=0.3)
HERE = StoreIdentity()
T0 = 20_000 * 86_400.0 + 3600


def rows(coins, name="row"):
    return [Admission(f"{name}-{i}", coin) for i, coin in enumerate(coins)]


def after(steps, terms=TERMS, here=HERE, before=None, now=T0):
    return take_turn(before, steps, terms, here, now)


def test_a_row_is_admitted_while_known_and_open_checks_are_few():
    coins = [0.9, 0.1, 0.29, 0.3, 0.1, 0.9, 0.1]
    admitted, period = after(rows(coins))
    assert admitted == [CHEAP, CHECK, CHECK, CHEAP, CHECK, FINAL, FINAL]
    assert (period.cheap, period.checked, period.final) == (2, 3, 2)
    assert not period.is_open
    admitted, period = after([CheckOutcome("row-1", True), *rows([0.5], "a")], before=period)
    assert admitted == [CHEAP]
    steps = [CheckOutcome("row-2", False), CheckOutcome("row-4", False), *rows([0.1], "b")]
    admitted, period = after(steps, before=period)
    assert (admitted, period.known) == ([CHECK], 2)
    admitted, period = after([CheckOutcome("b-0", False), *rows([0.9], "c")], before=period)
    assert (admitted, period.known, period.finished) == ([FINAL], 3, 4)


def test_a_check_ends_once_and_a_late_one_is_of_no_other_period():
    _, period = after(rows([0.1]))
    after([CheckOutcome("row-0", True), CheckOutcome("row-0", False)], before=period)
    assert (period.known, period.under_way) == (0, {})
    # Rows of one request are divided where the period ends.
    _, later = after(rows([0.1, *[0.9] * 39], "b"), before=period)
    assert (period.number, period.rows, period.under_way) == (0, 40, {"b-0": 1})
    assert (later.number, later.rows, later.under_way) == (1, 1, {})
    after([CheckOutcome("b-0", False)], before=later)
    assert later.known == 0


@given(
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.sampled_from("abc")), max_size=200),
    st.integers(0, 3),
)
def test_what_the_proof_rests_on_holds_after_every_step(flips, tolerated):
    """Bad rows that were checked never outnumber what counts, and while any is let out are few."""
    terms = PeriodTerms("settings", 10_000, 0.0, tolerated, 0.4)
    period, bad, checked = None, 0, []
    for i, (coin, ends) in enumerate(flips):
        (became,), period = after([Admission(str(i), coin)], terms, before=period)
        if became == CHECK:
            checked.append(str(i))
            bad += 1
        if became == CHEAP:
            assert bad <= tolerated
        if ends != "a" and checked:
            agrees = ends == "b"
            period.finish(CheckOutcome(checked.pop(0), agrees))
            bad -= agrees
        assert period.known + len(period.under_way) >= bad


def test_a_period_of_time_ends_by_the_clock_and_not_by_one_that_is_set_back():
    _, period = after(rows([0.9]), DAILY)
    assert (period.number, period.ends) == (20_000, 20_001 * 86_400.0)
    _, same = after(rows([0.9]), DAILY, before=period, now=T0 - 2 * 86_400)
    assert (same.number, same.rows) == (20_000, 2)
    _, later = after(rows([0.9]), DAILY, before=same, now=T0 + 86_400)
    assert (later.number, later.rows, later.closed) == (20_001, 1, "")


@pytest.mark.parametrize("terms", [TERMS, DAILY])
def test_a_store_that_may_have_lost_writes_closes_the_period_of_the_moment(terms):
    """Also where the last period it knows is over: it may have forgotten this one."""
    _, period = after(rows([0.9] * 39), terms, StoreIdentity("a"))
    for now in (T0, T0 + 86_400):
        admitted, closed = after(rows([0.9]), terms, StoreIdentity("b"), period, now)
        assert (admitted, closed.closed) == ([FINAL], RESTARTED)
        admitted, _ = after(rows([0.9] * 39), terms, StoreIdentity("b"), closed, now)
        assert set(admitted) == {FINAL}
        admitted, later = after(rows([0.9]), terms, StoreIdentity("b"), closed, now + 86_400)
        assert (admitted, later.closed) == ([CHEAP], "")


def test_a_clock_that_is_set_back_and_a_restart_open_no_period_twice():
    _, period = after(rows([0.9]), DAILY, StoreIdentity("a"), now=20_001 * 86_400.0)
    _, closed = after(rows([0.9]), DAILY, StoreIdentity("b"), period, 20_001 * 86_400.0 - 1)
    admitted, again = after(rows([0.9]), DAILY, StoreIdentity("b"), closed, 20_001 * 86_400.0)
    assert (admitted, again.number, again.closed) == ([FINAL], 20_001, RESTARTED)
    # One that was years ahead does not stay so.
    _, closed = after(rows([0.9]), DAILY, StoreIdentity("c"), again, T0 - 5 * 86_400)
    assert closed.number == 19_995


@pytest.mark.parametrize("other", [{"settings": "other"}, {"per_rows": 50},
                                   {"per_rows": 0, "per_seconds": 3600.0}])  # fmt: skip
def test_changed_settings_close_until_the_next_period(other):
    _, period = after(rows([0.9] * 10))
    changed = PeriodTerms(**vars(TERMS) | other)
    admitted, closed = after(rows([0.9]), changed, before=period)
    assert (admitted, closed.closed) == ([FINAL], CHANGED)
    admitted, _ = after(rows([0.9]), TERMS, before=CheckPeriod.from_data(closed.to_data()))
    assert admitted == [FINAL]  # also for those that have the old ones


def test_other_terms_do_not_change_a_period_that_has_begun():
    _, period = after(rows([0.9]))
    admitted, period = after(rows([0.35]), PeriodTerms("settings", 40, 0.0, 9, 0.4), before=period)
    assert (admitted, period.tolerated, period.rate) == ([CHEAP], 2, 0.3)


# In stores


def script(kind, seed, periods=20):
    """Make turns: steps, terms and the time, over so many periods."""
    rng, turns, now, number = random.Random(seed), [], T0, 0
    per_rows = 100 if kind == "rows" else 0
    seconds = 0.0 if per_rows else 3600.0
    open_checks, begun = [], 0
    while begun < periods:
        settings = "other" if rng.random() < 0.02 else "settings"
        terms = PeriodTerms(settings, per_rows, seconds, rng.randrange(4), rng.random() / 2)
        steps = []
        for _ in range(rng.choice([0, 1, 1, 1, 2, 7, 30])):
            if open_checks and rng.random() < 0.5:
                one = open_checks.pop(-rng.randrange(1, min(len(open_checks), 5) + 1))
                steps.append(CheckOutcome(one, rng.random() < 0.6))
            else:
                number += 1
                steps.append(Admission(f"row-{number}", rng.random()))
                open_checks.append(f"row-{number}")  # also those that are none: nothing happens
        now += rng.choice([0.0, 0.25, 30.1, 300.0, -45.0])
        turns.append((steps, terms, now))
        begun = sum(one.__class__ is Admission for turn in turns for one in turn[0]) // 100
        if seconds:
            begun = int((now - T0) // seconds)
    return turns


def replayed(turns, here):
    """Give what the machine in memory does."""
    period, found = None, []
    for steps, terms, now in turns:
        taken = take_turn(period, steps, terms, here, now)
        period = taken.period
        found.append(as_data(taken))
    return found


def as_data(taken):
    return taken.admitted, taken.period and taken.period.to_data()


@pytest.mark.parametrize("kind", ["rows", pytest.param("seconds", marks=pytest.mark.nightly)])
@pytest.mark.parametrize("name", STORES)
def test_every_store_does_what_the_machine_in_memory_does_step_by_step(name, kind, tmp_path):
    turns = script(kind, seed=44)

    async def run(address):
        clock = Clock()
        async with opened(address, clock=clock) as state:
            found = []
            for steps, terms, now in turns:
                clock.now = now
                found.append(as_data(await state.turn(steps, terms)))
        return found

    with store(name, tmp_path) as address:
        found = asyncio.run(run(address))
    server = next(period["server"] for _, period in found if period)
    assert bool(server) is (name != "sqlite")
    expected = replayed(turns, StoreIdentity(server))
    assert found == expected
    numbers = {period["number"] for _, period in found if period}
    assert len(numbers) >= 20
    assert {period["closed"] for _, period in found if period} == {"", CHANGED}
    assert max(period["known"] for _, period in found if period) > 2
    assert {became for admitted, _ in found for became in admitted} == {CHEAP, CHECK, FINAL}


def take_turns(address, pipe):
    """Take turns as they are sent, in a process of its own."""

    async def run():
        clock = Clock()
        async with opened(address, clock=clock) as state:
            pipe.send("ready")
            while (turn := await asyncio.to_thread(pipe.recv)) is not None:
                steps, terms, clock.now = turn
                pipe.send(as_data(await state.turn(steps, terms)))

    asyncio.run(run())


@pytest.mark.nightly
@pytest.mark.parametrize("name", STORES)
def test_three_processes_share_a_period(name, tmp_path, monkeypatch):
    """Each takes some of the turns; the result is that of one machine."""
    monkeypatch.setattr(sys, "path", [str(Path(__file__).parent), *sys.path])
    context, turns, found = multiprocessing.get_context("spawn"), script("rows", seed=45), []
    with store(name, tmp_path) as address:
        pipes, processes = [], []
        for _ in range(3):
            here, there = context.Pipe()
            process = context.Process(target=take_turns, args=(address, there), daemon=True)
            process.start()
            pipes.append(here)
            processes.append(process)
        assert [pipe.recv() for pipe in pipes] == ["ready"] * 3
        rng = random.Random(46)
        for turn in turns:
            pipe = rng.choice(pipes)
            pipe.send(turn)
            found.append(pipe.recv())
        for pipe, process in zip(pipes, processes, strict=True):
            pipe.send(None)
            process.join(20)
    server = next(period["server"] for _, period in found if period)
    assert found == replayed(turns, StoreIdentity(server))


def test_concurrent_turns_are_taken_one_after_another(tmp_path):
    """No admission is lost or counted twice, however many are made at once."""

    async def run(address):
        terms = PeriodTerms("settings", 100_000, 0.0, tolerated=5, rate=0.01)
        rng = random.Random(5)
        async with opened(address) as one, opened(address) as other:
            steps = [rows([rng.random() for _ in range(5)], f"{i}") for i in range(100)]
            work = [(one, other)[i % 2].turn(each, terms) for i, each in enumerate(steps)]
            taken = await asyncio.gather(*work)
            period = (await one.turn([], terms)).period
        return [became for each in taken for became in each.admitted], period

    for name in STORES:
        with store(name, tmp_path) as address:
            admitted, period = asyncio.run(run(address))
        assert period.rows == 500 == len(admitted)
        assert period.checked == admitted.count(CHECK) == len(period.under_way)
        assert period.cheap == admitted.count(CHEAP)


def test_a_redis_that_was_killed_closes_the_period(tmp_path):
    """It has all that it was given here, but nobody could know."""

    async def run(own):
        async with opened(own.url) as state:
            taken = [await state.turn(rows([0.9, 0.1]), TERMS)]
            await asyncio.to_thread(own.kill)
            with pytest.raises(StateError):
                await state.turn(rows([0.9]), TERMS)
            await asyncio.to_thread(own.start)
            taken += [await state.turn(rows([0.9] * n), TERMS) for n in (1, 39, 1)]
        return taken

    with own_redis(tmp_path) as own:
        first, closed, whole, later = asyncio.run(run(own))
    assert first.admitted == [CHEAP, CHECK]
    assert (closed.admitted, closed.period.closed) == ([FINAL], RESTARTED)
    assert set(whole.admitted) == {FINAL}
    assert (later.admitted, later.period.number, later.period.under_way) == ([CHEAP], 2, {})


def test_nothing_is_admitted_in_a_state_that_lost_its_incarnation(tmp_path):
    async def run(address):
        async with opened(address) as state:
            state.incarnation = (await begin(state)).to_text()
            taken = [await state.turn(rows([0.9]), TERMS)]
            accepted = await accept(state)  # after a loss, say
            taken.append(await state.turn(rows([0.9]), TERMS))
            state.incarnation = accepted.to_text()
            taken.append(await state.turn(rows([0.9]), TERMS))
        return taken

    for name in ("postgresql", "redis"):
        with store(name, tmp_path) as address:
            first, lost, later = asyncio.run(run(address))
        assert (first.admitted, first.period.closed) == ([CHEAP], "")
        assert (lost.admitted, lost.period) == ([FINAL], None)
        assert (later.admitted, later.period.closed) == ([FINAL], RESTARTED)


def test_a_state_that_was_accepted_without_a_period_begins_with_a_closed_one(tmp_path):
    async def run(address):
        async with opened(address) as state:
            state.incarnation = (await accept(state)).to_text()
            return await state.turn(rows([0.9]), TERMS)

    for name in ("postgresql", "redis"):
        with store(name, tmp_path) as address:
            taken = asyncio.run(run(address))
        assert (taken.admitted, taken.period.closed) == ([FINAL], ACCEPTED_LOSS)


def test_looking_at_a_period_changes_nothing(tmp_path):
    async def run(address):
        async with opened(address) as state:
            assert (await state.turn([], TERMS)).period is None
            taken = await state.turn(rows([0.1, 0.9]), TERMS)
            other = PeriodTerms("other", 40, 0.0, 0, 0.0)
            assert (await state.turn([], other)).period == taken.period
        state = await open_state(address, create=False)
        await state.close()

    for name in STORES:
        with store(name, tmp_path) as address:
            asyncio.run(run(address))
