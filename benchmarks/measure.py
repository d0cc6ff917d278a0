"""Timing that holds on a noisy machine: both sides take turns, and the best of each counts."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Result:
    """One figure, the bar it is held to (None: reported only), and the facts beside it."""

    name: str
    value: float
    bar: float | None = None
    at_most: bool = True
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether the bar is met."""
        if self.bar is None:
            return True
        return self.value <= self.bar if self.at_most else self.value >= self.bar

    def as_dict(self) -> dict[str, Any]:
        """Give the line that is printed."""
        figures = {"name": self.name, "value": round(self.value, 4), "bar": self.bar, "ok": self.ok}
        return figures | self.facts


def best_times(*programs: Callable[[], object], rounds: int) -> list[float]:
    """Time programs in turns; give the shortest time of each, in seconds."""
    best = [float("inf")] * len(programs)
    for _ in range(rounds):
        for i, program in enumerate(programs):
            start = time.perf_counter()
            program()
            best[i] = min(best[i], time.perf_counter() - start)
    return best
