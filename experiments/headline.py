"""What a cascade saves on fresh rows, beside all sources at once with and without rejecting."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import RepeatedStratifiedKFold, train_test_split

from emsco import CascadeSearchCV, InputGuard, LocalSearch, evaluate
from emsco.datasets import (
    CostlyData,
    load_cleveland,
    load_kdd,
    load_phishing,
    load_thyroid,
)
from emsco.exceptions import EmscoWarning
from experiments.results import FOLDER, Row, load, save
from experiments.tables import markdown, share

NAME = "headline"
COMMAND = "python -m experiments headline"
SPLITS = 5


@dataclass(frozen=True)
class Case:
    """A data set, and what its searches are told besides the defaults."""

    load: Callable[[], CostlyData]
    logistic: dict[str, Any]
    boosted: dict[str, Any]


# Boosted trees take a tenth of a second or more to fit, so their searches are bounded: in folds, in
# rows, and where there are many sources also in source sets. Cleveland's few rows are evaluated
# three times over, and the few of them that lack a value are rejected where training lacked none.
_REPEATED = RepeatedStratifiedKFold(n_splits=5, n_repeats=3, random_state=0)
_FEW_SETS = LocalSearch(100_000, fits=150)
CASES = {
    "Cleveland": Case(
        load_cleveland,
        {"cv": _REPEATED, "guard": InputGuard()},
        {"cv": 5, "search": _FEW_SETS, "guard": InputGuard()},
    ),
    "phishing": Case(load_phishing, {}, {"cv": 3, "max_rows": 3_000}),
    "KDD": Case(load_kdd, {"max_rows": 20_000}, {"cv": 3, "max_rows": 10_000}),
    "thyroid": Case(load_thyroid, {}, {"cv": 3, "max_rows": 3_000, "search": _FEW_SETS}),
}
ALL = list(product(CASES, ("logistic", "boosted")))


def boosted_trees() -> HistGradientBoostingClassifier:
    """Make gradient-boosted trees that take text columns as categories."""
    return HistGradientBoostingClassifier(
        max_iter=50, max_leaf_nodes=15, categorical_features="from_dtype", random_state=0
    )


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Split five times, search on three quarters, judge on the rest; measure what is not kept yet.

    `only` names data sets, or a data set and its stages: "KDD" or "KDD:logistic". Small: a split of
    KDD with logistic stages, not kept.
    """
    if small:
        return table([_measure("KDD", "logistic", 0)])
    kept = {row["case"] for row in load(NAME)} if (FOLDER / f"{NAME}.csv").exists() else set()
    for name, stages in ALL:
        if _case(name, stages) in kept or (only and not {name, f"{name}:{stages}"} & set(only)):
            continue
        rows = [_measure(name, stages, split) for split in range(SPLITS)]
        save(NAME, COMMAND, rows, [_case(*own) for own in ALL])
    return table(load(NAME))


def _measure(name: str, stages: str, split: int) -> Row:
    """Search one split, and judge what the default rule chose on fresh rows."""
    case = CASES[name]
    X, y, costs = case.load()
    text = X.select_dtypes(exclude="number").columns
    options: dict[str, Any] = case.logistic
    estimator = None
    if stages == "boosted":
        options, estimator = case.boosted, boosted_trees()
        X = X.astype(dict.fromkeys(text, "category"))
    train, fresh = train_test_split(
        np.arange(len(y)), test_size=0.25, stratify=y, random_state=split
    )
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmscoWarning)
        search = CascadeSearchCV(estimator, costs=costs, random_state=split, n_jobs=2, **options)
        search.fit(X.iloc[train], y[train])
    seconds = time.perf_counter() - start
    judged = evaluate(search.best_cascade_.decide(X.iloc[fresh]), y[fresh])
    everything = search.cascade(search.all_sources_)
    surest = everything.predict_proba(X.iloc[fresh]).max(axis=1)
    right = everything.predict(X.iloc[fresh]) == y[fresh]
    as_many = np.argsort(-surest, kind="stable")[: int(judged.accepted)]
    row: Row = {
        "case": _case(name, stages),
        "split": split,
        "seconds": round(seconds, 1),
        "design": str(search.best_candidate_.design),
        "price": judged.cost / costs.total,
        "coverage": judged.coverage,
        "accuracy": judged.accuracy,
        "rejected": _by_label(judged.rejected),
        "missed": _by_label(judged.missed),
        "all_accuracy": float(right.mean()),
        "all_missed": _by_label(_missed(y[fresh], right, np.arange(len(fresh)))),
        "as_many_accuracy": float(right[as_many].mean()),
        "as_many_missed": _by_label(_missed(y[fresh], right, as_many)),
    }
    print(json.dumps(row), flush=True)
    return row


def _case(name: str, stages: str) -> str:
    return f"{name}, {stages}{' trees' * (stages == 'boosted')}"


def _by_label(shares: Mapping[Any, float]) -> str:
    """Write shares of classes into one cell of a file."""
    return json.dumps({str(label): share for label, share in shares.items()})


def _missed(
    truth: NDArray[Any], right: NDArray[np.bool_], accepted: NDArray[np.intp]
) -> dict[str, float]:
    wrong = np.zeros(len(truth), dtype=np.bool_)
    wrong[accepted] = ~right[accepted]
    return {str(label): float(wrong[truth == label].mean()) for label in np.unique(truth)}


def table(rows: Sequence[Row]) -> str:
    """Give a line a data set and kind of stages."""
    lines = []
    for case in dict.fromkeys(row["case"] for row in rows):
        own = [row for row in rows if row["case"] == case]
        lines.append(
            [
                case,
                *(share([row[key] for row in own]) for key in ("price", "coverage")),
                share([row["accuracy"] for row in own], 2),
                *(_classes(own, key) for key in ("rejected", "missed")),
                *(
                    cell
                    for kind in ("all", "as_many")
                    for cell in (
                        share([row[f"{kind}_accuracy"] for row in own], 2),
                        _classes(own, f"{kind}_missed", named=False),
                    )
                ),
            ]
        )
    header = ["data, stages", "price paid", "coverage", "accuracy", "rejected", "missed",
              "all sources, every row: accuracy", "missed",
              "all sources, rejecting as many: accuracy", "missed"]  # fmt: skip
    return markdown(header, lines)


def _classes(rows: Sequence[Row], key: str, *, named: bool = True) -> str:
    """Give the mean share of each class."""
    shares = [json.loads(row[key]) for row in rows]
    means = {label: 100 * np.mean([one[label] for one in shares]) for label in shares[0]}
    return ", ".join(f"{f'{label} ' * named}{mean:.1f}" for label, mean in means.items())
