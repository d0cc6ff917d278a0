"""One row whose values are all known is decided at once, and as if the loop had asked for them."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from emsco import CascadeClassifier, Costs, InputGuard, Source, StageDesign
from emsco.live import KnownSource, LiveCascade, Sources, known_row

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


def known_rows():
    rng = np.random.default_rng(1)
    for _ in range(400):
        row = {"age": float(rng.integers(20, 80)), "town": str(rng.choice(["Bern", "Chur"])),
               "smoker": bool(rng.integers(2)), "marker": float(rng.normal()),
               "scan": int(rng.integers(-2, 5))}  # fmt: skip
        for name in row:
            if rng.random() < 0.15:
                row[name] = HOSTILE[rng.integers(len(HOSTILE))]
        yield {name: [value] for name, value in row.items()}


def decided(decisions):
    """Give what must be equal: all but what a clock tells, and ids."""
    decision, receipt = decisions[0], decisions.receipts[0]
    fetches = tuple(replace(fetch, waited=0.0) for fetch in receipt.fetches)
    return decision._replace(latency=0, receipt=None), replace(receipt, id="", fetches=fetches)


def test_it_equals_what_the_loop_decides(cascade, monkeypatch):
    """Values of any type; most rows are decided without the loop."""
    quickly = []
    monkeypatch.setattr(
        "emsco.live.live_cascade.decide_known_row",
        lambda *given: quickly.append(known_row.decide_known_row(*given)) or quickly[-1],
    )

    async def compare():
        async with live_of(cascade) as live:
            for known in known_rows():
                found = await live.decide(["a81f"], known)
                asked_for = await live.decide(["a81f"], known, values=[])
                assert decided(found) == decided(asked_for), known
                assert found.index.tolist() == ["a81f"]

    asyncio.run(compare())
    assert sum(one is not None for one in quickly) > 150
    assert any(one is None for one in quickly)


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
