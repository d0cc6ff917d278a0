"""The rate of random checks: how often to check so that few disagreements stay unchecked.

Things come in some order, and each is checked with the same probability, the rate. What is decided
stops at the (c+1)-th checked disagreement. More than k unchecked ones come before it only if, of
the first k + 1 + c disagreements, at most c were checked: a binomial probability, whatever the
order is and wherever the disagreements are.

Things of which the answer was known before (held out) are checked for free. If they and the others
were drawn alike, how many of those first ones they are is hypergeometric.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv  # type: ignore[import-untyped]  # scipy has no types

from emsco.certify.binomial import tail

_SAFE = 1 + 1e-9  # a rate is rounded up by so much, far more than its functions are imprecise
_HALVINGS = 60
_FEW = 20  # numbers of tolerated disagreements that are always tried


@dataclass(frozen=True)
class HeldOut:
    """How many rows of known answers stand among so many rows in all."""

    held: int
    rows: int

    def among(self, first: int, most: int) -> NDArray[np.float64]:
        """Return the probabilities that 0 to `most` of the first so many are held out."""
        rest = self.rows - self.held
        # The probability of none, as a product; then each from the one before.
        none = np.log1p(-self.held / (self.rows - np.arange(first))).sum()
        counts = np.arange(most)
        ratios = np.log((first - counts) * (self.held - counts)) - np.log(
            (counts + 1.0) * (rest - first + counts + 1)
        )
        chances: NDArray[np.float64] = np.exp(none + np.append(0.0, np.cumsum(ratios)))
        return chances


NOTHING_HELD_OUT = HeldOut(0, 0)


def chance(most: int, tolerated: int, rate: float, held_out: HeldOut = NOTHING_HELD_OUT) -> float:
    """Return the largest probability that more than `most` disagreements stay above the stop.

    Examples
    --------
    >>> from emsco.certify.check_rate import chance
    >>> round(chance(most=25, tolerated=2, rate=0.3), 4)  # P(Binomial(28, 0.3) <= 2)
    0.0038
    """
    first = most + 1 + tolerated
    if not held_out.held:
        return float(tail(tolerated, first, rate))
    if first > held_out.rows - held_out.held:
        return 1.0  # never asked for
    held = np.arange(min(tolerated, held_out.held) + 1)
    checked = tail(tolerated - held, first - held, rate)
    return float((held_out.among(first, len(held) - 1) * checked).sum())


def rate_for(
    most: int, tolerated: int, error: float, held_out: HeldOut = NOTHING_HELD_OUT
) -> float:
    """Return the least probability of a check that keeps a promise, rounded up.

    Examples
    --------
    >>> from emsco.certify.check_rate import chance, rate_for
    >>> rate = rate_for(most=25, tolerated=2, error=0.1)
    >>> round(rate, 4), chance(25, 2, rate) <= 0.1
    (0.1791, True)
    """
    first = most + 1 + tolerated
    above = float(1 - betaincinv(first - tolerated, tolerated + 1, error))
    if held_out.held:
        if chance(most, tolerated, 0.0, held_out) * _SAFE <= error:
            return 0.0
        below = 0.0
        for _ in range(_HALVINGS):
            middle = (below + above) / 2
            if chance(most, tolerated, middle, held_out) <= error:
                above = middle
            else:
                below = middle
    rate = above
    while chance(most, tolerated, rate, held_out) * _SAFE > error and rate < 1:
        rate = min(1.0, rate * _SAFE + 1e-15)
    return rate


def tolerated_at(
    rate: float, most: int, error: float, held_out: HeldOut = NOTHING_HELD_OUT
) -> int | None:
    """Return the most disagreements that may be tolerated at this rate; None if not even 0."""
    if chance(most, 0, rate, held_out) * _SAFE > error:
        return None
    least, beyond = 0, 1
    limit = max(held_out.rows - held_out.held - most, 1) if held_out.held else max(most, _FEW) + 1
    while beyond < limit and chance(most, beyond, rate, held_out) * _SAFE <= error:
        least, beyond = beyond, 2 * beyond
    beyond = min(beyond, limit)
    while beyond - least > 1:
        middle = (least + beyond) // 2
        if chance(most, middle, rate, held_out) * _SAFE <= error:
            least = middle
        else:
            beyond = middle
    return least
