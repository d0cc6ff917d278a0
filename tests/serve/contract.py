"""The contract of every state, with several processes and after one was killed."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import random
import time
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from itertools import chain, pairwise

import pytest

from emsco.exceptions import StateError
from emsco.live.accounts import NO_REQUEST, OwnAccounts
from emsco.serve.state import AuditMark, RequestContext, open_state

LEASE = 30.0
T0 = 1_700_000_000.0  # 2023-11-14, 22:13 UTC
DAY, NEXT_DAY = "2023-11-14", "2023-11-15"
MIDNIGHT = 19_676 * 86_400.0

CHECKS = {}


def check(function):
    """Register a check."""
    CHECKS[function.__name__] = function
    return function


def check_state(name, address):
    """Run one check of the state at an empty address."""
    asyncio.run(CHECKS[name](address))


class Clock:
    """A clock that is set manually."""

    def __init__(self, now=T0):
        self.now = now

    def __call__(self):
        return self.now


@asynccontextmanager
async def opened(address, **options):
    state = await open_state(address, **options)
    try:
        yield state
    finally:
        await state.close()


asking = ContextVar("asking", default=NO_REQUEST)


def begin(state, *args):
    """Begin a call for the request of `asked_by`."""
    return state.begin(*args, asking.get())


@contextmanager
def asked_by(id_, tenant=""):
    token = asking.set(RequestContext(id_, tenant))
    try:
        yield
    finally:
        asking.reset(token)


async def totals(state, day=None):
    """Return the paid and unknown amounts by source."""
    found = {}
    for one in await state.spend(day):
        paid, unknown = found.get(one.source, (0.0, 0.0))
        found[one.source] = (round(paid + one.paid, 9), round(unknown + one.unknown, 9))
    return found


# Other processes


# What takes seconds to import: once, and not again in every process.
IMPORTED = [
    "asyncpg",
    "emsco.serve.state.executors",
    "emsco.serve.state._redis_state",
    "emsco.serve.state._sql_state",
    "pytest",
    "redis.asyncio",
    "sqlalchemy.dialects.postgresql.asyncpg",
    "sqlalchemy.dialects.sqlite",
    "sqlalchemy.ext.asyncio",
]


class Workers:
    """Processes that run jobs on a state concurrently."""

    def __init__(self):
        self._processes = multiprocessing.get_context("forkserver")
        self._processes.set_forkserver_preload(IMPORTED)

    def start(self, job, *arguments):
        """Start a process, and return it with its pipe."""
        here, there = self._processes.Pipe(duplex=False)
        process = self._processes.Process(target=_work, args=(there, job, arguments), daemon=True)
        process.start()
        there.close()
        return process, here

    def run(self, n_processes, job, *arguments):
        """Run a job in several processes, and return the results."""
        together = self._processes.Barrier(n_processes, timeout=60)
        running = [self.start(job, together, n, *arguments) for n in range(n_processes)]
        found = [told.recv() for _, told in running]
        for one in found:
            if isinstance(one, Exception):
                raise one
        for process, told in running:
            process.join()
            told.close()
        return found


def _work(told, job, arguments):
    try:
        told.send(asyncio.run(job(*arguments, tell=told.send)))
    except Exception as error:
        told.send(error)
        raise


WORKERS = Workers()


async def spending(together, number, address, begins, limit, *, tell):  # noqa: ARG001
    """Begin many calls at once, and end them."""
    async with opened(address) as state:
        together.wait()
        with asked_by(f"request-{number}", f"tenant-{number}"):
            intents = await asyncio.gather(
                *(begin(state, "whois", 1 + i % 3, 0.5, limit) for i in range(begins))
            )
        granted = sum(intent.granted for intent in intents)
        await asyncio.gather(*(state.end(one, one.held, 0.0) for one in intents if one.granted))
    return granted


async def trying(together, number, address, seconds, *, tell):  # noqa: ARG001
    """Ask repeatedly whether a trial call may be made."""
    found = []
    async with opened(address) as state:
        together.wait()
        end = time.time() + seconds
        while time.time() < end:
            if await state.may_try("whois"):
                found.append(time.time())
            await asyncio.sleep(0.01)
    return found


async def counting(together, number, address, times, *, tell):  # noqa: ARG001
    """Add 1 to a number that all processes write."""
    async with opened(address) as state:
        together.wait()
        for _ in range(times):
            while True:
                stored = await state.get_value("number")
                was, version = (0, 0) if stored is None else (int(stored.text), stored.version)
                if await state.keep("number", str(was + 1), was=version):
                    break


async def opening(together, number, address, *, tell):  # noqa: ARG001
    """Open the state at the same time as other processes."""
    together.wait()
    async with opened(address) as state:
        await state.keep(f"process {number}", "was here")
    return True


async def working(address, *, tell):
    """Decide requests until the process is killed, and report what the state has confirmed."""
    async with opened(address) as state:
        with asked_by("held", "shop"):  # never answered, wherever the others are in the end
            await state.claim("held", "body", LEASE)
            tell(("claimed", "held"))
        await asyncio.gather(*(_decide_for_ever(state, n, tell) for n in range(8)))


async def _decide_for_ever(state, worker, tell):
    for number in range(1_000_000):
        id_ = f"{worker}-{number}"
        with asked_by(id_, "shop"):
            await state.claim(id_, "body", LEASE)
            tell(("claimed", id_))
            intent = await begin(state, "whois", 1, 2.0, 1e9)
            tell(("begun", id_, intent.id))
            await asyncio.sleep(random.uniform(0, 0.01))
            await state.end(intent, 2.0, 0.0)
            tell(("ended", id_, intent.id))
            await state.mark([AuditMark(f"{id_}-0", time.time(), "m", "a", True, "", 0)])
            tell(("marked", id_))
            await state.answer(id_, f"answer to {id_}")
            tell(("answered", id_))


# Requests


@check
async def an_id_is_decided_once(address):
    clock = Clock()
    async with opened(address, clock=clock) as one, opened(address, clock=clock) as other:
        assert (await one.claim("a", "body", LEASE)).kind == "new"
        assert (await one.claim("a", "body", LEASE)).kind == "running"
        assert (await other.claim("a", "body", LEASE)).kind == "running"
        assert (await other.claim("a", "another body", LEASE)).kind == "other"
        assert await one.answer("a", 'ünd "quoted"\n') == 'ünd "quoted"\n'
        for state in (one, other):
            clock.now += 2 * LEASE
            claim = await state.claim("a", "body", LEASE)
            assert (claim.kind, claim.answer) == ("done", 'ünd "quoted"\n')
            assert (await state.claim("a", "another body", LEASE)).kind == "other"
        assert await other.answer("a", "too late") == 'ünd "quoted"\n'
        assert (await other.claim("b", "another body", LEASE)).kind == "new"


@check
async def a_lease_that_has_passed_means_death(address):
    clock = Clock()
    async with opened(address, clock=clock) as one, opened(address, clock=clock) as other:
        await one.claim("a", "body", LEASE)
        clock.now += LEASE - 1
        assert (await other.claim("a", "body", LEASE)).kind == "running"
        assert await one.renew("a", LEASE)
        clock.now += LEASE - 1
        assert (await other.claim("a", "body", LEASE)).kind == "running"
        clock.now += 1
        assert (await other.claim("a", "another body", LEASE)).kind == "other"
        assert (await other.claim("a", "body", LEASE)).kind == "died"
        assert (await one.claim("a", "body", LEASE)).kind == "running"
        # The first only seemed to be dead.
        assert not await one.renew("a", LEASE)
        assert await other.renew("a", LEASE)
        assert await one.answer("a", "by the first") == "by the first"
        assert await other.answer("a", "by the other") == "by the first"
        assert not await other.renew("a", LEASE)


@check
async def one_of_many_processes_takes_over(address):
    clock = Clock()
    async with opened(address, clock=clock) as one, opened(address, clock=clock) as other:
        await one.claim("a", "body", LEASE)
        clock.now += LEASE
        claims = await asyncio.gather(
            *(state.claim("a", "body", LEASE) for state in 10 * [one, other])
        )
        assert sorted(claim.kind for claim in claims) == ["died"] + 19 * ["running"]
        claims = await asyncio.gather(
            *(state.claim("b", "body", LEASE) for state in 10 * [one, other])
        )
        assert sorted(claim.kind for claim in claims) == ["new"] + 19 * ["running"]


@check
async def an_id_that_is_dropped_is_new(address):
    async with opened(address) as state:
        await state.claim("a", "body", LEASE)
        await state.drop("a")
        assert (await state.claim("a", "another body", LEASE)).kind == "new"
        await state.answer("a", "answer")
        await state.drop("a")  # too late
        assert (await state.claim("a", "another body", LEASE)).kind == "done"
        await state.drop("never claimed")


@check
async def an_id_that_paid_is_not_dropped(address):
    async with opened(address) as state:
        await state.claim("a", "body", LEASE)
        with asked_by("a"):
            await begin(state, "whois", 1, 2.0, None)
        await state.drop("a")
        assert (await state.claim("a", "body", LEASE)).kind == "died"


@check
async def an_answer_needs_a_claim(address):
    async with opened(address) as state:
        with pytest.raises(StateError, match="'a'"):
            await state.answer("a", "answer")
        assert (await state.claim("a", "body", LEASE)).kind == "new"


@check
async def what_was_bought_is_not_bought_again(address):
    clock = Clock()
    async with opened(address, clock=clock) as one, opened(address, clock=clock) as other:
        with asked_by("a", "shop"):
            assert (await one.claim("a", "body", LEASE)).kind == "new"
            paid = await begin(one, "paid", 1, 2.0, 100.0)
            await one.end(paid, 2.0, 0.0)
            assert (await begin(one, "paid", 1, 2.0, 100.0)).granted == 1  # the next rows of it
            assert (await begin(one, "open", 1, 2.0, None)).granted == 1
            late = await begin(one, "late", 1, 2.0, None)
            await one.end(late, 0.0, 2.0)
            free = await begin(one, "free", 1, 2.0, 100.0)
            await one.end(free, 0.0, 0.0)
            clock.now += LEASE
            assert (await other.claim("a", "body", LEASE)).kind == "died"
            before = await totals(other)
            for source in ("paid", "open", "late"):
                for limit in (100.0, None):
                    intent = await begin(other, source, 1, 2.0, limit)
                    assert (intent.granted, intent.held, intent.refused) == (0, 0.0, "error")
            assert await totals(other) == before
            for source in ("free", "fresh", "fresh"):
                assert (await begin(other, source, 1, 2.0, 100.0)).granted == 1
            # The first only seemed to be dead: it has lost the request, and buys nothing more.
            for source in ("fresh", "never asked"):
                intent = await begin(one, source, 1, 2.0, None)
                assert (intent.granted, intent.refused) == (0, "error")
            clock.now += LEASE
            assert (await one.claim("a", "body", LEASE)).kind == "died"
            assert (await begin(one, "fresh", 1, 2.0, None)).granted == 0
            assert (await begin(one, "never asked", 1, 2.0, None)).granted == 1
        with asked_by("b", "shop"):  # another request
            assert (await begin(other, "paid", 1, 2.0, 100.0)).granted == 1


@check
async def two_attempts_at_once_buy_once(address):
    clock = Clock()
    async with opened(address, clock=clock) as one, opened(address, clock=clock) as other:

        async def take_over(id_):
            assert (await other.claim(id_, "body", LEASE)).kind == "died"
            return await begin(other, "whois", 1, 2.0, 1000.0)

        for number in range(30):
            id_ = f"r-{number}"
            with asked_by(id_):
                await one.claim(id_, "body", LEASE)
                clock.now += LEASE
                both = await asyncio.gather(
                    begin(one, "whois", 1, 2.0, 1000.0),
                    take_over(id_),
                    begin(one, "whois", 1, 2.0, None),
                )
            assert sum(intent.granted for intent in both[:2]) <= 1
            assert not both[1].granted or not both[2].granted
        assert await totals(one)


# Accounts


@check
async def an_intent_is_written_before_the_call(address):
    clock = Clock()
    async with opened(address, clock=clock) as one, opened(address, clock=clock) as other:
        with asked_by("a", "shop"):
            intent = await begin(one, "whois", 3, 2.0, None)
        clock.now += 1
        second = await begin(one, "whois", 1, 2.0, 100.0)  # nobody's
        assert (intent.granted, intent.held, intent.source) == (3, 6.0, "whois")
        nobodys, shops = await other.spend()
        assert (shops.source, shops.tenant, shops.day) == ("whois", "shop", DAY)
        assert (shops.paid, shops.unknown) == (0.0, 6.0)
        (begun,) = shops.open
        assert (begun.id, begun.request, begun.tenant) == (intent.id, "a", "shop")
        assert (begun.source, begun.rows, begun.held, begun.at) == ("whois", 3, 6.0, T0)
        assert (nobodys.tenant, nobodys.unknown, nobodys.open[0].id) == ("", 2.0, second.id)
        await one.end(intent, 4.0, 1.0)
        _, shops = await other.spend(DAY)
        assert (shops.paid, shops.unknown, shops.open) == (4.0, 1.0, ())
        assert await other.spend(NEXT_DAY) == []


@check
async def a_limit_is_kept_as_one_process_keeps_it(address):
    """With prices that are not exact, and answers that cost less, nothing, or more."""
    rng = random.Random(0)
    async with opened(address, clock=Clock()) as state:
        for source, price, limit in (("a", 0.1, 4.3), ("b", 0.7, 9.1), ("c", 3.0, 10.0)):
            own, begun = OwnAccounts(), []
            for _ in range(40):
                n_rows = rng.randint(1, 5)
                intents = [await begin(one, source, n_rows, price, limit) for one in (own, state)]
                assert intents[0].granted == intents[1].granted
                assert intents[0].held == intents[1].held
                assert intents[1].refused == "budget"
                begun += [intents] if intents[0].granted else []
                while begun and rng.random() < 0.6:
                    both = begun.pop(rng.randrange(len(begun)))
                    paid = rng.choice([0.0, 0.5, 1.0, 1.1]) * both[0].held
                    unknown = rng.choice([0.0, 0.0, price])
                    for accounts, intent in zip((own, state), both, strict=True):
                        await accounts.end(intent, paid, unknown)
            paid, unknown = (await totals(state))[source]
            assert abs(paid + unknown - own.today(source)) < 1e-6


@check
async def what_is_free_has_no_limit(address):
    async with opened(address) as state:
        assert (await begin(state, "whois", 5, 0.0, 0.0)).granted == 5
        assert (await begin(state, "whois", 5, 1.0, 0.0)).granted == 0
        assert (await begin(state, "whois", 5, 1e-100, 1e100)).granted == 5
        assert (await begin(state, "whois", 5, 1e100, 1e-100)).granted == 0


@check
async def two_processes_never_spend_beyond_the_limit(address):
    limit, begins = 61.3, 50  # each process asks for 99 rows
    granted = WORKERS.run(2, spending, address, begins, limit)
    assert sum(granted) == 122  # the most that is within it, at 0.5 each
    assert all(granted)
    async with opened(address) as state:
        found = await state.spend()
        assert {(one.tenant, one.paid) for one in found} == {
            (f"tenant-{number}", 0.5 * rows) for number, rows in enumerate(granted)
        }
        assert not any(one.open or one.unknown for one in found)


@check
async def a_limit_counts_what_was_spent_without_one(address):
    async with opened(address, clock=Clock()) as state:
        await begin(state, "whois", 3, 2.0, None)
        assert (await begin(state, "whois", 5, 2.0, 10.0)).granted == 2
        assert (await begin(state, "whois", 5, 2.0, 10.0)).granted == 0


@check
async def a_late_answer_is_counted_once(address):
    async with opened(address) as state:
        intent = await begin(state, "whois", 2, 2.0, 4.0)
        await state.end(intent, 0.0, 4.0)
        assert await totals(state) == {"whois": (0.0, 4.0)}
        assert (await begin(state, "whois", 1, 2.0, 4.0)).granted == 0
        await state.end(intent, 2.0, 0.0)
        assert await totals(state) == {"whois": (2.0, 0.0)}
        assert (await begin(state, "whois", 2, 2.0, 4.0)).granted == 1


@check
async def a_day_has_its_own_money(address):
    clock = Clock(MIDNIGHT - 1)
    async with opened(address, clock=clock) as state:
        first = await begin(state, "whois", 9, 2.0, 10.0)
        late = await begin(state, "other", 1, 2.0, 10.0)
        assert first.granted == 5
        clock.now = MIDNIGHT
        assert (await begin(state, "whois", 1, 2.0, 10.0)).granted == 1
        # What was held yesterday is not given back today.
        await state.end(first, 2.0, 0.0)
        await state.end(late, 2.0, 0.0)
        assert (await begin(state, "whois", 9, 2.0, 10.0)).granted == 4
        assert await totals(state, DAY) == {"whois": (2.0, 0.0), "other": (2.0, 0.0)}
        assert await totals(state, NEXT_DAY) == {"whois": (0.0, 10.0)}
        assert [one.day for one in await state.spend()] == [DAY, DAY, NEXT_DAY]


@check
async def what_was_held_before_there_was_a_limit_is_given_back(address):
    async with opened(address) as state:
        held = await begin(state, "whois", 1, 2.0, None)
        assert (await begin(state, "whois", 1, 2.0, 2.0)).granted == 0
        await state.end(held, 0.0, 0.0)
        assert (await begin(state, "whois", 1, 2.0, 2.0)).granted == 1


@check
async def nothing_is_lost_if_calls_end_while_the_first_limit_of_a_day_begins(address):
    async with opened(address) as state:
        for source in map(str, range(20)):
            held = [await begin(state, source, 1, 2.0, None) for _ in range(5)]
            first, *_ = await asyncio.gather(
                begin(state, source, 1, 2.0, 20.0), *(state.end(one, 0.0, 0.0) for one in held)
            )
            await state.end(first, 0.0, 0.0)
            assert (await begin(state, source, 10, 2.0, 20.0)).granted == 10


@check
async def a_caller_who_leaves_holds_no_money(address):
    async with opened(address) as state:
        intent = await begin(state, "other", 1, 2.0, None)
        leaving = [
            state.end(intent, 2.0, 0.0),
            begin(state, "whois", 1, 2.0, 2.0),
            begin(state, "whois", 1, 2.0, None),
        ]
        for work in leaving:
            task = asyncio.ensure_future(work)
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    async with opened(address) as state:
        assert (await totals(state)).get("whois", (0.0, 0.0)) == (0.0, 0.0)
        assert (await totals(state))["other"] == (2.0, 0.0)
        assert not any(one.open for one in await state.spend())
        assert (await begin(state, "whois", 1, 2.0, 2.0)).granted == 1


# Breakers


@check
async def a_trial_call_is_made_once_a_second(address):
    tried = sorted(chain(*WORKERS.run(2, trying, address, 2.5)))
    assert len(tried) in (2, 3)
    assert all(later - earlier > 0.95 for earlier, later in pairwise(tried))
    async with opened(address) as state:
        assert await state.may_try("another")
        assert not await state.may_try("another")


@check
async def who_fails_is_told_to_all(address):
    async with opened(address) as one, opened(address) as other:
        assert await other.failing() == set()
        await one.is_well("whois", well=False)
        await other.is_well("whois", well=False)
        await one.is_well("dns", well=False)
        assert await other.failing() == {"whois", "dns"}
        await other.is_well("whois", well=True)
        await other.is_well("never failed", well=True)
        assert await one.failing() == {"dns"}


# Small values


@check
async def a_value_is_written_over_only_if_it_was_read(address):
    async with opened(address) as one, opened(address) as other:
        assert await one.get_value("a") is None
        assert not await one.keep("a", "x", was=1)
        assert await one.keep("a", "x", was=0)
        assert not await other.keep("a", "y", was=0)
        stored = await other.get_value("a")
        assert (stored.text, stored.version) == ("x", 1)
        assert await other.keep("a", "y", was=1)
        assert not await one.keep("a", "z", was=1)
        assert await one.keep("a", "ä" * 100_000)
        stored = await other.get_value("a")
        assert (stored.text, stored.version) == ("ä" * 100_000, 3)
        assert await one.keep("b", "x")
        assert (await one.get_value("b")).version == 1


@check
async def two_processes_lose_no_write(address):
    WORKERS.run(2, counting, address, 40)
    async with opened(address) as state:
        stored = await state.get_value("number")
        assert (stored.text, stored.version) == ("80", 80)


# Audited rows


def _row(number, at=T0, **more):
    return AuditMark(
        **{"id": f"d-{number}", "at": at, "model": "m1", "label": "sick", "accepted": True,
           "reason": "", "exit_stage": 1} | more
    )  # fmt: skip


@check
async def labels_come_late_twice_and_early(address):
    async with opened(address, clock=Clock()) as one, opened(address, clock=Clock()) as other:
        assert await other.label("d-2", "well")  # before its mark
        assert not await other.label("d-2", "well")
        assert await other.label("d-2", "sick")
        await one.mark([_row(1), _row(2), _row(3, accepted=False, reason="timeout: whois")])
        await one.mark([])
        assert await other.label("d-1", "well")
        assert not await one.label("d-1", "well")
        assert await one.label("d-1", "sick")
        assert await one.label("d-9", "sick")  # never marked
        found = {row.id: row for row in await other.marked(["d-1", "d-2", "d-3", "d-9"])}
        assert found == {
            "d-1": _row(1, truth="sick"),
            "d-2": _row(2, truth="sick"),
            "d-3": _row(3, accepted=False, reason="timeout: whois"),
        }
        assert await one.marked([]) == []


@check
async def the_last_mark_stays_and_keeps_the_label(address):
    async with opened(address) as state:
        await state.mark([_row(1)])
        await state.label("d-1", "well")
        await state.mark([_row(1, at=T0 + 5, label="well", exit_stage=0)])
        expected = [_row(1, at=T0 + 5, label="well", exit_stage=0, truth="well")]
        assert await state.marked(["d-1"]) == expected
        assert await state.due(T0 + 10) == expected


@check
async def labels_keep_their_types(address):
    labels = ["1", 1, 1.5, True, None, "", "ü\u0000"]
    async with opened(address) as state:
        await state.mark([_row(i, label=label) for i, label in enumerate(labels)])
        for i, label in enumerate(labels):
            await state.label(f"d-{i}", label)
        found = await state.marked([f"d-{i}" for i in range(len(labels))])
        found = {row.id: (row.label, row.truth) for row in found}
        told = [found[f"d-{i}"] for i in range(len(labels))]
        assert json.dumps(told) == json.dumps([[label, label] for label in labels])


@check
async def rows_are_due_by_their_time(address):
    async with opened(address) as state:
        await state.mark([_row(i, at=T0 + i, model=f"m{i % 2}") for i in (3, 1, 2, 0)])
        await state.mark([_row(10_000 + i, at=T0 + 1000 + i / 7) for i in range(2500)])
        assert [row.id for row in await state.due(T0 + 3)] == ["d-0", "d-1", "d-2"]
        assert [row.id for row in await state.due(T0 + 3, since=T0 + 1)] == ["d-1", "d-2"]
        assert [row.id for row in await state.due(T0 + 4, model="m1")] == ["d-1", "d-3"]
        late = await state.due(T0 + 5000, since=T0 + 500)
        assert [row.at for row in late] == [T0 + 1000 + i / 7 for i in range(2500)]
        await state.label("d-1", "well")
        await state.label("d-3", "well")
        await state.forget(T0 + 2)
        assert [row.id for row in await state.due(T0 + 500)] == ["d-2", "d-3"]
        await state.mark([_row(1)])
        assert (await state.marked(["d-1"]))[0].truth is None
        assert (await state.marked(["d-3"]))[0].truth == "well"
        assert len(await state.marked([f"d-{i}" for i in range(13_000)])) == 2503


# Processes


@check
async def processes_open_a_new_state_at_once(address):
    assert WORKERS.run(4, opening, address) == 4 * [True]
    async with opened(address) as state:
        for number in range(4):
            assert (await state.get_value(f"process {number}")).text == "was here"


@check
async def everything_survives_a_process_that_is_killed(address):
    process, told = WORKERS.start(working, address)
    promised = {word: set() for word in ("claimed", "begun", "ended", "marked", "answered")}
    intents = {}
    while len(promised["answered"]) < 40:
        _take(told, promised, intents)
    process.kill()
    process.join()
    with suppress(EOFError, OSError):  # the end, or half a message
        while True:
            _take(told, promised, intents)
    async with opened(address, clock=lambda: time.time() + 2 * LEASE) as state:
        (spent,) = await state.spend()
        begun = {one.request: one for one in spent.open}
        assert spent.unknown == 2.0 * len(begun)
        for id_ in promised["begun"] - promised["ended"]:
            # It has no outcome, or the process was killed before it could tell of it.
            assert id_ not in begun or begun[id_].id == intents[id_]
        assert not promised["ended"] & begun.keys()
        assert 2.0 * len(promised["ended"]) <= spent.paid
        assert spent.paid + spent.unknown >= 2.0 * len(promised["begun"])
        n_ids = len(promised["claimed"]) + 8  # one more of each worker may not have been told of
        assert spent.paid + spent.unknown <= 2.0 * n_ids
        assert len(await state.marked([f"{id_}-0" for id_ in promised["marked"]])) == len(
            promised["marked"]
        )
        for id_ in promised["claimed"]:
            claim = await state.claim(id_, "body", LEASE)
            if id_ in promised["answered"]:
                assert (claim.kind, claim.answer) == ("done", f"answer to {id_}")
            assert claim.kind in ("done", "died")
            with asked_by(id_, "shop"):
                if claim.kind == "died" and id_ in promised["begun"]:
                    again = await begin(state, "whois", 1, 2.0, 1e9)
                    assert (again.granted, again.refused) == (0, "error")
        assert promised["claimed"] > promised["answered"]


def _take(told, promised, intents):
    word, id_, *more = told.recv()
    promised[word].add(id_)
    if more:
        intents[id_] = more[0]


@check
async def many_at_once_get_their_own_answers(address):
    async with opened(address) as state:
        ids = [f"r-{i}" for i in range(300)]
        claims = await asyncio.gather(*(state.claim(id_, id_, LEASE) for id_ in ids))
        assert {claim.kind for claim in claims} == {"new"}
        kept = await asyncio.gather(*(state.answer(id_, f"answer to {id_}") for id_ in ids))
        claims = await asyncio.gather(*(state.claim(id_, id_, LEASE) for id_ in ids))
        assert kept == [claim.answer for claim in claims] == [f"answer to {id_}" for id_ in ids]
        failed = await asyncio.gather(
            *(state.answer(id_, "x") for id_ in ("r-1", "unknown", "r-2")), return_exceptions=True
        )
        assert [type(one).__name__ for one in failed] == ["str", "StateError", "str"]


@check
async def deployments_have_their_own_ids_marks_and_labels_and_share_what_is_spent(address):
    async with opened(address, deployment="a") as a, opened(address, deployment="b") as b:
        assert (await a.claim("r", "body", LEASE)).kind == "new"
        assert (await b.claim("r", "another body", LEASE)).kind == "new"
        with asked_by("r"):
            bought = await begin(a, "whois", 1, 2.0, 5.0)
            assert (await begin(b, "whois", 1, 2.0, 5.0)).granted == 1
            assert (await begin(b, "whois", 1, 2.0, 5.0)).granted == 0  # the limit is for both
        await a.end(bought, 2.0, 0.0)
        await b.drop("r")  # it has bought something too
        assert (await b.claim("r", "another body", LEASE)).kind == "died"
        assert await a.answer("r", "of a") == "of a"
        assert await b.answer("r", "of b") == "of b"
        for state, answer, body in ((a, "of a", "body"), (b, "of b", "another body")):
            assert (await state.claim("r", body, LEASE)).answer == answer
        assert await totals(a) == await totals(b) == {"whois": (2.0, 2.0)}
        await a.mark([AuditMark("r-0", T0, "m", "sick", True, "", 0)])
        assert await b.marked(["r-0"]) == await b.due(T0 + 1) == []
        assert await b.label("r-0", "well")
        assert [row.truth for row in await a.marked(["r-0"])] == [None]
        await b.forget(T0 + 1)
        assert await a.label("r-0", "sick")
        assert [row.truth for row in await a.due(T0 + 1)] == ["sick"]


@check
async def nothing_is_granted_where_the_incarnation_is_lost_or_another_one(address):
    async with opened(address, deployment="a") as state, opened(address, deployment="b") as other:
        await state.keep("incarnation:a", "first")
        state.incarnation = "first"
        for limit in (None, 5.0):
            assert (await begin(state, "whois", 1, 2.0, limit)).granted == 1
        await state.keep("incarnation:a", "second")
        for limit in (None, 50.0):
            refused = await begin(state, "whois", 1, 2.0, limit)
            assert (refused.granted, refused.refused) == (0, "state lost")
        await other.keep("incarnation:b", "first")
        other.incarnation = "lost"
        assert (await begin(other, "whois", 1, 2.0, None)).refused == "state lost"
        state.incarnation = "second"
        assert (await begin(state, "whois", 1, 2.0, 50.0)).granted == 1
        # Who has the right one, and may not ask because another attempt has, is told nothing else.
        await state.claim("r", "body", 0.0)
        with asked_by("r"):
            await begin(state, "whois", 1, 2.0, None)
            await state.claim("r", "body", 0.0)
            assert (await begin(state, "whois", 1, 2.0, None)).refused == "error"
        assert await totals(state) == {"whois": (0.0, 8.0)}
        assert await state.server() == await other.server()
