"""The thirteen problems as methods are given them, and their rows in a split."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold, train_test_split

from emsco.datasets import CostlyData
from emsco.exceptions import require
from experiments.peers.method import Base, Task
from experiments.problems import LOADERS

MOST_ROWS = 4_000
_FOLDS = 5
Rows = NDArray[np.intp]


@cache
def load(name: str, base: Base) -> CostlyData:
    """Load a problem, its table as a frame; for trees all of it numbers, text as codes."""
    X, y, costs = LOADERS[name]()
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
