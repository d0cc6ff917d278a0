"""Plans the checks of a period: how many disagreements to tolerate, and so how often to check.

Any choice keeps the promise if it is fixed before the first coin; a bad one costs calls. More
tolerated disagreements mean more checks, but also that more of them may be under way at once. What
limits a stream is how many rows arrive during one check.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, exp

from emsco.certify.check_rate import rate_for

_STEPS = 12  # moments of a period at which a plan is computed
_GROWTH = 1.15  # of the numbers that are tried, beyond the first few
_FEW = 12
_MOST = 300  # tolerated disagreements: more save little
_LEAST_CHECKS = 30  # that must have ended before they say more than an estimate


@dataclass(frozen=True)
class CheckPlan:
    """How a period is checked.

    Parameters
    ----------
    tolerated, rate : int, float
        The number of tolerated disagreements among checks, and the probability of a check.
    arrivals : float
        The number of rows that were expected to arrive during one check.
    ceiling : float
        The share of calls that can be avoided, if nothing ever disagrees.
    """

    tolerated: int
    rate: float
    arrivals: float
    ceiling: float


@lru_cache(maxsize=100)
def plan_checks(most: int, error: float, arrivals: float, disagreements: float) -> CheckPlan:
    """Return the plan by which most calls are expected to be avoided.

    Parameters
    ----------
    most, error : int, float
        How many cheap answers may differ, except with this probability.
    arrivals : float
        The rows that arrive during one check.
    disagreements : float
        The rows of a period that are expected to disagree.

    Examples
    --------
    >>> from emsco.serve.check_plan import plan_checks
    >>> plans = [plan_checks(100, 0.01, arrivals, 20.0) for arrivals in (20, 100, 500, 2000)]
    >>> [round(plan.ceiling, 2) for plan in plans]
    [0.85, 0.6, 0.15, 0.04]
    """
    best, plan = -1.0, CheckPlan(0, 1.0, arrivals, 0.0)
    tolerated = 0
    while (rate := rate_for(most, tolerated, error)) < 1 and tolerated <= _MOST:
        expected = _avoided(tolerated, rate, arrivals, disagreements)
        if expected > best:
            ceiling = (1 - rate) * min(1.0, (tolerated + 1) / (rate * arrivals))
            best, plan = expected, CheckPlan(tolerated, rate, arrivals, ceiling)
        tolerated = tolerated + 1 if tolerated < _FEW else ceil(tolerated * _GROWTH)
    return plan


def _avoided(tolerated: int, rate: float, arrivals: float, disagreements: float) -> float:
    """Return the expected share of calls that are avoided, over the moments of a period.

    Checks under way take what known disagreements leave: a row that finds all places taken is left
    to the final model, as a call that finds all lines busy is lost (Erlang's formula).
    """
    load = rate * arrivals
    busy = [1.0]
    for places in range(1, tolerated + 2):
        busy.append(load * busy[-1] / (places + load * busy[-1]))
    total = 0.0
    for step in range(_STEPS):
        known = rate * disagreements * (step + 0.5) / _STEPS
        chance = exp(-known)  # of no disagreement so far; then each from the one before
        for number in range(tolerated + 1):
            total += chance * (1 - busy[tolerated + 1 - number])
            chance *= known / (number + 1)
    return (1 - rate) * total / _STEPS


def expected_arrivals(finished: int, arrived: int, estimate: float) -> float:
    """Return how many rows arrive during a check: measured, or the estimate if few have ended."""
    found = arrived / finished if finished >= _LEAST_CHECKS else estimate
    return max(1.0, _rounded(found))


def expected_disagreements(finished: int, known: int, rows: float, estimate: float) -> float:
    """Return how many rows disagree: as measured, or the estimate if few checks have ended."""
    if finished < _LEAST_CHECKS:
        return estimate
    return _rounded(rows * (known + 0.5) / (finished + 1))


def _rounded(number: float) -> float:
    """Round to two digits, so that a plan is not made anew for every row."""
    return float(f"{number:.2g}")
