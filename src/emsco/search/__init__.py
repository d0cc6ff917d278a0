"""Searches: strategies that propose designs and turn their evaluations into a front."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from emsco._utils.public_names import PUBLIC
from emsco.search._outcome_table import OutcomeTable
from emsco.search._problem import Counts, Problem, Search, SearchResult
from emsco.search._search_cv import CascadeSearchCV
from emsco.search._stake_column import Stake, stake_of, without_stake
from emsco.search._thresholds import thresholds_by_stage
from emsco.search._yardstick import YARDSTICK, with_yardstick, yardstick_of
from emsco.search.strategies.hybrid import default_search

__all__ = [
    "YARDSTICK",
    "CascadeSearchCV",
    "Counts",
    "OutcomeTable",
    "Problem",
    "Search",
    "SearchResult",
    "Stake",
    "default_search",
    "stake_of",
    "thresholds_by_stage",
    "with_yardstick",
    "without_stake",
    "yardstick_of",
]


def strategies() -> dict[str, type]:
    """Return every strategy of the package, by name."""
    here = [name for name, place in PUBLIC.items() if place.startswith("search.strategies.")]
    return {name: getattr(import_module(f"emsco.{PUBLIC[name]}"), name) for name in here}


def __getattr__(name: str) -> Any:
    known = strategies()
    if name in known:
        return known[name]
    raise AttributeError(f"module 'emsco.search' has no attribute {name!r}")
