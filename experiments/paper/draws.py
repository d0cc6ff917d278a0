"""Synthetic15 drawn again and again by the paper's recipe: what the draw alone decides.

For each draw, on its own split: all sources at once, and CO-T. No search is run.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np

from experiments.paper.baselines import cost_ordered
from experiments.paper.cases import CASES as ALL_CASES
from experiments.results import Row
from experiments.tables import markdown

NAME = "paper_draws"
KEYS = ("data", "method", "number")
CASES = ("Synthetic15",)
DRAWS = 20
METHODS = ("all sources", "CO-T")


def measure(name: str, *, small: bool = False) -> Iterator[Row]:
    """Judge both on the test rows of every draw; small: of the first one."""
    for number in range(1 if small else DRAWS):
        start = time.perf_counter()
        _, test = ALL_CASES[name].problems(number)
        at_once = np.zeros((1, test.n_sources), dtype=np.int8)
        judged = (test.candidates(at_once)[0].evaluation, cost_ordered(test))
        seconds = round(time.perf_counter() - start, 2)
        for method, evaluation in zip(METHODS, judged, strict=True):
            yield {
                "data": name,
                "method": method,
                "number": number,
                "accuracy": evaluation.accuracy,
                "coverage": evaluation.coverage,
                "cost": evaluation.cost,
                "seconds": seconds,
            }


def table(rows: Sequence[Row]) -> str:
    """Give a line a method: the first draw, which the comparison uses, and the range of all."""
    lines = []
    for method in METHODS:
        own = [row for row in rows if row["method"] == method]
        figures = [
            [scale * row[column] for row in own]
            for column, scale in (("accuracy", 100), ("coverage", 100), ("cost", 1))
        ]
        first = " / ".join(f"{each[0]:.1f}" for each in figures)
        ranges = (f"{min(each):.1f} to {max(each):.1f}" for each in figures)
        lines.append([method, first, *ranges])
    header = ["method", "the first draw", "accuracy % of all draws", "coverage %", "cost"]
    return markdown(header, lines)
