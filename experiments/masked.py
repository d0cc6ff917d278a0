"""One model for every source set, beside calibrated boosted trees fitted for each set by itself."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split

from emsco import MaskedClassifier
from emsco.datasets import load_covtype, load_magic, load_phishing
from experiments.tables import markdown

Figures = NDArray[np.float64]

CASES: dict[str, Any] = {
    "phishing": lambda: load_phishing(sources=13),
    "magic": load_magic,
    "covtype": load_covtype,
}
THRESHOLDS = (0.9, 0.95, 0.98)
SIZES = ((1, 99), (1, 1), (2, 3), (4, 6), (7, 99))  # sources of a set: all together, then apart
FOLDS = 5  # of a search, for the time that a whole table takes
AT_ONCE = 256  # sets that a search judges in one walk through the trees
TIMED_ROWS = 500  # that the walk is timed on
TIMED = 10  # sets that are also fitted without calibration, for the time alone


@dataclass(frozen=True)
class Case:
    """Rows to fit and to judge, and the source sets to judge them by."""

    name: str
    values: NDArray[np.float64]
    labels: NDArray[np.intp]
    sources: list[list[int]]
    train: NDArray[np.intp]
    test: NDArray[np.intp]
    sets: NDArray[np.bool_]

    @classmethod
    def of(cls, name: str, *, small: bool) -> Case:
        """Draw 40,000 rows at most, 30% of them to judge, and 50 sets; `small`, far fewer."""
        X, labels, costs = CASES[name]()
        y = np.unique(labels, return_inverse=True)[1]
        rows = np.arange(len(y))
        most = 200 if small else 40_000
        if len(rows) > most:
            rows = train_test_split(rows, train_size=most, stratify=y, random_state=0)[0]
        train, test = train_test_split(rows, test_size=0.3, stratify=y[rows], random_state=0)
        place = {column: i for i, column in enumerate(X)}
        sources = [[place[column] for column in costs.columns(source)] for source in costs.names]
        sets = _draw_sets(len(sources), 3 if small else 50)
        return cls(name, X.to_numpy(dtype=np.float64), y, sources, train, test, sets)

    @property
    def n_sets(self) -> int:
        """How many source sets there are in all."""
        return int(2 ** len(self.sources) - 1)


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Judge held-out rows by random source sets, and say what a table of all sets would take."""
    compared, times = [], []
    for name in ["magic"] if small else only or CASES:
        case = Case.of(name, small=small)
        masked, seconds = by_one_model(case)
        separate, plain, calibrated = by_sets(case)
        compared += compare(name, case.sets.sum(axis=1), masked, separate)
        times.append([name, *(f"{s:,.0f}" for s in (plain, calibrated, seconds))])
    header = ["data", "sources", "sets", "coverage at .9, .95, .98", "accuracy at .9, .95, .98",
              "area", "mean ratio of areas"]  # fmt: skip
    return f"{markdown(header, compared)}\n\n" + markdown(
        ["all sets in five folds, CPU s", "separate", "separate, calibrated", "one model"],
        times,
    )


def by_one_model(case: Case) -> tuple[Figures, float]:
    """Give the figures of each set, and the CPU seconds that all sets in five folds take."""
    rows, test = case.values[case.train], case.values[case.test]
    start = time.process_time()
    masked = MaskedClassifier(random_state=0).fit(
        rows, case.labels[case.train], sources=case.sources
    )
    fitted = time.process_time() - start
    judged = masked.predict_proba_of(test, case.sets)
    many = _draw_sets(len(case.sources), min(case.n_sets, AT_ONCE))
    start = time.process_time()
    masked.predict_proba_of(test[:TIMED_ROWS], many)
    each = (time.process_time() - start) / len(many) / len(test[:TIMED_ROWS])
    figures = np.array([_figures(probability, case.labels[case.test]) for probability in judged])
    n_rows = len(rows) + len(test)  # each in one fold's test
    seconds = FOLDS * fitted + case.n_sets * n_rows * each
    told = {"fit": fitted, "a row and set": each, "all sets": seconds}
    _tell(case, "one model", figures=figures.round(4).tolist(), seconds=told)
    return figures, seconds


def by_sets(case: Case) -> tuple[Figures, float, float]:
    """Give the figures of each set, and the CPU seconds of all, without calibration and with."""
    figures: list[Figures] = []
    seconds: dict[bool, list[float]] = {False: [], True: []}
    for number, members in enumerate(case.sets):
        columns = np.concatenate([case.sources[source] for source in np.flatnonzero(members)])
        for is_calibrated in (False, True):
            if not is_calibrated and number >= TIMED:
                continue
            estimator: Any = HistGradientBoostingClassifier(random_state=0)
            if is_calibrated:
                estimator = CalibratedClassifierCV(estimator, method="sigmoid", ensemble=False)
            start = time.process_time()
            estimator.fit(case.values[np.ix_(case.train, columns)], case.labels[case.train])
            judged = estimator.predict_proba(case.values[np.ix_(case.test, columns)])
            seconds[is_calibrated].append(time.process_time() - start)
        figures.append(_figures(judged, case.labels[case.test]))
        _tell(case, "separate", number=number, figures=figures[-1].round(4).tolist(),
              seconds=seconds[True][-1])  # fmt: skip
    plain, calibrated = (FOLDS * case.n_sets * float(np.mean(s)) for s in seconds.values())
    return np.array(figures), plain, calibrated


def compare(
    name: str, sizes: NDArray[np.intp], masked: Figures, separate: Figures
) -> list[list[str]]:
    """Say by how many points the one model is above separate fits, in all and by size."""
    rows = []
    for least, most in SIZES:
        own = (sizes >= least) & (sizes <= most)
        if not own.any():
            continue
        above = 100 * (masked - separate)[own].mean(axis=0)
        areas = masked[own, -1, 0], separate[own, -1, 0]
        rows.append([
            name,
            f"{sizes[own].min()} to {sizes[own].max()}",
            str(own.sum()),
            ", ".join(f"{points:+.1f}" for points in above[:-1, 0]),
            ", ".join(f"{points:+.2f}" for points in above[:-1, 1]),
            f"{areas[0].mean() / areas[1].mean() - 1:+.1%}",
            f"{np.mean(areas[0] / areas[1]) - 1:+.1%}",
        ])  # fmt: skip
    return rows


def _tell(case: Case, by: str, **what: Any) -> None:
    print(json.dumps({"data": case.name, "by": by} | what), flush=True)


def _draw_sets(n_sources: int, n_sets: int) -> NDArray[np.bool_]:
    """Draw different source sets, of every size alike."""
    rng = np.random.default_rng(0)
    drawn: dict[bytes, NDArray[np.bool_]] = {}
    while len(drawn) < n_sets:
        size = rng.integers(1, n_sources + 1)
        members = np.zeros(n_sources, dtype=np.bool_)
        members[rng.permutation(n_sources)[:size]] = True
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
