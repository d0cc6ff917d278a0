"""A state is emptied under a running service: nothing is bought again, and everybody is told."""

from __future__ import annotations

import asyncio
import urllib.request
from collections import Counter
from typing import Any

from tests.soak.live.bars import Bar, tell
from tests.soak.live.ports import free_port
from tests.soak.serve.deployments import ask_all, wrong_labels
from tests.soak.serve.kept import Kept
from tests.soak.serve.process import serving
from tests.soak.serve.world import WHOIS, World, fitted

_PART = "emptied"
_METRIC = "emsco_state_lost 1.0"


def measure(world: World, *, small: bool) -> list[Bar]:
    """Ask for 2,000 ids, empty the state, ask for all of them again; `--small`, for 100."""
    bars: list[Bar] = []
    keys = world.keys[: 100 if small else 2_000]
    X, cascade = fitted()
    label = cascade.decide(X).label
    labels = [label[number % len(X)] for number in range(len(keys))]
    for kind in ("Redis", "PostgreSQL"):
        kept, metrics = Kept(world, kind, "emptied"), free_port()
        kept.begin()
        options = ["--metrics-port", str(metrics)]
        before = len(world.vendor.bill())
        with serving(world, *options, state=kept.address) as process:
            first = asyncio.run(ask_all(process.port, keys))
            bought = len(world.vendor.bill()) - before
            kept.empty()
            again = asyncio.run(ask_all(process.port, keys))
            charged = Counter(charge.key for charge in world.vendor.bill()[before:])
            process.wait_for(lambda: process.told("state lost"))
            process.wait_for(lambda: _METRIC in _read(metrics))  # noqa: B023
            kept.accept()
            process.wait_for(lambda: process.told("state accepted"))
            process.wait_for(lambda: _METRIC not in _read(metrics))  # noqa: B023
            more = world.keys[len(keys) : 2 * len(keys)]
            asyncio.run(ask_all(process.port, more))
            after = len(world.vendor.bill()) - before - bought
        twice = sum(number > 1 for number in charged.values())
        wrong = [wrong_labels(told, labels) for told in (first, again)]
        lost = _reasons(again)[f"state lost: {WHOIS}"]
        tell(_PART, state=kind, ids=len(keys), bought=bought, lost=lost, twice=twice, wrong=wrong,
             after=after)  # fmt: skip
        bars += [
            Bar(f"{kind} emptied, {len(keys):,} ids asked again: billed twice, wrong labels",
                "0 and 0", f"{twice} and {sum(wrong)}; {bought:,} were billed before, and then "
                f"{lost:,} rows rejected as `state lost`",
                not twice and not any(wrong) and lost >= bought > 0),
            Bar(f"{kind}: the event `state lost`, the metric, and calls that go on once accepted",
                "told, told, > 0", f"told, told, {after:,}", after > 0),
        ]  # fmt: skip
    return bars


def _reasons(answers: list[Any]) -> Counter[str]:
    return Counter(row["reason"] for answer in answers for row in answer["decisions"])


def _read(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        told: str = answer.read().decode()
    return told
