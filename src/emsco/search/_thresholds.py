"""Alternative thresholds, and separate thresholds per stage, found without further fits."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco._utils.progress import tell
from emsco.core.front import ParetoFront
from emsco.core.threshold import StageThreshold, freeze_stage, lowest
from emsco.exceptions import ThresholdError
from emsco.search._candidate_rows import divided, rows_of, with_rows
from emsco.search._problem import Problem
from emsco.search.strategies._archive import Archive
from emsco.search.strategies._neighbours import neighbours
from emsco.search.strategies._operators import row_keys

AUTO = "auto"
# Closer together where confidences are high; the lowest are for many classes.
_GRID = (
    0.1, 0.2, 0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.93, 0.96, 0.98, 0.99,
)  # fmt: skip
# With a final model, few decisions should change, so high thresholds matter more.
_FINAL_GRID = (
    0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.985, 0.99, 0.993, 0.996, 0.998,
)  # fmt: skip
_HALVINGS = 4
_AT_ONCE = 64  # candidates whose neighbours are evaluated in a round


def alternatives(
    threshold: Any, n_classes: int, *, final: bool = False, base_rate: float = 0.0
) -> list[StageThreshold]:
    """List the thresholds to search at: one, those given, or a grid for "auto".

    The grid starts where every row is accepted, so that cascades that reject none are found too.
    A row that says nothing has a confidence of `base_rate`, the share of the largest class. Where
    that is high, the grid has thresholds above it as well: each halves what is left to 1.
    """
    if isinstance(threshold, str):
        if threshold != AUTO:
            raise ThresholdError(
                f"`threshold` must be a number, a mapping, a list of those, or {AUTO!r}; "
                f"got {threshold!r}."
            )
        least = lowest(n_classes)
        grid = _FINAL_GRID if final else _GRID
        left = (1 - base_rate) / 2.0 ** np.arange(1, _HALVINGS + 1)
        reached = [1 - float(f"{share:.3g}") for share in left]  # as few digits as will do
        above = [number for number in reached if grid[-1] < number < 1]
        return [least, *(number for number in (*grid, *above) if number > least)]
    listed = list(threshold) if isinstance(threshold, list) else [threshold]
    if not listed:
        raise ThresholdError("`threshold` must list at least one alternative, got none.")
    for one in listed:
        if isinstance(one, tuple):
            raise ThresholdError(
                f"A search takes thresholds for every stage alike, got the stages {one}; "
                f"{AUTO!r} gives each stage its own."
            )
    return list(dict.fromkeys(freeze_stage(one) for one in listed))


def thresholds_by_stage(
    problem: Problem,
    front: ParetoFront,
    rng: np.random.Generator,
    *,
    designs: bool = False,
    evaluations: int = 1_000_000,
) -> ParetoFront:
    """Search separate thresholds for every stage of a front's designs.

    This is coordinate descent: the threshold of one stage at a time is set to every alternative;
    what is not dominated is kept, and its neighbours are evaluated in turn.

    Parameters
    ----------
    problem : Problem
        Its alternative thresholds are the grid.
    front : ParetoFront
        Candidates of this problem, each with one of these thresholds.
    rng : Generator
        Draws the order in which the neighbours of candidates are evaluated.
    designs : bool, default=False
        Whether neighbouring designs are tried too, if their source sets are fitted: the best
        design with one threshold for all stages need not be the best with several.
    evaluations : int, default=1_000_000
        The maximum number of pairs of a design and its thresholds to evaluate.
    """
    starts = rows_of(problem, front)
    rows = descend_by_stage(problem, starts, rng, designs=designs, evaluations=evaluations)
    return with_rows(problem, front, rows)


def descend_by_stage(
    problem: Problem,
    starts: NDArray[np.int8],
    rng: np.random.Generator,
    *,
    designs: bool,
    evaluations: int,
) -> NDArray[np.int8]:
    """Descend as `thresholds_by_stage` does, and return the non-dominated rows.

    A row is a design, followed by the position of each stage's threshold.
    """
    archive = Archive(starts.shape[1])
    seen: set[bytes] = set()
    evaluated = 0
    around = starts
    while len(around) and evaluated < evaluations:
        tell("thresholds", evaluated / evaluations)
        keys = row_keys(around)
        listed = keys.tolist()
        fresh = [i for i, key in enumerate(listed) if key not in seen]
        seen.update(listed)
        rows = around[fresh][np.unique(keys[fresh], return_index=True)[1]]
        if designs and len(rows):  # sets that are not fitted now never will be
            rows = rows[problem.lacking(rows[:, : problem.n_sources]) == 0]
        if len(rows):
            evaluated += len(rows)
            archive.add(rows, np.arange(len(rows)), problem.evaluate(*divided(problem, rows)))
        centres = archive.pick_unexplored(_AT_ONCE, rng)
        around = _other_thresholds(problem, centres)
        if designs and len(centres):
            around = np.vstack([around, _other_designs(problem, centres, rng)])
    return archive.rows


def _other_designs(
    problem: Problem, rows: NDArray[np.int8], rng: np.random.Generator
) -> NDArray[np.int8]:
    """Change the design by one step; stages keep their thresholds."""
    old = rows[:, : problem.n_sources]
    designs, near = neighbours(old, problem.max_stages, problem.allow_unused, 0, rng)
    return np.hstack([designs, rows[near, problem.n_sources :]])


def _other_thresholds(problem: Problem, rows: NDArray[np.int8]) -> NDArray[np.int8]:
    """Set the threshold of one stage to each alternative."""
    n_stages = rows[:, : problem.n_sources].max(axis=1) + 1
    made = []
    for stage in range(problem.max_stages):
        has_it = rows[n_stages > stage]
        changed = np.repeat(has_it, problem.n_thresholds, axis=0)
        alternatives = np.tile(np.arange(problem.n_thresholds), len(has_it))
        changed[:, problem.n_sources + stage] = alternatives
        made.append(changed)
    return np.vstack(made)
