"""Timing that holds on a noisy machine: both sides take turns, and the best of each counts."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
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


def apart(module: str, *arguments: str) -> dict[str, Any]:
    """Run a module in a process of its own, and give the JSON object that it prints last."""
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def peak_mb() -> float:
    """Give the most memory that this process has had."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return round(int(line.split()[1]) / 1024, 1)
