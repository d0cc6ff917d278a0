"""Before going live: what differs is named, latencies are written, and the rest of a file stays."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emsco import Costs, Source
from emsco._utils.toml_writer import toml_key
from emsco.exceptions import ColumnsError, CostsError, SourcesError, ValuesError
from emsco.live import CallableSource, Sources
from emsco.live.accounts import SpendingLimit
from emsco.live.comparison import align
from emsco.live.drift_table import difference
from emsco.live.fetch_all import SourceFetcher
from emsco.live.latencies import measure, with_latencies, write_latencies
from emsco.live.purchases import NOT_FETCHED
from emsco.rows.column_reader import BOOLEAN, NUMBER, TEXT, ColumnReader

NUMBERS = ColumnReader(NUMBER, missing_seen=True)
TEXTS = ColumnReader(TEXT, missing_seen=True)
T = np.random.default_rng(0).normal(size=300)
HALF = np.arange(300) < 150


@pytest.mark.parametrize(
    ("live", "verdict"),
    [
        (T, "same"),
        (T.astype(np.float32), "same"),  # what a store rounds off
        (T * 1000, "another unit: 1000 times"),
        (np.round(T * 100), "another unit: 100 times"),  # rounded to whole ones
        (-T, "another unit: -1 times"),
        (1.8 * T + 32, "another unit: 1.8 times, +32"),
        (T + 5, "shifted: by +5"),
        (np.where(HALF, T * 1000, T), "another unit in 50.0%: 1000 times"),
        (np.where(HALF, T * 2, T * 3), "differs in 100.0%, by "),  # in no one way
        (np.roll(T, 1), "differs in 100.0%, by "),
        (np.where(HALF, None, T), "missing in 50.0%"),
        ([str(value) for value in T], "text instead of numbers in 100.0%"),
        ([[value] for value in T], "invalid values instead of numbers in 100.0%"),
        ([float("inf"), *T[1:]], "invalid values instead of numbers in 0.3%"),
        ([True, *T[1:]], "invalid values instead of numbers in 0.3%"),
    ],
)
def test_how_numbers_differ(live, verdict):
    """A unit is named only where almost all that differ do so by the same factor."""
    found = difference(list(live), T, NUMBERS)
    exact = found.verdict.partition(", by ")[0] + ", by " * (", by " in found.verdict)
    assert exact == verdict
    assert found.rows == 300
    assert found.is_same == (verdict == "same")


def test_a_table_that_lacks_values_or_cannot_be_read():
    """What the table does not have differs too: nobody can say that it is the same."""
    assert difference([1.0, 2.0], [1.0, None], NUMBERS).verdict == (
        "missing only in the table in 50.0%"
    )
    assert (
        difference([1.0, 2.0], [1.0, "?"], NUMBERS).verdict == "not a number in the table in 50.0%"
    )
    assert difference([None], [None], NUMBERS).is_same
    zeros = difference([0.0, 0.0, 2000.0, 4000.0, 6000.0], [0.0, 0.0, 2.0, 4.0, 6.0], NUMBERS)
    assert zeros.verdict == "another unit: 1000 times"
    assert zeros.differing == 3


def test_how_text_and_other_columns_differ():
    """As a live cascade takes them: a number is no text, but bytes of Redis are."""
    assert difference(["a", "B", None], ["a", "b", "c"], TEXTS).verdict == (
        "differs in 33.3%; missing in 33.3%"
    )
    assert difference([7, "x"], ["7", "x"], TEXTS).verdict == "numbers instead of text in 50.0%"
    assert difference([b"a", b""], ["a", None], TEXTS, spelled=True).is_same
    assert difference([b"1.5"], [1.5], NUMBERS, spelled=True).is_same
    assert difference([True, 0], [True, False], ColumnReader(BOOLEAN, missing_seen=False)).is_same


def test_rows_are_matched_by_key():
    """Keys are text, however a table holds them; what cannot be told apart is refused."""
    assert align(["2", "1", "9", "2"], [1, 2]) == ([0, 1], [1, 0])
    with pytest.raises(ValuesError, match="must have one row per key") as told:
        align(["1"], [1, 2, "1"])
    assert told.value.row == 2
    with pytest.raises(ColumnsError, match="None of the 1 keys is in the table"):
        align(["1"], ["01"])


def test_a_survey_asks_only_for_rows_that_have_what_requests_use():
    """A row that failed before is not asked for with nothing in the place of a value."""
    asked = []

    def names(keys, _):
        return {key: {"name": None if key == "b" else key} for key in keys if key != "a"}

    def ages(keys, values):
        asked.extend(zip(keys, values["name"], strict=True))
        return {key: {"age": 1.0} for key in keys}

    costs = Costs([Source("age", cost=1, requires=["name"]), Source("name", cost=0)])
    sources = {
        "name": CallableSource(function=names),
        "age": CallableSource(function=ages, uses=["name"]),
    }

    async def fetch(given):
        have = {name: list(column) for name, column in given.items()}
        async with SourceFetcher(sources, costs, ["age", "name"], given) as survey:
            assert survey.names == ("name", "age")
            return [await survey.fetch(name, ["a", "b", "c"], have) for name in survey.names]

    found = asyncio.run(fetch({}))
    assert found[1].how == [NOT_FETCHED, NOT_FETCHED, "fetched"]
    assert found[1].reasons[2] == ""
    assert asked == [("c", "c")]
    asked.clear()
    asyncio.run(fetch({"name": ["x", "", "z"]}))  # what is given is used, where it is something
    assert asked == [("a", "x"), ("c", "z")]
    with pytest.raises(SourcesError, match="'age' uses 'name': pass it in `known`, or let"):
        SourceFetcher(sources, costs, ["age"])


def test_money_lasts_as_often_as_it_does_on_paper():
    """Prices are decimals: three times 0.1 is 0.3."""
    budget = SpendingLimit(0.3)
    for left in (3, 2, 1, 0):
        assert budget.affords(9, 0.1) == left
        budget.spend(0.1, billed=False)
    assert budget.unknown == budget.spending
    assert SpendingLimit(None).affords(9, 1.0) == 0


def test_two_sources_that_are_paid_for_share_what_may_be_spent():
    """Round by round, so that the first does not take all."""
    billed = []

    def source(name):
        def fetch(keys, _):
            billed.append(name)
            return {key: {name: 1.0} for key in keys}

        return CallableSource(function=fetch, paid=True)

    costs = Costs([Source("a", cost=1), Source("b", cost=2)])
    sources = Sources({"a": source("a"), "b": source("b")})
    found = asyncio.run(measure(costs, sources, ["x"], rounds=10, max_spend=9))
    assert (billed.count("a"), billed.count("b")) == (3, 3)
    assert found.cost == 9
    assert set(found.latencies) == {"a", "b"}


def test_many_rows_are_at_most_a_hundred():
    """However long the file of keys is; and one row is one row, each time another."""
    asked = []

    def fetch(keys, _):
        asked.append(list(keys))
        return {key: {"a": 1.0} for key in keys}

    sources = Sources({"a": CallableSource(function=fetch)})
    keys = [f"k{i}" for i in range(300)]
    found = asyncio.run(measure(Costs([Source("a", cost=0)]), sources, keys * 2, rounds=3))
    assert asked == [["k0"], ["k1"], ["k2"], *[keys[:100]] * 3]
    assert found.timings[0].rows == 100


def test_a_cache_and_repetitions_are_not_timed():
    """What a source takes is timed, not what was kept of it."""
    n_calls = 0

    def fetch(keys, _):
        nonlocal n_calls
        n_calls += 1
        if n_calls > 3:
            raise OSError("broken")
        return {key: {"a": 1.0} for key in keys}

    sources = Sources({"a": CallableSource(function=fetch, ttl=60.0, retries=3)})
    found = asyncio.run(measure(Costs([Source("a", cost=0)]), sources, ["x"], rounds=4))
    assert n_calls == 4
    assert found.timings[0].failed == {"error": 1}


LAYOUTS = (
    "[sources]\npage = 3\nlab = 1\n",
    "[sources]\npage=3#each\nlab = { cost = 1 }",
    "[sources]\r\npage = 3 # each\r\n\r\n[sources.lab]\r\n\tcost = 1 # all\r\n[review]\r\ncost=1",
    'sources = { page = 3, lab = {cost=1, latency=2, features=["latency"]} }\nunit = "latency = 1"',
    "sources.page.cost = 3\nsources . 'lab' = 1_000.5e-1",
    '[ sources . "p\\u0061ge" ]\n  cost = 3\n  features = [ # of it\n    "a]", \'b}\',\n  ]\n'
    "[sources.lab]\nlatency = 9 # old\ncost = 1",
    "[sources.page]\ncost = 3 # each\n\n# the lab\n[sources.lab]\n  cost = 1\n",
    "unit = '''\n[sources]\npage = 4\n'''\n[sources]\n\"page\" = { cost = 3 , setup = 's' }\n"
    "lab = 1\n[setups]\ns = 2",
)


@pytest.mark.parametrize("text", LAYOUTS)
def test_every_layout_of_a_file_of_costs_takes_latencies(tmp_path, text):
    """Also a second time; comments stay, and so do bytes that end lines."""
    path = tmp_path / "costs.toml"
    path.write_bytes(text.encode())
    before = Costs.from_toml(path)
    for latency in (0.25, 1.5e-05):
        write_latencies(path, {"page": latency, "lab": 2 * latency})
        after = Costs.from_toml(path)
        wanted = {"page": latency, "lab": 2 * latency}
        sources = [replace(source, latency=wanted[source.name]) for source in before.sources]
        assert after == replace(before, sources=sources)
        new = path.read_bytes().decode()
        assert new.count("#") == text.count("#")
        assert new.count("\r") == text.count("\r") + (new.count("\n") - text.count("\n")) * (
            "\r" in text
        )
    assert with_latencies(text, {}) == text


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\r"), min_size=1, max_size=6)
STYLES = st.sampled_from(["bare", "inline", "table", "dotted", "latency"])


@settings(max_examples=60)
@given(st.dictionaries(NAMES, STYLES, min_size=1, max_size=5), st.data())
def test_whatever_names_and_styles_a_file_has(tmp_path_factory, styles, data):
    """Only latencies of the sources named change."""
    head, tables = ["[sources]  # all"], []
    for name, style in styles.items():
        key = toml_key(name)
        tables += [f"[sources.{key}]", "cost = 2 # own"] if style == "table" else []
        head += {
            "bare": [f"{key} = 2 # own"],
            "inline": [f"{key} = {{ cost = 2 }}"],
            "dotted": [f"{key}.cost = 2"],
            "latency": [f"{key} = {{ latency = 1, cost = 2 }} # own"],
            "table": [],
        }[style]
    text = "\n".join([*head, *tables, ""])
    chosen = data.draw(st.lists(st.sampled_from([*styles]), unique=True))
    path = tmp_path_factory.mktemp("costs") / "costs.toml"
    path.write_bytes(text.encode())
    write_latencies(path, dict.fromkeys(chosen, 0.5))
    for source in Costs.from_toml(path).sources:
        before = 1.0 if styles[source.name] == "latency" else 0.0
        assert source.latency == (0.5 if source.name in chosen else before)
        assert source.cost == 2
    assert path.read_text().count("# own") == text.count("# own")


def test_a_latency_is_written_below_the_price():
    """Not below a comment on what comes next."""
    text = "[sources.page]\n  cost = 3 # each\n\n# the lab\n[sources.lab]\ncost = 1"
    expected = text.replace("# each\n", "# each\n  latency = 0.5\n") + "\nlatency = 2.0"
    assert with_latencies(text, {"page": 0.5, "lab": 2}) == expected


def test_a_file_that_cannot_be_edited_stays_as_it_was(tmp_path):
    """The message says what to write; so it does for a source that is not there."""
    path = tmp_path / "costs.toml"
    path.write_text("[sources]\nlab = 3\n")
    with pytest.raises(CostsError, match=r"unchanged.*`latency = 0\.5` for 'page'"):
        write_latencies(path, {"page": 0.5})
    assert path.read_text() == "[sources]\nlab = 3\n"
