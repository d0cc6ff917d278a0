"""A search of one's own, as small as one can be: designs drawn at random, the best kept.

It uses nothing of emsco but what is public: `CascadeSearchCV(search=RandomDesigns())` runs it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emsco import StageDesign
from emsco.search import SearchResult


@dataclass(frozen=True)
class RandomDesigns:
    """Draw so many designs at every threshold."""

    designs: int = 40

    def run(self, problem, rng, callback=None):
        history, candidates = [], []
        for threshold in range(problem.n_thresholds):
            drawn = self.draw(problem, rng)
            counts = problem.evaluate(drawn, threshold)
            found = problem.candidates(drawn[counts.feasible], threshold)
            candidates += found
            entry = {
                "threshold": problem.thresholds[threshold],
                "done": (threshold + 1) / problem.n_thresholds,
                "source_sets": len(problem.table),
                "designs": len(drawn),
                "front": len(problem.front(found)),
                "hypervolume": problem.hypervolume(counts.take(np.flatnonzero(counts.feasible))),
            }
            history.append(entry)
            if callback is not None:
                callback(entry)
        return SearchResult(problem.front(candidates), history)

    def draw(self, problem, rng):
        """Draw canonical designs; those that buy nothing are left out."""
        lowest = -1 if problem.allow_unused else 0
        size = (self.designs, problem.n_sources)
        drawn = rng.integers(lowest, problem.max_stages, size)
        buying = drawn[drawn.max(axis=1) >= 0]
        return np.array([StageDesign(design).assignment for design in buying])
