"""Exact tests and bounds for shares that were counted.

Counts are integers throughout: a rate that is multiplied back may round an exact count up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, betaincinv  # type: ignore[import-untyped]  # scipy has no types

_SMALLEST = 1e-300  # the smallest p-value that is distinguished from 0
_HALVINGS = 80  # of an interval of logarithms: more precise than the last digit


def tail(count: ArrayLike, rows: ArrayLike, share: ArrayLike) -> Any:
    """Return the probability of at most `count` events among `rows`, each of probability `share`.

    It is the exact p-value of "the share is at least this".

    Examples
    --------
    >>> from emsco.certify._binomial import tail
    >>> round(float(tail(0, 90, 0.05)), 5)
    0.00989
    """
    count, rows, share = np.asarray(count), np.asarray(rows), np.asarray(share)
    rest = rows - count
    inside = betainc(np.maximum(rest, 1), count + 1, 1 - share)
    return np.where(rest > 0, inside, 1.0)[()]


def lower(count: ArrayLike, rows: ArrayLike, level: ArrayLike) -> Any:
    """Return Clopper and Pearson's lower bound of a share, too high with probability `level`."""
    count, rows = np.asarray(count), np.asarray(rows)
    inside = betaincinv(np.maximum(count, 1), rows - count + 1, level)
    return np.where(count > 0, inside, 0.0)[()]


def upper(count: ArrayLike, rows: ArrayLike, level: ArrayLike) -> Any:
    """Return Clopper and Pearson's upper bound of a share, too low with probability `level`."""
    count, rows = np.asarray(count), np.asarray(rows)
    return 1 - lower(rows - count, rows, level)


def cost_upper(reached: ArrayLike, prices: ArrayLike, level: float) -> Any:
    """Bound the mean cost from above.

    The mean cost is the price of the first stage, plus the price of every later stage times the
    share of rows that reach it. So the bounds of these shares are added, each at its part of the
    level.

    Parameters
    ----------
    reached : array of int, shape (..., n_stages)
        The number of rows that bought each stage; all rows buy the first.
    prices : array, shape (..., n_stages)
        The price up to and including each stage.
    level : float
        The probability that the bound may be too low.
    """
    reached, prices = np.asarray(reached), np.asarray(prices)
    steps = np.diff(prices)
    each = level / np.maximum((steps > 0).sum(axis=-1, keepdims=True), 1)
    shares = upper(reached[..., 1:], reached[..., :1], each)
    return prices[..., 0] + (steps * shares).sum(axis=-1)


def cost_p_value(reached: Sequence[int], prices: Sequence[float], most: float) -> float:
    """Return the p-value of "the mean cost is above `most`".

    It is the smallest level at which `cost_upper` does not exceed `most`.
    """
    if prices[-1] <= most:
        return 0.0
    if prices[0] > most or not reached[0]:
        return 1.0
    below, above = np.log(_SMALLEST), 0.0
    if cost_upper(reached, prices, 1.0) > most:
        return 1.0
    for _ in range(_HALVINGS):
        middle = (below + above) / 2
        if cost_upper(reached, prices, float(np.exp(middle))) <= most:
            above = middle
        else:
            below = middle
    return float(np.exp(above))
