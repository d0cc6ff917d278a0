"""The report: one HTML file that shows a search and works offline, without loading anything.

To draw the flow of fresh rows it needs matplotlib: `pip install 'emsco[report]'`.
"""

from emsco.report._report import report

__all__ = ["report"]
