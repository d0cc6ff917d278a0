"""emsco decides cheaply and honestly: buy features in stages, exit when confident, or reject."""

from emsco.cascade import CascadeClassifier
from emsco.costs import Costs, Review, Source
from emsco.decisions import Decision, Decisions
from emsco.design import StageDesign
from emsco.engine import Engine, LocalEngine
from emsco.evaluation import Evaluation, evaluate
from emsco.front import Candidate, ParetoFront
from emsco.guard import InputGuard
from emsco.io import dump, load
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
