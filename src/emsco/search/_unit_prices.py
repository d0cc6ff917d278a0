"""Prices as whole numbers, so that equal costs are equal in any order of summing."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from emsco.core.costs import Costs
from emsco.search._outcome_table import Sets


@dataclass(frozen=True)
class UnitPrices:
    """Every price times the smallest power of ten that makes all of them integers.

    It is at most the largest with which sums over all rows are still exact as floats. So no price
    is too small to count.
    """

    costs: Costs
    n_rows: int

    @cached_property
    def scale(self) -> Decimal:
        """The number of integer units per unit of the costs, a power of ten."""
        prices = [*(source.cost for source in self.costs.sources), *self.costs.setups.values()]
        decimals = [Decimal(repr(price)) for price in prices]
        digits = max(0, *(-int(price.normalize().as_tuple().exponent) for price in decimals))
        total = sum(decimals) * self.n_rows
        if total:
            digits = min(digits, (Decimal(2**53) / total).adjusted())
        return Decimal(1).scaleb(digits)

    def _units(self, price: float) -> int:
        return round(Decimal(repr(price)) * self.scale)

    @cached_property
    def _own_prices(self) -> NDArray[np.int64]:
        """The price of each source without its setup, in units."""
        return np.array([self._units(source.cost) for source in self.costs.sources], dtype=np.int64)

    def of(self, sets: Sets) -> NDArray[np.int64]:
        """Return the prices of source sets in units, with each setup once."""
        total = sets.astype(np.int64) @ self._own_prices
        for setup, price in self.costs.setups.items():
            sharing = [i for i, source in enumerate(self.costs.sources) if source.setup == setup]
            total += self._units(price) * sets[:, sharing].any(axis=1)
        return total

    @cached_property
    def total(self) -> int:
        """The price of all sources per row, in units."""
        return int(self.of(np.ones((1, len(self.costs.names)), dtype=np.bool_))[0])
