"""A live cascade is a driver like any other: sync and async, it decides as the table does."""

from __future__ import annotations

import asyncio

import pytest

from emsco.live import CallableSource, LiveCascade
from emsco.testing import check_driver


def sources_of(decider, functions, **options):
    """Make a source of the functions of its columns."""

    def source(features):
        def fetch(keys, _):
            return {key: {f: functions[f](key) for f in features} for key in keys}

        return CallableSource(function=fetch, **options)

    return {name: source(decider.costs.columns(name)) for name in decider.costs.names}


def now(decider, functions, keys):
    """Decide from code that is not async."""
    live = LiveCascade(decider, sources_of(decider, functions))
    try:
        return live.decide_now(keys)
    finally:
        live.close_now()


async def later(decider, functions, keys):
    """Decide from async code."""
    async with LiveCascade(decider, sources_of(decider, functions)) as live:
        return await live.decide(keys)


async def one_by_one(decider, functions, keys):
    """Decide each row in a call of its own, all at the same time, with a cache."""
    sources = sources_of(decider, functions, ttl=60.0)
    async with LiveCascade(decider, sources, deadline=60.0) as live:
        parts = await asyncio.gather(*(live.decide([key]) for key in keys))
    return type(parts[0]).concatenate(parts) if parts else await later(decider, functions, keys)


@pytest.mark.parametrize("driver", [now, later, one_by_one])
def test_a_live_cascade_decides_as_the_table_does(driver):
    check_driver(driver, live=True)
