"""How many globally optimal designs each generation of EMSCO holds, in the mean of several runs.

A design is globally optimal where its evaluation is one of the exact front's. Many designs may
share an evaluation, so both are counted: evaluations found, of all there are, and designs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from emsco import EMSCO, Exhaustive
from emsco.search import Counts, Problem
from experiments.paper.cases import CASES as ALL_CASES
from experiments.results import Row
from experiments.tables import interval, markdown

NAME = "paper_optimal_found"
KEYS = ("data", "stages", "elite", "generation")
CASES = ("Pima", "Heart", "Credit")
STAGES = (2, 3, 4)
RUNS = 50
Evaluated = tuple[int, int, int]  # accepted, right, paid
Counted = NDArray[np.int64]  # generations x (evaluations, designs)


def measure(name: str, *, small: bool = False) -> Iterator[Row]:
    """Search the first split again and again; small: the first run, in two stages."""
    case = ALL_CASES[name]
    problem, _ = case.problems(0, max(STAGES))
    for stages in STAGES[:1] if small else STAGES:
        asked = replace(problem, max_stages=stages)
        front = Exhaustive().run(asked).front
        designs = np.array([candidate.design.assignment for candidate in front], dtype=np.int8)
        best = set(_told(asked.evaluate(designs)))
        for elite in ("designs", "evaluations"):
            emsco = replace(case.emsco, elite=elite)
            runs = [_found(emsco, asked, best, run) for run in range(1 if small else RUNS)]
            for generation in range(emsco.generations + 1):
                row = {
                    "data": name,
                    "stages": stages,
                    "elite": elite,
                    "generation": generation,
                    "evaluations_of_run_0": int(runs[0][generation, 0]),
                }
                yield row if small else row | _means(np.array(runs)[:, generation], len(best))


def _told(counts: Counts) -> list[Evaluated]:
    """Give what each design accepts, has right and pays, as whole numbers."""
    return list(zip(*(column.tolist() for column in counts[1:]), strict=True))


def _found(emsco: EMSCO, problem: Problem, best: set[Evaluated], run: int) -> Counted:
    """Count in every generation of a run; one that halts stays as it was."""
    counted = []
    for generation in emsco.evolve(problem, np.random.default_rng(run)):
        _, first = np.unique(generation.assignments, axis=0, return_index=True)
        optimal = [counts for counts in _told(generation.counts.take(first)) if counts in best]
        counted.append((len(set(optimal)), len(optimal)))
    halted = [counted[-1]] * (emsco.generations + 1 - len(counted))
    return np.array(counted + halted)


def _means(counted: Counted, n_best: int) -> Row:
    evaluations, margin = interval(counted[:, 0].tolist())
    return {
        "evaluations": evaluations,
        "margin": margin,
        "designs": float(counted[:, 1].mean()),
        "of": n_best,
        "runs": len(counted),
    }


def table(rows: Sequence[Row]) -> str:
    """Give what some generations had found, of all that there is."""
    shown = (0, 5, 10, 25, 50, 100, 150)
    lines = []
    for name in CASES:
        for stages in STAGES:
            for elite in ("designs", "evaluations"):
                by_generation = {
                    row["generation"]: row
                    for row in rows
                    if (row["data"], row["stages"], row["elite"]) == (name, stages, elite)
                }
                if by_generation:
                    found = [by_generation[number] for number in shown]
                    lines.append([name, str(stages), elite, *map(_cell, found), _of(found[-1])])
    header = ["data", "stages", "elite counts", *(f"gen. {n}" for n in shown), "of all"]
    return markdown(header, lines)


def _cell(row: Row) -> str:
    return f"{row.get('evaluations', row['evaluations_of_run_0']):.1f}"


def _of(row: Row) -> str:
    return str(row.get("of", ""))
