"""One model for every source set, beside calibrated boosted trees fitted for each set by itself."""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split

from emsco import MaskedClassifier
from emsco.datasets import load_covtype, load_magic, load_phishing
from experiments.tables import markdown

CASES: dict[str, Any] = {
    "phishing": lambda: load_phishing(sources=13),
    "magic": load_magic,
    "covtype": load_covtype,
}
THRESHOLDS = (0.9, 0.95, 0.98)
FOLDS = 5  # of a search, for the time that a whole table takes


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Judge held-out rows by random source sets, and say what a table of all sets would take."""
    rows = []
    for name, load in CASES.items():
        if (only and name not in only) or (small and name != "magic"):
            continue
        seen, seconds = _compare(name, load(), n_sets=3 if small else 50, small=small)
        mean = {who: np.mean(figures, axis=0) for who, figures in seen.items()}
        for i, threshold in enumerate(THRESHOLDS):
            coverage, accuracy = (
                [f"{mean[who][i, what]:.1%}" for who in ("separate", "masked")] for what in (0, 1)
            )
            above = 100 * (mean["masked"] - mean["separate"])[i]
            rows.append(
                [name, str(threshold), *coverage, f"{above[0]:+.1f}", *accuracy, f"{above[1]:+.2f}"]
                + ([f"{mean['masked'][-1, 0] / mean['separate'][-1, 0] - 1:+.0%}",
                    *(f"{value:,.0f}" for value in seconds)] if i == 0 else [""] * 4)
            )  # fmt: skip
    header = ["data", "threshold", "coverage, separate", "masked", "points", "accuracy, separate",
              "masked", "points", "risk-coverage area", "all sets, s: separate",
              "separate calibrated", "masked"]  # fmt: skip
    return markdown(header, rows)


def _compare(
    name: str, data: Any, *, n_sets: int, small: bool
) -> tuple[dict[str, list[NDArray[np.float64]]], list[float]]:
    """Give the figures of each set by both, and the seconds for all sets in five folds."""
    X, labels, costs = data
    y = np.unique(labels, return_inverse=True)[1]
    rows = np.arange(len(y))
    most = 1_000 if small else 40_000
    if len(rows) > most:
        rows = train_test_split(rows, train_size=most, stratify=y, random_state=0)[0]
    train, test = train_test_split(rows, test_size=0.3, stratify=y[rows], random_state=0)
    place = {column: i for i, column in enumerate(X)}
    sources = [[place[column] for column in costs.columns(source)] for source in costs.names]
    values = X.to_numpy(dtype=np.float64)
    sets = _draw_sets(len(sources), n_sets)
    n_all = 2 ** len(sources) - 1

    start = time.perf_counter()
    masked = MaskedClassifier(random_state=0).fit(values[train], y[train], sources=sources)
    fitted = time.perf_counter()
    masked.predict_proba_of(values[test[:1]], sets)  # compiled once, whatever the number of sets
    ready = time.perf_counter()
    judged = masked.predict_proba_of(values[test], sets)
    per_set = (time.perf_counter() - ready) / len(sets) / len(test) * len(rows)
    seconds = {"masked": FOLDS * (fitted - start) + n_all * per_set, "separate": 0.0, "both": 0.0}

    seen: dict[str, list[NDArray[np.float64]]] = {"separate": [], "masked": []}
    for members, by_masked in zip(sets, judged, strict=True):
        columns = [c for source in np.flatnonzero(members) for c in sources[source]]
        own = {}
        for key in ("separate", "both"):
            estimator: Any = HistGradientBoostingClassifier(random_state=0)
            if key == "both":
                estimator = CalibratedClassifierCV(estimator, method="sigmoid", ensemble=False)
            begin = time.perf_counter()
            estimator.fit(values[np.ix_(train, columns)], y[train])
            own[key] = estimator.predict_proba(values[np.ix_(test, columns)])
            seconds[key] += (time.perf_counter() - begin) / len(sets) * n_all * FOLDS
        for who, probability in (("separate", own["both"]), ("masked", by_masked)):
            seen[who].append(_figures(probability, y[test]))
            told = {"data": name, "sources": int(members.sum()), "by": who}
            print(json.dumps(told | {"figures": seen[who][-1].round(4).tolist()}), flush=True)
    return seen, [seconds[key] for key in ("separate", "both", "masked")]


def _draw_sets(n_sources: int, n_sets: int) -> NDArray[np.bool_]:
    """Draw different source sets, of every size alike."""
    rng = np.random.default_rng(0)
    drawn: dict[bytes, NDArray[np.bool_]] = {}
    while len(drawn) < n_sets:
        members = np.zeros(n_sources, dtype=np.bool_)
        members[rng.permutation(n_sources)[: rng.integers(1, n_sources + 1)]] = True
        drawn[members.tobytes()] = members
    return np.array(list(drawn.values()))


def _figures(probability: NDArray[np.float64], truth: NDArray[np.intp]) -> NDArray[np.float64]:
    """Give coverage and accuracy at each threshold; last the area under the risk-coverage curve.

    Where nothing is accepted, nothing is wrong: the accuracy is 1.
    """
    confidence, right = probability.max(axis=1), probability.argmax(axis=1) == truth
    figures = []
    for threshold in THRESHOLDS:
        sure = confidence >= threshold
        figures.append([sure.mean(), right[sure].mean() if sure.any() else 1.0])
    wrong = np.cumsum(~right[np.argsort(-confidence, kind="stable")])
    figures.append([np.mean(wrong / np.arange(1, len(truth) + 1)), right.mean()])
    return np.array(figures)
