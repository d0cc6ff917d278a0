"""The thirteen problems of docs/comparison.md, by name; by public names of emsco alone.

Heart has no `time`; with it, it is told beside the thirteen. The six cells that Cleveland lacks
hold the most frequent value of their column, so that no method has a way of its own with them.
"""

from __future__ import annotations

from collections.abc import Callable

from emsco.datasets import (
    CostlyData,
    load_cleveland,
    load_covtype,
    load_kdd,
    load_magic,
    load_phishing,
    load_pima,
    load_spambase,
    load_thyroid,
)
from experiments.paper.cases import CASES


def _of_paper(name: str) -> Callable[[], CostlyData]:
    """Take a problem of the paper with the paper's prices; what is drawn, as drawn first."""
    return lambda: CASES[name].load(0)


def filled(load: Callable[[], CostlyData]) -> Callable[[], CostlyData]:
    """Let a column's most frequent value stand for missing ones."""

    def load_filled() -> CostlyData:
        X, y, costs = load()
        return CostlyData(X.fillna(X.mode().iloc[0]), y, costs)

    return load_filled


LOADERS: dict[str, Callable[[], CostlyData]] = {
    "Heart": _of_paper("Heart without time"),
    "Pima": _of_paper("Pima"),
    "Credit": _of_paper("Credit"),
    "Cleveland": filled(load_cleveland),
    "Pima, Turney": load_pima,
    "KDD": load_kdd,
    "phishing": load_phishing,
    "thyroid": load_thyroid,
    "magic": load_magic,
    "Synthetic15": _of_paper("Synthetic15"),
    "covtype": load_covtype,
    "spambase": load_spambase,
    "Synthetic50": _of_paper("Synthetic50"),
    "Heart with time": _of_paper("Heart"),
}  # the cheapest to search first
BESIDE = "Heart with time"
PROBLEMS = tuple(name for name in LOADERS if name != BESIDE)
