"""The live cascade: decides as the table does, fetches only what is needed, and never guesses."""

from __future__ import annotations

import asyncio
import time

import numpy as np
import pandas as pd
import pytest
from stores import MARIADB, POSTGRES, http_source, redis_source, sql_source

from emsco import CascadeClassifier, Costs, InputGuard, Source, StageDesign
from emsco.core.decisions import kind_of
from emsco.exceptions import ModelError, SourcesError
from emsco.live import CallableSource, KnownSource, LiveCascade, Sources
from emsco.live.comparison import compare
from emsco.live.latencies import measure

RNG = np.random.default_rng(0)
N = 300
Y = RNG.integers(2, size=N)
FRAME = pd.DataFrame({
    name: Y * weight + RNG.normal(size=N)
    for name, weight in {"url": 0.5, "length": 1.0, "links": 1.0, "whois": 1.5, "dns": 2.0}.items()
})  # fmt: skip
FRAME["kind"] = np.where(Y + RNG.normal(size=N) > 0.5, "shop", "blog")
COSTS = Costs([
    Source("url", cost=0), Source("page", cost=2, features=["length", "links", "kind"]),
    Source("whois", cost=5), Source("dns", cost=20, requires=["whois"]),
])  # fmt: skip
KEYS = [f"row {i}" for i in range(N)]


@pytest.fixture(scope="module", params=[None, InputGuard()], ids=["bare", "guarded"])
def cascade(request):
    """Fit a cascade of four stages."""
    design = StageDesign.from_stages([["url"], ["page"], ["whois"], ["dns"]])
    model = CascadeClassifier(design=design, costs=COSTS, threshold=0.9, guard=request.param)
    return model.fit(FRAME, Y)


class Shop:
    """Sources that are functions, and what they were asked for."""

    def __init__(self, frame=FRAME):
        self.frame = frame.assign(key=KEYS).set_index("key")
        self.asked = []

    def source(self, *features, **options):
        """Give a source of some features."""

        async def fetch(keys, _):
            self.asked += [(features[0], key) for key in keys]
            await asyncio.sleep(0)
            rows = self.frame.loc[[k for k in keys if k in self.frame.index], list(features)]
            return rows.to_dict("index")

        return CallableSource(function=fetch, **options)

    def sources(self, **others):
        """Give all four."""
        made = {
            "url": self.source("url"), "page": self.source("length", "links", "kind"),
            "whois": self.source("whois"), "dns": self.source("dns"),
        }  # fmt: skip
        return Sources(made | others)


def same(live, offline):
    """Compare what must be equal: labels, acceptance, reasons and stages."""
    for field in ("label", "accepted", "exit_stage", "reason", "confidence"):
        np.testing.assert_array_equal(getattr(live, field), getattr(offline, field))


def test_a_live_cascade_decides_as_the_table_does(cascade):
    """All rows at once, some in another order, and one alone; nothing is fetched needlessly."""
    shop = Shop()
    expected = cascade.decide(FRAME)
    live = LiveCascade(cascade, shop.sources())
    decided = live.decide_now(KEYS)
    same(decided, expected)
    np.testing.assert_array_equal(decided.cost, expected.cost)
    assert decided.index.tolist() == KEYS
    reached = {"url": 0, "length": 1, "whois": 2, "dns": 3}
    for feature, stage in reached.items():
        asked = [key for name, key in shop.asked if name == feature]
        assert sorted(asked) == sorted(np.array(KEYS)[expected.exit_stage >= stage])
    some = [7, 3, 250, 3]
    same(live.decide_now([KEYS[i] for i in some]), expected[some])
    same(live.decide_now([KEYS[5]]), expected[[5]])
    assert len(live.decide_now([])) == 0
    live.close_now()


def test_receipts_say_what_was_fetched_and_what_was_not_needed(cascade):
    """Paid and saved are the price of everything."""
    live = LiveCascade(cascade, Shop().sources())
    decisions = live.decide_now(KEYS[:50])
    for decision in decisions:
        receipt = decision.receipt
        assert receipt.paid == decision.cost
        assert receipt.paid + receipt.saved == COSTS.total
        assert [fetch.stage for fetch in receipt.fetches] == [*range(decision.exit_stage + 1)]
        assert not receipt.unknown
    assert decisions[:3][2].receipt == decisions[2].receipt
    assert "receipt" not in decisions.to_frame()
    assert cascade.decide(FRAME[:1])[0].receipt is None
    live.close_now()


def test_real_stores_decide_as_the_table_does(cascade):
    """A stage each in Redis, PostgreSQL, MariaDB and behind HTTP."""
    rows = 120
    keys = KEYS[:rows]
    records = FRAME[:rows].to_dict("records")

    def table(*features):
        return {key: {f: row[f] for f in features} for key, row in zip(keys, records, strict=True)}

    with (
        redis_source(table("url"), timeout=30.0) as url,  # tests share the machine
        http_source(table("length", "links", "kind"), timeout=30.0) as (page, service),
        sql_source(POSTGRES, table("whois"), timeout=30.0) as whois,
        sql_source(MARIADB, table("dns"), timeout=30.0) as dns,
    ):
        sources = Sources({"url": url, "page": page, "whois": whois, "dns": dns})
        live = LiveCascade(cascade, sources)
        expected = cascade.decide(FRAME[:rows])
        same(live.decide_now(keys), expected)
        assert sorted(service.asked) == sorted(np.array(keys)[expected.exit_stage >= 1])
        live.close_now()


def test_what_the_caller_knows_is_free_and_not_fetched(cascade):
    """A source wholly known; one known in part is refused."""
    shop = Shop()
    live = LiveCascade(cascade, shop.sources())
    expected = cascade.decide(FRAME[:40])
    known = FRAME.loc[:39, ["length", "links", "kind"]]
    for given in (known, {name: known[name].tolist() for name in known}):
        decided = live.decide_now(KEYS[:40], known=given)
        same(decided, expected)
        np.testing.assert_array_equal(decided.cost, expected.cost - 2 * (expected.exit_stage >= 1))
        assert "length" not in {name for name, _ in shop.asked}
    with pytest.raises(
        SourcesError, match="'page' or none: it has 'length', but not 'links', 'kind'"
    ):
        live.decide_now(KEYS[:40], known={"length": [1.0] * 40})
    with pytest.raises(SourcesError, match="1 values of 'url' for 40 keys"):
        live.decide_now(KEYS[:40], known={"url": [1.0]})
    live.close_now()


FAULTS = {
    "missing": lambda _: {},
    "error": lambda _: 1 / 0,
    "timeout": lambda _: time.sleep(0.3),
    "ambiguous": lambda keys: [(key, {}) for key in keys] * 2,
    "invalid value": lambda keys: {key: {"whois": "soon"} for key in keys},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_every_failure_is_a_reason(cascade, fault):
    """Rows that needed the source are rejected for it; all others are decided as ever."""
    timeout = 0.1 if fault == "timeout" else 30.0  # tests share the machine
    faulty = CallableSource(
        function=lambda keys, _: FAULTS[fault](keys), timeout=timeout, retries=0
    )
    live = LiveCascade(cascade, Shop().sources(whois=faulty))
    expected = cascade.decide(FRAME[:60])
    decided = live.decide_now(KEYS[:60])
    hit = expected.exit_stage >= 2
    assert hit.any()
    same(decided[~hit], expected[~hit])
    assert not decided.accepted[hit].any()
    assert set(decided.reason[hit]) == {f"{fault}: whois"}
    live.close_now()


def test_values_unlike_training_are_rejected(cascade):
    """A list, a mapping, text, infinity: whatever a store may hold."""
    odd = {KEYS[0]: [1, 2], KEYS[1]: {"a": 1}, KEYS[2]: "x", KEYS[3]: float("inf"), KEYS[4]: None}
    source = CallableSource(function=lambda keys, _: {key: {"url": odd[key]} for key in keys})
    live = LiveCascade(cascade, Shop().sources(url=source))
    decided = live.decide_now(KEYS[:5])
    assert set(decided.reason) == {"invalid value: url"}
    assert set(decided.cost) == {0.0}
    live.close_now()


def test_a_deadline_and_a_ceiling_reject(cascade):
    """Nothing is bought beyond them."""
    slow = CallableSource(function=lambda *_: time.sleep(5) or {}, timeout=10.0)
    live = LiveCascade(cascade, Shop().sources(whois=slow), deadline=0.2)
    begin = time.perf_counter()
    decided = live.decide_now(KEYS[:60])
    assert time.perf_counter() - begin < 1
    expected = cascade.decide(FRAME[:60])
    assert set(decided.reason[expected.exit_stage >= 2]) == {"deadline: whois"}
    live.close_now()
    shop = Shop()
    live = LiveCascade(cascade, shop.sources(), max_cost=10.0)
    decided = live.decide_now(KEYS[:60])
    assert decided.cost.max() <= 10
    assert set(decided.reason[expected.exit_stage >= 3]) == {"budget: dns"}
    assert "dns" not in {name for name, _ in shop.asked}
    live.close_now()


def test_a_model_that_is_not_fitted_is_refused_by_name():
    with pytest.raises(ModelError, match="Give a fitted cascade, got CascadeClassifier"):
        LiveCascade(CascadeClassifier(), Shop().sources())


def test_the_first_of_equal_keys_pays_and_lacks_are_refused_before_anything_is_paid(cascade):
    """A key given twice in a call, and a request that uses what nobody has."""
    live = LiveCascade(cascade, Shop().sources())
    expected = cascade.decide(FRAME[:1]).cost[0]
    dear = int(np.argmax(cascade.decide(FRAME).cost))
    assert live.decide_now([KEYS[dear]] * 3).cost.tolist() == [27.0, 0.0, 0.0]
    assert live.decide_now(KEYS[:1]).cost[0] == expected
    live.close_now()
    shop = Shop()
    live = LiveCascade(cascade, shop.sources(whois=shop.source("whois", uses=["domain"])))
    with pytest.raises(SourcesError, match="'whois' uses 'domain': pass it in `known`"):
        live.decide_now(KEYS[:40])
    assert not shop.asked
    assert len(live.decide_now(KEYS[:40], known={"domain": ["a"] * 40})) == 40
    live.close_now()


def test_connections_belong_to_one_event_loop(cascade):
    """Used in two, they would wait for each other for ever."""
    live = LiveCascade(cascade, Shop().sources())
    live.decide_now(KEYS[:1])
    with pytest.raises(SourcesError, match="in the event loop in which it was opened"):
        asyncio.run(live.decide(KEYS[:1]))
    live.close_now()
    assert len(asyncio.run(live.decide(KEYS[:1]))) == 1  # after it was closed, in any other
    asyncio.run(live.close())


def test_calls_for_the_same_request_share_one_fetch(cascade):
    """The first caller pays; what is kept costs nothing."""
    shop = Shop()
    sources = shop.sources(url=shop.source("url", ttl=60.0))

    async def twice():
        async with LiveCascade(cascade, sources) as live:
            both = await asyncio.gather(*(live.decide(KEYS[:30]) for _ in range(2)))
            return [*both, await live.decide(KEYS[:30])]

    first, second, third = asyncio.run(twice())
    same(first, second)
    same(first, third)
    pages = [key for name, key in shop.asked if name == "length"]
    assert len(pages) == 2 * len(set(pages))  # by the first two together, and by the third
    assert len([key for name, key in shop.asked if name == "url"]) == 30
    assert first.cost.sum() + second.cost.sum() == third.cost.sum() == first.cost.sum()
    assert third[0].receipt.fetches[0].how == "cached"
    assert {f.how for d in second for f in d.receipt.fetches} == {"shared"}


def test_a_source_waits_for_what_it_requires_alone():
    """The longest path, as the costs plan it: not the slowest of all before it."""
    names = {"a": 0.0, "b": 0.3, "slow": 0.6}
    costs = Costs([
        Source("a", cost=1), Source("slow", cost=1, latency=0.6),
        Source("b", cost=1, latency=0.3, requires=["a"]),
    ])  # fmt: skip
    frame = pd.DataFrame({name: Y + RNG.normal(size=N) for name in names})
    model = CascadeClassifier(
        design=StageDesign.from_stages([["a", "b", "slow"]]), costs=costs, threshold=0.9
    ).fit(frame, Y)
    asked = []

    def source(name, pause, lost=()):
        async def fetch(keys, _):
            asked.append((name, len(keys)))
            await asyncio.sleep(pause)
            return {key: {name: frame[name][int(key)]} for key in keys if key not in lost}

        return CallableSource(function=fetch, timeout=5.0)

    sources = {name: source(name, pause) for name, pause in names.items()}
    live = LiveCascade(model, sources | {"a": source("a", 0.0, lost=("7",))})
    keys = [str(i) for i in range(20)]
    live.decide_now(keys)
    decided = live.decide_now(keys)
    live.close_now()
    assert costs.latency_of(costs.names) == 0.6
    assert 0.6 <= decided.latency.max() < 0.85
    assert sorted(asked[3:]) == [("a", 20), ("b", 19), ("slow", 20)]
    assert decided.reason[7] == "missing: a"
    expected = model.decide(frame[:20])
    rest = np.arange(20) != 7
    same(decided[rest], expected[rest])


def test_factors_are_those_of_the_table(cascade):
    """When they are asked for; a row rejected by a source has none."""
    missing = CallableSource(function=lambda *_: {})

    async def story():
        async with LiveCascade(cascade, Shop().sources(dns=missing)) as live:
            return await live.decide(KEYS[:40], factors=True), await live.decide(KEYS[:1])

    decided, plain = asyncio.run(story())
    expected = cascade.decide(FRAME[:40], factors=True)
    lost = decided.reason == "missing: dns"
    assert lost.any()
    assert not lost.all()
    for row in range(40):
        if lost[row]:
            assert decided[row].factors.features == ()
        else:
            assert decided[row].factors == expected[row].factors
    assert plain[0].factors is None


def test_a_source_that_fails_elsewhere_is_left_alone(cascade):
    """After a second it is tried again."""
    shop = Shop()

    async def story():
        async with LiveCascade(cascade, shop.sources()) as live:
            await live.decide(KEYS[:1])
            live.leave_alone({"url"})
            first = await live.decide(KEYS[:1])
            await asyncio.sleep(1.05)
            return first, await live.decide(KEYS[:1])

    first, then = asyncio.run(story())
    assert first.reason[0] == "circuit open: url"
    assert kind_of(then.reason[0]) != "circuit open"


# What callers always send


def test_a_known_source_is_never_fetched_and_a_row_without_it_is_rejected_for_nothing(cascade):
    """With its values rows are decided as the table does; without them they cost nothing."""
    shop = Shop()

    async def decide():
        async with LiveCascade(cascade, shop.sources(url=KnownSource())) as live:
            with_url = await live.decide(KEYS, FRAME[["url"]])
            without = await live.decide(KEYS[:3])
            return with_url, without, live.spending["url"].paid

    with_url, without, paid = asyncio.run(decide())
    same(with_url, cascade.decide(FRAME))
    assert "url" not in {source for source, _ in shop.asked}
    assert without.reason.tolist() == ["missing: url"] * 3
    assert not without.accepted.any()
    assert without.cost.tolist() == [0.0] * 3
    assert paid == 0


def test_a_known_source_is_neither_compared_nor_timed(cascade):
    """There is nothing to fetch before going live either."""
    known = Sources({"url": KnownSource()})
    with pytest.raises(SourcesError, match="no source to measure"):
        asyncio.run(measure(COSTS, known, KEYS))
    compared = asyncio.run(
        compare(
            cascade.decider_,
            Shop().sources(url=KnownSource()),
            KEYS[:20],
            {name: FRAME[name].tolist()[:20] for name in FRAME},
        )
    )
    assert "url" not in {column.source for column in compared.columns}
    assert {"page", "whois", "dns"} <= {column.source for column in compared.columns}


def test_bytes_that_are_no_text_harm_no_other_row():
    """A source may hold anything; what another request uses of it must not end the call."""
    costs = Costs([Source("name", cost=0), Source("age", cost=1, requires=["name"])])
    X = pd.DataFrame({"name": list("abc") * 60, "age": np.arange(180.0)})
    design = StageDesign.from_stages([["name"], ["age"]])
    cascade = CascadeClassifier(design=design, costs=costs, threshold=0.99)
    cascade.fit(X, np.arange(180) > 90)

    async def name(keys, _):
        return {key: {"name": b"\xff" if key == "k2" else b"a"} for key in keys}

    async def age(keys, values):
        assert values["name"] == ["a", "\udcff", "a"]
        return {key: {"age": 1.0} for key in keys}

    sources = {
        "name": CallableSource(function=name), "age": CallableSource(function=age, uses=["name"]),
    }  # fmt: skip
    live = LiveCascade(cascade, sources)
    assert live.decide_now(["k1", "k2", "k3"]).accepted[[0, 2]].all()
    live.close_now()
