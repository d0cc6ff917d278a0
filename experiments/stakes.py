"""Money lost to fraud at the same coverage and price: searched by stake, and by rows.

Payments of which 1% are fraud, with amounts over four orders of magnitude, are searched twice on
the same rows, folds and fits: once by the number of payments, once by their amounts. Of each front,
the candidate is taken that misses the least fraud, as counted there, among those that accept enough
payments and cost little enough; both are then compared on fresh payments.
"""

from __future__ import annotations

import json
import warnings

import numpy as np

from emsco import Candidate, CascadeSearchCV, ParetoFront, evaluate
from emsco.core.measure import rows_of
from emsco.datasets import make_payments
from emsco.exceptions import EmscoWarning
from experiments.results import FOLDER, Row, load, save
from experiments.tables import interval, markdown, share

NAME = "stakes"
COMMAND = "python -m experiments stakes"
SPLITS = 20
CASES = list(range(SPLITS))
LEAST_COVERAGE, MOST_COST = 0.93, 1.5  # of the payments; of 6.4 ct for all sources
_N_ROWS = 20_000
_SHARES = {
    "lost": "amount of fraud lost",
    "missed": "frauds missed",
    "coverage": "payments accepted",
}
_THRESHOLDS = [0.97, 0.98, 0.985, 0.99, 0.993, 0.995, 0.997, 0.998, 0.999]


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Measure the splits that are not kept yet; `only` names some. Small: one, not kept."""
    if small:
        return table([measure(0, n_rows=6_000)])
    kept = {row["split"] for row in load(NAME)} if (FOLDER / f"{NAME}.csv").exists() else set()
    for split in CASES:
        if split in kept or (only and str(split) not in only):
            continue
        row = measure(split)
        print(json.dumps(row), flush=True)
        save(NAME, COMMAND, [row], CASES)
    return table(load(NAME))


def least_missed(front: ParetoFront) -> Candidate:
    """Choose what misses the least fraud, as the front counts, at this coverage and price."""
    within = [
        candidate
        for candidate in front
        if rows_of(candidate.evaluation).coverage >= LEAST_COVERAGE
        and candidate.evaluation.cost <= MOST_COST
    ]
    return min(within, key=lambda c: (c.evaluation.missed["fraud"], c.evaluation.cost))


def measure(split: int, *, n_rows: int = _N_ROWS) -> Row:
    """Search half of the payments in both ways, and compare the two choices on the other half."""
    X, y, costs = make_payments(2 * n_rows, random_state=split)
    amount = X["amount"].to_numpy()
    row: Row = {"split": split}
    for way in ("rows", "stake"):
        search = CascadeSearchCV(
            costs=costs, threshold=_THRESHOLDS, max_stages=3, cv=2, select=least_missed,
            luck=False, random_state=split,
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", EmscoWarning)
            search.fit(X[:n_rows], y[:n_rows], stake="amount" if way == "stake" else None)
        decisions = search.decide(X[n_rows:])
        found = evaluate(decisions, y[n_rows:], stake=amount[n_rows:])
        row |= {
            f"{way}_lost": round(found.missed["fraud"], 6),
            f"{way}_missed": round(rows_of(found).missed["fraud"], 6),
            f"{way}_coverage": round(rows_of(found).coverage, 6),
            f"{way}_cost": round(found.cost, 6),
        }
    return row


def table(rows: list[Row]) -> str:
    """Lay out means over the splits, with their 95% intervals."""
    names = {"rows": "payments", "stake": "amounts"}
    lines = []
    for way, name in names.items():
        of = {
            what: [row[f"{way}_{what}"] for row in rows] for what in ("lost", "missed", "coverage")
        }
        cost, half = interval([row[f"{way}_cost"] for row in rows])
        lines.append([name, *(share(of[what]) for what in of), f"{cost:.2f} ± {half:.2f}"])
    header = [
        "searched by",
        "amount of fraud lost, %",
        "frauds missed, %",
        "payments accepted, %",
        "ct",
    ]
    better = np.mean([row["stake_lost"] < row["rows_lost"] for row in rows])
    return (
        markdown(header, lines) + f"\n\nLess money is lost by stake in {better:.0%} of the splits."
    )
