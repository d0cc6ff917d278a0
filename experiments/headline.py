"""What a cascade saves on fresh rows, beside all sources at once with and without rejecting."""

from __future__ import annotations

import json
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import RepeatedStratifiedKFold, train_test_split

from emsco import Candidate, CascadeSearchCV, InputGuard, LocalSearch, evaluate
from emsco.datasets import (
    CostlyData,
    load_cleveland,
    load_kdd,
    load_phishing,
    load_thyroid,
)
from emsco.exceptions import EmscoWarning
from experiments.tables import markdown, percent

MARGIN = 0.005  # of accuracy, below all sources rejecting to the same coverage
LEAST_COVERAGE = 0.8


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


def boosted_trees() -> HistGradientBoostingClassifier:
    """Make gradient-boosted trees that take text columns as categories."""
    return HistGradientBoostingClassifier(
        max_iter=50, max_leaf_nodes=15, categorical_features="from_dtype", random_state=0
    )


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Split five times, search on three quarters, judge on the rest; give the table."""
    seen: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    asked = {"KDD:logistic"} if small else set(only or CASES)
    for name, stages in product(CASES, ("logistic", "boosted")):
        if not {name, f"{name}:{stages}"} & asked:
            continue
        data = CASES[name].load()
        for split in range(1 if small else 5):
            figures = _measure(data, CASES[name], stages, split)
            told = {"data": name, "stages": stages, "split": split} | figures
            print(json.dumps(told), flush=True)
            seen[name, stages].append(figures)
    return table(seen)


def as_good(search: CascadeSearchCV) -> Candidate:
    """Choose the cheapest that all sources, rejecting to the same coverage, do not much surpass.

    At least as accurate as all sources answering every row, too, in every class.
    """
    least = search.all_sources_.evaluation

    def qualifies(candidate: Candidate) -> bool:
        evaluation = candidate.evaluation
        return (
            evaluation.coverage >= LEAST_COVERAGE
            and evaluation.accuracy >= least.accuracy
            and all(evaluation.recall[label] >= share for label, share in least.recall.items())
            and evaluation.accuracy >= search.all_sources_at(evaluation.coverage).accuracy - MARGIN
        )

    good = filter(qualifies, search.front_)
    return min(good, key=lambda c: c.evaluation.cost, default=search.all_sources_)


def _measure(data: CostlyData, case: Case, stages: str, split: int) -> dict[str, Any]:
    X, y, costs = data
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
    figures: dict[str, Any] = {"seconds": round(seconds, 1)}
    everything = search.cascade(search.all_sources_)
    probability = everything.predict_proba(X.iloc[fresh])
    right = everything.predict(X.iloc[fresh]) == y[fresh]
    for rule, candidate in (("", as_good(search)), ("default ", search.best_candidate_)):
        judged = evaluate(search.cascade(candidate).decide(X.iloc[fresh]), y[fresh])
        surest = np.argsort(-probability.max(axis=1), kind="stable")[: int(judged.accepted)]
        figures |= {
            f"{rule}design": str(candidate.design),
            f"{rule}share": judged.cost / costs.total,
            f"{rule}coverage": judged.coverage,
            f"{rule}accuracy": judged.accuracy,
            f"{rule}missed": dict(judged.missed),
            f"{rule}same_coverage_accuracy": float(right[surest].mean()),
            f"{rule}same_coverage_missed": _missed(y[fresh], right, surest),
        }
    everyone = np.arange(len(fresh))
    figures |= {
        "all_accuracy": float(right.mean()),
        "all_missed": _missed(y[fresh], right, everyone),
    }
    return figures


def _missed(
    truth: NDArray[Any], right: NDArray[np.bool_], accepted: NDArray[np.intp]
) -> dict[str, float]:
    wrong = np.zeros(len(truth), dtype=np.bool_)
    wrong[accepted] = ~right[accepted]
    return {str(label): float(wrong[truth == label].mean()) for label in np.unique(truth)}


def table(seen: dict[tuple[str, str], list[dict[str, Any]]]) -> str:
    """Give the table, a line a data set and kind of stages, for both rules of choosing."""
    parts = []
    for rule in ("", "default "):
        rows = []
        for (name, stages), figures in seen.items():

            def shares(key: str, of: list[dict[str, Any]] = figures) -> list[float]:
                return [one[key] for one in of]

            def missed(key: str, of: list[dict[str, Any]] = figures) -> str:
                return ", ".join(
                    f"{label} {percent([one[key][label] for one in of])}" for label in of[0][key]
                )

            rows.append(
                [
                    f"{name}, {stages}",
                    percent(shares(f"{rule}share")),
                    percent(shares(f"{rule}coverage")),
                    percent(shares(f"{rule}accuracy"), 2),
                    missed(f"{rule}missed"),
                    percent(shares("all_accuracy"), 2),
                    missed("all_missed"),
                    percent(shares(f"{rule}same_coverage_accuracy"), 2),
                    missed(f"{rule}same_coverage_missed"),
                ]
            )
        header = ["data, stages", "price paid %", "coverage %", "accuracy %", "missed %",
                  "all sources: accuracy %", "missed %", "rejecting as many: accuracy %",
                  "missed %"]  # fmt: skip
        title = "By the default rule:" if rule else "As accurate as all sources rejecting as many:"
        parts.append(f"{title}\n\n{markdown(header, rows)}")
    return "\n\n".join(parts)
