"""Searches: strategies that propose designs and turn their evaluations into a front."""

from __future__ import annotations

from emsco._utils.public_names import PUBLIC, lazy
from emsco.search._outcome_table import OutcomeTable
from emsco.search._problem import Counts, Problem, Search, SearchResult
from emsco.search._search_cv import CascadeSearchCV
from emsco.search._thresholds import thresholds_by_stage
from emsco.search.strategies.hybrid import default_search

__all__ = [
    "CascadeSearchCV",
    "Counts",
    "OutcomeTable",
    "Problem",
    "Search",
    "SearchResult",
    "default_search",
    "thresholds_by_stage",
]

_PLACES = {name: place for name, place in PUBLIC.items() if place.startswith("search.strategies.")}
__getattr__, __dir__ = lazy(__name__, _PLACES)


def strategies() -> dict[str, type]:
    """Return every strategy of the package, by name."""
    return {name: __getattr__(name) for name in _PLACES}
