"""The order of tests, and which candidates pass, so that the risk of any false one is bounded.

Candidates have an order that is fixed beforehand, and each has a share of the level. A candidate
whose p-value is at most its share passes, and hands its share to the next one that has not passed;
after the last comes the first again. However the p-values depend on each other, the probability
that any candidate passes that should not is at most the level (Wiens 2003, the fallback procedure;
Bretz, Maurer, Brannath and Posch 2009, of which this is the graph that forms a ring).

The first candidate has a large share, as in a fixed sequence, which is powerful if the order is
good. The rest is divided evenly, so that a bad first candidate does not stop everything. Candidates
that are left out, because their selected figures break a target, have no share: what Holm's
procedure over the whole front would give them at the start goes to the first candidate, which has
at least half. So if at most half of the front is tested, all candidates that Holm's first step
would certify are certified here too.

A chosen candidate comes before all others and has half of the level; the others share the other
half in the same way. The bound holds for any initial shares that sum to the level.

The order is fixed before the calibration rows are looked at. The strictest candidate should not be
first: it may accept so few rows that its test fails.

>>> from emsco.certify._fixed_sequence import passed, shares
>>> p_values = [0.002, 0.006, 0.5, 0.0001]
>>> passed(0.01 * shares(4, among=10), p_values.__getitem__)
[0, 1, 3]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import floor

import numpy as np
from numpy.typing import NDArray

from emsco.certify._binomial import tail
from emsco.certify._targets import Targets
from emsco.core.costs import Costs
from emsco.core.front import Candidate

_LEAST = 0.5
_CHOSEN = 0.5  # of the level, for the candidate that was chosen


def shares_with_chosen(n_others: int, among: int) -> NDArray[np.float64]:
    """Return the shares of the chosen candidate, which is the first, and of the others.

    Examples
    --------
    >>> from emsco.certify._fixed_sequence import shares_with_chosen
    >>> shares_with_chosen(2, among=4).tolist()
    [0.5, 0.375, 0.125]
    """
    if not n_others:
        return np.ones(1)
    return np.concatenate([[_CHOSEN], (1 - _CHOSEN) * shares(n_others, among)])


def shares(n_candidates: int, among: int) -> NDArray[np.float64]:
    """Return each candidate's share of the level at the start, for a front of size `among`."""
    first = max(_LEAST, 1 - n_candidates / among)
    held = np.full(n_candidates, (1 - first) / n_candidates)
    held[0] += first
    return held


def passed(levels: NDArray[np.float64], p_value: Callable[[int], float]) -> list[int]:
    """Return the positions of the candidates that pass, in order.

    `p_value` is called once for every candidate that gets a share.
    """
    n_candidates = len(levels)
    held: list[float] = levels.tolist()
    p_values: dict[int, float] = {}
    following = [*range(1, n_candidates), 0]  # in the ring; those that passed are skipped
    through = [False] * n_candidates
    waiting = [place for place in reversed(range(n_candidates)) if held[place]]
    while waiting:
        place = waiting.pop()
        if through[place]:
            continue
        if place not in p_values:
            p_values[place] = p_value(place)
        if p_values[place] > held[place]:
            continue
        through[place] = True
        heir = following[place]
        while through[heir] and heir != place:
            heir = following[heir]
        following[place] = heir
        if heir != place:
            held[heir] += held[place]
            waiting.append(heir)
    return [place for place in range(n_candidates) if through[place]]


def in_order(candidates: Sequence[Candidate], targets: Targets, costs: Costs) -> list[Candidate]:
    """Return the candidates whose selected figures meet the targets, the most certain first.

    They are sorted by their p-values on the rows that they were selected on. These p-values are no
    longer valid, but they give a good order. If none meets the targets, return the closest one.
    """
    met = [c for c in candidates if targets.met_by(c.evaluation)]

    def rank(candidate: Candidate) -> tuple[float, float, float]:
        e = candidate.evaluation
        return targets.p_value(e, _cost_guess(candidate, targets, costs)), -e.accepted, e.cost

    return sorted(met, key=rank) if met else [min(candidates, key=rank)]


def _cost_guess(candidate: Candidate, targets: Targets, costs: Costs) -> float:
    """Estimate the p-value of the cost without counts by stage, as if rows paid least or most."""
    most, evaluation, design = targets.max_cost, candidate.evaluation, candidate.design
    first, last = costs.of(design.stages[0]), costs.of(design.acquired(design.n_stages - 1))
    if most is None or last <= most:
        return 0.0
    if most < first:
        return 1.0
    rows = int(evaluation.rows)
    dear = min(floor((evaluation.paid - rows * first) / (last - first)), rows)
    return float(tail(max(dear, 0), rows, (most - first) / (last - first)))
