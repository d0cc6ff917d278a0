"""What plots share: axes to draw on, and colours that the colour-blind and printers tell."""

from __future__ import annotations

from typing import Any

from emsco.exceptions import require

# Of Okabe and Ito's palette: apart for every kind of colour blindness, and in grey.
BLUE = "#0072B2"
RED = "#D55E00"
INK = "#222222"
PALE = "#D0D0D0"


def axes(ax: Any, width: float, height: float) -> tuple[Any, Any]:
    """Give the figure and the axes to draw on; None makes new ones of a size in inches."""
    if ax is not None:
        return ax.figure, ax
    pyplot = require("matplotlib.pyplot", "plot")
    figure, ax = pyplot.subplots(figsize=(width, height), layout="constrained")
    return figure, ax


def bare(ax: Any) -> None:
    """Leave out the lines of a frame that no value is read from."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def cost_label(unit: str) -> str:
    """Name the axis of costs."""
    return f"cost ({unit})" if unit else "cost"


def plain(text: object) -> str:
    """Keep matplotlib from reading mathematics into a name that holds dollar signs."""
    return str(text).replace("$", r"\$")
