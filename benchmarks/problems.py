"""The problems that searches are measured on: `emsco.datasets`, with the paper's thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_classification
from sklearn.model_selection import train_test_split

from emsco import Costs
from emsco.core.threshold import resolve
from emsco.datasets import (
    CostlyData,
    load_credit,
    load_example,
    load_heart,
    load_phishing,
    load_pima,
)
from emsco.engine import Engine, LocalEngine
from emsco.learners import learner_of
from emsco.learners.protocol import Fold, SetFits
from emsco.learners.training import Training
from emsco.search._outcome_table import OutcomeTable
from emsco.search._problem import Problem

PIMA_CLASSES = {
    "age": 1, "pregnancies": 1, "bmi": 1, "pedigree": 1,
    "blood_pressure": 2, "skin_thickness": 2, "glucose": 3, "insulin": 3,
}  # fmt: skip


@dataclass(frozen=True)
class Data:
    """A table with its labels, prices and the paper's threshold."""

    columns: dict[str, NDArray[Any]]
    y: NDArray[np.intp]
    costs: Costs
    threshold: float

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.y)

    def split(self, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
        """Give training, selection and fresh rows, 50-25-25, classes in proportion."""
        rows = np.arange(self.n_rows)
        train, rest = train_test_split(rows, train_size=0.5, stratify=self.y, random_state=seed)
        select, fresh = train_test_split(
            rest, train_size=0.5, stratify=self.y[rest], random_state=seed
        )
        return train, select, fresh

    def fits(self, train: NDArray[np.intp], rows: NDArray[np.intp]) -> SetFits:
        """Fit any source set on some rows by the default classifier, and evaluate it on others."""
        sources = [self.costs.columns(name) for name in self.costs.names]
        training = Training(learner_of(None), "array", self.columns, self.y, {}, sources)
        return training.learner.fits(training, [Fold(train, rows)])

    def problem(
        self,
        train: NDArray[np.intp],
        rows: NDArray[np.intp],
        *,
        max_stages: int,
        thresholds: Sequence[float] | None = None,
        allow_unused: bool = False,
        engine: Engine | None = None,
    ) -> Problem:
        """Fit on some rows, evaluate on others; by default the paper's space of designs."""
        thresholds = [self.threshold] if thresholds is None else thresholds
        classes = np.unique(self.y).tolist()
        fits = self.fits(train, rows)
        resolved = np.vstack([resolve(threshold, classes, 1) for threshold in thresholds])
        table = OutcomeTable(
            fits, self.y[rows], len(self.costs.names), resolved, engine=engine or LocalEngine()
        )
        return Problem(table, self.costs, classes, thresholds, max_stages, allow_unused)


def _data(loaded: CostlyData, threshold: float, costs: Costs | None = None) -> Data:
    """Give columns of numbers and labels 0, 1, ...: what the searches' own parts take."""
    columns = {name: loaded.X[name].to_numpy(dtype=float) for name in loaded.X}
    y = np.unique(loaded.y, return_inverse=True)[1]
    return Data(columns, y, loaded.costs if costs is None else costs, threshold)


def pima() -> Data:
    """Pima: 8 sources, 100 x cost class, as the paper prices them."""
    loaded = load_pima()
    return _data(loaded, 0.65, Costs.per_feature({f: 100 * PIMA_CLASSES[f] for f in loaded.X}))


def credit() -> Data:
    """Credit: 14 sources, 10 ^ tercile of their importance to a random forest."""
    return _data(load_credit(), 0.75)


def heart() -> Data:
    """Heart: 12 sources, 10 where they are asked and 100 where they are measured."""
    return _data(load_heart(), 0.75)


def example() -> tuple[Data, NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Give the public script's example: 15 sources, and its own three parts."""
    parts = [
        _data(load_example(part="train"), 0.75),
        _data(load_example(part="val"), 0.75),
        _data(load_example(part="test"), 0.75),
    ]
    columns = {f: np.concatenate([part.columns[f] for part in parts]) for f in parts[0].columns}
    y = np.concatenate([part.y for part in parts])
    ends = np.cumsum([part.n_rows for part in parts])
    train, select, fresh = np.split(np.arange(ends[-1]), ends[:-1])
    return Data(columns, y, parts[0].costs, 0.75), train, select, fresh


def synthetic50() -> Data:
    """Make Synthetic50: 4,000 rows, 50 sources at 10 each, half of them informative."""
    X, y = make_classification(
        4000, 50, n_informative=25, n_clusters_per_class=2, weights=[0.5], random_state=0
    )
    columns = {f"x{i}": column for i, column in enumerate(X.T)}
    return Data(columns, y, Costs.per_feature([10.0] * 50, list(columns)), 0.55)


def phishing() -> Data:
    """Phishing: 87 columns in 7 sources."""
    return _data(load_phishing(), 0.9)
