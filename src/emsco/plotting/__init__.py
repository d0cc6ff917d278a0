"""Plots of fronts, decisions and searches, as Display objects like scikit-learn's.

They need matplotlib: `pip install 'emsco[plot]'`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from emsco._utils.public_names import lazy

if TYPE_CHECKING:
    from emsco.plotting._calls import CallsDisplay as CallsDisplay
    from emsco.plotting._flow import FlowDisplay as FlowDisplay
    from emsco.plotting._front import FrontDisplay as FrontDisplay
    from emsco.plotting._history import HistoryDisplay as HistoryDisplay
    from emsco.plotting._sources import SourcesDisplay as SourcesDisplay

# Every plot and its module, imported at first use.
PLOTS = {
    "CallsDisplay": "plotting._calls",
    "FlowDisplay": "plotting._flow",
    "FrontDisplay": "plotting._front",
    "HistoryDisplay": "plotting._history",
    "SourcesDisplay": "plotting._sources",
}

__all__ = sorted(PLOTS)
__getattr__, __dir__ = lazy(__name__, PLOTS)
