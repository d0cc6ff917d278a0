"""A genetic search followed by local search, and the choice of a default search by size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emsco.search._problem import Problem, Search, SearchResult
from emsco.search.strategies._archive import Callback, History
from emsco.search.strategies.emsco import EMSCO
from emsco.search.strategies.exhaustive import MOST_SOURCES, Exhaustive
from emsco.search.strategies.local_search import LocalSearch

# Designs times thresholds times words of 64 rows that an exhaustive search may walk by default: a
# minute or two. Twelve sources and 1,200 rows are about as many.
_EXHAUSTIVE = 5e10
_LEAST_EVALUATIONS = 50_000  # that the default search spends on one threshold
ONE_BY_ONE = 1_024  # sets: a few minutes where a fit takes a tenth of a second


@dataclass(frozen=True)
class Hybrid:
    """A short genetic search, followed by a local search that starts from its front.

    Parameters
    ----------
    emsco : EMSCO, default=None
        The genetic search. None: a population of 100 for 30 generations.
    local : LocalSearch, default=None
        The local search; its budget of evaluations includes those of the genetic search.
        None: `LocalSearch()`.
    """

    emsco: EMSCO | None = None
    local: LocalSearch | None = None

    def run(
        self, problem: Problem, rng: np.random.Generator, callback: Callback = None
    ) -> SearchResult:
        """Run both searches at every threshold and merge their fronts."""
        emsco = self.emsco or EMSCO(population=100, generations=30)
        local = self.local or LocalSearch()
        history = History(callback)
        candidates = []
        first, shares = local.begin(problem)
        found = first[:0]
        bred = 0  # source sets fitted by the genetic search; the budget does not include them
        for threshold in range(problem.n_thresholds):
            begin, end = problem.span(threshold)
            middle = begin + (end - begin) / 10  # the genetic search is the shorter one
            before = len(problem.table)
            evolved = emsco.breed(problem, rng, threshold, history, (begin, middle))
            bred += len(problem.table) - before
            # What is good at one threshold is a good start at the next.
            starts = np.vstack([evolved.assignments[evolved.front], first, found])
            found = local.descend(
                problem,
                rng,
                threshold,
                starts,
                shares[threshold] + bred,
                history,
                (middle, end),
                evolved.evaluated,
            )
            candidates += problem.candidates(found, threshold)
        return SearchResult(problem.front(candidates), [*history])


def default_search(problem: Problem, most_sets: int = ONE_BY_ONE) -> Search:
    """Choose a search by size: exhaustive if there are few enough designs, otherwise local search.

    The choice never depends on a clock. Alternative thresholds are searched one after the other, so
    they count towards the size, and they share one budget. If source sets are fitted one by one,
    which is slow, at most `most_sets` are fitted.
    """
    words = -(-problem.n_rows // 64) * problem.n_thresholds
    few_sets = problem.table.batched or 2.0**problem.n_sources <= most_sets
    if problem.n_sources <= MOST_SOURCES and problem.n_designs * words <= _EXHAUSTIVE and few_sets:
        return Exhaustive()
    evaluations = max(LocalSearch().evaluations // problem.n_thresholds, _LEAST_EVALUATIONS)
    return LocalSearch(evaluations, fits=None if problem.table.batched else most_sets)
