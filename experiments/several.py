"""Logistic regression and boosted trees searched at once: the default choice on fresh rows.

Thyroid with three classes, of which the two sick ones are rare. Half of the rows are searched, the
other half is decided by what the search chooses without being told anything.
"""

from __future__ import annotations

import json
import time
import warnings

import numpy as np
from sklearn.model_selection import train_test_split

from emsco import CascadeSearchCV, Evaluation, LocalSearch, evaluate
from emsco.datasets import load_thyroid
from emsco.exceptions import EmscoWarning
from experiments.results import FOLDER, Row, load, save
from experiments.tables import markdown

NAME = "several"
COMMAND = "python -m experiments several"
SPLITS = 10


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Measure the splits that are not kept yet; `only` names splits. Small: few rows, not kept."""
    if small:
        return table([_measure(0, n_rows=1_500, fits=24)])
    kept = {str(row["case"]) for row in load(NAME)} if (FOLDER / f"{NAME}.csv").exists() else set()
    for split in range(SPLITS):
        if str(split) in kept or (only and str(split) not in only):
            continue
        row = _measure(split)
        print(json.dumps(row), flush=True)
        save(NAME, COMMAND, [row], range(SPLITS))
    return table(load(NAME))


def _measure(split: int, n_rows: int | None = None, fits: int | None = None) -> Row:
    X, y, costs = load_thyroid(classes=3)
    known, fresh = train_test_split(
        np.arange(len(X)), train_size=n_rows or 0.5, stratify=y, random_state=split
    )
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmscoWarning)
        few = LocalSearch(1_000, fits=fits) if fits else None
        search = CascadeSearchCV("auto", costs=costs, search=few, random_state=split)
        search.fit(X.iloc[known], y[known])
        own = evaluate(search.decide(X.iloc[fresh]), y[fresh])
        whole = evaluate(search.cascade(search.all_sources_).decide(X.iloc[fresh]), y[fresh])
    return {
        "case": split,
        "learner": search.best_candidate_.learner,
        "accuracy": own.accuracy,
        "coverage": own.coverage,
        "price": own.cost / costs.total,
        **{f"recall {label}": recall for label, recall in recalls(own).items()},
        "all sources": whole.accuracy,
        **{f"all sources, recall {label}": recall for label, recall in recalls(whole).items()},
        "seconds": time.process_time() - started,
    }


def recalls(evaluation: Evaluation) -> dict[object, float]:
    """Return the recall of every class over all rows: a rejected row is not found."""
    right, rows = evaluation.class_right, evaluation.class_rows
    return {label: right[label] / rows[label] for label in rows}


def table(rows: list[Row]) -> str:
    """Give the mean and the worst split of every figure."""
    shares = [key for key in rows[0] if key not in ("case", "learner", "seconds")]
    lines = [
        [key, *(f"{100 * value:.1f}" for value in _mean_and_range([row[key] for row in rows]))]
        for key in shares
    ]
    lines.append(["seconds", *(f"{v:.0f}" for v in _mean_and_range([r["seconds"] for r in rows]))])
    return markdown(["%, of fresh rows", f"mean of {len(rows)}", "least", "most"], lines)


def _mean_and_range(values: list[float]) -> tuple[float, float, float]:
    return float(np.mean(values)), min(values), max(values)
