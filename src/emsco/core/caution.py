"""The margin by which a figure must meet a bound, because it was measured on few rows.

The best of many candidates is best partly by luck. A margin of as many standard errors as luck was
measured to be worth makes up for that on average.
"""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from emsco.exceptions import Parameter, SelectionError

AUTO = "auto"
_LEAST = 1.0  # standard errors, if luck is smaller or unknown: what is chosen is never unlucky

Shares = NDArray[np.float64]


def standard_errors(caution: Any, luck: float | None) -> float:
    """Return the margin in standard errors: the number given, or that of the measured luck."""
    if isinstance(caution, str) and caution == AUTO:
        return _LEAST if luck is None else max(_LEAST, luck)
    if isinstance(caution, bool) or not isinstance(caution, Real) or not 0 <= float(caution) < 99:
        raise SelectionError(
            Parameter("caution")
            + f" must be {AUTO!r} or a number of standard errors >= 0; got {caution!r}.",
            value=caution,
        )
    return float(caution)


def shares_of(part: ArrayLike, whole: ArrayLike) -> Shares:
    """Divide counts; a share of no rows is 0."""
    counts = np.asarray(whole, dtype=np.float64)
    divided: Shares = np.divide(part, counts, out=np.zeros_like(counts), where=counts > 0)
    return divided


def less_margin(part: ArrayLike, whole: ArrayLike, z: float) -> Shares:
    """Return shares minus `z` standard errors, which are never 0."""
    counts = np.asarray(whole, dtype=np.float64)
    p = (np.asarray(part, dtype=np.float64) + 1) / (counts + 2)
    errors = np.sqrt(p * (1 - p) / np.maximum(counts, 1e-300))
    shares: Shares = shares_of(part, counts) - z * np.where(counts > 0, errors, 0)
    return shares


def wilson(part: ArrayLike, whole: ArrayLike, z: float) -> tuple[Shares, Shares]:
    """Return Wilson's bounds of shares, `z` standard errors wide; for no rows they are 0 and 1."""
    share, counts = shares_of(part, whole), np.asarray(whole, dtype=np.float64)
    if not z:
        return share, share
    with np.errstate(divide="ignore", invalid="ignore"):
        # Products, not powers: they round in the same way in the script of the report.
        centre = share + z * z / (2 * counts)
        half = z * np.sqrt(share * (1 - share) / counts + z * z / (4 * counts * counts))
        low, high = (centre - half) / (1 + z * z / counts), (centre + half) / (1 + z * z / counts)
    known = counts > 0
    return np.where(known, np.maximum(low, 0), 0.0), np.where(known, np.minimum(high, 1), 1.0)


def effective_rows(
    part: ArrayLike, whole: ArrayLike, part_squares: ArrayLike, whole_squares: ArrayLike
) -> tuple[Shares, Shares]:
    """Return how many equal rows would show shares of stakes with the same standard error.

    With stakes S of rows A, of which W count, a share t has the squared standard error
    sum S^2 A (W - t)^2 / (sum S A)^2. As in `less_margin`, one more row that counts and one that
    does not make up for few rows; their stake is the mean over what is at stake. If all stakes are
    equal, these are the numbers of rows.
    """
    a, n, a2, n2 = (
        np.asarray(x, dtype=np.float64) for x in (part, whole, part_squares, whole_squares)
    )
    known = n > 0
    n_, n2_ = np.where(known, n, 1.0), np.where(known, n2, 1.0)
    one = n2_ / n_
    t = (a + one) / (n_ + 2 * one)
    spread = (1 - t) ** 2 * (a2 + one**2) + t**2 * (np.maximum(n2_ - a2, 0) + one**2)
    rows = np.where(known, t * (1 - t) * n_ * (n_ + 2 * one) / spread, 0.0)
    return shares_of(a, n) * rows, rows
