"""The cap on stakes: a row with more at stake than a certificate covers goes to review.

A certificate of shares of a stake holds only if no row above the cap is accepted. So the cap is
part of what decides, and of the fingerprint: the decision loop rejects such rows before anything is
bought for them, and a driver that gives it no stakes decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco.core.decisions import ABOVE_CAP, ACCEPTED, INVALID_VALUE, reason_for
from emsco.exceptions import DecisionsError, Parameter
from emsco.rows.columns import numbers, object_array, plain


@dataclass(frozen=True)
class StakeCap:
    """The column that holds the stake of a row, and the largest stake that is decided.

    Parameters
    ----------
    column : str
        The name of the column. It may belong to no source.
    cap : float
        The largest stake of a row that may be accepted.

    Examples
    --------
    >>> from emsco.cascade.stake_cap import StakeCap
    >>> StakeCap("amount", 500).reasons([20, 900, None]).tolist()
    ['', 'above cap: amount', 'invalid value: amount']
    """

    column: str
    cap: float

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise DecisionsError(f"A cap must name the column of stakes, got {self.column!r}.")
        is_number = isinstance(self.cap, Real) and not isinstance(self.cap, bool | np.bool_)
        if not is_number or not isfinite(self.cap) or not self.cap > 0:
            raise DecisionsError(
                Parameter("cap") + f" must be a number above 0, got {self.cap!r}.", value=self.cap
            )
        object.__setattr__(self, "cap", float(self.cap))

    def reasons(self, stakes: Any) -> NDArray[np.object_]:
        """Return why each row goes to review, "" if it need not.

        A stake that is missing, negative, infinite or no number is not known to be below the cap.
        """
        read = read_stakes(stakes)
        valid = np.isfinite(read) & (read >= 0)
        reasons = np.full(len(read), ACCEPTED, dtype=object)
        reasons[valid & (read > self.cap)] = reason_for(ABOVE_CAP, self.column)
        reasons[~valid] = reason_for(INVALID_VALUE, self.column)
        return reasons

    def lacking(self) -> DecisionsError:
        """Return the error about rows that come without stakes."""
        return DecisionsError(
            f"This cascade accepts no row with a stake above {self.cap:g}, so every row needs its "
            f"stake: give the column {self.column!r}."
        )


def read_stakes(stakes: Any) -> NDArray[np.float64]:
    """Read stakes as numbers; one that is missing or cannot be read is not finite.

    Examples
    --------
    >>> from emsco.cascade.stake_cap import read_stakes
    >>> read_stakes([1, "2.5", None, "much"]).tolist()
    [1.0, 2.5, nan, inf]
    """
    column = stakes if hasattr(stakes, "dtype") else object_array(list(stakes))
    read: NDArray[np.float64] = numbers(plain(column)).astype(np.float64)
    return read
