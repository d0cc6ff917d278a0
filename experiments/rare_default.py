"""What the default choice keeps of the recall of a rare class, on small tables.

600 rows with five columns, of which a few percent are sick, are searched without being told
anything; recall and rejection are compared with all sources at once on 20,000 fresh rows.
"""

from __future__ import annotations

import json
import warnings

import numpy as np
import pandas as pd

from emsco import CascadeSearchCV, Costs, Source, evaluate
from emsco.exceptions import EmscoWarning
from experiments.results import FOLDER, Row, load, save
from experiments.tables import markdown

NAME = "rare_default"
COMMAND = "python -m experiments rare_default"
SHARES, RUNS = (0.08, 0.03), 30
CASES = [f"{share:g}/{run}" for share in SHARES for run in range(RUNS)]
_N_ROWS, _N_FRESH = 600, 20_000
# How far apart the classes are in each column, in standard deviations, and what it costs.
_COLUMNS = {
    "c0": (0.6, 1.0),
    "c1": (0.8, 2.0),
    "c2": (1.0, 4.0),
    "c3": (0.5, 8.0),
    "c4": (0.9, 16.0),
}


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Measure the runs that are not kept yet; `only` names some. Small: one run, not kept."""
    if small:
        return table([measure(CASES[0])])
    kept = {row["case"] for row in load(NAME)} if (FOLDER / f"{NAME}.csv").exists() else set()
    for case in CASES:
        if case in kept or (only and case not in only):
            continue
        row = measure(case)
        print(json.dumps(row), flush=True)
        save(NAME, COMMAND, [row], CASES)
    return table(load(NAME))


def measure(case: str) -> Row:
    """Search one table, and compare the choice with all sources on fresh rows."""
    share, number = case.split("/")
    rng = np.random.default_rng(int(number))
    X, y = _rows(rng, float(share), _N_ROWS)
    fresh, truth = _rows(rng, float(share), _N_FRESH)
    costs = Costs([Source(name, cost=price) for name, (_, price) in _COLUMNS.items()])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmscoWarning)
        search = CascadeSearchCV(costs=costs, random_state=int(number)).fit(X, y)
        own = evaluate(search.decide(fresh), truth)
        whole = evaluate(search.cascade(search.all_sources_).decide(fresh), truth)
    selected, reference = search.best_candidate_.evaluation, search.all_sources_.evaluation
    return {
        "case": case,
        "share": float(share),
        "recall": own.recall["sick"],
        "of all sources": whole.recall["sick"],
        "lower": float(own.recall["sick"] < whole.recall["sick"]),
        "lower on selected rows": float(selected.recall["sick"] < reference.recall["sick"]),
        "sick rejected": own.rejected["sick"],
        "rejected twice as often": float(own.rejected["sick"] > 2 * (1 - own.coverage)),
        "price": own.cost / costs.total,
    }


def _rows(rng: np.random.Generator, share: float, n_rows: int) -> tuple[pd.DataFrame, np.ndarray]:
    sick = np.arange(n_rows) < round(share * n_rows)
    rng.shuffle(sick)
    X = {name: apart * sick + rng.normal(size=n_rows) for name, (apart, _) in _COLUMNS.items()}
    return pd.DataFrame(X), np.where(sick, "sick", "well")


def table(rows: list[Row]) -> str:
    """Give means over the runs, and in how many the class does worse."""
    lines = []
    for share in dict.fromkeys(row["share"] for row in rows):
        own = [row for row in rows if row["share"] == share]
        mean = {key: float(np.mean([row[key] for row in own])) for key in own[0] if key != "case"}
        worst = min(row["recall"] - row["of all sources"] for row in own)
        lines.append(
            [
                f"{share:.0%}",
                f"{mean['recall']:.3f}",
                f"{mean['of all sources']:.3f}",
                f"{100 * worst:+.1f}",
                *(
                    f"{round(len(own) * mean[key])} of {len(own)}"
                    for key in ("lower", "lower on selected rows", "rejected twice as often")
                ),
                f"{mean['sick rejected']:.1%}",
                f"{mean['price']:.1%}",
            ]
        )
    heads = ["sick", "recall when accepted", "of all sources", "worst run, points", "lower",
             "lower on selected rows", "rejected twice as often as all rows", "sick rejected",
             "price"]  # fmt: skip
    return markdown(heads, lines)
