"""NSGA-II, as pymoo has it, on our own table of outcomes: as many evaluations as our search had.

A gene a source says at which stage it is bought, or that it never is; a gene a stage says which
threshold of the grid it has. Of all designs met, those that no other beats are offered.

Of many sources, designs share hardly any source sets, and every evaluation takes fits. There it has
as many fits as ours too: once they are spent, what would take further ones is infeasible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import moocore
import numpy as np
from numpy.typing import NDArray

from emsco.search import Problem, SearchResult
from emsco.search._thresholds import AUTO, alternatives
from experiments.peers.method import Task
from experiments.peers.ours import Cascades, run_search

MOST_EVALUATIONS = 100_000
_POPULATION = 200
_MANY = 32  # sources, above which fits are counted: with fewer, a split ends within minutes
_KEPT = 20_000  # points met before those that are beaten are dropped

Genes = NDArray[np.int64]


def canonical(stages: Genes) -> NDArray[np.int8]:
    """Give the stages of each design new numbers, so that none is empty; -1 stays unused.

    Examples
    --------
    >>> import numpy as np
    >>> from experiments.peers.nsga2 import canonical
    >>> canonical(np.array([[3, -1, 1], [0, 0, 2]])).tolist()
    [[1, -1, 0], [0, 0, 1]]
    """
    used = (stages[:, :, None] == np.arange(stages.max(initial=0) + 1)).any(axis=1)
    place = np.cumsum(used, axis=1) - 1
    renumbered = np.take_along_axis(place, np.maximum(stages, 0), axis=1)
    return np.where(stages < 0, -1, renumbered).astype(np.int8)


def _affordable(problem: Problem, designs: NDArray[np.int8], sets: float) -> NDArray[np.bool_]:
    """Say which designs can be evaluated one after another with a table of so many source sets."""
    lacking = problem.lacking(designs)
    affordable = np.cumsum(lacking) <= sets - len(problem.table)
    affordable[lacking == 0] = True
    return affordable


class _Met:
    """What was met so far and is not beaten."""

    def __init__(self, n_genes: int) -> None:
        self.genes = np.empty((0, n_genes), dtype=np.int64)
        self.points = np.empty((0, 3))

    def add(self, genes: Genes, points: NDArray[np.float64]) -> None:
        self.genes = np.vstack([self.genes, genes])
        self.points = np.vstack([self.points, points])
        if len(self.points) > _KEPT:
            self.prune()

    def prune(self) -> None:
        kept = moocore.is_nondominated(self.points, keep_weakly=False)
        self.genes, self.points = self.genes[kept], self.points[kept]


@dataclass(frozen=True)
class _NSGA2:
    """The search, as `CascadeSearchCV` runs one."""

    evaluations: int
    sets: float = np.inf

    def run(
        self,
        problem: Problem,
        rng: np.random.Generator,
        callback: Any = None,  # noqa: ARG002  # part of the protocol
    ) -> SearchResult:
        """Evolve genes; give the front of all designs met."""
        from pymoo.algorithms.moo.nsga2 import NSGA2
        from pymoo.core.problem import Problem as Questions
        from pymoo.operators.crossover.sbx import SBX
        from pymoo.operators.mutation.pm import PM
        from pymoo.operators.repair.rounding import RoundingRepair
        from pymoo.operators.sampling.rnd import IntegerRandomSampling
        from pymoo.optimize import minimize

        n_sources, n_stages, sets = problem.n_sources, problem.max_stages, self.sets
        met = _Met(n_sources + n_stages)

        class Designs(Questions):
            def _evaluate(self, x: Genes, out: dict[str, Any], *_: Any, **__: Any) -> None:
                designs = canonical(x[:, :n_sources])
                known = designs.max(axis=1) >= 0  # buys anything, with fits that can be had
                known[known] = _affordable(problem, designs[known], sets)
                points = np.zeros((len(x), 3))
                feasible = known.copy()
                counts = problem.evaluate(designs[known], x[known, n_sources:])
                feasible[known] = counts.feasible & (counts.accepted > 0)
                share = counts.paid / (problem.n_rows * problem.total)
                accuracy = counts.right / np.maximum(counts.accepted, 1)
                points[known] = np.column_stack(
                    [-accuracy, -counts.accepted / problem.n_rows, share]
                )
                out["F"], out["G"] = points, 1.0 - feasible[:, None]
                met.add(x[feasible], points[feasible])

        lowest = [-1] * n_sources + [0] * n_stages
        highest = [n_stages - 1] * n_sources + [problem.n_thresholds - 1] * n_stages
        repair = RoundingRepair()
        minimize(
            Designs(n_var=len(lowest), n_obj=3, n_ieq_constr=1, xl=lowest, xu=highest, vtype=int),
            NSGA2(
                pop_size=_POPULATION,
                sampling=IntegerRandomSampling(),
                crossover=SBX(prob=1.0, eta=3.0, vtype=float, repair=repair),
                mutation=PM(prob=1.0, eta=3.0, vtype=float, repair=repair),
                eliminate_duplicates=True,
            ),
            ("n_eval", self.evaluations),
            seed=int(rng.integers(2**31)),
        )
        met.prune()
        which = met.genes[:, n_sources:]
        found = problem.candidates(canonical(met.genes[:, :n_sources]), which)
        return SearchResult(problem.front(found), [])


def nsga2(task: Task, *, luck: bool = True) -> Cascades:
    """Search with the grid of thresholds that ours has, and measure its luck unless told not to."""
    seen = {"source_sets": 0}
    evaluations = min(task.evaluations, MOST_EVALUATIONS)
    sets = task.fits // len(task.folds) if len(task.costs.names) > _MANY else np.inf
    method, grid = _NSGA2(evaluations, sets), alternatives(AUTO, 2)
    search = run_search(task, search=method, threshold=grid, luck=luck, callback=seen.update)
    return Cascades(task, search, search.front_, seen["source_sets"] * len(task.folds), evaluations)
