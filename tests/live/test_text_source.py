"""A text that a live source fetches is decided as in a table, whatever store it comes from."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
from stores import MARIADB, POSTGRES, http_source, redis_source, sql_source

from emsco import CascadeClassifier, Costs, InputGuard, Source, StageDesign
from emsco.live import CallableSource, KnownSource, LiveCascade, Sources

COSTS = Costs([Source("calls", cost=1), Source("body", kind="text", cost=5)])
TEXTS = ["WIN a prize 😀", "see you at noon", None, "你好", "x" * 60_000, "prize\nnoon\ttoday"]


@pytest.fixture(scope="module", params=[None, InputGuard()], ids=["bare", "guarded"])
def cascade(request):
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=300)
    body = np.array(["see you at noon today", "win a free prize"], dtype=object)[y]
    body[::20] = None
    X = pd.DataFrame({"calls": rng.normal(size=300), "body": body})
    design = StageDesign.from_stages([["calls"], ["body"]], COSTS.names)
    made = CascadeClassifier(design=design, costs=COSTS, threshold=0.9, guard=request.param)
    return made.fit(X, y)


@contextmanager
def callable_source(table):
    yield CallableSource(function=lambda keys, _: {key: table[key] for key in keys})


@contextmanager
def service_source(table):
    with http_source(table) as (source, _):
        yield source


STORES = {
    "redis hash": redis_source,
    "redis JSON": lambda table: redis_source(table, format="json"),
    "postgresql": lambda table: sql_source(POSTGRES, table),
    "mariadb": lambda table: sql_source(MARIADB, table),
    "http": service_source,
    "function": callable_source,
}


def assert_alike(found, expected):
    for name in ("label", "accepted", "exit_stage", "confidence"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name


@pytest.mark.parametrize("size", [1, 4, 32])
@pytest.mark.parametrize("store", STORES)
def test_a_fetched_text_is_decided_as_in_a_table(cascade, store, size):
    body = [TEXTS[place % len(TEXTS)] for place in range(size)]
    table = {f"k{place}": {"body": text} for place, text in enumerate(body)}
    X = pd.DataFrame({"calls": 0.0, "body": np.array(body, dtype=object)})
    with STORES[store](table) as source:

        async def decide():
            sources = Sources({"calls": KnownSource(), "body": source})
            async with LiveCascade(cascade, sources) as live:
                return await live.decide(list(table), {"calls": [0.0] * size})

        assert_alike(asyncio.run(decide()), cascade.decide(X))


def test_known_texts_and_what_is_no_text(cascade):
    """A number or bytes that are no text reject the row with a reason, guarded or not."""

    async def decide(body):
        sources = Sources({"calls": KnownSource(), "body": KnownSource()})
        async with LiveCascade(cascade, sources) as live:
            known = {"calls": [0.0] * len(body), "body": body}
            return await live.decide([f"k{place}" for place in range(len(body))], known)

    X = pd.DataFrame({"calls": 0.0, "body": np.array(TEXTS, dtype=object)})
    assert_alike(asyncio.run(decide(TEXTS)), cascade.decide(X))
    odd = asyncio.run(decide(["half \ud800", b"\xff", 7, ["a"], "win a prize"]))
    assert odd.reason.tolist() == [*["invalid value: body"] * 4, ""]
