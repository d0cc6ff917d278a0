"""A chain of nested source sets, grown greedily by the most informative source for its price.

Any few sets of a chain are the stages of a design, so one chain is a start for every number of
stages and sources. It needs few fits, because the gains of the previous step show which sources are
worth trying next.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from emsco.search._outcome_table import Sets
from emsco.search._problem import Assignments, Problem

_TRIED = 3  # sources at each step
_CUTS = 16  # places of the chain where a stage may end
_MOST_STAGES = 4  # with more, there would be too many designs to evaluate
_LEAST_PRICE = 1e-3  # of the total, so that a free source is not worth infinitely much


def designs_along_chain(problem: Problem, most_sets: int) -> Assignments:
    """Grow a chain with at most `most_sets` fits, and return the designs made of its sets.

    There are none if the fits are too few to try every single source.
    """
    if problem.n_sources > most_sets:
        return np.empty((0, problem.n_sources), dtype=np.int8)
    ranks = _grow(problem, most_sets)
    length = int(ranks.max()) + 1
    cuts = np.unique(np.geomspace(1, length, _CUTS).round().astype(np.intp))
    ends = [
        chosen
        for n_stages in range(1, min(problem.max_stages, _MOST_STAGES) + 1)
        for chosen in combinations(cuts.tolist(), n_stages)
        if problem.allow_unused or chosen[-1] == length
    ]
    made = []
    for chosen in ends:
        stage = np.searchsorted(chosen, ranks, side="right")
        made.append(np.where(stage < len(chosen), stage, -1))
    return np.array(made, dtype=np.int8)


def _grow(problem: Problem, most_sets: int) -> NDArray[np.intp]:
    """Return the step at which each source joins the chain."""
    n_sources = problem.n_sources
    least = _LEAST_PRICE * problem.total
    needs = _closure(problem)
    now = np.zeros(n_sources, dtype=np.bool_)
    # Buying nothing is worth a prediction by the shares of the classes.
    shares = np.bincount(problem.table.truth, minlength=1) / problem.n_rows
    value, price = float((shares * np.log(np.maximum(shares, 1e-6))).sum()), 0
    worth = np.full(n_sources, np.inf)  # gain for the price of each source when last tried
    ranks = np.zeros(n_sources, dtype=np.intp)
    limit = len(problem.table) + most_sets
    tried = np.arange(n_sources)
    step = 0
    while not now.all():
        if len(problem.table) + len(tried) <= limit:
            sets = now | needs[tried]
            values, prices = _values(problem, sets), problem.prices(sets)
            worth[tried] = (values - value) / np.maximum(prices - price, least)
            best = int(np.argmax(worth[tried]))
            value, price = float(values[best]), int(prices[best])
            chosen = tried[best]
        else:
            chosen = int(np.argmax(np.where(now, -np.inf, worth)))
        joined = needs[chosen] & ~now
        ranks[joined] = step
        now |= joined
        step += 1
        left = np.flatnonzero(~now)
        tried = left[np.argsort(-worth[left], kind="stable")][:_TRIED]
    return ranks


def _closure(problem: Problem) -> Sets:
    """Return for each source the set of itself and all that it requires, directly or not."""
    names = problem.costs.names
    needs = np.eye(len(names), dtype=np.bool_)
    for _ in names:  # the longest possible chain of requirements
        for i, source in enumerate(problem.costs.sources):
            for name in source.requires:
                needs[i] |= needs[names.index(name)]
    return needs


def _values(problem: Problem, sets: Sets) -> NDArray[np.float64]:
    """Return the mean logarithm of the probability that each set gives to the true label.

    Of the other labels only the sum of probabilities is known; it is divided evenly among them.
    """
    confidence, label = problem.table.outcomes(sets)
    others = (1 - confidence) / max(len(problem.classes) - 1, 1)
    probability = np.where(label == problem.table.truth, confidence, others)
    values: NDArray[np.float64] = np.log(np.maximum(probability, 1e-6)).mean(axis=1)
    return values
