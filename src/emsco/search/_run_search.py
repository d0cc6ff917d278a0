"""Run a search: first designs, then separate thresholds per stage."""

from __future__ import annotations

import numpy as np

from emsco._utils.progress import watching
from emsco.search._problem import Problem, Search, SearchResult
from emsco.search._progress import Progress
from emsco.search._thresholds import thresholds_by_stage
from emsco.search.strategies.exhaustive import Exhaustive


def run_search(
    problem: Problem,
    strategy: Search,
    rng: np.random.Generator,
    progress: Progress,
    by_stage: bool,
) -> SearchResult:
    """Find the front; with `by_stage`, every stage may have its own threshold."""
    result = strategy.run(problem, rng, progress.searched)
    if not by_stage or problem.max_stages == 1:
        return result
    progress.phase("thresholds")
    # If every design was evaluated, only thresholds are left to be found.
    walked = isinstance(strategy, Exhaustive)
    with watching(lambda _, done: progress.searched({"done": done})):
        front = thresholds_by_stage(problem, result.front, rng, designs=not walked)
    hypervolume = front.hypervolume()
    progress.searched({"front": len(front), "hypervolume": hypervolume, "done": 1.0})
    return SearchResult(front, result.history)
