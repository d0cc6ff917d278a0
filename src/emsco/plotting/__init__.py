"""Plots of fronts, decisions and searches, as Display objects like scikit-learn's.

They need matplotlib: `pip install 'emsco[plot]'`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from emsco.plotting._flow import FlowDisplay as FlowDisplay
    from emsco.plotting._front import FrontDisplay as FrontDisplay
    from emsco.plotting._history import HistoryDisplay as HistoryDisplay
    from emsco.plotting._sources import SourcesDisplay as SourcesDisplay

# Every plot and its module, imported at first use.
PLOTS = {
    "FlowDisplay": "_flow",
    "FrontDisplay": "_front",
    "HistoryDisplay": "_history",
    "SourcesDisplay": "_sources",
}

__all__ = sorted(PLOTS)  # derived from the table above


def __getattr__(name: str) -> Any:
    if name in PLOTS:
        return getattr(import_module(f"emsco.plotting.{PLOTS[name]}"), name)
    raise AttributeError(f"module 'emsco.plotting' has no attribute {name!r}")
