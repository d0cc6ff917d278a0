"""The gate before a source: shared calls, what is kept, what is paid, and sources that fail."""

from __future__ import annotations

import asyncio
import time

import pytest
from stores import http_source, rows_of

from emsco.exceptions import SourcesError
from emsco.live import CallableSource
from emsco.live.coalescing import CoalescingGate
from emsco.live.fetch_result import FetchResult


class Vendor:
    """A service that keeps its own bill."""

    def __init__(self, pause=0.0):
        self.pause, self.billed, self.fails = pause, [], False
        self.running = self.most = 0

    async def __call__(self, keys, _):
        self.billed.append(list(keys))
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(self.pause)
            if self.fails:
                raise OSError("broken")
            return {key: {"age": float(len(key)), "price": 3.0} for key in keys}
        finally:
            self.running -= 1


def gated(vendor, price=1.0, **options):
    """Give the gate before a vendor."""

    async def fetch(keys, values):
        return await vendor(keys, values)

    return CoalescingGate(CallableSource(function=fetch, **options), ["age"], price)


def run(test):
    """Run a test's coroutine."""
    return asyncio.run(test)


def test_a_call_that_fails_is_made_again_but_seldom():
    """Once, and for at most a tenth of the calls; a source that is paid for, never."""

    async def often(**options):
        vendor = Vendor()
        vendor.fails = True
        gate = gated(vendor, breaker=10_000, **options)
        rows = [rows_of(await gate.fetch([f"k{i}"], {}))[0] for i in range(100)]
        await gate.close()
        return rows, len(vendor.billed)

    rows, n_calls = run(often())
    assert {row.reason for row in rows} == {"error"}
    assert 105 <= n_calls <= 112
    rows, n_calls = run(often(paid=True))
    assert n_calls == 100
    assert {(row.paid, row.billed) for row in rows} == {(1.0, False)}
    with pytest.raises(SourcesError, match="are not repeated"):
        CallableSource(function=print, paid=True, retries=1)


def test_a_source_that_fails_again_and_again_is_left_alone():
    """One trial call a second; after the first answer it is met carefully."""

    async def story():
        vendor = Vendor()
        vendor.fails = True
        gate = gated(vendor, breaker=3, retries=0)
        reasons = [rows_of(await gate.fetch([f"k{i}"], {}))[0].reason for i in range(50)]
        assert reasons == ["error"] * 3 + ["circuit open"] * 47
        begun = len(vendor.billed)
        vendor.fails = False
        loop = asyncio.get_running_loop()
        begin = loop.time()
        while rows_of(await gate.fetch(["again"], {}))[0].reason:
            await asyncio.sleep(0.01)
        assert loop.time() - begin < 2
        assert len(vendor.billed) == begun + 1
        vendor.pause = 0.01
        vendor.most = 0
        await asyncio.gather(*(gate.fetch([f"n{i}"], {}) for i in range(4)))
        assert vendor.most <= 2  # one by one, then two by two
        await gate.close()

    run(story())


def test_no_more_is_spent_than_allowed_in_a_day():
    """Calls under way count too; what an answer says it cost, counts."""

    async def story():
        vendor = Vendor(pause=0.01)
        gate = gated(vendor, price=2.0, max_spend=7.0)
        rows = await asyncio.gather(*(gate.fetch([f"k{i}"], {}) for i in range(9)))
        assert sorted(batch.reasons[0] for batch in rows) == [""] * 3 + ["budget"] * 6
        assert gate.accounts.today("") == 6.0
        await gate.close()
        gate = gated(vendor, price=2.0, max_spend=7.0, ttl=60.0)
        batch = await gate.fetch(list("abcde"), {})
        assert batch.reasons == [""] * 3 + ["budget"] * 2
        assert [row.how for row in rows_of(await gate.fetch(list("cba"), {}))] == ["cached"] * 3
        await gate.close()
        gate = gated(vendor, price=1.0, max_spend=7.0, price_field="price")
        rows = [rows_of(await gate.fetch([f"k{i}"], {}))[0] for i in range(9)]
        assert [row.paid for row in rows if not row.reason] == [3.0, 3.0]  # 9 would be too much
        await gate.close()

    run(story())


def test_a_paid_call_outlives_its_caller_and_counts():
    """Its answer is kept for who asks next; a call that costs nothing is ended at once."""

    async def story(*, paid):
        vendor = Vendor(pause=0.1)
        gate = gated(vendor, paid=paid, ttl=60.0, timeout=5.0)
        loop = asyncio.get_running_loop()
        (row,) = rows_of(await gate.fetch(["a"], {}, until=loop.time() + 0.02))
        assert row.reason == "deadline"
        await asyncio.sleep(0.3)
        (again,) = rows_of(await gate.fetch(["a"], {}))
        await gate.close()
        return row, again, len(vendor.billed), vendor.running

    row, again, n_calls, running = run(story(paid=True))
    assert (row.paid, row.billed, again.how, again.paid, n_calls) == (1.0, False, "cached", 0.0, 1)
    assert not running
    row, again, n_calls, running = run(story(paid=False))
    assert (row.paid, again.how, n_calls, running) == (0.0, "fetched", 2, 0)


def test_a_late_answer_of_a_paid_call_is_kept():
    """It timed out, so nobody knew whether it is charged for; then it came."""

    async def story():
        vendor = Vendor(pause=0.1)
        gate = gated(vendor, paid=True, ttl=60.0, timeout=0.02)
        (row,) = rows_of(await gate.fetch(["a"], {}))
        assert (row.reason, row.paid, row.billed, gate.spending.unknown) == ("timeout", 1, False, 1)
        await asyncio.sleep(0.3)
        assert gate.spending.unknown == 0
        (again,) = rows_of(await gate.fetch(["a"], {}))
        assert (again.values, again.how, again.paid) == ((1.0,), "cached", 0.0)
        assert vendor.billed == [["a"]]
        await gate.close()

    run(story())


def test_a_shared_call_obeys_no_single_deadline():
    """The caller who leaves first does not take the answer from the other."""

    async def story():
        vendor = Vendor(pause=0.1)
        gate = gated(vendor)
        loop = asyncio.get_running_loop()
        hasty = asyncio.ensure_future(gate.fetch(["a"], {}, until=loop.time() + 0.02))
        await asyncio.sleep(0)
        patient = asyncio.ensure_future(gate.fetch(["a", "b"], {}))
        assert (await hasty).reasons[0] == "deadline"
        assert (await patient).reasons == ["", ""]
        assert vendor.billed == [["a"], ["b"]]
        await gate.close()

    run(story())


def test_cancelled_callers_leave_nothing_behind():
    """No call, no slot, and no money that is held for nothing."""

    async def story():
        vendor = Vendor(pause=0.05)
        gate = gated(vendor, concurrency=2, max_spend=100.0)
        tasks = [asyncio.ensure_future(gate.fetch([f"k{i}"], {})) for i in range(20)]
        await asyncio.sleep(0.02)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.01)
        assert vendor.running == 0
        assert gate.accounts.today("") == 0.0
        assert [row.reason for row in rows_of(await gate.fetch(["z"], {}))] == [""]
        assert vendor.most <= 2
        await gate.close()

    run(story())


def test_a_paid_request_under_way_is_not_paid_twice():
    """Who asks again while the late answer is on its way waits for that one."""

    async def story():
        vendor = Vendor(pause=0.15)
        gate = gated(vendor, paid=True, timeout=0.1)  # no cache
        (row,) = rows_of(await gate.fetch(["a"], {}))
        assert (row.reason, row.paid, row.billed) == ("timeout", 1.0, False)
        (again,) = rows_of(await gate.fetch(["a"], {}))
        assert (again.values, again.how, again.paid) == ((1.0,), "shared", 0.0)
        assert vendor.billed == [["a"]]
        assert (gate.spending.paid, gate.spending.unknown, gate.accounts.today("")) == (
            1.0,
            0.0,
            1.0,
        )
        await gate.fetch(["a"], {})  # which is another purchase
        assert len(vendor.billed) == 2
        await gate.close()

    run(story())


def test_a_cancelled_caller_still_has_his_bill():
    """There is no receipt, so that spending alone knows of it."""

    async def story():
        vendor = Vendor(pause=0.1)
        gate = gated(vendor, paid=True, concurrency=1)
        sent, waiting = (asyncio.ensure_future(gate.fetch([key], {})) for key in "ab")
        await asyncio.sleep(0.02)
        for task in (sent, waiting):
            task.cancel()
        await asyncio.gather(sent, waiting, return_exceptions=True)
        assert (gate.spending.paid, gate.spending.unknown) == (0.0, 1.0)
        await asyncio.sleep(0.2)
        assert (gate.spending.paid, gate.spending.unknown) == (1.0, 0.0)
        assert vendor.billed == [["a"]]  # what had not been sent, is not
        await gate.close()

    run(story())


def test_requests_that_are_equal_in_python_may_differ():
    """True, 1 and 1.0 are equal, and make different addresses."""

    async def story():
        asked = []

        async def fetch(keys, values):
            asked.append(list(values["kind"]))
            return {key: {"age": 1.0} for key in keys}

        gate = CoalescingGate(CallableSource(function=fetch, uses=["kind"], ttl=60.0), ["age"], 1.0)
        for kind in (True, 1, 1.0, "1", [1]):
            await gate.fetch(["a"], {"kind": [kind]})
        assert asked == [[True], [1], [1.0], ["1"], [[1]]]
        assert [type(kind) for (kind,) in asked] == [bool, int, float, str, list]
        await gate.close()

    run(story())


def test_a_service_has_a_request_a_row_each_with_its_own_timeout():
    """One slow row times out alone, and is repeated with the same token where that is free."""
    table = {f"k{i}": {"age": float(i)} for i in range(40)}
    with http_source(table, timeout=0.5, concurrency=4, retries=0) as (source, service):

        def slow(key):
            return time.sleep(1.0) if key == "k7" else time.sleep(0.05)

        service.behave = slow

        async def story():
            gate = CoalescingGate(source, ["age"], 1.0)
            batch = await gate.fetch(list(table), {})
            await gate.close()
            return batch

        batch = run(story())
        assert batch.reasons == ["timeout" if key == "k7" else "" for key in table]
        assert [row.values[0] for row in rows_of(batch) if not row.reason] == [
            age["age"] for key, age in table.items() if key != "k7"
        ]


def test_a_repeated_request_carries_the_same_token():
    """So that the service charges once."""
    with http_source({"a": {"age": 1.0}}, paid=True, retries=1, idempotency_header="Once") as (
        source,
        service,
    ):
        broken = iter([(500, {})])
        service.behave = lambda _: next(broken, None)

        async def story():
            gate = CoalescingGate(source, ["age"], 1.0)
            first, second = [rows_of(await gate.fetch(["a"], {}))[0] for _ in range(2)]
            await gate.close()
            return first, second, gate.spending

        first, second, spending = run(story())
        assert (first.values, second.values, spending.paid) == ((1.0,), (1.0,), 2.0)
        tokens = [headers["Once"] for headers in service.headers]
        assert tokens[0] == tokens[1] != tokens[2]
        assert len(tokens[0]) == 32


def test_a_source_that_gives_too_few_values_is_an_error():
    """A kind of source of one's own may be wrong; its rows are rejected, and nothing raises."""

    class Short(CallableSource):
        """Loses a value."""

        def open(self, features):
            """Give a client that forgets the last key."""

            class Client:
                async def fetch(self, keys, _):
                    return FetchResult(
                        {f: [1.0] * (len(keys) - 1) for f in features}, [""] * len(keys)
                    )

                async def close(self):
                    """Do nothing."""

            return Client()

    async def story():
        gate = CoalescingGate(Short(function=print), ["age"], 1.0)
        batch = await gate.fetch(["a", "b"], {})
        await gate.close()
        return batch

    assert run(story()).reasons == ["error", "error"]


def test_closing_while_a_call_is_under_way_raises_nothing():
    """Its rows are rejected; a caller who is cancelled himself is."""

    async def story():
        gate = gated(Vendor(pause=5.0), timeout=10.0)
        waiting = asyncio.ensure_future(gate.fetch(["a"], {}))
        await asyncio.sleep(0.05)
        await gate.close()
        assert (await waiting).reasons == ["deadline"]
        gate = gated(Vendor(pause=5.0), timeout=10.0)
        waiting = asyncio.ensure_future(gate.fetch(["a"], {}))
        await asyncio.sleep(0.05)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await gate.close()

    run(story())


def test_closing_before_a_call_has_begun_keeps_nobody_waiting():
    """The caller is told, and the call that was never made leaves no warning."""

    async def story():
        vendor = Vendor()
        gate = gated(vendor)
        waiting = asyncio.ensure_future(gate.fetch(["a"], {}))
        await asyncio.sleep(0)  # the call is ready to begin, and has not
        async with asyncio.timeout(1.0):
            await gate.close()
            assert (await waiting).reasons == ["deadline"]
        assert vendor.billed == []

    run(story())


def test_nobody_joins_a_call_that_is_being_ended():
    """Who asks for the same row, just as its only caller is cancelled, has a call of his own."""

    async def story():
        vendor = Vendor(pause=0.05)
        gate = gated(vendor)
        first = asyncio.ensure_future(gate.fetch(["a"], {}))
        await asyncio.sleep(0.01)
        first.cancel()
        second = asyncio.ensure_future(gate.fetch(["a"], {}))
        assert (await second).reasons == [""]
        assert vendor.billed == [["a"], ["a"]]
        await gate.close()

    run(story())


def test_a_service_survives_any_number_of_cancelled_requests():
    """A pool that loses a place with each would be full after as many as it has."""
    table = {f"k{i}": {"age": float(i)} for i in range(60)}
    with http_source(table, concurrency=4, timeout=5.0, retries=0) as (source, service):
        service.behave = lambda _: time.sleep(0.02)

        async def story():
            gate = CoalescingGate(source, ["age"], 1.0)
            for i in range(60):
                asking = asyncio.ensure_future(gate.fetch([f"k{i}"], {}))
                await asyncio.sleep(0.005 + 0.0003 * i)
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)
            batch = await gate.fetch(list(table), {})
            await gate.close()
            return batch

        assert run(story()).columns["age"] == [row["age"] for row in table.values()]


def test_an_answer_that_is_too_large_is_an_error():
    """It is not read to its end: a service must not take all memory."""
    with http_source({"a": {"age": 1.0}}, retries=0, timeout=20.0) as (source, service):
        service.behave = lambda _: (200, b" " * (2**24 + 2**20) + b"{}")

        async def story():
            gate = CoalescingGate(source, ["age"], 1.0)
            batch = await gate.fetch(["a"], {})
            await gate.close()
            return batch

        assert run(story()).reasons == ["error"]
