"""What is lost by searching a sample of the rows of a large table, and what is saved.

NSL-KDD at price 1 a column is searched twice: as it comes, where the search draws rows by itself,
and with all rows. Both fronts are judged on the same 5,000 rows, which neither search has seen.
"""

from __future__ import annotations

import json
import time
import warnings

import moocore
import numpy as np
from sklearn.model_selection import train_test_split

from emsco import CascadeSearchCV, Costs, Source
from emsco.datasets import load_nslkdd
from emsco.exceptions import EmscoWarning
from experiments.results import FOLDER, Row, load, save
from experiments.tables import markdown

NAME = "sampling"
COMMAND = "python -m experiments sampling"
CASES = ("sampled", "whole")
FRESH = 5_000


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Search both ways, if that is not kept yet; `only` names one. Small: few rows and columns."""
    if small:
        return table([_measure(case, n_columns=8, n_rows=3_000, sample=1_500) for case in CASES])
    kept = {row["case"] for row in load(NAME)} if (FOLDER / f"{NAME}.csv").exists() else set()
    for case in CASES:
        if case in kept or (only and case not in only):
            continue
        row = _measure(case)
        print(json.dumps(row), flush=True)
        save(NAME, COMMAND, [row], CASES)
    return table(load(NAME))


def _measure(
    case: str, *, n_columns: int | None = None, n_rows: int | None = None, sample: int | None = None
) -> Row:
    """Search one way; of a small table, which is not sampled by itself, `sample` rows."""
    X, y, _ = load_nslkdd()
    X = X[list(X.columns)[:n_columns]]
    known, fresh = train_test_split(
        np.arange(len(X)), train_size=n_rows, test_size=FRESH, stratify=y, random_state=0
    )
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmscoWarning)
        search = CascadeSearchCV(
            costs=Costs([Source(name, cost=1.0) for name in X.columns]),
            max_rows=len(known) if case == "whole" else sample,
            refit=False,
            random_state=0,
        ).fit(X.iloc[known], y[known])
        seconds = time.process_time() - started
        scored = search.score_front(X.iloc[fresh], y[fresh])
    points = [
        (one.fresh.coverage, one.fresh.accuracy, 1 - one.fresh.cost / search.costs_.total)
        for one in scored
    ]
    return {
        "case": case,
        "rows": search.all_sources_.evaluation.rows,
        "front": len(points),
        "hypervolume": float(moocore.hypervolume(points, ref=[0.0] * 3, maximise=True)),
        "seconds": seconds,
    }


def table(rows: list[Row]) -> str:
    """Give both searches, and the share of the hypervolume that the sample keeps."""
    whole = max((row["hypervolume"] for row in rows if row["case"] == "whole"), default=np.nan)
    lines = [
        [
            row["case"],
            f"{row['rows']:,}",
            f"{row['front']:,}",
            f"{row['hypervolume']:.4f}",
            f"{row['hypervolume'] / whole:.4f}",
            f"{row['seconds']:.0f}",
        ]
        for row in rows
    ]
    heads = ["search", "rows", "front", "hypervolume on fresh rows", "of the whole", "CPU s"]
    return markdown(heads, lines)
