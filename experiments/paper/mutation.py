"""The paper's mutation figure: how likely a mutation opens a new stage, by its bias beta."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from emsco.search.strategies._operators import increment_probability
from experiments.results import Row, load
from experiments.tables import markdown

NAME = "paper_mutation"
KEYS = ("stages", "beta")
CASES = (2, 3, 4)  # stages before the mutation
SOURCES, RATE = 15, 0.1


def measure(stages: int, *, small: bool = False) -> Iterator[Row]:  # noqa: ARG001  # all of it is
    """Compute the curve of a number of stages, at every beta that the paper's figure has."""
    for row in load("paper_mutation_published"):
        if row["stages"] == stages:
            ours = increment_probability(stages, SOURCES, RATE, row["beta"])
            yield {"stages": stages, "beta": row["beta"], "ours": ours, "paper": row["p_incr"]}


def table(rows: Sequence[Row]) -> str:
    """Give the largest difference from the paper's coordinates."""
    lines = []
    for stages in CASES:
        seen = [row for row in rows if row["stages"] == stages]
        if seen:
            largest = max(abs(row["ours"] - row["paper"]) for row in seen)
            lines.append([str(stages), str(len(seen)), f"{largest:.0e}"])
    return markdown(["stages", "coordinates", "largest difference"], lines)
