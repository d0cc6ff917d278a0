"""Prices: milliseconds that each source takes for one message, measured one message at a time."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from emsco import Costs, Source
from experiments.results import FOLDER
from experiments.text import cheap, dear, kept, messages
from tests.soak.live.bars import tell

FILE = FOLDER / "text_costs.toml"
_COMMAND = "python -m experiments text --only prices"
_MESSAGES = 500
_WARM = 20  # messages before the clock counts


def measure() -> None:
    """Time every source on messages of the first batch, and write the prices."""
    texts, _, _ = messages.load()
    division = messages.divide(messages.others(len(texts)), 0)
    batch = texts[division.batch[: _WARM + _MESSAGES]].tolist()
    found = kept.load()
    embed, weights = dear.load_transformer(), found.weights
    answers = dear.answers(found.scores)[division.log]
    ways: dict[str, Callable[[str], object]] = {
        name: _scorer(clone(classifier).fit(texts[division.log], answers))
        for name, classifier in cheap.CLASSIFIERS.items()
    }
    ways["embedding"] = lambda text: dear.score(embed(text), weights)
    costs = {name: round(_median(way, batch), 3) for name, way in ways.items()}
    tell("prices", **costs)
    FILE.write_text(_as_toml(costs), encoding="utf-8")


def _scorer(fitted: Any) -> Callable[[str], object]:
    return lambda text: fitted.decision_function([text])


def _median(way: Callable[[str], object], texts: Sequence[str]) -> float:
    """Give the median of milliseconds of this thread, which other processes hardly change."""
    taken = []
    for text in texts:
        begin = time.thread_time()
        way(text)
        taken.append(1000 * (time.thread_time() - begin))
    return float(np.median(taken[_WARM:]))


def _as_toml(costs: dict[str, float]) -> str:
    last = "embedding"
    programs = ", ".join(f"{name} {version(name)}" for name in ("torch", "scikit-learn"))
    lines = [
        f"# {_COMMAND}",
        f"# Milliseconds of processor time, the median of {_MESSAGES} messages, one at a time and",
        f"# on one thread of {_processor()} at a load of {os.getloadavg()[0]:.1f};",
        f"# Python {platform.python_version()}, {programs}.",
        'unit = "ms"',
        "",
        "[sources]",
        *(f"{name} = {{ cost = {cost:g} }}" for name, cost in costs.items() if name != last),
        "# Last, because it is what is to be avoided.",
        f'{last} = {{ cost = {costs[last]:g}, requires = ["words", "characters"] }}',
    ]
    return "\n".join(lines) + "\n"


def _processor() -> str:
    """Name the processor."""
    about = Path("/proc/cpuinfo")
    told = about.read_text(encoding="utf-8").splitlines() if about.exists() else []
    names = [line.partition(":")[2].strip() for line in told if line.startswith("model name")]
    return f"{(names or [platform.machine()])[0]} ({os.cpu_count()} cores)"


def in_three_stages() -> Costs:
    """Give the prices."""
    return Costs.from_toml(FILE)


def in_two_stages() -> Costs:
    """Give the prices where both cheap sources are bought together, for one cheap model."""
    costs = in_three_stages()
    both = [*cheap.CLASSIFIERS]
    return Costs(
        [
            Source("cheap", features=both, cost=costs.of(both)),
            Source("embedding", cost=costs.of(["embedding"]), requires=["cheap"]),
        ],
        unit=costs.unit,
    )
