"""Stages in the order of price, one source each: the threshold and how many sources are tuned."""

from __future__ import annotations

from typing import Any

import numpy as np

from emsco import Costs
from emsco.core.threshold import lowest
from emsco.search import Problem, SearchResult
from experiments.peers.method import Task
from experiments.peers.ours import Cascades, run_search


def order_by_price(costs: Costs) -> list[str]:
    """Order sources so that the next is the cheapest to buy by then, once it may be bought.

    Examples
    --------
    >>> from emsco import Costs, Source
    >>> from experiments.peers.cost_ordered import order_by_price
    >>> index = Source("index", cost=0, requires=("lab",))
    >>> order_by_price(Costs([index, Source("lab", cost=9), Source("age", cost=1)]))
    ['age', 'lab', 'index']
    """
    order: list[str] = []
    while len(order) < len(costs.names):
        left = [name for name in costs.names if name not in order]
        open_to = [name for name in left if not costs.unmet([*order, name])]
        order.append(min(open_to, key=lambda name: costs.of([name], paid=order)))
    return order


class _Prefixes:
    """A search among the first of the ordered sources alone: one, two, up to all of them."""

    def run(self, problem: Problem, rng: Any, callback: Any = None) -> SearchResult:  # noqa: ARG002
        order = order_by_price(problem.costs)
        places = np.array([order.index(name) for name in problem.costs.names])
        kept = np.arange(len(order))[:, None]
        designs = np.where(places <= kept, places, -1).astype(np.int8)
        found = [
            candidate
            for threshold in range(problem.n_thresholds)
            for candidate in problem.candidates(designs, threshold)
        ]
        return SearchResult(problem.front(found), [])


def cost_ordered(task: Task) -> Cascades:
    """Evaluate every number of sources with every threshold of the grid, one for all stages."""
    n_sources = len(task.costs.names)
    thresholds = [lowest(2), *(np.arange(51, 100) / 100).tolist(), 0.995, 0.999]
    search = run_search(task, search=_Prefixes(), threshold=thresholds, max_stages=n_sources)
    return Cascades(task, search, search.front_, n_sources * len(task.folds), len(search.front_))
