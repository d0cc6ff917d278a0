"""Searches: strategies that propose designs and turn their evaluations into a front."""

from emsco.search._emsco import EMSCO
from emsco.search._exhaustive import Exhaustive
from emsco.search._hybrid import Hybrid, default_search
from emsco.search._local import LocalSearch
from emsco.search._outcomes import OutcomeTable
from emsco.search._problem import Counts, Problem, Search, SearchResult
from emsco.search._search_cv import CascadeSearchCV
from emsco.search._thresholds import thresholds_by_stage

__all__ = [
    "EMSCO",
    "CascadeSearchCV",
    "Counts",
    "Exhaustive",
    "Hybrid",
    "LocalSearch",
    "OutcomeTable",
    "Problem",
    "Search",
    "SearchResult",
    "default_search",
    "thresholds_by_stage",
]
