"""The gate before a source: shared calls, what is kept, what is paid, and sources that fail."""

from __future__ import annotations

import asyncio

import pytest

from emsco.acquisition import CallableSource
from emsco.acquisition.gate import Gate
from emsco.exceptions import SourcesError


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

    return Gate(CallableSource(function=fetch, **options), ["age"], price)


def run(test):
    """Run a test's coroutine."""
    return asyncio.run(test)


def test_a_call_that_fails_is_made_again_but_seldom():
    """Once, and for at most a tenth of the calls; a source that is paid for, never."""

    async def often(**options):
        vendor = Vendor()
        vendor.fails = True
        gate = gated(vendor, breaker=10_000, **options)
        rows = [(await gate.fetch([f"k{i}"], {}))[0] for i in range(100)]
        await gate.close()
        return rows, len(vendor.billed)

    rows, n_calls = run(often())
    assert {row.reason for row in rows} == {"error"}
    assert 105 <= n_calls <= 112
    rows, n_calls = run(often(paid=True))
    assert n_calls == 100
    assert {(row.paid, row.billed) for row in rows} == {(1.0, False)}
    with pytest.raises(SourcesError, match="is not asked again"):
        CallableSource(function=print, paid=True, retries=1)


def test_a_source_that_fails_again_and_again_is_left_alone():
    """One trial call a second; after the first answer it is met carefully."""

    async def story():
        vendor = Vendor()
        vendor.fails = True
        gate = gated(vendor, breaker=3, retries=0)
        reasons = [(await gate.fetch([f"k{i}"], {}))[0].reason for i in range(50)]
        assert reasons == ["error"] * 3 + ["circuit open"] * 47
        begun = len(vendor.billed)
        vendor.fails = False
        loop = asyncio.get_running_loop()
        begin = loop.time()
        while (await gate.fetch(["again"], {}))[0].reason:
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
        assert sorted(row[0].reason for row in rows) == [""] * 3 + ["budget"] * 6
        assert gate.spending.today() == 6.0
        await gate.close()
        gate = gated(vendor, price=1.0, max_spend=7.0, price_field="price")
        rows = [(await gate.fetch([f"k{i}"], {}))[0] for i in range(9)]
        assert [row.paid for row in rows if not row.reason] == [3.0, 3.0, 3.0]
        await gate.close()

    run(story())


def test_a_paid_call_outlives_its_caller_and_counts():
    """Its answer is kept for who asks next; a call that costs nothing is ended at once."""

    async def story(*, paid):
        vendor = Vendor(pause=0.1)
        gate = gated(vendor, paid=paid, ttl=60.0, timeout=5.0)
        loop = asyncio.get_running_loop()
        (row,) = await gate.fetch(["a"], {}, until=loop.time() + 0.02)
        assert row.reason == "deadline"
        await asyncio.sleep(0.3)
        (again,) = await gate.fetch(["a"], {})
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
        (row,) = await gate.fetch(["a"], {})
        assert (row.reason, row.paid, row.billed, gate.spending.unknown) == ("timeout", 1, False, 1)
        await asyncio.sleep(0.3)
        assert gate.spending.unknown == 0
        (again,) = await gate.fetch(["a"], {})
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
        assert (await hasty)[0].reason == "deadline"
        assert [row.reason for row in await patient] == ["", ""]
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
        assert gate.spending.today() == 0.0
        assert [row.reason for row in await gate.fetch(["z"], {})] == [""]
        assert vendor.most <= 2
        await gate.close()

    run(story())
