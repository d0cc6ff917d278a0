"""The figures of the README and the first pages: rows are split before the search, counted after.

A search sees one part of the rows. What it chose is counted on another part, which no search, no
choice and no certificate has seen, beside all sources at once on the same rows: accepting as many,
the surest first, and answering every row.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from emsco import CascadeSearchCV, evaluate
from emsco.datasets import CostlyData, load_cleveland, load_phishing, load_thyroid
from emsco.exceptions import EmscoWarning
from experiments.results import FOLDER, Row, load, save
from experiments.tables import markdown

NAME = "pages"
COMMAND = "python -m experiments pages"
KEYS = ("case", "split")
CERTIFIED = 1 / 3  # of what is not fresh, where a certificate follows


@dataclass(frozen=True)
class Case:
    """A table, how often it is split, and what its search and its choice are told."""

    load: Callable[[], CostlyData]
    splits: int
    certified: bool = False  # whether rows are also kept for a certificate
    search: dict[str, Any] = field(default_factory=dict)
    choice: dict[str, Any] = field(default_factory=dict)  # empty: the default choice


CASES = {
    "phishing": Case(
        load_phishing,
        splits=1,
        certified=True,
        search={"max_rows": 4_000},
        choice={"min_coverage": 0.9, "min_accuracy": 0.95},
    ),
    "Cleveland": Case(load_cleveland, splits=4),
    "thyroid": Case(load_thyroid, splits=1),
}


class Parts(NamedTuple):
    """Which rows are searched, which are kept for a certificate, and which are fresh."""

    searched: NDArray[np.intp]
    kept: NDArray[np.intp]
    fresh: NDArray[np.intp]


def divide(case: Case, y: NDArray[Any], seed: int) -> Parts:
    """Divide rows before anything is searched: a quarter stays fresh."""
    searched, fresh = train_test_split(np.arange(len(y)), stratify=y, random_state=seed)
    if not case.certified:
        return Parts(searched, searched[:0], fresh)
    searched, kept = train_test_split(
        searched, test_size=CERTIFIED, stratify=y[searched], random_state=seed
    )
    return Parts(searched, kept, fresh)


def searched(name: str, seed: int) -> CascadeSearchCV:
    """Search the first part of the rows, and choose."""
    case = CASES[name]
    X, y, costs = case.load()
    rows = divide(case, y, seed).searched
    search = CascadeSearchCV(costs=costs, random_state=seed, n_jobs=1, **case.search)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmscoWarning)
        search.fit(X.iloc[rows], y[rows])
        return search.choose(**case.choice) if case.choice else search


def measure(name: str, seed: int) -> Row:
    """Search, choose, and count on the fresh rows."""
    case = CASES[name]
    X, y, costs = case.load()
    fresh = divide(case, y, seed).fresh
    start = time.perf_counter()
    search = searched(name, seed)
    seconds = time.perf_counter() - start
    judged = evaluate(search.decide(X.iloc[fresh]), y[fresh])
    everything = search.cascade(search.all_sources_)
    surest = everything.predict_proba(X.iloc[fresh]).max(axis=1)
    right = everything.predict(X.iloc[fresh]) == y[fresh]
    as_many = np.argsort(-surest, kind="stable")[: int(judged.accepted)]
    return {
        "case": name,
        "split": seed,
        "seconds": round(seconds, 1),
        "design": str(search.best_candidate_.design),
        "threshold": str(search.best_candidate_.threshold),
        "rows": len(fresh),
        "price": judged.cost,
        "full_price": costs.total,
        "coverage": judged.coverage,
        "accuracy": judged.accuracy,
        "as_many_accuracy": float(right[as_many].mean()),
        "every_row_accuracy": float(right.mean()),
    }


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Measure every case, or `only` some; small: the first split of Cleveland, not kept."""
    if small:
        return table([measure("Cleveland", 0)])
    for name, case in CASES.items():
        if only and name not in only:
            continue
        rows = []
        for seed in range(case.splits):
            rows.append(measure(name, seed))
            print(json.dumps(rows[-1]), flush=True)
        save(NAME, COMMAND, rows, [*CASES])
    return table(load(NAME) if (FOLDER / f"{NAME}.csv").exists() else [])


def means(rows: Sequence[Row], name: str) -> dict[str, float]:
    """Return the mean of each figure of a case over its splits."""
    own = [row for row in rows if row["case"] == name]
    figures = ("price", "full_price", "coverage", "accuracy", "as_many_accuracy",
               "every_row_accuracy")  # fmt: skip
    return {figure: float(np.mean([row[figure] for row in own])) for figure in figures}


def table(rows: Sequence[Row]) -> str:
    """Give a line a data set, as the README has it."""
    units = {name: case.load().costs.unit for name, case in CASES.items()}
    lines = []
    for name in dict.fromkeys(row["case"] for row in rows):
        own = means(rows, name)
        share, unit = own["price"] / own["full_price"], units[name]
        paid = f"{own['price']:.1f} of {own['full_price']:.1f} {unit}".rstrip()
        lines.append(
            [
                name,
                f"{share:.1%}: {paid}",
                f"{own['accuracy']:.1%} at {own['coverage']:.1%}",
                f"{own['as_many_accuracy']:.1%}; {own['every_row_accuracy']:.1%} on every row",
            ]
        )
    header = [
        "data",
        "price paid a row",
        "accuracy at coverage",
        "all sources at the same coverage",
    ]
    return markdown(header, lines)


def sentence(rows: Sequence[Row]) -> str:
    """Say in a sentence what the cascade of the first pages saves, and what that costs."""
    own = means(rows, "phishing")
    return (
        f"On fresh pages it pays {own['price'] / own['full_price']:.1%} of the price of all "
        f"sources, answers {own['coverage']:.1%} of the pages and is right on "
        f"{own['accuracy']:.1%} of those; all sources at the same coverage are right on "
        f"{own['as_many_accuracy']:.1%}, and on {own['every_row_accuracy']:.1%} if they answer "
        "every page."
    )


def with_reviews(rows: Sequence[Row], price: float) -> str:
    """Say what a row costs if rejected rows are reviewed at a price."""
    own = means(rows, "phishing")
    reviews = (1 - own["coverage"]) * price
    return (
        f"if a person looks at each for {price:g}, the {1 - own['coverage']:.1%} rejected above "
        f"add {reviews:.1f} a page, and a page costs {own['price'] + reviews:.1f} instead of "
        f"{own['price']:.1f}."
    )
