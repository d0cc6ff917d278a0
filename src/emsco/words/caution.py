"""How much better a figure must be than what is asked, because it was measured on few rows.

The best of many candidates is best partly by luck. A margin of so many standard errors, as many as
searching again has shown luck to be worth, makes up for it in the mean.
"""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from emsco.exceptions import SelectionError

AUTO = "auto"
_LEAST = 1.0  # standard errors, where luck is not known or less: what is chosen is never unlucky

Shares = NDArray[np.float64]


def standard_errors(caution: Any, luck: float | None) -> float:
    """Say how many standard errors a margin has: as many as given, or by luck.

    Examples
    --------
    >>> from emsco.words.caution import standard_errors
    >>> standard_errors("auto", 1.7), standard_errors("auto", None), standard_errors(0, 1.7)
    (1.7, 1.0, 0.0)
    """
    if isinstance(caution, str) and caution == AUTO:
        return _LEAST if luck is None else max(_LEAST, luck)
    if isinstance(caution, bool) or not isinstance(caution, Real) or not 0 <= float(caution) < 99:
        raise SelectionError(
            f"`caution` must be {AUTO!r} or a number of standard errors >= 0; got {caution!r}."
        )
    return float(caution)


def shares_of(part: ArrayLike, whole: ArrayLike) -> Shares:
    """Divide counts; nothing of nothing is 0."""
    counts = np.asarray(whole, dtype=np.float64)
    divided: Shares = np.divide(part, counts, out=np.zeros_like(counts), where=counts > 0)
    return divided


def less_margin(part: ArrayLike, whole: ArrayLike, z: float) -> Shares:
    """Give a share less so many standard errors, which are never 0.

    Examples
    --------
    >>> from emsco.words.caution import less_margin
    >>> less_margin([90, 100], [100, 100], 1).round(3).tolist()
    [0.869, 0.99]
    """
    counts = np.asarray(whole, dtype=np.float64)
    p = (np.asarray(part, dtype=np.float64) + 1) / (counts + 2)
    errors = np.sqrt(p * (1 - p) / np.maximum(counts, 1e-300))
    shares: Shares = shares_of(part, counts) - z * np.where(counts > 0, errors, 0)
    return shares


def wilson(part: ArrayLike, whole: ArrayLike, z: float) -> tuple[Shares, Shares]:
    """Give Wilson's bounds of a share, so many standard errors wide; of nothing, none and all.

    Examples
    --------
    >>> from emsco.words.caution import wilson
    >>> low, high = wilson([2], [100], 1)
    >>> f"{low[0]:.3f} {high[0]:.3f}"
    '0.010 0.039'
    """
    share, counts = shares_of(part, whole), np.asarray(whole, dtype=np.float64)
    if not z:
        return share, share
    with np.errstate(divide="ignore", invalid="ignore"):
        # Products, not powers: these round alike everywhere, in the report's page too.
        centre = share + z * z / (2 * counts)
        half = z * np.sqrt(share * (1 - share) / counts + z * z / (4 * counts * counts))
        low, high = (centre - half) / (1 + z * z / counts), (centre + half) / (1 + z * z / counts)
    known = counts > 0
    return np.where(known, np.maximum(low, 0), 0.0), np.where(known, np.minimum(high, 1), 1.0)
