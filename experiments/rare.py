"""A rare class: what a cascade loses, with prices of errors and review, against boosted trees.

The trees see all sources and are calibrated; their cut, and what they leave to review, are tuned on
out-of-fold probabilities of the training rows. The loss is what data, reviews and errors cost a row
on fresh rows.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import StratifiedKFold, cross_val_predict, train_test_split

from emsco import CascadeSearchCV, Costs, Decisions, Evaluation, Review, Source, evaluate
from emsco.datasets import load_phishing
from emsco.exceptions import EmscoWarning
from experiments.headline import boosted_trees
from experiments.peers.compare import corrected_interval
from experiments.results import FOLDER, Row, load, save
from experiments.tables import markdown

NAME = "rare"
COMMAND = "python -m experiments rare"
SPLITS = 20
_CUTS = np.array([0.0, *np.geomspace(1e-4, 0.9999, 120), 1.0])


class Split(NamedTuple):
    """Rows to fit and choose on, fresh rows, and the share that fresh classes have in future."""

    costs: Costs
    X: pd.DataFrame
    y: Any
    fresh: pd.DataFrame
    truth: Any
    rare: str
    population: dict[str, float] | None = None


def loans(split: int, n_rows: int = 20_000) -> Split:
    """Make loans of which 0.8% default; cheap columns say less than dear ones."""
    rng = np.random.default_rng(split)
    risk = rng.normal(size=n_rows)
    noise = {"form": 2.0, "history": 1.2, "account": 1.0, "bureau": 0.8, "employer": 1.5}
    X = pd.DataFrame({name: risk + s * rng.normal(size=n_rows) for name, s in noise.items()})
    X["age"] = rng.integers(18, 80, n_rows)
    X["amount"] = np.exp(rng.normal(9, 1, n_rows))
    stress = risk + 0.5 * (np.log(X["amount"]) - 9) - 0.02 * (X["age"] - 45)
    stress += 0.7 * np.maximum(stress, 1.5) ** 1.5 + rng.gumbel(size=n_rows)
    y = np.where(stress > np.quantile(stress, 0.992), "default", "repaid")
    prices = {"age": 0.0, "amount": 0.0, "form": 0.1, "account": 0.5}
    prices |= {"history": 1.0, "employer": 3.0, "bureau": 5.0}
    costs = Costs(
        [Source(name, cost=price) for name, price in prices.items()],
        review=Review(25.0, accuracy=0.95),
        errors={"default": 2_000.0, "repaid": 150.0},
        unit="EUR",
    )
    rows = train_test_split(np.arange(n_rows), test_size=0.5, stratify=y, random_state=split)
    (train, fresh) = rows
    X = X[list(costs.features)]
    return Split(costs, X.iloc[train], y[train], X.iloc[fresh], y[fresh], "default")


def fraud(split: int) -> Split:
    """Subsample phishing pages to one in a hundred, as the page on fraud and review does."""
    X, y, listed = load_phishing()
    contracts = [one for one in listed.sources if one.name not in ("whois", "web_traffic")]
    costs = Costs(
        contracts,
        review=Review(200, accuracy=0.95),
        errors={"phishing": 20_000.0, "legitimate": 2_000.0},
    )
    X = X[list(costs.features)]
    order = np.random.default_rng(split).permutation(len(X))
    frauds, honest = order[y[order] == "phishing"], order[y[order] == "legitimate"]
    known, fresh = np.r_[honest[:3960], frauds[:40]], np.r_[honest[3960:], frauds[40:]]
    population = {"phishing": 0.01}
    return Split(costs, X.iloc[known], y[known], X.iloc[fresh], y[fresh], "phishing", population)


TABLES: dict[str, Callable[[int], Split]] = {"loans": loans, "fraud": fraud}
CASES = [f"{name}/{split}" for name in TABLES for split in range(SPLITS)]


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Compare both on every split that is not kept yet; `only` names tables. Small: few loans."""
    if small:
        return table([compare("loans/0", loans(0, 4_000), small=True)])
    kept = {row["case"] for row in load(NAME)} if (FOLDER / f"{NAME}.csv").exists() else set()
    for case in CASES:
        name, split = case.split("/")
        if case in kept or (only and name not in only):
            continue
        row = compare(case, TABLES[name](int(split)), small=False)
        print(json.dumps(row), flush=True)
        save(NAME, COMMAND, [row], CASES)
    return table(load(NAME))


def table(measured: list[Row]) -> str:
    """Give means over the splits, and an interval of the difference in loss."""
    header = ["table", "splits", "loss against boosted trees %", "loss", "of boosted trees",
              "price of data %", "rare class right %", "reviewed %", "of boosted trees: right %",
              "reviewed %"]  # fmt: skip
    lines = []
    for name in TABLES:
        rows = [row for row in measured if row["case"].startswith(name)]
        if not rows:
            continue
        above = [100 * row["above"] for row in rows]
        told = f"{np.mean(above):+.1f}"
        if len(rows) > 1:
            found = corrected_interval(above, 1.0)
            told += f" ({found.low:+.1f} to {found.high:+.1f})"
        figures = [np.mean([row[key] for row in rows]) for key in _SHOWN]
        lines.append([name, str(len(rows)), told, *(f"{figure:.4g}" for figure in figures)])
    return markdown(header, lines)


_SHOWN = ("loss", "trees_loss", "price", "right", "reviewed", "trees_right", "trees_reviewed")


def compare(case: str, data: Split, *, small: bool) -> Row:
    """Fit both on the same rows, and compare what they lose on fresh ones."""
    split = int(case.split("/")[1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmscoWarning)
        search = CascadeSearchCV(
            costs=data.costs, max_stages=2 if small else 3, random_state=split, luck=False
        ).fit(data.X, data.y)
        own = evaluate(search.decide(data.fresh), data.truth, population=data.population)
    theirs = evaluate(trees(data, split), data.truth, population=data.population)
    loss, other = _loss(own, data), _loss(theirs, data)
    return {
        "case": case,
        "above": loss / other - 1,
        "loss": loss,
        "trees_loss": other,
        "price": 100 * own.cost / data.costs.total,
        **_of_class("", own, data.rare),
        **_of_class("trees_", theirs, data.rare),
    }


def _loss(evaluation: Evaluation, data: Split) -> float:
    return evaluation.loss(review=data.costs.review, error_cost=dict(data.costs.errors))


def _of_class(prefix: str, evaluation: Evaluation, rare: str) -> dict[str, float]:
    rows = evaluation.class_rows[rare]
    return {
        f"{prefix}right": 100 * evaluation.class_right[rare] / rows,
        f"{prefix}reviewed": 100 * evaluation.rejected[rare],
    }


def trees(data: Split, split: int) -> Decisions:
    """Decide fresh rows by calibrated trees, with cut and rejection tuned on training folds."""
    model = CalibratedClassifierCV(boosted_trees(), method="sigmoid", cv=3)
    sick = data.y == data.rare
    folds = StratifiedKFold(5, shuffle=True, random_state=split)
    seen = cross_val_predict(model, data.X, sick, cv=folds, method="predict_proba")[:, 1]
    low, high = tuned(seen, sick, data)
    p = model.fit(data.X, sick).predict_proba(data.fresh)[:, 1]
    usual = next(label for label in data.costs.errors if label != data.rare)
    says = p >= high
    return Decisions(
        label=np.where(says, data.rare, usual),
        accepted=says | (p < low),
        exit_stage=np.zeros(len(p), dtype=int),
        confidence=np.maximum(p, 1 - p),
        cost=np.full(len(p), data.costs.total),
    )


def tuned(p: Any, sick: Any, data: Split) -> tuple[float, float]:
    """Return the cuts of least loss: below the first one is usual, from the second on rare."""
    errors, review = dict(data.costs.errors), data.costs.review
    assert review is not None
    missed, false = errors.pop(data.rare), next(iter(errors.values()))
    # Of the rows below each cut: how many are rare, and how many are not.
    rare = np.searchsorted(np.sort(p[sick]), _CUTS, side="left")
    usual = np.searchsorted(np.sort(p[~sick]), _CUTS, side="left")
    wrong = (1 - review.accuracy) * np.array([missed, false]) + review.cost  # of a review, mean
    best, found = np.inf, (0.0, 0.0)
    for i, low in enumerate(_CUTS):
        between_rare, between = rare[i:] - rare[i], usual[i:] - usual[i]
        loss = rare[i] * missed + (usual[-1] - usual[i:]) * false
        loss = loss + between_rare * wrong[0] + between * wrong[1]
        j = int(np.argmin(loss))
        if loss[j] < best:
            best, found = float(loss[j]), (float(low), float(_CUTS[i + j]))
    return found
