"""Plots of fronts, decisions and searches, as Display objects like scikit-learn's.

They need matplotlib: `pip install 'emsco[plot]'`.
"""

from emsco.plotting._flow import FlowDisplay
from emsco.plotting._front import FrontDisplay
from emsco.plotting._history import HistoryDisplay
from emsco.plotting._sources import SourcesDisplay

__all__ = ["FlowDisplay", "FrontDisplay", "HistoryDisplay", "SourcesDisplay"]
