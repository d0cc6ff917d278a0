"""emsco decides cheaply and honestly: buy features in stages, exit when confident, or reject."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from emsco.cascade import CascadeClassifier
    from emsco.costs import Costs, Review, Source
    from emsco.decisions import Decision, Decisions
    from emsco.design import StageDesign
    from emsco.engine import Engine, LocalEngine
    from emsco.evaluation import Evaluation, evaluate
    from emsco.front import Candidate, ParetoFront
    from emsco.guard import InputGuard
    from emsco.io import dump, load
    from emsco.masked import MaskedClassifier
    from emsco.scored import ScoredCandidate, ScoredFront
    from emsco.search import EMSCO, CascadeSearchCV, Exhaustive, Hybrid, LocalSearch

__version__ = "0.1.0.dev0"

__all__ = [
    "EMSCO",
    "Candidate",
    "CascadeClassifier",
    "CascadeSearchCV",
    "Costs",
    "Decision",
    "Decisions",
    "Engine",
    "Evaluation",
    "Exhaustive",
    "Hybrid",
    "InputGuard",
    "LocalEngine",
    "LocalSearch",
    "MaskedClassifier",
    "ParetoFront",
    "Review",
    "ScoredCandidate",
    "ScoredFront",
    "Source",
    "StageDesign",
    "dump",
    "evaluate",
    "load",
]

# Every name comes from its module when it is first asked for: `emsco --help` must not wait for
# scikit-learn.
_NAMES_OF = {
    "cascade": ("CascadeClassifier",),
    "costs": ("Costs", "Review", "Source"),
    "decisions": ("Decision", "Decisions"),
    "design": ("StageDesign",),
    "engine": ("Engine", "LocalEngine"),
    "evaluation": ("Evaluation", "evaluate"),
    "front": ("Candidate", "ParetoFront"),
    "guard": ("InputGuard",),
    "io": ("dump", "load"),
    "masked": ("MaskedClassifier",),
    "scored": ("ScoredCandidate", "ScoredFront"),
    "search": ("EMSCO", "CascadeSearchCV", "Exhaustive", "Hybrid", "LocalSearch"),
}
_MODULE_OF = {name: module for module, names in _NAMES_OF.items() for name in names}
_MODULES = {*_NAMES_OF, "certify", "datasets", "exceptions", "final", "metrics", "monitor",
            "plotting", "report", "savings"}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        value = getattr(import_module(f"emsco.{_MODULE_OF[name]}"), name)
        globals()[name] = value  # asked once
        return value
    if name in _MODULES:
        return import_module(f"emsco.{name}")
    raise AttributeError(f"module 'emsco' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF, *_MODULES})
