"""What 16-bit stakes cost: exhaustive and local searches, beside those that count rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import fields

import numpy as np

from benchmarks.measure import Result
from benchmarks.problems import Data, credit, heart, synthetic50
from emsco.search._outcome_table import OutcomeTable
from emsco.search._problem import Problem
from emsco.search._stakes import BITS, Stakes
from emsco.search.strategies.exhaustive import Exhaustive
from emsco.search.strategies.local_search import LocalSearch

_SPREAD = 1.5  # of the logarithm: over four orders of magnitude in a thousand rows


def run(*, small: bool = False) -> Iterator[Result]:
    """Search each problem twice, with every source set fitted beforehand."""
    stages = 3 if small else 4
    data = credit()
    yield _ratio(
        f"exhaustive search of Credit, {stages} stages", data, Exhaustive(), stages, 10.0, small
    )
    evaluations = 5_000 if small else 100_000
    local = LocalSearch(evaluations)
    problems: tuple[tuple[str, Callable[[], Data]], ...] = (
        ("Credit", credit), ("Heart", heart), ("Synthetic50", synthetic50),
    )  # fmt: skip
    for name, load in problems[: 1 if small else 3]:
        yield _ratio(f"local search of {name}", load(), local, 4, 4.0, small)


def _ratio(
    name: str, data: Data, search: Exhaustive | LocalSearch, stages: int, bar: float, small: bool
) -> Result:
    """Time a search, fits included, by stake and by rows: the shorter of two turns of each."""
    train, select, _ = data.split(0)
    rng = np.random.default_rng(0)
    stake = np.exp(rng.normal(4.0, _SPREAD, len(select)))
    best = {"rows": np.inf, "stake": np.inf}
    sizes = {}
    for _ in range(1 if small else 2):
        for what in best:
            problem = data.problem(train, select, max_stages=stages)
            if what == "stake":
                problem = _by_stake(problem, stake)
            start = time.perf_counter()
            found = search.run(problem, np.random.default_rng(0))
            best[what] = min(best[what], time.perf_counter() - start)
            sizes[what] = len(found.front)
    facts = {
        "bits": BITS,
        "evaluation_rows": len(select),
        "seconds_by_rows": round(best["rows"], 2),
        "seconds_by_stake": round(best["stake"], 2),
        "front_by_rows": sizes["rows"],
        "front_by_stake": sizes["stake"],
    }
    title = f"{name}, times as long by stake as by rows"
    return Result(title, best["stake"] / best["rows"], None if small else bar, facts=facts)


def _by_stake(problem: Problem, stake: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Problem:
    """Pose the same problem with these stakes."""
    table = problem.table
    stakes = Stakes.of(stake, table.truth)
    given = {field.name: getattr(problem, field.name) for field in fields(Problem)}
    given["table"] = OutcomeTable(
        table.fitter, table.truth, table.n_sources, table.thresholds, stakes=stakes
    )
    return Problem(**given)
