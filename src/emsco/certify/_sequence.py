"""Which of many candidates pass, so that the chance of any false one stays bounded.

Candidates stand in an order fixed beforehand, and each holds a share of the level. One whose
p-value is at most what it holds passes, and hands that on to the next that has not passed; after
the last comes the first again. Whatever the p-values depend on, the chance that any candidate
passes that should not is at most the level (Wiens 2003, the fallback procedure; Bretz, Maurer,
Brannath and Posch 2009, of which this is the graph that runs in a ring).

Much of the level is held by the first candidate: a fixed sequence, strong where the order is good.
The rest is spread evenly, so that a bad first candidate does not stop everything. Those left out of
the order, because the search itself saw them break a target, hold nothing: what Holm's procedure
over the whole front would begin by giving to each of them is the first candidate's, and never less
than half. So where at most half of the front is tested, all that Holm's first step would certify of
it is certified here too.

A candidate that was chosen comes before all others and holds half of the level; the others share
the other half in the same way. Whatever the shares at the start are, they sum to the level, so that
the bound holds.

>>> from emsco.certify._sequence import passed, shares
>>> p_values = [0.002, 0.006, 0.5, 0.0001]
>>> passed(0.01 * shares(4, among=10), p_values.__getitem__)
[0, 1, 3]
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

_LEAST = 0.5
_CHOSEN = 0.5  # of the level, for the candidate that was chosen


def shares_with_chosen(n_others: int, among: int) -> NDArray[np.float64]:
    """Give the shares of a candidate that was chosen, which is the first, and of the others.

    Examples
    --------
    >>> from emsco.certify._sequence import shares_with_chosen
    >>> shares_with_chosen(2, among=4).tolist()
    [0.5, 0.375, 0.125]
    """
    if not n_others:
        return np.ones(1)
    return np.concatenate([[_CHOSEN], (1 - _CHOSEN) * shares(n_others, among)])


def shares(n_candidates: int, among: int) -> NDArray[np.float64]:
    """Give the share of the level that each candidate holds at the start, of a front of `among`."""
    first = max(_LEAST, 1 - n_candidates / among)
    held = np.full(n_candidates, (1 - first) / n_candidates)
    held[0] += first
    return held


def passed(levels: NDArray[np.float64], p_value: Callable[[int], float]) -> list[int]:
    """Give the places of the candidates that pass, in order.

    `p_value` is asked once of every candidate that comes to hold anything.
    """
    n_candidates = len(levels)
    held: list[float] = levels.tolist()
    p_values: dict[int, float] = {}
    following = [*range(1, n_candidates), 0]  # in the ring; those that passed are stepped over
    through = [False] * n_candidates
    asked = [place for place in reversed(range(n_candidates)) if held[place]]
    while asked:
        place = asked.pop()
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
            asked.append(heir)
    return [place for place in range(n_candidates) if through[place]]
