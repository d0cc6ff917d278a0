"""`live decide`, `live compare` and `costs measure`, with real stores, and how each goes wrong."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from io import StringIO

import numpy as np
import pandas as pd
import pytest
from commands import call, without_reads
from stores import POSTGRES, driven, http_source, redis_source, sql_source

from emsco import CascadeClassifier, Costs, InputGuard, StageDesign, dump
from emsco.live import Sources

N = 60
RNG = np.random.default_rng(0)
Y = RNG.integers(2, size=N)
WEIGHTS = {"url": 0.5, "length": 1.0, "links": 1.0, "whois": 1.5, "dns": 2.0}
FRAME = pd.DataFrame({name: Y * w + RNG.normal(size=N) for name, w in WEIGHTS.items()})
FRAME["kind"] = np.where(Y + RNG.normal(size=N) > 0.5, "shop", "blog")
# Keys that a careless reader would change: zeros in front, blanks, a separator, a slash.
KEYS = [f"{i:05}" for i in range(N - 4)] + ["  7 ", "a,b", "a/..b", "Zoë"]
PAGE = ("length", "links", "kind")
COSTS = """\
unit = "EUR"  # of all prices

[sources]
url = 0            # free
page = { cost = 2, features = ["length", "links", "kind"] }  # a look
whois = 5

[sources.dns]
cost = 20          # the dearest
requires = ["whois"]
"""
PRICE = 27.0  # of a row with all sources
ADDRESSES = {"url": "EMSCO_TEST_LIVE_URL", "dns": "EMSCO_TEST_LIVE_DNS"}


def table_of(*features, frame=FRAME):
    records = frame[list(features)].to_dict("records")
    return dict(zip(KEYS, records, strict=True))


class World:
    """A model, the stores that it is fetched from, and files of keys and of training rows."""

    def __init__(self, folder, made, services):
        self.folder, self.made, self.services = folder, made, services
        self.costs = folder / "costs.toml"
        self.costs.write_text(COSTS)
        prices = Costs.from_toml(self.costs)
        design = StageDesign.from_stages([["url"], ["page"], ["whois"], ["dns"]])
        self.cascade = CascadeClassifier(
            design=design, costs=prices, threshold=0.9, guard=InputGuard()
        ).fit(FRAME, Y)
        self.model = folder / "model.emsco"
        dump(self.cascade, self.model)
        self.keys = self.write("keys.csv", id=KEYS)
        self.table = folder / "train.parquet"
        FRAME.assign(id=KEYS).to_parquet(self.table)
        self.sources = self.write_sources("sources.toml")

    def write(self, name, **columns):
        """Write a CSV file."""
        pd.DataFrame(columns).to_csv(self.folder / name, index=False)
        return self.folder / name

    def write_sources(self, name, **changed):
        """Write a file of sources, some of them changed; None leaves one out."""
        made = {n: changed.get(n, source) for n, source in self.made.items()}
        named = {n: self.named(n, source) for n, source in made.items() if source is not None}
        (self.folder / name).write_text(Sources(named).to_toml())
        return self.folder / name

    def named(self, name, source):
        """Put an address into the environment, and its variable into the source."""
        if not hasattr(source, "url_env"):
            return source
        os.environ[ADDRESSES[name]] = source.url
        return replace(source, url=None, url_env=ADDRESSES[name])

    def asked(self):
        """Give the keys that each service was asked for since the last time."""
        found = {name: list(service.asked) for name, service in self.services.items()}
        for service in self.services.values():
            service.asked.clear()
        return found

    def decide(self, *more, keys=None, sources=None):
        given = ("--sources", sources or self.sources, "--keys", keys or self.keys)
        return call("live", "decide", self.model, *given, *more)

    def compare(self, *more, keys=None, sources=None, table=None):
        given = ("--sources", sources or self.sources, "--keys", keys or self.keys)
        return call("live", "compare", self.model, *given, "--table", table or self.table, *more)

    def measure(self, *more, keys=None, sources=None, costs=None):
        given = ("--sources", sources or self.sources, "--keys", keys or self.keys)
        return call("costs", "measure", costs or self.costs, *given, *more)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Fill Redis, PostgreSQL and two services, one of which is paid for."""
    wait = {"timeout": 30.0}  # tests share the machine
    with ExitStack() as stack:
        url = stack.enter_context(redis_source(table_of("url"), **wait))
        page, pages = stack.enter_context(http_source(table_of(*PAGE), **wait))
        whois, vendor = stack.enter_context(http_source(table_of("whois"), paid=True, **wait))
        dns = stack.enter_context(sql_source(POSTGRES, table_of("dns"), **wait))
        made = {"url": url, "page": page, "whois": whois, "dns": dns}
        yield World(tmp_path_factory.mktemp("live"), made, {"page": pages, "whois": vendor})
        for variable in ADDRESSES.values():
            os.environ.pop(variable, None)


@pytest.fixture(autouse=True)
def _forgotten(world):
    """Let every test begin with services that behave and were asked for nothing."""
    world.asked()
    for service in world.services.values():
        service.behave = {}.get


def refused(called, *parts):
    """Check that a command ended with 2, in one message that shows no key and no secret."""
    assert called.code == 2, called
    assert without_reads(called.err).startswith("emsco: ")
    assert without_reads(called.err).count("\n") == 1
    for part in parts:
        assert part in called.err
    for private in ("00001", "a,b", "secret"):
        assert private not in called.err.replace("00001.csv", "")


def decided(called):
    """Read decisions, every cell of the key as it stands."""
    assert called.code == 0, called.err
    return pd.read_csv(StringIO(called.out), dtype={"id": str}, keep_default_na=False)


def test_keys_are_decided_as_the_table_is(world):
    """Every field, in the order of the keys, which are as they stand; only what is needed."""
    called = world.decide("--block", 50)
    found, expected = decided(called), world.cascade.decide(FRAME)
    assert [*found] == [
        "id", "label", "accepted", "exit_stage", "confidence", "cost", "reason", "latency",
    ]  # fmt: skip
    assert found.id.tolist() == KEYS
    for name in ("label", "accepted", "exit_stage", "confidence", "cost", "reason"):
        np.testing.assert_array_equal(found[name], getattr(expected, name))
    assert (found.latency > 0).all()
    asked = world.asked()
    assert sorted(asked["page"]) == sorted(np.array(KEYS)[expected.exit_stage >= 1])
    assert sorted(asked["whois"]) == sorted(np.array(KEYS)[expected.exit_stage >= 2])
    paid, saved = expected.cost.sum(), N * PRICE - expected.cost.sum()
    fetches = (expected.exit_stage + 1).sum()
    assert without_reads(called.err).startswith(
        f"{N} rows, {expected.accepted.mean():.1%} accepted. "
    )
    assert f"{paid:,.2f}".removesuffix(".00") + " EUR paid;" in called.err
    assert f"{saved:,.2f}".removesuffix(".00") + " EUR saved" in called.err
    assert f"{4 * N - fetches} of {4 * N} fetches were not needed." in called.err
    assert f"Rejected: low confidence ({(~expected.accepted).sum()})." in called.err


def test_any_block_gives_the_same_and_keys_may_repeat(world, tmp_path):
    """In a file, as CSV and as Parquet; the first of equal keys in a block pays."""
    keys = world.write("twice.csv", other=["x"] * 6, id=[*KEYS[:3], *KEYS[:3]])
    for name, read in (("out.csv", pd.read_csv), ("out.parquet", pd.read_parquet)):
        out = tmp_path / name
        called = world.decide("--out", out, "--block", 3, "--key-column", "id", keys=keys)
        assert called.code == 0, called.err
        assert called.out == ""
        assert called.err.startswith(f"Read: 6 rows of {keys}.\nWritten: {out}. 6 rows, ")
        found = read(out, **({"dtype": {"id": str}} if name.endswith("csv") else {}))
        assert found.id.tolist() == [*KEYS[:3], *KEYS[:3]]
        np.testing.assert_array_equal(found.label[:3], found.label[3:])
        np.testing.assert_array_equal(found.cost[:3], found.cost[3:])
    together = decided(world.decide("--key-column", "id", keys=keys))
    np.testing.assert_array_equal(together.label, found.label)
    assert together.cost[3:].tolist() == [0.0] * 3


def test_whole_numbers_of_parquet_are_keys(world, tmp_path):
    """They are what a store has as numbers; the output has them as such."""
    pd.DataFrame({"id": [1, 2]}).to_parquet(tmp_path / "keys.parquet")
    out = tmp_path / "out.parquet"
    called = world.decide("--out", out, keys=tmp_path / "keys.parquet")
    assert called.code == 0, called.err
    found = pd.read_parquet(out)
    assert found.id.tolist() == [1, 2]
    assert set(found.reason) == {"missing: url"}  # which has 00001
    pd.DataFrame({"id": [1.0]}).to_parquet(tmp_path / "keys.parquet")
    refused(world.decide(keys=tmp_path / "keys.parquet"), "holds double; keys must be text")


def test_outputs_are_guarded_as_those_of_other_commands(world, tmp_path):
    """Nothing that is there, and nothing that is read, is written over."""
    out = tmp_path / "out.csv"
    out.write_text("before")
    refused(world.decide("--out", out), "already exists", "--force")
    refused(world.decide("--out", world.keys, "--force"), "also reads or writes")
    refused(world.decide("--out", world.sources, "--force"), "also reads or writes")
    refused(world.decide("--out", tmp_path / "out.xls"), "must end in one of .csv")
    assert out.read_text() == "before"
    assert not any(world.asked().values())
    few = world.write("few.csv", id=KEYS[:2])
    assert world.decide("--out", out, "--force", keys=few).code == 0
    assert out.read_text().startswith("id,label,accepted")


def test_what_the_file_of_keys_has_is_not_fetched(world):
    """A source wholly known is free; text that spells no number rejects its row."""
    expected = world.cascade.decide(FRAME)
    page = {name: FRAME[name] for name in PAGE}
    known = world.write("known.csv", id=KEYS, **page, unrelated=range(N))
    found = decided(world.decide(keys=known))
    np.testing.assert_array_equal(found.label, expected.label)
    np.testing.assert_array_equal(found.cost, expected.cost - 2 * (expected.exit_stage >= 1))
    assert world.asked()["page"] == []
    odd = world.write("odd.csv", id=KEYS, **page | {"length": ["long"] * N})
    found = decided(world.decide(keys=odd))
    assert set(found.reason[expected.exit_stage >= 1]) == {"invalid value: length"}
    part = world.write("part.csv", id=KEYS, length=FRAME.length)
    refused(
        world.decide(keys=part),
        "have all features of 'page' or none: it has 'length', but not 'links', 'kind'.",
    )


def test_what_fails_is_a_reason_and_the_sentence_counts_it(world):
    """A key that nobody has, a broken service, and calls that may or may not be charged."""
    keys = world.write("more.csv", id=["nobody", *KEYS])
    world.services["page"].behave = lambda key: (500, {}) if key == KEYS[0] else None
    slow = world.write_sources("slow.toml", whois=replace(world.made["whois"], timeout=0.05))
    world.services["whois"].behave = lambda _: time.sleep(0.3)
    called = world.decide(keys=keys, sources=slow)
    found, expected = decided(called), world.cascade.decide(FRAME)
    assert found.reason[0] == "missing: url"
    needed = expected.exit_stage >= 2
    reasons = set(found.reason[1:][needed])
    assert reasons <= {"timeout: whois", "circuit open: whois", "error: page"}
    assert "timeout: whois" in reasons
    assert not found.accepted[1:][needed].any()
    assert re.search(
        r"may not have been charged: \d+ fetches from 'whois' got no answer", called.err
    )
    assert "missing: url (1)" in called.err


def test_a_ceiling_and_a_deadline_reject(world):
    found = decided(world.decide("--max-cost", 10))
    assert found.cost.max() <= 10
    assert "budget: dns" in set(found.reason)
    world.services["page"].behave = lambda _: time.sleep(1)
    found = decided(world.decide("--deadline", 0.3, keys=world.write("few.csv", id=KEYS[:20])))
    assert "deadline: page" in set(found.reason)
    refused(world.decide("--deadline", 0), "--deadline must be a number above 0")
    refused(world.decide("--max-cost", -1), "--max-cost must be a number above 0")


COMMANDS = ("decide", "compare", "measure")


@pytest.mark.parametrize("name", COMMANDS)
def test_what_cannot_be_done_is_told_before_anything_is_asked(world, monkeypatch, name):
    """In one line with exit code 2, for each command; nothing private is in it."""
    run = getattr(world, name)
    paid = () if name == "decide" else ("--max-spend", 10_000)
    text = world.sources.read_text()

    def wrong(text):
        (world.folder / "wrong.toml").write_text(text)
        return run(*paid, sources=world.folder / "wrong.toml")

    refused(wrong("[page\n"), "wrong.toml is not valid TOML")
    refused(wrong(text.replace("[page]", "[pages]")), "no source 'pages'; did you mean 'page'?")
    refused(wrong(text.replace("key_field", "key_feild")), "but not 'key_feild'; did you mean")
    refused(wrong(text + 'url = "postgresql://u:secret@h/d"\n'), "must not contain `url`")
    gone = world.folder / "sorces.toml"
    refused(run(sources=gone), "sorces.toml cannot be read", "did you mean 'sources.toml'?")
    if name != "measure":
        refused(wrong(text.partition("[dns]")[0]), "No live source is configured for 'dns'")
    refused(run(keys=world.folder / "none.csv"), "There is no file")
    refused(run("--key-column", "key"), "has no column 'key'. Does its first line name")
    (world.folder / "headless.csv").write_text("00001\n00002\n")
    refused(run("--key-column", "id", keys=world.folder / "headless.csv"), "has no column 'id'")
    for text, part in {
        "id\n": "has no keys",
        "": "must begin with a line that names its columns",
        "id,x\n00001,1\n,2\n": "Row 1 of",
        "id,x\n00001,1\n00001,1,2\n": "but row 1 (line 3) has 3 cells. Put",
        "id,id\n00001,1\n": "more than one column 'id'",
    }.items():
        (world.folder / "bad.csv").write_text(text)
        refused(run(*paid, keys=world.folder / "bad.csv"), part)
    for address in ("redis://u:secret/x@host:1/0", "secret", "redis://h:secret"):
        with monkeypatch.context() as patch:
            patch.setenv(ADDRESSES["url"], address)
            refused(run(*paid), "Source 'url': ", "URL")
    for address in ("postgresql+asyncpg://u:se/cret@h:secret/d", "secret", "oracle://u:secret@h"):
        with monkeypatch.context() as patch:
            patch.setenv(ADDRESSES["dns"], address)
            refused(run(*paid), "Source 'dns'")
    with monkeypatch.context() as patch:
        patch.delenv(ADDRESSES["dns"])
        refused(run(*paid), "The environment variable EMSCO_TEST_LIVE_DNS is not set.")
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "redis.asyncio", None)
        refused(run(*paid), "pip install 'emsco[live]'")
    assert not any(world.asked().values())


def verdicts(called):
    """Read the verdict on each column."""
    lines = called.out.partition("\n\n")[0].splitlines()[1:]
    found = [re.fullmatch(r"(\S+)\s+(\S+)\s+(\d+)\s+(\S+)\s+(.+)", line) for line in lines]
    return {line[1]: line[5] for line in found}


def test_live_values_that_are_those_of_the_table(world, tmp_path):
    """Exit code 0, from Parquet and from CSV, in another order, and some keys are not in it."""
    FRAME.assign(id=KEYS)[::-1].to_csv(tmp_path / "train.csv", index=False)
    for table in (world.table, tmp_path / "train.csv"):
        called = world.compare("--max-spend", 10_000, table=table)
        assert called.code == 0, called
        assert verdicts(called) == dict.fromkeys(["url", *PAGE, "whois", "dns"], "same")
        assert f"6 of 6 columns are the same live, for {N} keys. {5 * N} EUR spent." in called.out
        assert re.search(rf"page +{N} +{N} +- +\d.*s +\d.*s +yes", called.out)
        assert sorted(world.asked()["whois"]) == sorted(KEYS)
    keys = world.write("some.csv", id=[*KEYS[:9], "nobody", KEYS[0]])
    called = world.compare("--max-spend", 10_000, keys=keys)
    assert called.code == 0
    assert "9 of 11 keys are compared" in called.err
    assert sorted(world.asked()["page"]) == KEYS[:9]


def test_every_way_in_which_live_values_differ(world):
    """A unit, a shift, types, missing values and rows, old answers, other text."""
    frame = FRAME.assign(length=FRAME.length * 1000, links=FRAME.links + 3)
    frame["kind"] = np.where(np.arange(N) < 15, "forum", frame.kind)
    frame["whois"] = frame.whois.astype(object)
    frame.loc[:5, "whois"] = None
    frame.loc[6:11, "whois"] = "soon"
    old = {**table_of("url"), KEYS[5]: {"url": 1.0, "at": 1.0}}
    with (
        redis_source(old, max_age=3600.0, timeout=30.0) as url,
        http_source(table_of(*PAGE, frame=frame), timeout=30.0) as (page, _),
        http_source(table_of("whois", frame=frame), timeout=30.0) as (whois, vendor),
    ):
        del vendor.table[KEYS[50]]
        sources = world.write_sources("other.toml", url=url, page=page, whois=whois)
        try:
            called = world.compare(sources=sources)
        finally:
            world.write_sources("sources.toml")
    assert called.code == 1, called
    found = verdicts(called)
    assert found["url"] == "same"
    assert found["length"] == "another unit: 1000 times"
    assert found["links"] == "shifted: by +3"
    assert found["kind"] == "differs in 25.0%"
    assert found["whois"] == "text instead of numbers in 10.2%; missing in 10.2%"
    assert found["dns"] == "same"
    assert re.search(rf"url +{N} +{N - 1} +stale 1 +\S+ s +\d+\.\d d +yes", called.out)
    assert re.search(rf"whois +{N} +{N - 1} +missing 1 ", called.out)


def test_a_source_that_gives_nothing_is_told(world):
    """All rows of it fail; the others are compared."""
    world.services["page"].behave = lambda _: (500, {})
    called = world.compare("--max-spend", 10_000)
    assert called.code == 1
    assert verdicts(called)["links"] == "no answer"
    assert verdicts(called)["dns"] == "same"
    assert re.search(rf"page +{N} +0 +(error \d+, )?circuit open \d+", called.out)


def test_comparing_spends_what_was_allowed_and_no_more(world):
    """The price of the whole run is told; nothing is bought beyond --max-spend."""
    refused(world.compare(), f"from 'whois' costs {5 * N} EUR; allow it with --max-spend {5 * N}")
    refused(world.compare("--max-spend", 4), "costs 5 EUR, which is more than --max-spend 4.")
    assert not any(world.asked().values())
    called = world.compare("--max-spend", 52)
    assert called.code == 0
    assert len(world.asked()["whois"]) == 10
    assert f"for 10 keys. {N - 10} more keys were not fetched" in called.out
    assert "50 EUR spent." in called.out


def test_an_answer_that_tells_its_price_is_counted_by_it(world):
    """The price of the first row says what others may cost."""
    dear = {key: {**record, "price": 9.0} for key, record in table_of("whois").items()}
    with http_source(dear, paid=True, timeout=30.0, price_field="/price") as (whois, vendor):
        sources = world.write_sources("dear.toml", whois=whois)
        few = world.write("few.csv", id=KEYS[:8])
        called = world.compare("--max-spend", 50, keys=few, sources=sources)
        assert len(vendor.asked) == 5
        assert "45 EUR spent." in called.out
        vendor.asked.clear()
        costs = world.folder / "dear-costs.toml"
        costs.write_text(COSTS)
        called = world.measure("--max-spend", 50, keys=few, sources=sources, costs=costs)
        assert len(vendor.asked) == 5
        assert "45 EUR spent." in called.err


def test_a_table_in_which_rows_cannot_be_found_is_refused(world, tmp_path):
    """Two rows of one key, no key at all, no such column, or one that the model lacks."""
    frame = FRAME.assign(id=KEYS)
    table = tmp_path / "train.csv"
    cases = {
        "The table must have one row per key": pd.concat([frame, frame[5:6]]),
        "None of the 60 keys is in the table": frame.assign(id=[f"x{i}" for i in range(N)]),
        "has no column 'id'": frame.drop(columns="id"),
        "has no column 'links'": frame.drop(columns="links"),
        "in column 'length'": frame.assign(length="1,234"),
    }
    for part, rows in cases.items():
        rows.to_csv(table, index=False)
        called = world.compare("--max-spend", 10_000, table=table)
        refused(called, part)
        assert "1,234" not in called.err
    assert not any(world.asked().values())


@pytest.fixture
def costs(tmp_path):
    """Give a file of prices that a test may change."""
    path = tmp_path / "costs.toml"
    path.write_text(COSTS)
    return path


def test_measured_latencies_are_written_and_nothing_else(world, costs):
    """Comments, order and spaces stay; the paid source is left out, and told."""
    called = world.measure("--rounds", 3, costs=costs)
    assert called.code == 0, called.err
    found = {source.name: source.latency for source in Costs.from_toml(costs).sources}
    assert found.pop("whois") == 0
    assert all(0 < latency < 30 for latency in found.values())
    number = r"\d[\d.e-]*"
    expected = re.escape(COSTS)
    for old, new in {
        r"url\ =\ 0": rf"url = {{ cost = 0, latency = {number} }}",
        r'"kind"\]\ \}': rf'"kind"], latency = {number} }}',
        r"the\ dearest": rf"the dearest\nlatency = {number}",
    }.items():
        assert old in expected.replace(r"\"", '"')
        expected = expected.replace(old, re.escape(new).replace(re.escape(number), number))
    expected = expected.replace("\\\\n", "\n")
    assert re.fullmatch(expected, costs.read_text()), costs.read_text()
    assert "'whois' was not measured: it is paid; --max-spend 15 allows 3 rows." in called.err
    assert f"Written: {costs}, with the latency of 'url', 'page', 'dns' in seconds." in called.err
    asked = world.asked()
    assert asked["whois"] == []
    assert len(asked["page"]) == 3 + 3 * N
    lines = [line.split() for line in called.out.splitlines()[1:]]
    assert [line[:2] for line in lines] == [
        ["url", "3"], ["page", "3"], ["whois", "0"], ["dns", "3"],
    ]  # fmt: skip
    assert lines[0][4] == lines[1][4] == str(N)
    assert all(float(cell) > 0 for line in (lines[0], lines[3]) for cell in line[2:7])


def test_measuring_again_replaces_latencies(world, costs):
    few = world.write("few.csv", id=KEYS[:3])
    for _ in range(2):
        assert world.measure("--rounds", 2, keys=few, costs=costs).code == 0
    text = costs.read_text()
    assert text.count("latency") == 3
    assert text.count("#") == COSTS.count("#")


def test_measuring_spends_what_was_allowed_and_no_more(world, costs):
    """Single rows first, as many as can be paid; then many at once, if they can be."""
    few = world.write("few.csv", id=KEYS[:3])
    called = world.measure("--rounds", 4, "--max-spend", 17, keys=few, costs=costs)
    assert called.code == 0, called.err
    assert len(world.asked()["whois"]) == 3
    assert "15 EUR spent." in called.err
    assert Costs.from_toml(costs).sources[2].latency > 0
    called = world.measure("--rounds", 4, "--max-spend", 1000, keys=few, costs=costs)
    assert len(world.asked()["whois"]) == 4 + 3
    assert "35 EUR spent." in called.err
    called = world.measure("--rounds", 1, "--max-spend", 4, keys=few, costs=costs)
    assert "'whois' was not measured: --max-spend 4 EUR is used up." in called.err
    assert world.asked()["whois"] == []


def test_a_source_that_fails_gets_no_latency(world, costs):
    """Nor does one that has none of the keys; where none is left, the file stays as it was."""
    world.services["page"].behave = lambda _: (500, {})
    called = world.measure("--rounds", 3, costs=costs)
    assert called.code == 0
    assert "'page' was not measured: at least half of its requests failed (error 3)." in called.err
    assert Costs.from_toml(costs).sources[1].latency == 0
    costs.write_text(COSTS)
    nobody = world.write("nobody.csv", id=["nobody", "no one"])
    called = world.measure("--rounds", 3, keys=nobody, costs=costs)
    assert called.code == 2
    assert "'dns' was not measured: it has none of the keys." in called.err
    assert called.err.endswith(f"emsco: No source could be measured; {costs} is unchanged.\n")
    assert costs.read_text() == COSTS


def test_a_source_is_measured_with_what_it_requires(world, costs):
    """From the required source, or from a column of the file of keys; one of both must be there."""
    with http_source(table_of("dns"), timeout=30.0) as (dns, service):
        dns = replace(dns, url=f"{service.url}/{{whois}}/{{key}}")
        sources = world.write_sources("needs.toml", dns=dns)
        few = world.write("few.csv", id=KEYS[:3])
        called = world.measure("--rounds", 3, keys=few, sources=sources, costs=costs)
        assert "'dns' was not measured: no key has the values that its requests use." in called.err
        assert service.asked == []
        more = ("--rounds", 3, "--max-spend", 1000)
        called = world.measure(*more, keys=few, sources=sources, costs=costs)
        assert service.asked[:3] == KEYS[:3]
        assert Costs.from_toml(costs).sources[3].latency > 0
        service.asked.clear()
        known = world.write("needed.csv", id=KEYS[:3], whois=[1, 2, 3])
        alone = world.write_sources("alone.toml", dns=dns, url=None, page=None, whois=None)
        called = world.measure("--rounds", 1, keys=known, sources=alone, costs=costs)
        assert called.code == 0, called.err
        assert service.asked[0] == KEYS[0]
        called = world.measure(keys=few, sources=alone, costs=costs)
        refused(called, "Source 'dns' uses 'whois': pass it in --keys, or let the source require")
        called = world.compare("--max-spend", 1000, keys=few, sources=sources)
        assert called.code == 0, called
        assert verdicts(called)["dns"] == "same"


def test_a_file_of_prices_that_cannot_be_read_is_named_and_an_odd_one_is_edited(world, tmp_path):
    """That a file that cannot be edited is left is tested in `live/test_before_live.py`."""
    few = world.write("few.csv", id=KEYS[:2])
    refused(world.measure(costs=tmp_path / "none.toml"), "none.toml cannot be read")
    odd = tmp_path / "odd.toml"
    odd.write_text(f"unit = 1979-05-27 07:32:00\n{COSTS.partition(chr(10))[2]}")
    called = world.measure("--rounds", 1, keys=few, costs=odd)  # an odd one that can be edited
    assert called.code == 0, called.err
    assert odd.read_text().startswith("unit = 1979-05-27 07:32:00\n")
    assert Costs.from_toml(odd).sources[0].latency > 0


def test_keys_come_through_a_pipe(world):
    """As a process, from standard input to standard output."""
    emsco = [sys.executable, "-m", "emsco", "live"]
    given = [str(world.model), "--sources", str(world.sources), "--keys", "-"]
    keys = "id\n00003\nnobody\n"
    ended = subprocess.run(
        [*emsco, "decide", *given], input=keys, capture_output=True, text=True, check=True
    )
    assert ended.stdout.splitlines()[0].startswith("id,label,")
    assert ended.stdout.splitlines()[1].startswith("00003,")
    # A slow machine gets a line about what takes its time first.
    assert "Read: 2 rows of standard input.\n2 rows, " in ended.stderr


def test_the_address_of_a_database_is_not_shown(world, monkeypatch):
    """A store that is not there rejects rows, and nothing of its address is told."""
    monkeypatch.setenv(ADDRESSES["dns"], driven("postgresql://u:secret@127.0.0.1:1/d"))
    called = world.decide()
    assert called.code == 0
    assert "error: dns" in called.err
    assert "secret" not in called.out + called.err
