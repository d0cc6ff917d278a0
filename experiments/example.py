"""The example of the EMSCO authors' public script: its printed figures, and ours on the test rows.

Fitted on its training rows, selected on its validation rows, judged on its test rows. Ours is the
front's best by the scalarisation sqrt(accuracy^2 + coverage^2 + (1 - cost / total)^2): of all
designs that buy every source in the end, as the script's do, and of those that may leave some out.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from emsco import EMSCO, Evaluation, StageDesign
from emsco.datasets import CostlyData, load_example
from emsco.search import Problem
from experiments.paper.baselines import fitness
from experiments.paper.cases import ask
from experiments.results import Row, load, save
from experiments.tables import markdown

NAME = "example"
KEYS = ("threshold", "method")
THRESHOLDS = (0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
MAX_STAGES = 8  # min(round(n / 2), 10)
# What the script prints (MIT): accuracy, coverage, cost.
PRINTED = dict(
    zip(
        THRESHOLDS,
        (
            (0.662, 0.993, 32.8), (0.746, 0.959, 75.9), (0.795, 0.919, 92.2),
            (0.831, 0.850, 101.5), (0.858, 0.748, 121.9), (0.890, 0.659, 133.4),
            (0.917, 0.553, 145.2), (0.936, 0.430, 152.1), (0.973, 0.264, 158.0),
        ),
        strict=True,
    )
)  # fmt: skip


def run(*, small: bool, only: list[str] | None = None) -> str:  # noqa: ARG001  # it has no parts
    """Search at every threshold, judge on the test rows; small: at the first one, not kept."""
    rows = []
    for row in measure(small=small):
        print(json.dumps(row), flush=True)
        rows.append(row)
    if not small:
        for threshold in THRESHOLDS:
            seen = [row for row in rows if row["threshold"] == threshold]
            save(NAME, "python -m experiments example", seen, THRESHOLDS)
    return table(rows if small else load(NAME))


def measure(*, small: bool = False) -> Iterator[Row]:
    """Judge the script's figures and ours by its scalarisation."""
    parts = [load_example(part=part) for part in ("train", "val", "test")]
    data = CostlyData(
        pd.concat([part.X for part in parts], ignore_index=True),
        np.concatenate([part.y for part in parts]),
        parts[0].costs,
    )
    train, selection, test = np.split(
        np.arange(len(data.y)), np.cumsum([len(part.y) for part in parts])[:-1]
    )
    thresholds = THRESHOLDS[:1] if small else THRESHOLDS
    selected = ask(data, train, selection, [*thresholds], MAX_STAGES)
    judged = ask(data, train, test, [*thresholds], MAX_STAGES)
    for which, threshold in enumerate(thresholds):
        accuracy, coverage, cost = PRINTED[threshold]
        n_accepted = coverage * len(test)
        printed = Evaluation(len(test), n_accepted, accuracy * n_accepted, cost * len(test))
        yield _row(threshold, "public script", printed, data.costs.total, 0.0)
        methods = (("every source", False), ("sources left out", True))
        for method, unused in methods[:1] if small else methods:
            start = time.perf_counter()
            design = _best(replace(selected, allow_unused=unused), which)
            seconds = time.perf_counter() - start
            found = judged.candidates(design.assignment[None].astype(np.int8), which)[0]
            yield _row(threshold, method, found.evaluation, data.costs.total, seconds)


def _best(problem: Problem, threshold: int) -> StageDesign:
    """Search once by EMSCO's defaults, and choose by the scalarisation."""
    for generation in EMSCO().evolve(problem, np.random.default_rng(0), threshold):
        last = generation
    found = last.assignments[last.front & last.evaluations]
    return problem.front(problem.candidates(found, threshold)).select(by="fitness").design


def _row(threshold: float, method: str, e: Evaluation, total: float, seconds: float) -> Row:
    return {
        "threshold": threshold,
        "method": method,
        "accuracy": e.accuracy,
        "coverage": e.coverage,
        "cost": e.cost,
        "scalarisation": fitness(e, total),
        "seconds": round(seconds, 2),
    }


def table(rows: Sequence[Row]) -> str:
    """Give accuracy, coverage, cost and the scalarisation side by side."""
    methods = ("public script", "every source", "sources left out")
    lines = []
    for threshold in THRESHOLDS:
        seen = {row["method"]: row for row in rows if row["threshold"] == threshold}
        if seen:
            cells = [_cell(seen[method]) if method in seen else "" for method in methods]
            lines.append([f"{threshold:.2f}", *cells])
    return markdown(["threshold", *methods], lines)


def _cell(row: Row) -> str:
    figures = f"{row['accuracy']:.3f} / {row['coverage']:.3f} / {row['cost']:.1f}"
    return f"{figures}: **{row['scalarisation']:.3f}**"
