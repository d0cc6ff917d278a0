"""Payments of which one in a hundred is fraud, with amounts over four orders of magnitude."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from emsco.core.costs import Costs, Source
from emsco.datasets._table_files import CostlyData
from emsco.exceptions import require

_FRAUD = 0.01
_TAKEOVER = 0.25  # of fraud
_COSTS = Costs(
    [
        Source("amount", cost=0.0),
        Source("velocity", cost=0.1),
        Source("merchant", cost=0.3),
        Source("device", cost=2.0),
        Source("history", cost=4.0),
    ],
    unit="ct",
)


def make_payments(
    n_rows: int = 10_000, *, random_state: int | np.random.Generator | None = None
) -> CostlyData:
    """Generate payments, about 1% of them fraud, of which few have most of the amount.

    Three quarters of fraud are tests of stolen cards: small amounts, which the cheap sources show.
    The rest are accounts taken over: large amounts, which only the expensive sources show. So a
    cascade that misses few frauds need not be one that loses little money.

    Parameters
    ----------
    n_rows : int, default=10_000
        The number of payments.
    random_state : int, numpy Generator or None, default=None
        The source of randomness; an int gives the same payments every time.

    Examples
    --------
    >>> from emsco.datasets import make_payments
    >>> X, y, costs = make_payments(20_000, random_state=0)
    >>> share = (y == "fraud").mean()
    >>> lost = X["amount"][y == "fraud"]
    >>> f"{share:.1%} are fraud, for {lost.min():.0f} to {lost.max():,.0f}"
    '0.9% are fraud, for 0 to 43,107'
    """
    rng = np.random.default_rng(random_state)
    fraud = rng.random(n_rows) < _FRAUD
    takeover = fraud & (rng.random(n_rows) < _TAKEOVER)
    middle = np.where(takeover, 7.5, np.where(fraud, 1.5, 3.7))
    amount = np.exp(rng.normal(middle, np.where(takeover, 1.2, np.where(fraud, 1.0, 1.6))))
    testing = fraud & ~takeover

    def column(of_testing: float, of_takeover: float) -> NDArray[np.float64]:
        """Draw a column with the means of both kinds of fraud, in standard deviations."""
        return rng.normal(of_testing * testing + of_takeover * takeover)

    columns = {
        "amount": np.maximum(np.round(amount, 2), 0.01),
        "velocity": column(2.6, 0.2),
        "merchant": column(1.6, 0.4),
        "device": column(0.6, 2.4),
        "history": column(0.3, 2.8),
    }
    labels = np.where(fraud, "fraud", "fine")
    return CostlyData(require("pandas").DataFrame(columns), labels, _COSTS)
