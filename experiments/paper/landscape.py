"""The trade-off landscape of Credit: cost over coverage and accuracy, up to four stages.

Designs drawn uniformly from all there are, counted in squares of coverage and accuracy with their
mean cost; and the exact front.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from emsco import Exhaustive, StageDesign
from experiments.paper.cases import CASES as ALL_CASES
from experiments.results import Row
from experiments.tables import markdown

NAME = "paper_landscape"
KEYS = ("kind", "coverage", "accuracy")
CASES = ("drawn", "front")
STAGES = 4
DRAWN = 200_000
SIDE = 0.01  # of a square


def measure(kind: str, *, small: bool = False) -> Iterator[Row]:  # noqa: ARG001  # seconds anyway
    """Evaluate designs on the first split."""
    problem, _ = ALL_CASES["Credit"].problems(0, STAGES)
    if kind == "front":
        for candidate in Exhaustive().run(problem).front:
            e = candidate.evaluation
            yield _row(kind, e.coverage, e.accuracy, e.cost, 1)
        return
    rng = np.random.default_rng(0)
    counts = problem.evaluate(draw(DRAWN, problem.n_sources, STAGES, rng))
    coverage = counts.accepted / problem.n_rows
    accuracy = counts.right / np.maximum(counts.accepted, 1)
    cost = counts.paid / float(problem.scale) / problem.n_rows
    squares = np.rint(np.column_stack([coverage, accuracy]) / SIDE).astype(np.int64)
    distinct, square, number = np.unique(squares, axis=0, return_inverse=True, return_counts=True)
    mean_cost = np.bincount(square.ravel(), weights=cost) / number
    for (across, up), mean, n in zip(distinct, mean_cost, number, strict=True):
        yield _row(kind, across * SIDE, up * SIDE, mean, n)


def _row(kind: str, coverage: float, accuracy: float, cost: float, designs: int) -> Row:
    figures = {"coverage": coverage, "accuracy": accuracy, "cost": cost}
    rounded = {name: round(float(figure), 8) for name, figure in figures.items()}
    return {"kind": kind} | rounded | {"designs": int(designs)}


def draw(size: int, n_sources: int, max_stages: int, rng: np.random.Generator) -> NDArray[np.int8]:
    """Draw designs that use every source, each of all there are with the same probability."""
    up_to = [StageDesign.count(n_sources, stages) for stages in range(max_stages + 1)]
    shares = np.diff(up_to) / up_to[-1]
    n_stages = rng.choice(np.arange(1, max_stages + 1), size, p=shares)
    drawn = rng.integers(0, n_stages[:, None], (size, n_sources), dtype=np.int8)
    while (lacking := _n_used(drawn) < n_stages).any():  # a stage is empty
        again = n_stages[lacking]
        drawn[lacking] = rng.integers(0, again[:, None], (len(again), n_sources), dtype=np.int8)
    return drawn


def _n_used(assignments: NDArray[np.int8]) -> NDArray[np.int64]:
    ordered = np.sort(assignments, axis=1)
    used: NDArray[np.int64] = 1 + (np.diff(ordered, axis=1) > 0).sum(axis=1)
    return used


def table(rows: Sequence[Row]) -> str:
    """Give the mean cost of drawn designs by quarters of their coverage and accuracy."""
    drawn = [row for row in rows if row["kind"] == "drawn"]
    lines = []
    for least, most in ((0, 0.75), (0.75, 0.8), (0.8, 0.85), (0.85, 0.9), (0.9, 1.01)):
        cells = []
        for low, high in ((0, 0.85), (0.85, 0.9), (0.9, 1.01)):
            inside = [
                row
                for row in drawn
                if least <= row["coverage"] < most and low <= row["accuracy"] < high
            ]
            designs = sum(row["designs"] for row in inside)
            paid = sum(row["designs"] * row["cost"] for row in inside)
            cells.append(f"{paid / designs:,.0f} ({designs:,})" if designs else "")
        lines.append([f"{least:.0%} to {min(most, 1):.0%}", *cells])
    return markdown(["coverage", "accuracy below 85%", "85% to 90%", "90% and more"], lines)
