"""The problems that searches are measured on: data of `EMSCO_DATA`, with the paper's prices."""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from emsco import Costs, Source
from emsco._threshold import resolve
from emsco.engine import Engine, LocalEngine
from emsco.search._fitting import Fold, make_fitter
from emsco.search._outcomes import OutcomeTable
from emsco.search._problem import Problem

CHEAP_HEART = ("age", "sex", "smoking", "diabetes", "high_blood_pressure", "anaemia")
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
        sources = [self.costs.columns(name) for name in self.costs.names]
        classes = np.unique(self.y).tolist()
        fitter = make_fitter(
            None, self.columns, "array", self.y, len(classes), [Fold(train, rows)], sources
        )
        resolved = np.vstack([resolve(threshold, classes, 1) for threshold in thresholds])
        table = OutcomeTable(
            fitter, self.y[rows], len(sources), resolved, engine=engine or LocalEngine()
        )
        return Problem(table, self.costs, classes, thresholds, max_stages, allow_unused)


def _folder() -> Path:
    folder = os.environ.get("EMSCO_DATA")
    if not folder:
        raise SystemExit("Set the environment variable EMSCO_DATA to the folder of the data sets.")
    return Path(folder)


def read(name: str) -> tuple[dict[str, NDArray[Any]], NDArray[np.intp]]:
    """Read a CSV file of numbers, its last column the label."""
    path = _folder() / name
    opened = gzip.open(path, "rt") if path.suffix == ".gz" else open(path)  # noqa: SIM115
    with opened as file:
        header, *lines = list(csv.reader(file))
    values = np.array([[float(v) if v else np.nan for v in line] for line in lines])
    columns = {name: values[:, i] for i, name in enumerate(header[:-1])}
    return columns, np.unique(values[:, -1], return_inverse=True)[1]


def pima() -> Data:
    """Pima: 8 sources, 100 x cost class."""
    columns, y = read("pima.csv")
    return Data(columns, y, Costs.per_feature({f: 100 * PIMA_CLASSES[f] for f in columns}), 0.65)


def credit() -> Data:
    """Credit: 14 sources, 10 ^ tercile of their importance to a random forest."""
    columns, y = read("credit.csv")
    forest = RandomForestClassifier(n_estimators=200, random_state=0)
    importance = forest.fit(np.column_stack(list(columns.values())), y).feature_importances_
    tercile = 1 + np.argsort(np.argsort(importance)) * 3 // len(importance)
    return Data(columns, y, Costs.per_feature((10.0**tercile).tolist(), list(columns)), 0.75)


def heart() -> Data:
    """Heart: 12 sources, 10 where they are asked and 100 where they are measured."""
    columns, y = read("heart.csv")
    prices = {f: 10.0 if f.lower() in CHEAP_HEART else 100.0 for f in columns}
    assert sum(price == 10 for price in prices.values()) == len(CHEAP_HEART)
    return Data(columns, y, Costs.per_feature(prices), 0.75)


def example() -> tuple[Data, NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Give the public script's example: 15 sources, and its own three parts."""
    parts = [read(f"emsco_example_{part}.csv") for part in ("train", "val", "test")]
    columns = {name: np.concatenate([part[0][name] for part in parts]) for name in parts[0][0]}
    y = np.concatenate([part[1] for part in parts])
    prices = [float(p) for p in (_folder() / "emsco_example_costs.txt").read_text().split(",")]
    ends = np.cumsum([len(part[1]) for part in parts])
    rows = np.split(np.arange(ends[-1]), ends[:-1])
    return (
        Data(columns, y, Costs.per_feature(prices, list(columns)), 0.75),
        rows[0],
        rows[1],
        rows[2],
    )


def synthetic50() -> Data:
    """Make Synthetic50: 4,000 rows, 50 sources at 10 each, half of them informative."""
    X, y = make_classification(
        4000, 50, n_informative=25, n_clusters_per_class=2, weights=[0.5], random_state=0
    )
    columns = {f"x{i}": column for i, column in enumerate(X.T)}
    return Data(columns, y, Costs.per_feature([10.0] * 50, list(columns)), 0.55)


def phishing() -> Data:
    """Phishing: 87 columns in 7 sources."""
    columns, y = read("phishing.csv.gz")
    names = list(columns)
    whois = ["whois_registered_domain", "domain_registration_length", "domain_age"]
    costs = Costs(
        [
            Source("url", features=names[:56], cost=1),
            Source("page", features=names[56:80], cost=30),
            Source("whois", features=whois, cost=100),
            Source("web_traffic", cost=50),
            Source("dns_record", cost=5),
            Source("google_index", cost=40),
            Source("page_rank", cost=40),
        ]
    )
    return Data(columns, y, costs, 0.9)
