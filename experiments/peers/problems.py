"""The thirteen problems of the comparison, by name, and their rows in a split.

Heart has no `time`; with it, it is told beside the thirteen. The six cells that Cleveland lacks
hold the most frequent value of their column, so that no method has a way of its own with them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold, train_test_split

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
from emsco.exceptions import require
from experiments.paper.cases import CASES
from experiments.peers.method import Base, Task

MOST_ROWS = 4_000
_FOLDS = 5
Rows = NDArray[np.intp]


def _of_paper(name: str) -> Callable[[], CostlyData]:
    """Take a problem of the paper with the paper's prices; what is drawn, as drawn first."""
    return lambda: CASES[name].load(0)


def _cleveland() -> CostlyData:
    X, y, costs = load_cleveland()
    return CostlyData(X.fillna(X.mode().iloc[0]), y, costs)


_LOADERS: dict[str, Callable[[], CostlyData]] = {
    "Heart": _of_paper("Heart without time"),
    "Pima": _of_paper("Pima"),
    "Credit": _of_paper("Credit"),
    "Cleveland": _cleveland,
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
PROBLEMS = tuple(name for name in _LOADERS if name != BESIDE)


@cache
def load(name: str, base: Base) -> CostlyData:
    """Load a problem, its table as a frame; for trees all of it numbers, text as codes."""
    X, y, costs = _LOADERS[name]()
    pandas = require("pandas")
    frame = pandas.DataFrame(X, columns=None if hasattr(X, "columns") else costs.names)
    if base == "trees":
        text = frame.select_dtypes(exclude="number").columns
        frame = frame.assign(**{t: pandas.factorize(frame[t], sort=True)[0] for t in text})
    return CostlyData(frame, np.unique(y, return_inverse=True)[1], costs)


def split_rows(y: NDArray[np.generic], split: int) -> tuple[Rows, Rows]:
    """Give the rows of a split: one half for selection, one fresh, with classes in proportion."""
    rows = np.arange(len(y))
    if len(y) > MOST_ROWS:
        rows, _ = train_test_split(rows, train_size=MOST_ROWS, stratify=y, random_state=split)
    selection, fresh = train_test_split(rows, test_size=0.5, stratify=y[rows], random_state=split)
    return selection, fresh


def make_task(name: str, base: Base, split: int) -> tuple[Task, Any, NDArray[np.intp]]:
    """Give a split of a problem: its selection rows as a task, its fresh rows and their labels."""
    X, y, costs = load(name, base)
    selection, fresh = split_rows(y, split)
    own = X.iloc[selection].reset_index(drop=True)
    folds = StratifiedKFold(_FOLDS, shuffle=True, random_state=split)
    task = Task(own, y[selection], costs, list(folds.split(own, y[selection])), base, split)
    return task, X.iloc[fresh].reset_index(drop=True), y[fresh]
