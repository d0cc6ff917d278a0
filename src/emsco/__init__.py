"""emsco decides cheaply and honestly: buy features in stages, exit when confident, or reject."""

from emsco.cascade import CascadeClassifier
from emsco.costs import Costs, Review, Source
from emsco.decisions import Decision, Decisions
from emsco.design import StageDesign
from emsco.evaluation import Evaluation, evaluate
from emsco.front import Candidate, ParetoFront

__version__ = "0.1.0.dev0"

__all__ = [
    "Candidate",
    "CascadeClassifier",
    "Costs",
    "Decision",
    "Decisions",
    "Evaluation",
    "ParetoFront",
    "Review",
    "Source",
    "StageDesign",
    "evaluate",
]
