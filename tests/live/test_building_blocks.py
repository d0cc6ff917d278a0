"""The small parts of a live cascade, each alone: money, clocks, text, JSON, templates, columns."""

from __future__ import annotations

import asyncio
import gzip
from dataclasses import dataclass
from urllib.parse import quote

import numpy as np
import pytest

from emsco import Costs, Source
from emsco.exceptions import ColumnsError, SourcesError, ValuesError
from emsco.live import CallableSource
from emsco.live.accounts import OwnAccounts, SpendingLimit, granted_rows, money
from emsco.live.call_limits import AdjustableSemaphore, Breaker
from emsco.live.coalescing import Cache
from emsco.live.comparison import align
from emsco.live.drift_table import difference
from emsco.live.fetch_all import SourceFetcher
from emsco.live.fetch_result import as_text, first_places, is_unbilled, key_text, to_moment
from emsco.live.http_source import Billing
from emsco.live.json_document import UNREADABLE, look_up, read_document, unpacked
from emsco.live.latencies import quantile, with_latencies
from emsco.live.source import secret
from emsco.live.template import Template, unwritable, unwritten
from emsco.live.typed_columns import to_column, to_numbers
from emsco.rows.column_reader import NUMBER, ColumnReader

AGE = ColumnReader(NUMBER, missing_seen=False)


class Clock:
    """A clock that is set by hand."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_accounts_reserve_the_full_price_and_refund_what_was_not_charged():
    accounts = OwnAccounts()
    intent = asyncio.run(accounts.begin("whois", 5, price=2.0, limit=7.0))
    assert (intent.granted, accounts.today("whois")) == (3, 6.0)
    asyncio.run(accounts.end(intent, paid=4.0, unknown=0.0))
    assert accounts.today("whois") == 4.0


def test_a_sum_of_prices_that_is_not_exact_grants_no_row_too_few():
    assert granted_rows(5, price=0.1, limit=0.3, spending=0.0) == 3
    budget = SpendingLimit(limit=0.3)
    assert budget.affords(9, price=0.1) == 3
    budget.spend(0.1)
    assert [budget.affords(9, price=price) for price in (0.1, 0.25, 0)] == [2, 0, 9]


@pytest.mark.parametrize(
    ("amount", "unit", "text"),
    [
        (1234567.891, "EUR", "1,234,567.89 EUR"),
        (0.00012346, "", "0.0001235"),
        (3, "EUR", "3 EUR"),
    ],
)
def test_an_amount_is_written_with_its_unit(amount, unit, text):
    assert money(amount, unit) == text


def test_a_breaker_opens_after_failures_and_allows_one_trial_a_second():
    clock = Clock()
    breaker = Breaker(failures=2, concurrency=32, clock=clock)
    breaker.note(answered=False)
    assert breaker.allows()
    breaker.note(answered=False)
    assert not breaker.allows()
    clock.now = 1.5
    assert [breaker.allows(), breaker.allows()] == [True, False]
    breaker.note(answered=True)
    assert breaker.limit == 1
    for limit in (2, 4, 8, 16, 32, 32):
        breaker.note(answered=True)
        assert breaker.limit == limit


def test_a_semaphore_runs_as_many_as_its_limit():
    async def most_at_once(n_callers, limit):
        slots, running, most = AdjustableSemaphore(lambda: limit), 0, 0

        async def work():
            nonlocal running, most
            async with slots:
                running += 1
                most = max(most, running)
                await asyncio.sleep(0)
                running -= 1

        await asyncio.gather(*(work() for _ in range(n_callers)))
        return most

    assert asyncio.run(most_at_once(9, limit=2)) == 2


def test_a_cache_forgets_the_oldest_and_what_has_expired():
    clock = Clock()
    cache = Cache(ttl=10.0, most=2, clock=clock)
    for name in "abc":
        cache.put(name, name.upper())
    assert (cache.get("a"), cache.get("c")) == (None, "C")
    clock.now = 11.0
    assert cache.get("c") is None


def test_keys_are_matched_to_rows_of_a_table_as_text():
    assert align(["7", "x", "07", "7"], [5, 7, "07"]) == ([0, 2], [1, 2])
    with pytest.raises(ValuesError, match="more than once"):
        align(["7"], [7, "7"])
    with pytest.raises(ColumnsError, match="None of the 1 keys"):
        align(["7.0"], [7])


def test_a_difference_names_another_unit_and_values_of_another_type():
    found = difference([1000.0, 2500.0, 30.0, 0.0], [1.0, 2.5, 0.03, 0.0], AGE)
    assert found == (4, 3, "another unit: 1000 times")
    verdict = difference([20.0, None, "cold"], [20.0, 21.0, 22.0], AGE).verdict
    assert verdict == "text instead of numbers in 33.3%; missing in 33.3%"


def test_all_sources_are_fetched_each_after_those_it_requires():
    costs = Costs([Source("dns", cost=2, requires=["name"]), Source("name", cost=0)])

    def lengths(keys, values):
        return {key: {"dns": len(name)} for key, name in zip(keys, values["name"], strict=True)}

    sources = {
        "name": CallableSource(function=lambda keys, _: {k: {"name": k * 2} for k in keys}),
        "dns": CallableSource(function=lengths, uses=["name"]),
    }

    async def fetch(keys):
        have = {}
        async with SourceFetcher(sources, costs, ["dns", "name"]) as survey:
            return {name: await survey.fetch(name, keys, have) for name in survey.names}

    found = asyncio.run(fetch(["a", "bc"]))
    columns = {name: batch.columns for name, batch in found.items()}
    assert columns == {"name": {"name": ["aa", "bcbc"]}, "dns": {"dns": [2, 4]}}


def test_keys_and_bytes_are_compared_as_text():
    assert [as_text(value) for value in (b"a81f", b"\xff", 17)] == ["a81f", "\udcff", 17]
    assert [key_text(b"a81f"), key_text(17)] == ["a81f", "17"]
    assert first_places(["7", "x", 7]) == {"7": 0, "x": 1}


def test_a_time_is_seconds_a_date_or_text_of_either():
    moments = [to_moment(each) for each in ("1970-01-02", "86400", b"1970-01-01T24:00:00Z")]
    assert moments == [86400.0, 86400.0, None]


def test_a_refused_connection_is_not_billed():
    assert is_unbilled(ConnectionRefusedError())
    assert not is_unbilled(ConnectionResetError())


def test_billed_outcomes_are_statuses_classes_of_them_and_lost_answers():
    billing = Billing.of(["2xx", 404, "timeout"])
    assert [status in billing.statuses for status in (201, 404, 503)] == [True, True, False]
    assert (billing.timeout, billing.lost) == (True, False)


def test_json_of_other_systems_must_be_unambiguous():
    assert read_document('{"age": 3}') == {"age": 3}
    assert read_document("<html>") is None
    assert read_document('{"age": 3, "age": 4}') is UNREADABLE
    assert read_document("[" * 100_000) is UNREADABLE


def test_a_pointer_finds_a_value_in_a_document():
    assert look_up({"owner": [{"a/b": 7}]}, "/owner/0/a~1b") == 7
    assert look_up({"owner": []}, "/owner/0") is None


def test_an_answer_is_unpacked_up_to_a_size():
    whole = gzip.compress(b"{}")
    assert unpacked(whole, "gzip", 100) == b"{}"
    assert unpacked(whole, "gzip", 1) is None


def test_a_latency_is_written_beside_a_comment():
    text = "[sources]\npage = 3  # a call\nlab = { cost = 5, latency = 9 }\n"
    assert with_latencies(text, {"page": 0.0012, "lab": 0.4}) == (
        "[sources]\npage = { cost = 3, latency = 0.0012 }  # a call\n"
        "lab = { cost = 5, latency = 0.4 }\n"
    )


def test_a_quantile_leaves_out_the_first_request_and_needs_enough_answers():
    assert quantile([9.0, 0.1, 0.2, 0.3], 0.5) == 0.2
    assert quantile([0.1, 0.2, float("inf")], 0.95) is None


def test_a_secret_is_not_shown():
    @dataclass
    class Store:
        url_env: str | None = None
        url: str | None = secret("url_env")

    assert repr(Store(url="store://user:password@host")).endswith("Store(url_env=None)")


def test_a_request_holds_text_numbers_and_dates_only():
    values = ("eu", 7, None, float("nan"), True, "\udcff")
    expected = ["", "", "missing", "missing", "invalid value", "invalid key"]
    assert [unwritable(value) for value in values] == expected
    assert unwritten(["a", "b"], {"region": ["eu", None]}) == {1: "missing"}


def test_a_template_encodes_values_and_refuses_ambiguous_ones():
    template = Template.parse("/v1/{domain}/age", "url")
    assert template.names == ("domain",)
    filled = template.fill({"domain": "a/../b"}, lambda value: quote(value, safe=""))
    assert filled == "/v1/a%2F..%2Fb/age"
    template = Template.parse("{region}:{key}", "key")
    unfilled = template.unfilled(["1:5", "5", "7"], {"region": ["eu", "eu:1", "eu"]}, str)
    assert unfilled == {0: "invalid key", 1: "invalid key"}
    with pytest.raises(SourcesError, match="text between two names"):
        Template.parse("{region}{key}", "key")


def test_text_is_no_number_unless_the_source_spells_numbers():
    numbers, others = to_column([41, 2.5], AGE)
    assert (numbers.tolist(), numbers.dtype, others) == ([41.0, 2.5], np.float64, [])
    numbers, others = to_column([b"41", b"2.5"], AGE, spelled=True)
    assert (numbers.tolist(), numbers.dtype, others) == ([41.0, 2.5], np.float64, [])
    assert to_column(["41", 2.5], AGE)[1] == [0]


def test_columns_of_numbers_become_one_matrix():
    assert to_numbers([[41, 2.5], [0.0, 1.0]]).tolist() == [[41.0, 2.5], [0.0, 1.0]]
    assert to_numbers([[41, "2.5"]]) is None
    assert to_numbers([[True]]) is None
