"""A choice among ten thousand candidates: by several bounds, and by default."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.measure import Result
from emsco import Candidate, Costs, Evaluation, ParetoFront, StageDesign
from emsco.search.default_rule import cheapest_as_good

CANDIDATES = 10_000
ROWS = {"healthy": 70_000, "hyper": 10_000, "hypo": 20_000}
MOST = 10.0  # milliseconds
ROUNDS = 9

Choice = Callable[[ParetoFront], object]


def front_of(n_candidates: int) -> ParetoFront:
    """Make a front of three classes: what is surer or accepts more costs more."""
    rng = np.random.default_rng(0)
    costs = Costs.per_feature({"age": 1.0, "lab": 20.0, "scan": 100.0})
    candidates: list[Candidate] = []
    n_rows = sum(ROWS.values())
    designs = [
        StageDesign(np.array(stages), costs.names) for stages in ([0, 1, 2], [0, 1, -1], [0, 0, 1])
    ]
    for a, b in rng.random((n_candidates, 2)):
        accepted = {c: int(n * (0.5 + 0.5 * a)) for c, n in ROWS.items()}
        right = {c: int(n * (0.8 + 0.2 * b)) for c, n in accepted.items()}
        reference = {c: int(0.97 * n) for c, n in accepted.items()}
        both = {c: min(right[c], reference[c]) for c in ROWS}
        wrong = sum(accepted.values()) - sum(right.values())
        evaluation = Evaluation(
            n_rows,
            sum(accepted.values()),
            sum(right.values()),
            n_rows * (1 + 60 * (a + b)),
            ROWS,
            accepted,
            right,
            label_accepted={**right, "healthy": right["healthy"] + wrong},
            class_reference=reference,
            class_both=both,
        )
        candidates.append(Candidate(designs[len(candidates) % 3], 0.75, evaluation))
    return ParetoFront(candidates, costs, luck=1.7)


def by_bounds(front: ParetoFront) -> Candidate:
    """Choose as a careful user does: a bound on everything, of two classes too."""
    return front.select(
        max_cost=100.0,
        min_coverage=0.8,
        min_accuracy=0.9,
        max_missed={"hyper": 0.1, "hypo": 0.1},
        max_rejected={"hyper": 0.2, "hypo": 0.2},
        min_precision={"healthy": 0.85, "hypo": 0.9},
    )


def by_default(front: ParetoFront) -> object:
    """Choose as a search does that was told nothing."""
    evaluation = Evaluation(
        sum(ROWS.values()),
        sum(ROWS.values()),
        sum(int(0.9 * n) for n in ROWS.values()),
        121.0 * sum(ROWS.values()),
        ROWS,
        ROWS,
        {c: int(0.9 * n) for c, n in ROWS.items()},
    )
    reference = Candidate(StageDesign(np.array([0, 0, 0]), front.costs.names), 0.5, evaluation)
    return cheapest_as_good(front, reference, 1.7)


def run(*, small: bool = False) -> Iterator[Result]:
    """Time each choice: the first of a front, which reads its counts, and every later one."""
    n_candidates = 1_000 if small else CANDIDATES
    fronts = [front_of(n_candidates) for _ in range(3)]
    facts: dict[str, Any] = {"candidates": len(fronts[0]), "unit": "milliseconds"}
    choices: dict[str, Choice] = {"bounds": by_bounds, "default": by_default}
    for name, choose in choices.items():
        first = min(_seconds(choose, front) for front in fronts)
        yield Result(f"choice.{name}_first", 1e3 * first, facts=facts)
        later = min(_seconds(choose, front) for front in fronts for _ in range(ROUNDS))
        yield Result(f"choice.{name}_later", 1e3 * later, MOST, facts=facts)


def _seconds(choose: Choice, front: ParetoFront) -> float:
    start = time.perf_counter()
    assert choose(front) is not None
    return time.perf_counter() - start
