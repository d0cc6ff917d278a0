"""Shared parts of plots: axes, and colours that are distinct for the colour-blind and in print."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from emsco._utils.text_table import cell
from emsco.core.evaluation import Evaluation
from emsco.core.interval import few_rows_text, interval
from emsco.core.measure import Measure
from emsco.core.measures import MEASURES, columns
from emsco.exceptions import require

# From Okabe and Ito's palette: distinct for every kind of colour blindness, and in grey.
BLUE = "#0072B2"
RED = "#D55E00"
INK = "#222222"
PALE = "#D0D0D0"

MOST_CLASSES = 4  # that are shown separately, the worst ones
_WIDTH = 18  # letters of a label
_LETTERS = 70  # of a line of small text
_APART = 8  # pixels between two labels
LINE = 0.18  # inches that a line of small text takes


def axes(ax: Any, width: float, height: float) -> tuple[Any, Any]:
    """Return the figure and the axes to draw on; for None, new ones of this size in inches."""
    if ax is not None:
        return ax.figure, ax
    pyplot = require("matplotlib.pyplot", "plot")
    figure, ax = pyplot.subplots(figsize=(width, height), layout="constrained")
    return figure, ax


def bare(ax: Any) -> None:
    """Remove the top and right lines of the frame."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def spread_ticks(ax: Any, labels: Sequence[str], *, most: int) -> None:
    """Label evenly spread columns of an image, as many as do not overlap."""
    for n_ticks in range(most, 0, -1):
        at = np.unique(np.linspace(0, len(labels) - 1, n_ticks).round().astype(int))
        ax.set_xticks(at, [labels[i] for i in at])
        ax.figure.draw_without_rendering()  # computes the positions of texts
        boxes = [text.get_window_extent() for text in ax.get_xticklabels()]
        if all(one.x1 + _APART < next_.x0 for one, next_ in pairwise(boxes)):
            return


def cost_label(unit: str) -> str:
    """Name the axis of costs."""
    return f"cost ({unit})" if unit else "cost"


def plain(text: object) -> str:
    """Escape dollar signs, which matplotlib would read as mathematics."""
    return str(text).replace("$", r"\$")


def named(label: object, width: int = _WIDTH) -> str:
    """Shorten a label in its middle, because many differ only at their ends."""
    text = str(label)
    return text if len(text) <= width else f"{text[: width - 7]}...{text[-4:]}"


def money(amount: float, unit: str) -> str:
    """Return an amount as text, with its unit."""
    return f"{cell(float(amount))} {unit}".rstrip()


def coverage_lines(evaluation: Evaluation, repeats: float = 1.0) -> list[str]:
    """Return a line with the 95% interval of the coverage, unless it is 0 or 1."""
    if not 0 < evaluation.accepted < evaluation.rows:
        return []
    low, high = interval(*MEASURES["coverage"].effective(evaluation, repeats=repeats))
    return [f"95% interval of the coverage: {low:.3f} to {high:.3f}"]


def class_lines(evaluation: Evaluation, repeats: float | None = None) -> list[str]:
    """Return one line per class with the shares rejected and missed, recall and precision.

    Of many classes, only the worst are shown. A dash stands for a share of no rows. With `repeats`,
    how often rows were counted, a class of few rows also has its counts and their intervals.
    """

    def share(measure: Measure, label: Any) -> str:
        part, whole = measure.count(evaluation, label)
        return f"{measure.in_words} {part / whole:.3f}" if whole else f"{measure.in_words} \u2013"

    def fares(label: Any) -> float:
        return evaluation.rejected[label] + evaluation.missed[label]

    labels = list(evaluation.class_rows)
    if len(labels) > MOST_CLASSES:
        labels.sort(key=fares, reverse=True)
    lines = []
    for label in labels[:MOST_CLASSES]:
        parts = [share(measure, label) for measure in columns(by_class=True)]
        lines.append(f"{named(label)}: {', '.join(parts)}")
        few = few_rows_text(evaluation, label, repeats) if repeats else ""
        lines += textwrap.wrap(few, _LETTERS, initial_indent="    ", subsequent_indent="    ")
    if len(labels) > MOST_CLASSES:
        lines.append(f"and {len(labels) - MOST_CLASSES} other classes")
    return lines
