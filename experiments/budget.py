"""How NSGA-II fares on spambase by the fits that it may have: from a tenth of ours to many times.

There the comparison with other methods gives it as many as ours has, and they decide how it fares.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from experiments import peers
from experiments.peers.tables import SPLITS as COMPARED
from experiments.results import Row, load, write
from experiments.tables import markdown

NAME = "budget"
KEYS = ("times", "split")
PROBLEM = "spambase"
TIMES = (0.1, 1.0, 4.0, 16.0)  # our fits; the evaluations are ours
SPLITS = (0, 1)
FIGURES = ("price", "accuracy", "coverage")


def run(*, small: bool, only: list[str] | None = None) -> str:  # noqa: ARG001
    """Measure all, half an hour and more; small: one split with the fewest fits, not kept."""
    rows = []
    for row in measure(small=small):
        print(json.dumps(row), flush=True)
        rows.append(row)
    if not small:
        write(NAME, "python -m experiments budget", rows)
    return table(rows)


def measure(*, small: bool) -> Iterator[Row]:
    """Give the fresh figures of each budget on each split."""
    for times in TIMES[:1] if small else TIMES:
        for split in SPLITS[:1] if small else SPLITS:
            own = _ours(split)
            fits = round(times * own["fits"])
            row = peers.measure(PROBLEM, split, "nsga2", own["evaluations"], fits)
            yield {"times": times, "split": split} | {name: row[name] for name in FIGURES}


def _ours(split: int) -> Row:
    """Give what our search had on a split, and how it fared."""
    own = {"problem": PROBLEM, "method": "ours-linear", "split": split}
    return next(row for row in load(COMPARED) if own.items() <= row.items())


def table(rows: list[Row]) -> str:
    """Give a line a budget, and one for ours: the splits side by side, in percent."""
    lines = [
        [f"NSGA-II, {times:g} times our fits", *_told([r for r in rows if r["times"] == times])]
        for times in dict.fromkeys(row["times"] for row in rows)
    ]
    ours = [_ours(split) for split in dict.fromkeys(row["split"] for row in rows)]
    return markdown(["search", *FIGURES], [*lines, ["ours", *_told(ours)]])


def _told(rows: list[Row]) -> list[str]:
    return [", ".join(f"{100 * row[name]:.1f}" for row in rows) for name in FIGURES]
