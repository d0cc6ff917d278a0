"""What a paid source may charge for, and what its limit of the day does about it."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager, suppress

import pytest
from stores import rows_of

from emsco import Costs, Source
from emsco.exceptions import SourcesError
from emsco.live import CallableSource, HTTPSource, RedisSource, Sources, SQLSource
from emsco.live.accounts import OwnAccounts
from emsco.live.coalescing import CoalescingGate
from emsco.live.fetch_result import FetchResult
from emsco.live.source import LiveSource

DAY = 86_400.0


def run(story):
    """Run a coroutine."""
    return asyncio.run(story)


class Vendor:
    """A service over HTTP that does what it is told, request by request, and counts them."""

    def __init__(self):
        self.asked, self.outcomes, self.pause, self.body = 0, [200], 0.0, b'{"age": 3.0}'
        self.serving = []

    async def serve(self, reader, writer):
        """Answer requests of one connection, until the test is over."""
        self.serving.append(asyncio.current_task())
        with suppress(asyncio.CancelledError, ConnectionError):
            await self._serve(reader, writer)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    async def _serve(self, reader, writer):
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, ConnectionError):
                break
            length = [
                int(h[15:]) for h in head.lower().split(b"\r\n") if h[:15] == b"content-length:"
            ]
            await reader.readexactly(sum(length))
            outcome = self.outcomes[min(self.asked, len(self.outcomes) - 1)]
            self.asked += 1
            if outcome == "lost":
                break
            if outcome == "timeout":
                await asyncio.sleep(30)
            await asyncio.sleep(self.pause)
            body = self.body if outcome == 200 else b"{}"
            told = f"HTTP/1.1 {outcome} x\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write(told.encode() + body)

    async def close(self):
        """End what is under way."""
        for task in self.serving:
            task.cancel()
        await asyncio.gather(*self.serving)


@asynccontextmanager
async def asked(vendor, *outcomes, price=1.0, **terms):
    """Give the gate before a vendor over HTTP that is paid for."""
    vendor.outcomes = list(outcomes) or [200]
    server = await asyncio.start_server(vendor.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    path = "" if terms.get("batch") else "/{key}"
    terms = {"paid": True, "timeout": 0.2, "breaker": 1_000_000} | terms
    gate = CoalescingGate(HTTPSource(url=f"http://127.0.0.1:{port}{path}", **terms), ["age"], price)
    try:
        yield gate
    finally:
        await gate.close()
        server.close()
        await vendor.close()


def money(gate):
    """Give what is known, what is unknown, and what counts under a limit."""
    return gate.spending.paid, gate.spending.unknown, gate.accounts.today("")


def closed_port():
    """Give a port at which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


FREE, UNKNOWN, PAID = (0.0, 0.0, 0.0), (0.0, 1.0, 1.0), (1.0, 0.0, 1.0)


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [(200, PAID), (404, PAID), (410, PAID), (502, UNKNOWN), (504, UNKNOWN), ("timeout", UNKNOWN),
     ("lost", UNKNOWN), (400, FREE), (401, FREE), (403, FREE), (422, FREE), (429, FREE),
     (500, FREE), (503, FREE), (302, FREE)],
)  # fmt: skip
@pytest.mark.parametrize("batch", [False, True], ids=["row", "batch"])
def test_what_a_vendor_does_not_bill_is_not_counted(outcome, expected, batch):
    """By default: what was answered, what may have been, and what nobody can know."""

    async def story():
        vendor = Vendor()
        terms = {"batch": True, "key_field": "/id", "rows": "/rows"} if batch else {}
        vendor.body = b'{"rows": [{"id": "a", "age": 3.0}]}' if batch else vendor.body
        async with asked(vendor, outcome, max_spend=5.0, **terms) as gate:
            (row,) = rows_of(await gate.fetch(["a"], {}))
            assert vendor.asked == 1
            if batch and outcome in (404, 410):  # of a whole batch, this is no answer
                assert (row.reason, money(gate)) == ("error", UNKNOWN)
                return
            assert money(gate) == expected
            assert (row.paid, row.billed) == (sum(expected[:2]), expected != UNKNOWN)

    run(story())


def test_a_source_says_what_else_is_billed_or_free(monkeypatch):
    """Statuses, classes of them, and the two ways to get no answer."""
    monkeypatch.setattr("emsco.live.call_policy.APART", 0.05)

    async def charged(billed, outcome):
        async with asked(Vendor(), outcome, billed=billed, max_spend=5.0) as gate:
            await gate.fetch(["a"], {})
            await asyncio.sleep(0.1 * (outcome == "timeout"))  # it may be answered for a while
            return money(gate)

    for billed, outcome, expected in [
        ([200, 503], 503, UNKNOWN), (["2xx", "5xx"], 500, UNKNOWN), ([200], 404, FREE),
        ([200], "timeout", FREE), (["lost", 200], "lost", UNKNOWN), ([200], "lost", FREE),
        ([200], 200, PAID),
    ]:  # fmt: skip
        assert run(charged(billed, outcome)) == expected, (billed, outcome)
    for wrong in (["refused"], [99], [True], "2xx", ["7xx"], [], [404]):
        with pytest.raises(SourcesError, match="`billed`"):
            HTTPSource(url="http://host/{key}", billed=wrong, paid=True)
    with pytest.raises(SourcesError, match="`billed` needs `paid = true`"):
        HTTPSource(url="http://host/{key}", billed=[200])


def test_what_is_billed_stands_in_the_file(tmp_path):
    """It is read as it was written."""
    source = HTTPSource(url="http://host/{key}", billed=["2xx", 404, "timeout"], paid=True)
    text = Sources({"whois": source}).to_toml()
    assert 'billed = ["2xx", 404, "timeout"]' in text
    (tmp_path / "sources.toml").write_text(text)
    assert Sources.from_toml(tmp_path / "sources.toml")["whois"] == source


def test_a_refused_connection_costs_nothing_whatever_the_source():
    """Nothing was sent."""
    port = closed_port()

    def function(keys, _):  # noqa: ARG001
        raise OSError("cannot connect") from ConnectionRefusedError()

    sources = [
        HTTPSource(url=f"http://127.0.0.1:{port}/{{key}}", paid=True),
        RedisSource(url=f"redis://127.0.0.1:{port}/0", key="{key}", paid=True),
        SQLSource(url=f"postgresql+asyncpg://me@127.0.0.1:{port}/x", key_field="id", paid=True,
                  query="SELECT id, age FROM t WHERE id IN :keys"),
        SQLSource(url=f"mysql+asyncmy://me@127.0.0.1:{port}/x", key_field="id", paid=True,
                  query="SELECT id, age FROM t WHERE id IN :keys"),
        CallableSource(function=function, paid=True),
    ]  # fmt: skip

    async def story(source):
        gate = CoalescingGate(source, ["age"], 1.0)
        (row,) = rows_of(await gate.fetch(["a"], {}))
        await gate.close()
        return row.reason, row.paid, money(gate)

    for source in sources:
        assert run(story(source)) == ("error", 0.0, FREE), source


def test_an_outage_does_not_use_up_the_day():
    """The vendor answers 500 for a while and bills nothing; then every row is answered."""

    async def story():
        vendor = Vendor()
        async with asked(vendor, *[500] * 40, 200, max_spend=20.0) as gate:
            for i in range(40):
                await gate.fetch([f"k{i}"], {})
            assert money(gate) == FREE
            rows = [rows_of(await gate.fetch([f"n{i}"], {}))[0] for i in range(25)]
        assert [row.reason for row in rows] == [""] * 20 + ["budget"] * 5

    run(story())


def test_at_the_limit_the_reason_is_the_budget_also_while_the_source_fails():
    """No trial call can be made without money; the source is not blamed for it."""

    async def story():
        vendor = Vendor()
        async with asked(vendor, "lost", max_spend=3.0, breaker=3) as gate:
            reasons = [rows_of(await gate.fetch([f"k{i}"], {}))[0].reason for i in range(3)]
            assert reasons == ["error"] * 3
            assert gate.caller.breaker.is_open
            await asyncio.sleep(1.05)  # time for a trial call
            reasons = [rows_of(await gate.fetch([f"n{i}"], {}))[0].reason for i in range(30)]
            assert reasons == ["budget"] * 30
            assert vendor.asked == 3

    run(story())


def test_with_money_again_the_trial_call_is_made():
    """The next day, or once charges are settled."""

    async def story():
        vendor, now = Vendor(), [DAY / 2]
        accounts = OwnAccounts(clock=lambda: now[0])
        async with asked(vendor, *["lost"] * 3, 200, max_spend=3.0, breaker=3) as first:
            gate = CoalescingGate(first.source, ["age"], 1.0, accounts=accounts)
            for i in range(3):
                await gate.fetch([f"k{i}"], {})
            await asyncio.sleep(1.05)
            assert rows_of(await gate.fetch(["a"], {}))[0].reason == "budget"
            now[0] += DAY
            await asyncio.sleep(1.05)
            assert rows_of(await gate.fetch(["a"], {}))[0].reason == ""
            await gate.close()

    run(story())


def test_a_repetition_that_costs_nothing_does_not_undo_what_the_first_call_may_cost():
    """The first got no answer; the second was turned away."""

    async def story(*outcomes):
        terms = {"idempotency_header": "Key", "retries": 1, "max_spend": 5.0}
        vendor = Vendor()
        async with asked(vendor, *outcomes, **terms) as gate:
            (row,) = rows_of(await gate.fetch(["a"], {}))
            assert vendor.asked == 2
            return row.billed, money(gate)

    assert run(story("lost", 503)) == (False, UNKNOWN)
    assert run(story("timeout", 429)) == (False, UNKNOWN)
    assert run(story(503, 503)) == (True, FREE)
    assert run(story("lost", 200)) == (True, PAID)
    assert run(story(503, "lost")) == (False, UNKNOWN)


def test_a_late_answer_tells_that_nothing_is_billed():
    """It timed out, and then came as an error."""

    async def story():
        vendor = Vendor()
        vendor.pause = 0.1
        async with asked(vendor, 503, timeout=0.03, max_spend=5.0) as gate:
            (row,) = rows_of(await gate.fetch(["a"], {}))
            assert (row.reason, row.billed, money(gate)) == ("timeout", False, UNKNOWN)
            await asyncio.sleep(0.3)
            assert money(gate) == FREE

    run(story())


class _Odd(LiveSource):
    """A source of one's own that finds its rows to be invalid."""

    needs = frozenset()

    def open(self, _):
        return self

    async def fetch(self, keys, values):  # noqa: ARG002
        return FetchResult(
            {"age": [None] * len(keys)}, ["invalid value"] * len(keys), None, self.told
        )

    async def close(self):
        """Do nothing."""


@pytest.mark.parametrize(("told", "expected"), [(None, UNKNOWN), ([0.0], FREE), ([1.0], PAID)])
def test_an_invalid_answer_without_a_price_may_be_billed(monkeypatch, told, expected):
    """With a price, that is what it costs."""
    monkeypatch.setattr(_Odd, "told", told, raising=False)

    async def story():
        gate = CoalescingGate(_Odd(paid=True), ["age"], 1.0)
        await gate.fetch(["a"], {})
        return money(gate)

    assert run(story()) == expected


def test_a_limit_needs_a_price_to_hold():
    """Prices that only answers tell are too late for it."""
    source = CallableSource(function=print, price_field="price", max_spend=10.0)
    free = Costs([Source("whois", cost=0)])
    with pytest.raises(SourcesError, match=r"'whois' has `max_spend`.*must be above 0"):
        Sources({"whois": source}).check(free)
    Sources({"whois": source}).check(Costs([Source("whois", cost=1)]))
    Sources({"whois": CallableSource(function=print, max_spend=10.0)}).check(free)
    Sources({"whois": CallableSource(function=print, price_field="price")}).check(free)


def test_the_highest_price_that_was_told_is_held():
    """Calls at once stay within the limit, though the list says less than answers do."""

    async def story():
        async def fetch(keys, _):
            await asyncio.sleep(0.01)
            return {key: {"age": 1.0, "price": 3.0} for key in keys}

        source = CallableSource(function=fetch, price_field="price", paid=True, max_spend=10.0)
        gate = CoalescingGate(source, ["age"], 1.0)
        await gate.fetch(["first"], {})
        await asyncio.gather(*(gate.fetch([f"k{i}"], {}) for i in range(20)))
        await gate.close()
        return money(gate)

    assert run(story()) == (9.0, 0.0, 9.0)


def test_what_was_held_yesterday_is_not_given_back_today():
    """A call that was begun before midnight belongs to its day, whenever it ends."""

    async def story(*endings):
        now = [DAY - 1]
        accounts = OwnAccounts(clock=lambda: now[0])
        held = await accounts.begin("whois", 5, 2.0, 10.0)
        now[0] = DAY + 1
        today = await accounts.begin("whois", 3, 2.0, 10.0)
        for spent, unknown in endings:
            await accounts.end(held, spent, unknown)
            assert accounts.today("whois") == 6.0
        more = await accounts.begin("whois", 5, 2.0, 10.0)
        await accounts.end(today, 0.0, 0.0)
        return more.granted, accounts.today("whois")

    assert run(story((0.0, 0.0))) == (2, 4.0)
    assert run(story((10.0, 0.0))) == (2, 4.0)
    assert run(story((0.0, 10.0), (4.0, 0.0))) == (2, 4.0)
