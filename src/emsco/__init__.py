"""emsco decides cheaply and honestly: buy features in stages, exit when confident, or reject."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from emsco._utils.public_names import MODULES, PUBLIC

if TYPE_CHECKING:  # for type checkers, which do not run the table of names; a test compares the two
    from emsco.cascade import CascadeClassifier as CascadeClassifier
    from emsco.cascade import Decider as Decider
    from emsco.certify import Certificate as Certificate
    from emsco.certify import required_rows as required_rows
    from emsco.certify.monitor import CertificateMonitor as CertificateMonitor
    from emsco.core.breakdown import Breakdown as Breakdown
    from emsco.core.costs import Costs as Costs
    from emsco.core.costs import Review as Review
    from emsco.core.costs import Source as Source
    from emsco.core.decisions import Decision as Decision
    from emsco.core.decisions import Decisions as Decisions
    from emsco.core.design import StageDesign as StageDesign
    from emsco.core.evaluate import evaluate as evaluate
    from emsco.core.evaluation import Evaluation as Evaluation
    from emsco.core.front import Candidate as Candidate
    from emsco.core.front import ParetoFront as ParetoFront
    from emsco.core.scored_front import ScoredCandidate as ScoredCandidate
    from emsco.core.scored_front import ScoredFront as ScoredFront
    from emsco.engine import Engine as Engine
    from emsco.engine import LocalEngine as LocalEngine
    from emsco.io import dump as dump
    from emsco.io import load as load
    from emsco.learners.masked_classifier import MaskedClassifier as MaskedClassifier
    from emsco.plotting import FlowDisplay as FlowDisplay
    from emsco.plotting import FrontDisplay as FrontDisplay
    from emsco.plotting import HistoryDisplay as HistoryDisplay
    from emsco.plotting import SourcesDisplay as SourcesDisplay
    from emsco.rows.guard import InputGuard as InputGuard
    from emsco.search import CascadeSearchCV as CascadeSearchCV
    from emsco.search.strategies.emsco import EMSCO as EMSCO
    from emsco.search.strategies.exhaustive import Exhaustive as Exhaustive
    from emsco.search.strategies.hybrid import Hybrid as Hybrid
    from emsco.search.strategies.local_search import LocalSearch as LocalSearch

__version__ = "0.1.0"

__all__ = sorted(PUBLIC)


def __getattr__(name: str) -> Any:
    if name in PUBLIC:
        value = getattr(import_module(f"emsco.{PUBLIC[name]}"), name)
        globals()[name] = value  # asked once
        return value
    if name in MODULES:
        return import_module(f"emsco.{name}")
    raise AttributeError(f"module 'emsco' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *PUBLIC, *MODULES})
