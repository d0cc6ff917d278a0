"""The public names and modules, each with its location: the only such table."""

from __future__ import annotations

# Every public name and its module, imported at first use: `emsco --help` must not wait for
# scikit-learn.
PUBLIC = {
    "EMSCO": "search.strategies.emsco",
    "Candidate": "words.front",
    "CascadeClassifier": "cascade",
    "CascadeSearchCV": "search",
    "Certificate": "certify",
    "CertificateMonitor": "certify.monitor",
    "Costs": "words.costs",
    "Decider": "cascade",
    "Decision": "words.decisions",
    "Decisions": "words.decisions",
    "Engine": "engine",
    "Evaluation": "words.evaluation",
    "Exhaustive": "search.strategies.exhaustive",
    "FlowDisplay": "plotting",
    "FrontDisplay": "plotting",
    "HistoryDisplay": "plotting",
    "Hybrid": "search.strategies.hybrid",
    "InputGuard": "rows.guard",
    "LocalEngine": "engine",
    "LocalSearch": "search.strategies.local",
    "MaskedClassifier": "learners.masked",
    "ParetoFront": "words.front",
    "Review": "words.costs",
    "ScoredCandidate": "words.scored",
    "ScoredFront": "words.scored",
    "Source": "words.costs",
    "SourcesDisplay": "plotting",
    "StageDesign": "words.design",
    "dump": "io",
    "evaluate": "words.evaluation",
    "load": "io",
    "required_rows": "certify",
}

# Every public module and its location, so that `import emsco.costs` and files that name
# `emsco.masked` work wherever the code is.
MODULES = {
    "acquisition": "acquisition",
    "cascade": "cascade",
    "certify": "certify",
    "costs": "words.costs",
    "datasets": "datasets",
    "decisions": "words.decisions",
    "design": "words.design",
    "engine": "engine",
    "evaluation": "words.evaluation",
    "exceptions": "exceptions",
    "final": "learners.final",
    "front": "words.front",
    "guard": "rows.guard",
    "io": "io",
    "masked": "learners.masked",
    "metrics": "cascade.metrics",
    "monitor": "certify.monitor",
    "plotting": "plotting",
    "report": "report",
    "savings": "certify.savings",
    "scored": "words.scored",
    "search": "search",
    "testing": "testing",
}
