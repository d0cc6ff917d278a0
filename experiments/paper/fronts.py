"""How many evaluations, and how many designs, no other beats: exact fronts up to 2, 3 and 4 stages.

What took the paper some three weeks on 32 cores, for these and the runs of `optimal_found`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from emsco import Exhaustive, StageDesign
from experiments.paper.cases import CASES as ALL_CASES
from experiments.paper.cases import EXACT as CASES
from experiments.paper.published import FRONT_SIZES
from experiments.results import Row
from experiments.tables import markdown

NAME = "paper_fronts"
KEYS = ("data", "stages", "split")
STAGES = (2, 3, 4)
SPLITS = 10


def measure(name: str, *, small: bool = False) -> Iterator[Row]:
    """Walk every design of a problem, split after split; small: two stages of one split."""
    for split in range(1 if small else SPLITS):
        start = time.perf_counter()
        problem, _ = ALL_CASES[name].problems(split, max(STAGES))
        for stages in STAGES[:1] if small else STAGES:
            front, history = Exhaustive().run(replace(problem, max_stages=stages))
            yield {
                "data": name,
                "stages": stages,
                "split": split,
                "evaluations": len(front),
                "designs": sum(history[-1]["ties"]),
                "walked": StageDesign.count(problem.n_sources, stages),
                "seconds": round(time.perf_counter() - start, 2),
            }
            start = time.perf_counter()


def table(rows: Sequence[Row]) -> str:
    """Give the sizes on the first split, the least and most on all, and the paper's."""
    lines = []
    for name in CASES:
        for stages in STAGES:
            seen = [row for row in rows if (row["data"], row["stages"]) == (name, stages)]
            if seen:
                first = next(row for row in seen if row["split"] == 0)
                seconds = sum(row["seconds"] for row in seen) / len(seen)
                lines.append(
                    [
                        name, str(stages), f"{first['walked']:,}",
                        f"{first['evaluations']:,} ({_range(seen, 'evaluations')})",
                        f"{first['designs']:,} ({_range(seen, 'designs')})",
                        str(FRONT_SIZES.get(name, {}).get(stages, "")), f"{seconds:.1f}",
                    ]
                )  # fmt: skip
    header = ["data", "stages", "designs walked", "best evaluations (range)",
              "designs that share them (range)", "the paper's", "seconds a split"]  # fmt: skip
    return markdown(header, lines)


def _range(rows: Sequence[Row], column: str) -> str:
    values = [row[column] for row in rows]
    return f"{min(values):,} to {max(values):,}"
