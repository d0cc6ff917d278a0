"""The paper's comparison: what EMSCO's fittest designs give on the test rows, beside the others.

On one split, run 50 times, as the paper does: its margins are of the search's own chance. And on
other splits too, run once each, where the rows' chance shows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from emsco import EMSCO, Candidate, Evaluation
from emsco.search import Problem
from experiments.paper.baselines import cost_ordered, lasso
from experiments.paper.cases import CASES, EXAMPLE
from experiments.paper.published import COMPARISON, MARGINS
from experiments.results import Row
from experiments.tables import interval, markdown

NAME = "paper_comparison"
KEYS = ("data", "over", "method", "number")
_OURS = "EMSCO, one design an evaluation"
METHODS = ("EMSCO", _OURS, "CaCT LASSO", "CO-T")
# A run on Synthetic50 fits some 130,000 source sets of up to 50 columns: minutes, not seconds. So
# synthetic data are searched in the paper's way only.
SYNTHETIC = ("Synthetic50", "Synthetic15", EXAMPLE)
RUNS = 50
SPLITS = dict.fromkeys(CASES, 0) | {"Pima": 10, "Credit": 10, "Heart": 10, EXAMPLE: 3}


def measure(name: str, *, small: bool = False) -> Iterator[Row]:
    """Judge every method on a problem; small: one run on one split."""
    case = CASES[name]
    selection, test = case.problems(0)
    for method, emsco in _searches(name).items():
        for number in range(1 if small else RUNS):
            yield _row(name, "runs", method, number, *_found(emsco, selection, test, number))
    yield from _others(name, "runs", test, 0)
    for number in range(0 if small else SPLITS[name]):
        selection, test = case.problems(number)
        for method, emsco in _searches(name).items():
            yield _row(name, "splits", method, number, *_found(emsco, selection, test, number))
        yield from _others(name, "splits", test, number)


def _searches(name: str) -> dict[str, EMSCO]:
    emsco = CASES[name].emsco
    ours = {} if name in SYNTHETIC else {_OURS: replace(emsco, elite="evaluations")}
    return {"EMSCO": emsco} | ours


def _found(
    emsco: EMSCO, selection: Problem, test: Problem, number: int
) -> tuple[Evaluation, float]:
    """Search once, and judge the fittest design of the last generation on the test rows."""
    start = time.perf_counter()
    for generation in emsco.evolve(selection, np.random.default_rng(number)):
        last = generation
    seconds = time.perf_counter() - start
    fittest: Candidate = test.candidates(last.assignments[:1])[0]
    return fittest.evaluation, seconds


def _others(name: str, over: str, test: Problem, number: int) -> Iterator[Row]:
    case = CASES[name]
    data = case.load(number)
    start = time.perf_counter()
    tuned = lasso(data, case.split(len(data.y), number), case.threshold)
    yield _row(name, over, "CaCT LASSO", number, tuned, time.perf_counter() - start)
    yield _row(name, over, "CO-T", number, cost_ordered(test), 0.0)


def _row(
    name: str, over: str, method: str, number: int, evaluation: Evaluation, seconds: float
) -> Row:
    return {
        "data": name,
        "over": over,
        "method": method,
        "number": number,
        "accuracy": evaluation.accuracy,
        "coverage": evaluation.coverage,
        "cost": evaluation.cost,
        "seconds": round(seconds, 2),
    }


def table(rows: Sequence[Row]) -> str:
    """Give means with 95% margins, beside the paper's."""
    lines = []
    for name in CASES:
        for method in METHODS:
            cells = [_cell(rows, name, over, method) for over in ("runs", "splits")]
            if any(cells):
                lines.append([name, method, *cells, _published(name, method)])
        if any(row["data"] == name for row in rows) and name in MARGINS:
            quoted = ("Greedy Miser", "CSTC")
            lines += [[name, method, "", "", _published(name, method)] for method in quoted]
    header = ["data", "method", "one split", "many splits", "the paper"]
    return markdown(header, lines)


def _cell(rows: Sequence[Row], name: str, over: str, method: str) -> str:
    """Print accuracy %, coverage % and cost, with margins where there are several."""
    seen = [
        row for row in rows if (row["data"], row["over"], row["method"]) == (name, over, method)
    ]
    if not seen:
        return ""
    told = []
    for column, scale in (("accuracy", 100), ("coverage", 100), ("cost", 1)):
        mean, half = interval([scale * row[column] for row in seen])
        told.append(f"{mean:.1f}" + (f" ± {half:.1f}" if len(seen) > 1 else ""))
    return " / ".join(told) + (f" ({len(seen)})" if len(seen) > 1 else "")


def _published(name: str, method: str) -> str:
    name = "Synthetic15" if name == EXAMPLE else name
    figures = COMPARISON.get(method, {}).get(name)
    if figures is None:
        return ""
    if method != "EMSCO":
        return " / ".join(f"{figure:.1f}" for figure in figures)
    margins = zip(figures, MARGINS[name], strict=True)
    return " / ".join(f"{figure:.1f} ± {margin:.1f}" for figure, margin in margins)
