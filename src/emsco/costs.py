"""Prices of sources."""

from emsco.core.costs import Costs, Review, Source

__all__ = ["Costs", "Review", "Source"]
