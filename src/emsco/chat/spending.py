"""Money: what a call can cost at most, what it did cost, and what is not known.

Amounts are whole numbers of 10^-12 of the unit of the prices, so that sums are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, isfinite
from typing import Any, NamedTuple

from emsco.exceptions import ModelError

UNIT = 10**12
_TOKENS = 10**6  # to which prices refer


class Usage(NamedTuple):
    """Tokens that a call was charged for, by the endpoint's own count."""

    tokens_in: int
    tokens_out: int


class ChatSpending(NamedTuple):
    """What the calls of a model have cost so far, in the unit of its prices.

    Parameters
    ----------
    known : float
        What the endpoint has counted.
    unknown : float
        The upper bound of calls whose answer was lost, came without a count, or is on its way.
    n_unknown : int
        How many calls these are.
    """

    known: float
    unknown: float
    n_unknown: int


@dataclass(frozen=True)
class TokenPrices:
    """Prices of a million tokens sent and received; None: nothing is counted."""

    price_in: float | None
    price_out: float | None

    def __post_init__(self) -> None:
        if (self.price_in is None) != (self.price_out is None):
            raise ModelError("Give both `price_in` and `price_out`, of a million tokens, or none.")
        for name in ("price_in", "price_out"):
            check_amount(name, getattr(self, name))

    def cost(self, usage: Usage) -> int:
        """Return the cost of a call, rounded up."""
        return ceil(
            Fraction(str(self.price_in or 0)) * UNIT / _TOKENS * usage.tokens_in
            + Fraction(str(self.price_out or 0)) * UNIT / _TOKENS * usage.tokens_out
        )


def bound(body: bytes, overhead: int, max_tokens: int) -> Usage:
    """Return the most tokens that a call can be charged for.

    A token stands for at least one byte. `overhead` is for what the endpoint adds to a request,
    such as the marks between messages.
    """
    return Usage(len(body) + overhead, max_tokens)


def check_amount(name: str, value: Any) -> None:
    """Refuse what is no amount of money."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise ModelError(f"`{name}` must be a number, got {value!r:.80}.")
    if not 0 <= value <= 1e6:
        raise ModelError(f"`{name}` must be between 0 and a million, got {value!r}.")


def to_units(amount: float) -> int:
    """Return an amount of money as a whole number, rounded down."""
    return int(Fraction(str(amount)) * UNIT)
