"""What emsco does all day, timed by a process that stays alive: a name in, seconds out.

Run as `python -m benchmarks.workloads FOLDER`, it writes a model into the folder and says which
workloads it has. Only public names of emsco are used, so that any version of it can be timed.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.naive_bayes import GaussianNB

from benchmarks.applicants import applicants, fit
from emsco import CascadeClassifier, CascadeSearchCV, Costs, StageDesign, dump
from emsco.datasets import load_credit

ROWS = 10_000
FEATURES, N_STAGES = 15, 4
SEARCHED = 8  # sources of Credit

Workload = Callable[[], object]


def of_array() -> dict[str, Workload]:
    """Decide numbers in an array, all at once and one row alone."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, FEATURES))
    y = (X @ np.linspace(1.0, 0.3, FEATURES) + rng.logistic(size=ROWS) > 0).astype(int)
    design = StageDesign(np.arange(FEATURES) * N_STAGES // FEATURES)
    cascade = CascadeClassifier(design=design).fit(X[:2000], y[:2000])
    own = CascadeClassifier(GaussianNB(), design=design).fit(X[:2000], y[:2000])
    row = X[:1].copy()
    return {
        "decide one row of numpy": _often(100, lambda: cascade.decide(row)),
        "decide one row, own estimator": _often(30, lambda: own.decide(row)),
        f"decide {ROWS:,} rows of numpy": _often(5, lambda: cascade.decide(X)),
    }


def of_frame(folder: Path) -> dict[str, Workload]:
    """Decide rows with text in a frame; and write their cascade, for the command line."""
    columns, y = applicants(ROWS)
    cascade = fit(columns, y)
    dump(cascade, folder / "model.emsco")
    X = pd.DataFrame(columns).drop(columns="id")
    return {f"decide {ROWS:,} rows of pandas with text": _often(3, lambda: cascade.decide(X))}


def of_search() -> dict[str, Workload]:
    """Search a part of Credit that is over in a second."""
    X, y, costs = load_credit()
    prices = {source.name: source.cost for source in costs.sources[:SEARCHED]}
    search = CascadeSearchCV(
        costs=Costs.per_feature(prices), threshold=[0.65, 0.75, 0.85], max_stages=3, random_state=0
    )
    return {"search Credit, quickly": lambda: search.fit(X[list(prices)], y)}


def _often(times: int, action: Workload) -> Workload:
    def repeat() -> None:
        for _ in range(times):
            action()

    return repeat


def main(folder: Path) -> None:
    """Make all workloads, do each once unobserved, and time whichever is asked for."""
    warnings.simplefilter("ignore")
    workloads = of_array() | of_frame(folder) | of_search()
    for workload in workloads.values():
        workload()
    print(json.dumps(list(workloads)), flush=True)
    for line in sys.stdin:
        workload = workloads[json.loads(line)]
        start = time.process_time()
        workload()
        print(time.process_time() - start, flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
