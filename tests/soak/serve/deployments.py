"""Two deployments with different models in one state: each gives its own labels, and pays once."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from emsco import CascadeClassifier, StageDesign, dump
from emsco.datasets import load_phishing
from tests.soak.live.bars import Bar, tell
from tests.soak.serve.client import Client
from tests.soak.serve.kept import Kept
from tests.soak.serve.process import serving
from tests.soak.serve.world import PRICES, THRESHOLDS, World, fitted

_PART = "deployments"
CLIENTS = 8
NAMES = ("first", "second")


def renamed() -> CascadeClassifier:
    """Fit the same cascade on other labels, which the first model does not have."""
    X, y, _ = load_phishing()
    costs = fitted()[1].decider_.costs
    X = X[[feature for name in PRICES for feature in costs.columns(name)]]
    cascade = CascadeClassifier(
        design=StageDesign.from_stages([[name] for name in PRICES]), costs=costs,
        threshold=THRESHOLDS,
    )  # fmt: skip
    labels = np.array([f"{label} of the second" for label in y])
    cascade.fit(X[::2], labels[::2])
    return cascade


def wrong_labels(answers: Sequence[Mapping[str, Any]], labels: Sequence[Any]) -> int:
    """Count accepted labels that are not those of the model offline."""
    return sum(
        row["accepted"] and row["label"] != label
        for answer, label in zip(answers, labels, strict=True)
        for row in answer["decisions"]
    )


async def ask_all(port: int, keys: Sequence[str]) -> list[Any]:
    """Ask for every key, with an id that follows from it; give the answers in their order."""
    left, answers = list(enumerate(keys)), {}

    async def work() -> None:
        with Client(port) as client:
            while left:
                number, key = left.pop()
                answer = await client.decide({"key": key, "id": f"order-{key}"})
                if answer.status != 200:
                    raise RuntimeError(f"{answer.status}: {answer.body!r}")
                answers[number] = answer.json

    await asyncio.gather(*(work() for _ in range(CLIENTS)))
    return [answers[number] for number in range(len(keys))]


async def _ask_twice(ports: Sequence[int], keys: Sequence[str]) -> list[list[Any]]:
    """Ask both at the same time, and both again."""
    both = [ask_all(port, keys) for port in ports]
    again = [ask_all(port, keys) for port in ports]
    return [*await asyncio.gather(*both), *await asyncio.gather(*again)]


def measure(world: World, *, small: bool) -> list[Bar]:
    """Ask two deployments for the same 2,000 ids, twice; `--small`, 100."""
    bars: list[Bar] = []
    keys = world.keys[: 100 if small else 2_000]
    X, first = fitted()
    second = renamed()
    rows = [number % len(X) for number in range(len(keys))]
    labels = [model.decide(X).label[rows].tolist() for model in (first, second)]
    with tempfile.TemporaryDirectory(dir=world.folder) as name:
        other = replace(world, folder=Path(name))
        dump(second, other.model)
        other.write_sources()
        for kind in ("Redis", "PostgreSQL"):
            kept = [Kept(world, kind, "deployments", deployment) for deployment in NAMES]
            for state in kept:
                state.begin()
            before = len(world.vendor.bill())
            with (
                serving(world, state=kept[0].address, deployment=NAMES[0]) as one,
                serving(other, state=kept[1].address, deployment=NAMES[1]) as two,
            ):
                told = asyncio.run(_ask_twice([one.port, two.port], keys))
            wrong = [wrong_labels(told[n], labels[n % 2]) for n in range(4)]
            unlike = sum(a != b for n in (0, 1) for a, b in zip(told[n], told[n + 2], strict=True))
            charged = Counter(charge.key for charge in world.vendor.bill()[before:])
            twice = sum(number > len(NAMES) for number in charged.values())
            tell(_PART, state=kind, ids=len(keys), wrong=wrong, unlike=unlike, twice=twice,
                 charges=charged.total())  # fmt: skip
            bars += [
                Bar(f"two deployments, {len(keys):,} ids each in one {kind}: wrong labels", "0",
                    str(sum(wrong)), not any(wrong)),
                Bar(f"{kind}: ids of a deployment that were billed twice, or answered otherwise",
                    "0 and 0", f"{twice} and {unlike}; {charged.total():,} charges",
                    not twice and not unlike and charged.total() > 0),
            ]  # fmt: skip
    return bars
