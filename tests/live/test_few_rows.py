"""A few rows are decided without the loop, known or fetched, and as the loop decides them."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pytest

from emsco import CascadeClassifier, Costs, InputGuard, Source, StageDesign
from emsco.live import CallableSource, KnownSource, LiveCascade, Sources, few_rows

COSTS = Costs(
    [
        Source("form", features=["age", "town", "smoker"], cost=1),
        Source("lab", features=["marker"], cost=12, requires=["form"]),
        Source("scan", cost=150),
    ]
)
HOSTILE = [
    None, True, 7, 7.5, "7", "", "Bern", "NA", float("nan"), float("inf"), 10**400, [1.0], {},
    b"Bern", 2**63, -0.0,
]  # fmt: skip


@pytest.fixture(scope="module", params=[None, InputGuard()], ids=["bare", "guarded"])
def cascade(request):
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=600)
    X = pd.DataFrame(
        {
            "age": 45 + 8 * y + rng.normal(0, 9, 600).round(),
            "town": np.array(["Bern", "Chur", None], dtype=object)[rng.integers(3, size=600)],
            "smoker": rng.random(600) < 0.3 + 0.2 * y,
            "marker": np.where(rng.random(600) < 0.1, np.nan, y + rng.normal(0, 1, 600)),
            "scan": 2 * y + rng.normal(0, 1, 600),
        }
    )
    design = StageDesign.from_stages([["form"], ["lab"], ["scan"]])
    made = CascadeClassifier(design=design, costs=COSTS, threshold=0.8, guard=request.param)
    return made.fit(X, y)


def live_of(cascade):
    return LiveCascade(cascade, Sources({source.name: KnownSource() for source in COSTS.sources}))


@dataclass(frozen=True, kw_only=True)
class SpelledSource(CallableSource):
    """A source that writes numbers as text."""

    @property
    def is_spelled(self):
        return True


class Stock:
    """Fetches rows, and counts how often each source is called."""

    def __init__(self, rows, kind=CallableSource, read=lambda value: value):
        self.rows, self.kind, self.read, self.calls = rows, kind, read, Counter()

    def source(self, name):
        async def fetch(keys, _):
            self.calls[name] += 1
            columns = COSTS.columns(name)
            return {
                key: {one: self.read(self.rows[key][one][0]) for one in columns} for key in keys
            }

        return self.kind(function=fetch, retries=0, breaker=1000)

    def live_of(self, cascade, **options):
        names = [source.name for source in COSTS.sources]
        return LiveCascade(cascade, Sources({n: self.source(n) for n in names}), **options)


def known_rows(hostile=0.15):
    rng = np.random.default_rng(1)
    for _ in range(400):
        row = {"age": float(rng.integers(20, 80)), "town": str(rng.choice(["Bern", "Chur"])),
               "smoker": bool(rng.integers(2)), "marker": float(rng.normal()),
               "scan": int(rng.integers(-2, 5))}  # fmt: skip
        for name in row:
            if rng.random() < hostile:
                row[name] = HOSTILE[rng.integers(len(HOSTILE))]
        yield {name: [value] for name, value in row.items()}


def batches(rows, size):
    """Give batches of this size, by feature, as callers send them."""
    for first in range(0, len(rows) - size + 1, size):
        batch = rows[first : first + size]
        yield first, {name: [row[name][0] for row in batch] for name in batch[0]}


def decided(decisions):
    """Give what must be equal: all but what a clock tells, and ids."""
    found = []
    for decision in decisions:
        receipt = decision.receipt
        fetches = tuple(replace(fetch, waited=0.0) for fetch in receipt.fetches)
        found.append(
            (decision._replace(latency=0, receipt=None), replace(receipt, id="", fetches=fetches))
        )
    return found


def noted(monkeypatch, name):
    """Note what one of the functions has decided, and None for what it has left to the loop."""
    quickly, decide = [], getattr(few_rows, name)

    def known(*given):
        quickly.append(decide(*given))
        return quickly[-1]

    async def fetched(*given):
        quickly.append(await decide(*given))
        return quickly[-1]

    chosen = fetched if asyncio.iscoroutinefunction(decide) else known
    monkeypatch.setattr(f"emsco.live.live_cascade.{name}", chosen)
    return quickly


@pytest.mark.parametrize(("size", "hostile"), [(1, 0.15), (4, 0.03), (few_rows.MOST_ROWS, 0.01)])
def test_it_equals_what_the_loop_decides(cascade, monkeypatch, size, hostile):
    """Values of any type; most rows are decided without the loop."""
    quickly = noted(monkeypatch, "decide_known_rows")
    keys = [f"a81{number}" for number in range(size)]

    async def compare():
        async with live_of(cascade) as live:
            for _, known in batches([*known_rows(hostile)], size):
                found = await live.decide(keys, known)
                asked_for = await live.decide(keys, known, values=[])
                assert decided(found) == decided(asked_for), known
                assert found.index.tolist() == keys

    asyncio.run(compare())
    assert sum(one is not None for one in quickly) > 150 / size
    assert any(one is None for one in quickly)


def test_no_rows_are_left_to_the_loop(cascade):
    async def decide():
        async with live_of(cascade) as live:
            return await live.decide([], {name: [] for name in next(known_rows())})

    found = asyncio.run(decide())
    assert len(found) == 0
    assert (found.label.dtype, found.accepted.dtype) == (cascade.classes_.dtype, bool)


def test_more_rows_are_left_to_the_loop(cascade, monkeypatch):
    """Arrays decide many rows faster."""
    quickly = noted(monkeypatch, "decide_known_rows")

    async def decide(size):
        ((_, known),) = batches([*known_rows(hostile=0)][:size], size)
        async with live_of(cascade) as live:
            await live.decide([*range(size)], known)

    asyncio.run(decide(few_rows.MOST_ROWS))
    assert len(quickly) == 1
    asyncio.run(decide(few_rows.MOST_ROWS + 1))
    assert len(quickly) == 1


def test_a_row_with_an_unknown_source_is_asked_for(cascade):
    known = {"age": [50.0], "town": ["Bern"], "smoker": [True], "marker": [0.1]}

    async def decide():
        async with live_of(cascade) as live:
            return [
                await live.decide(["a81f"], known),
                await live.decide(["a81f"], known | {"scan": [9.0]}),
            ]

    without, whole = asyncio.run(decide())
    assert (without[0].reason, without[0].accepted) == ("missing: scan", False)
    assert whole[0].exit_stage == 2


def compare_fetched(cascade, monkeypatch, stock, known=(), size=1, **options):
    """Decide rows with and without the loop; return how many calls did without it, and not."""
    quickly = noted(monkeypatch, "decide_fetched_rows")

    async def compare():
        async with stock.live_of(cascade, **options) as live:
            for first, batch in batches(stock.rows, size):
                keys = [*range(first, first + size)]
                sent = {name: batch[name] for name in known}
                stock.calls.clear()
                found = await live.decide(keys, sent)
                calls = dict(stock.calls)
                stock.calls.clear()
                asked_for = await live.decide(keys, sent, values=[])
                assert decided(found) == decided(asked_for), batch
                assert calls == dict(stock.calls)
                assert set(calls.values()) <= {1}

    asyncio.run(compare())
    return sum(one is not None for one in quickly), sum(one is None for one in quickly)


def test_a_fetched_row_equals_what_the_loop_decides(cascade, monkeypatch):
    """What the loop must look at is not fetched again."""
    stock = Stock([*known_rows()])
    without, by_the_loop = compare_fetched(cascade, monkeypatch, stock)
    assert without > 150
    assert by_the_loop > 50


@pytest.mark.parametrize("size", [2, 5])
def test_a_few_fetched_rows_equal_what_the_loop_decides(cascade, monkeypatch, size):
    """Each stage is fetched for the rows that are still undecided."""
    stock = Stock([*known_rows(hostile=0.04)])
    without, by_the_loop = compare_fetched(cascade, monkeypatch, stock, size=size)
    assert without > 100 / size
    assert by_the_loop > 50 / size


def test_values_sent_and_fetched_are_decided_together(cascade, monkeypatch):
    stock = Stock([*known_rows()])
    without, by_the_loop = compare_fetched(cascade, monkeypatch, stock, ["age", "town", "smoker"])
    assert without > 150
    assert by_the_loop > 50
    assert not stock.calls["form"]


def test_a_row_over_its_budget_is_rejected_alike(cascade, monkeypatch):
    """The cost of a stage counts once against it, whoever decides the next one."""
    stock = Stock([*known_rows()])
    for limit in (12.5, 13, 163):
        without, by_the_loop = compare_fetched(cascade, monkeypatch, stock, max_cost=limit)
        assert without > 50
        assert by_the_loop > 50


def test_numbers_as_text_are_decided_alike(monkeypatch):
    X = np.random.default_rng(0).normal(size=(400, 2))
    costs = Costs([Source("form", features=["x0"], cost=1), Source("lab", features=["x1"], cost=9)])
    design = StageDesign.from_stages([["form"], ["lab"]])
    cascade = CascadeClassifier(design=design, costs=costs, threshold=0.9).fit(X, X.sum(axis=1) > 0)
    monkeypatch.setattr(f"{__name__}.COSTS", costs)
    rows = [{"x0": [f"{a:.3f}".encode()], "x1": [f"{b:.3f}".encode()]} for a, b in X]
    odd = [b"1_0", b"x", b"nan", b"inf", b" 1.5 ", b"", None, 1.5, "1.5", b"-0", True]
    rows += [{"x0": [value], "x1": [b"0.1"]} for value in odd]
    rows += [{"x0": [b"0.1"], "x1": [value]} for value in odd]
    without, by_the_loop = compare_fetched(cascade, monkeypatch, Stock(rows, SpelledSource))
    assert without > 400
    assert by_the_loop > 5


def test_a_failing_source_rejects_the_row_alike(cascade, monkeypatch):
    def fail(value):
        if value == "Chur":
            raise ValueError
        return value

    without, by_the_loop = compare_fetched(cascade, monkeypatch, Stock([*known_rows()], read=fail))
    assert without > 50
    assert by_the_loop > 100
