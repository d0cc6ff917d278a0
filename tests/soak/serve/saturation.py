"""Twice the load that saturates: the surplus is told to come again, the others are answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tests.soak.live.bars import Bar, tell
from tests.soak.serve.generator import Found, load
from tests.soak.serve.process import CLIENT_CORE, SERVICE_CORE, serving
from tests.soak.serve.world import World, fitted

_PART = "saturation"
PLACES = 128  # requests that a service takes: 64 that are decided and 64 that wait
CLIENTS = 1024  # for twice the load: none must wait for another
RATIO = 2.0  # of the 99th percentiles, at most
LEAST_REFUSED = 0.2  # of the requests, so that there is a surplus at all


class Overload(NamedTuple):
    """What saturates, and what became of twice as much, in turns."""

    saturated: Sequence[Found]
    twice: Sequence[Found]

    @property
    def rate(self) -> float:
        """The most decisions per second, in the median round."""
        return float(np.median([found.answered for found in self.saturated]))

    @property
    def ratio(self) -> float:
        """The 99th percentile of the answered under twice the load, relative to saturation."""
        ratios = [
            more.p99.get(200, np.inf) / one.p99.get(200, 0.0)
            for one, more in zip(self.saturated, self.twice, strict=True)
        ]
        return float(np.median(ratios))

    @property
    def refused(self) -> float:
        """The share of requests that was told to come again."""
        sent = sum(found.sent for found in self.twice)
        return sum(found.statuses.get(429, 0) for found in self.twice) / sent

    @property
    def wrong(self) -> list[str]:
        """What is not as it must be: lost requests, other answers, refusals without a time."""
        wrong = []
        for number, found in enumerate([*self.saturated, *self.twice]):
            others = set(found.statuses) - {200, 429}
            if found.lost or others:
                wrong.append(f"round {number}: {found.lost} lost, {found.statuses}")
            if found.with_retry != found.statuses.get(429, 0):
                wrong.append(f"round {number}: 429 without Retry-After")
        return wrong

    @property
    def is_twice(self) -> bool:
        """Whether twice as much was sent indeed."""
        pairs = zip(self.saturated, self.twice, strict=True)
        return all(more.offered > 1.8 * one.answered for one, more in pairs)


def quick_keys(world: World) -> list[str]:
    """Name rows that the first stage decides, so that nothing is paid for."""
    X, cascade = fitted()
    early = cascade.decide(X).exit_stage == 0
    return [key for number, key in enumerate(world.keys) if early[number % len(X)]]


def measure(world: World, *, small: bool) -> list[Bar]:
    """Five rounds of ten seconds each way; `--small`, three of two seconds."""
    rounds, seconds = (3, 2.0) if small else (5, 10.0)
    keys = quick_keys(world)[:5000]
    saturated, twice = [], []
    with serving(world, core=SERVICE_CORE) as process:
        port = process.port
        load(port, keys, 1.0, clients=PLACES, core=CLIENT_CORE)  # connections to stores are made
        for _ in range(rounds):
            saturated.append(load(port, keys, seconds, clients=PLACES, core=CLIENT_CORE))
            rate = 2 * saturated[-1].answered
            twice.append(load(port, keys, seconds, clients=CLIENTS, rate=rate, core=CLIENT_CORE))
        code = process.end()
    found = Overload(saturated, twice)
    for name, all_rounds in found._asdict().items():
        for one in all_rounds:
            tell(_PART, load=name, answered=one.answered, offered=one.offered,
                 statuses=one.statuses, p50=one.p50, p99=one.p99, lost=one.lost)  # fmt: skip
    p99 = float(np.median([one.p99[200] for one in saturated]))
    still = float(np.median([one.answered for one in twice]))
    return [
        Bar(f"twice the load that saturates ({found.rate:,.0f} per second): requests without an "
            "answer, other answers than 200 and 429 with Retry-After", "0",
            f"{len(found.wrong)}; {found.refused:.0%} are told 429, {still:,.0f} per second are "
            "decided", not found.wrong and found.refused >= LEAST_REFUSED and found.is_twice
            and not code),
        Bar("p99 of the answered, relative to saturation", f"at most {RATIO:g}",
            f"{found.ratio:.2f} (at saturation {1000 * p99:.0f} ms)", found.ratio <= RATIO),
    ]  # fmt: skip
