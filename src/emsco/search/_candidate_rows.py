"""Candidates as rows of small integers: a design, then the position of each stage's threshold."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from emsco.core.front import Candidate, ParetoFront
from emsco.search._problem import Assignments, Problem
from emsco.search.strategies._operators import row_keys

Rows = NDArray[np.int8]


def rows_of(problem: Problem, candidates: Iterable[Candidate]) -> Rows:
    """Return candidates as rows; stages that a design lacks have the threshold of its last one."""
    place = {threshold: at for at, threshold in enumerate(problem.thresholds)}
    rows = []
    for candidate in candidates:
        threshold = candidate.threshold
        own = threshold if isinstance(threshold, tuple) else (threshold,)
        places = [place[one] for one in own]
        places += places[-1:] * (problem.max_stages - len(places))
        rows.append([*candidate.design.assignment.tolist(), *places])
    return np.array(rows, dtype=np.int8).reshape(-1, problem.n_sources + problem.max_stages)


def divided(problem: Problem, rows: Rows) -> tuple[Assignments, NDArray[np.int64]]:
    """Return the designs of rows, and which of the problem's thresholds each stage has."""
    return rows[:, : problem.n_sources], rows[:, problem.n_sources :].astype(np.int64)


def with_rows(problem: Problem, front: ParetoFront, rows: Rows) -> ParetoFront:
    """Return a front with what these rows add to it; candidates that it has are not made again."""
    new = rows[~np.isin(row_keys(rows), row_keys(rows_of(problem, front)))]
    return problem.front([*front, *problem.candidates(*divided(problem, new))])
