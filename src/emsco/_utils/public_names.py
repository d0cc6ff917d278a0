"""The public names with their modules, and the public modules: the only such tables."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

# Every public name and its module, imported at first use: `emsco --help` must not wait for
# scikit-learn.
PUBLIC = {
    "EMSCO": "search.strategies.emsco",
    "Breakdown": "core.breakdown",
    "Candidate": "core.front",
    "CascadeClassifier": "cascade",
    "CascadeSearchCV": "search",
    "Certificate": "certify",
    "CertificateMonitor": "certify.monitor",
    "Costs": "core.costs",
    "Decider": "cascade",
    "Decision": "core.decisions",
    "Decisions": "core.decisions",
    "Engine": "engine",
    "Evaluation": "core.evaluation",
    "Exhaustive": "search.strategies.exhaustive",
    "FlowDisplay": "plotting",
    "FrontDisplay": "plotting",
    "HistoryDisplay": "plotting",
    "Hybrid": "search.strategies.hybrid",
    "InputGuard": "rows.guard",
    "LocalEngine": "engine",
    "LocalSearch": "search.strategies.local_search",
    "MaskedClassifier": "learners.masked_classifier",
    "ParetoFront": "core.front",
    "Review": "core.costs",
    "ScoredCandidate": "core.scored_front",
    "ScoredFront": "core.scored_front",
    "Source": "core.costs",
    "SourcesDisplay": "plotting",
    "StageDesign": "core.design",
    "dump": "io",
    "evaluate": "core.evaluate",
    "load": "io",
    "required_rows": "certify",
}

# Every public module. Some are one line that imports from a room, so that a path such as
# `emsco.costs` stays the same wherever the code is.
MODULES = (
    "arrow",
    "batch",
    "cascade",
    "certify",
    "costs",
    "datasets",
    "engine",
    "exceptions",
    "final",
    "guard",
    "io",
    "live",
    "masked",
    "metrics",
    "monitor",
    "plotting",
    "ray",
    "report",
    "savings",
    "search",
    "testing",
)


def lazy(
    room: str, places: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make `__getattr__` and `__dir__` of a room whose names are in these modules of emsco."""

    def get(name: str) -> Any:
        if name in places:
            return getattr(import_module(f"emsco.{places[name]}"), name)
        raise AttributeError(f"module {room!r} has no attribute {name!r}")

    return get, lambda: sorted({*vars(sys.modules[room]), *places})
