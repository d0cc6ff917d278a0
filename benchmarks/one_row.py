"""The single case: `decide_one` on a mapping, and live decisions whose values are all known.

Times are medians of calls one by one, of the best of several rounds: others use the machine too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.live import problem
from benchmarks.measure import Result
from emsco import CascadeClassifier, InputGuard, StageDesign
from emsco.datasets import load_phishing
from emsco.live import KnownSource, LiveCascade, Sources
from emsco.live.few_rows import MOST_ROWS

ROUNDS = 8


def run(*, small: bool = False) -> Iterator[Result]:  # noqa: ARG001  # seconds as it is
    """Measure rows of 15 numbers, of 87 columns, and a live decision."""
    for guard, bar in ((None, 15.0), (InputGuard(), 20.0)):
        X, cascade, _, _ = problem(guard)
        rows = [{f"x{i}": float(value) for i, value in enumerate(row)} for row in X]
        exits = cascade.decide(X).exit_stage
        last = [row for row, stage in zip(rows, exits, strict=True) if stage == exits.max()]
        guarded = "" if guard is None else ", guarded"
        yield _of(f"decide_one, 15 numbers, {exits.max() + 1} stages{guarded}", cascade, last, bar)
    yield _of("decide_one, a dict of 87 columns, first stage", *_phishing(), 20.0)
    yield from asyncio.run(_live())


def _of(
    title: str, cascade: CascadeClassifier, rows: Sequence[dict[str, Any]], bar: float
) -> Result:
    p50, p99 = _microseconds(cascade.decide_one, rows)
    return Result(f"{title}, microseconds", p50, bar, facts={"p99": p99, "rows": len(rows)})


def _microseconds(decide: Callable[[Any], Any], rows: Sequence[Any]) -> tuple[float, float]:
    """Give p50 and p99 of the best round."""
    rounds = []
    for _ in range(ROUNDS):
        taken = []
        for row in rows:
            begin = time.perf_counter_ns()
            decide(row)
            taken.append(time.perf_counter_ns() - begin)
        rounds.append(np.percentile(taken, [50, 99]) / 1000)
    p50, p99 = np.array(rounds).min(axis=0)
    return round(float(p50), 1), round(float(p99), 1)


def _phishing() -> tuple[CascadeClassifier, list[dict[str, Any]]]:
    """Give a cascade whose first stage judges the address, and rows that it accepts."""
    X, y, costs = load_phishing()
    stages = {"url": 0, "page": 1, "whois": 2}
    assignment = np.array([stages.get(source.name, -1) for source in costs.sources])
    design = StageDesign(assignment, costs.names)
    cascade = CascadeClassifier(design=design, costs=costs, threshold=0.7).fit(X, y)
    exits = cascade.decide(X[:2000]).exit_stage
    rows = X[:2000].to_dict("records")
    return cascade, [row for row, stage in zip(rows, exits, strict=True) if stage == 0]


async def _live() -> list[Result]:
    """Decide one key at a time, all values known; then as many as are decided one by one."""
    X, cascade, _, costs = problem(None)
    sources = Sources({source.name: KnownSource() for source in costs.sources})
    sizes = (1, MOST_ROWS, MOST_ROWS + 1)
    rounds: dict[int, list[Any]] = {size: [] for size in sizes}
    async with LiveCascade(cascade, sources) as live:
        for _ in range(ROUNDS):
            for size in sizes:
                rounds[size].append(await _batches(live, X, size))
    best = {size: np.array(found).min(axis=0).round(1).tolist() for size, found in rounds.items()}
    (p50, p99), (few, _), (many, _) = (best[size] for size in sizes)
    facts = {"one_by_one_us": few, "loop_us": many}
    return [
        Result("live, one key, all values known, microseconds", p50, 90.0, facts={"p99": p99}),
        Result(f"live, {MOST_ROWS} keys one by one / one more by the loop", round(few / many, 3),
               1.0, facts=facts),
    ]  # fmt: skip


async def _batches(live: LiveCascade, X: NDArray[np.float64], size: int) -> Any:
    """Give p50 and p99 of deciding all rows, so many at a time."""
    taken = []
    for first in range(0, len(X) - size + 1, size):
        rows = X[first : first + size]
        known = {f"x{i}": column.tolist() for i, column in enumerate(rows.T)}
        keys = [f"row{first + number}" for number in range(size)]
        begin = time.perf_counter_ns()
        await live.decide(keys, known)
        taken.append(time.perf_counter_ns() - begin)
    return np.percentile(taken, [50, 99]) / 1000
