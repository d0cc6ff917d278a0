"""The choice that is made where none is asked for, and what it is held against."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from emsco._threshold import lowest
from emsco.design import StageDesign
from emsco.evaluation import Evaluation
from emsco.front import Candidate
from emsco.search._problem import Problem

LEAST_COVERAGE = 0.8
FEW_ROWS = 500


def all_at_once(problem: Problem) -> Candidate:
    """Buy all sources at once and answer every row: what a cascade is held against."""
    table = problem.table
    everything = np.ones((1, problem.n_sources), dtype=np.bool_)
    right = table.outcomes(everything)[1][0] == table.truth
    n_classes = len(problem.classes)
    rows = problem.by_label(np.bincount(table.truth, minlength=n_classes))
    latency = problem.costs.latency_of(problem.costs.names)
    evaluation = Evaluation(
        rows=problem.n_rows,
        accepted=problem.n_rows,
        right=int(right.sum()),
        paid=problem.total * problem.n_rows / problem.scale,
        class_rows=rows,
        class_accepted=rows,
        class_right=problem.by_label(np.bincount(table.truth[right], minlength=n_classes)),
        waited=latency * problem.n_rows,
        worst_latency=latency,
    )
    design = StageDesign(np.zeros(problem.n_sources, dtype=np.int64), problem.costs.names)
    return Candidate(design, lowest(n_classes), evaluation)


def cheapest_as_good(candidates: Sequence[Candidate], reference: Candidate) -> Candidate | None:
    """Choose the cheapest that answers most rows and no class worse than the reference does.

    That is: coverage of 0.8 at least, and accuracy and every class's recall, on what is accepted,
    not below those of the reference on the same rows. None where there is none.
    """
    least = reference.evaluation
    good = [
        candidate
        for candidate in candidates
        if candidate.evaluation.coverage >= LEAST_COVERAGE
        and candidate.evaluation.accuracy >= least.accuracy
        and all(candidate.evaluation.recall[label] >= r for label, r in least.recall.items())
    ]
    key = lambda c: (c.evaluation.cost, -c.evaluation.accuracy, -c.evaluation.coverage)  # noqa: E731
    return min(good, key=key, default=None)
