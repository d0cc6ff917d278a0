"""Means with intervals, and tables in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats  # type: ignore[import-untyped]  # scipy ships no types


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Give the mean and half of its 95% interval, by Student's t."""
    spread = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return float(np.mean(values)), float(stats.t.ppf(0.975, max(len(values) - 1, 1)) * spread)


def percent(values: Sequence[float], digits: int = 1) -> str:
    """Print a figure that may be negative, with its interval, in percent."""
    mean, half = interval(values)
    return f"{100 * mean:.{digits}f} ± {100 * half:.{digits}f}"


def share(values: Sequence[float], digits: int = 1) -> str:
    """Print a share of a whole with its interval, in percent; no end is below 0 or above 100."""
    mean, half = interval(values)
    low, high = (f"{100 * end:.{digits}f}" for end in np.clip([mean - half, mean + half], 0, 1))
    return f"{100 * mean:.{digits}f} ({low} to {high})"


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay out a table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def exact_interval(events: int, runs: int) -> tuple[float, float]:
    """Give the exact 95% interval of a share (Clopper and Pearson)."""
    found = stats.binomtest(events, runs).proportion_ci(0.95, method="exact")
    return float(found.low), float(found.high)
