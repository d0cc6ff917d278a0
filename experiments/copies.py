"""Copied rows on both sides of a split: refused, or the promise is kept; honest tables pass.

A tree knows its training rows by heart, and labels are mostly noise. A join, an augmentation, or
several rows of one patient put rows that it knows among the calibration rows, and 70% is promised
where 60% is true. Honest tables with natural duplicates are split at random and certified with the
checks and without them.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy import stats  # type: ignore[import-untyped]  # scipy ships no types
from sklearn.model_selection import GroupKFold
from sklearn.tree import DecisionTreeClassifier

from emsco import CascadeClassifier, CascadeSearchCV
from emsco.certify import certify
from emsco.datasets import (
    load_cleveland,
    load_covtype,
    load_credit,
    load_heart,
    load_hepatitis,
    load_magic,
    load_nslkdd,
    load_phishing,
    load_pima,
    load_spambase,
    load_thyroid,
)
from emsco.exceptions import CertificateError, EmscoWarning
from emsco.rows.ledger import forget_all
from experiments.tables import markdown

ACCURACY, CONFIDENCE = 0.7, 0.9
MOST_REFUSED = 0.01  # of fresh draws of honest tables
RUNS, RUNS_SMALL = 300, 3
DRAWS, DRAWS_SMALL = 60, 1
_FRESH = 20_000  # rows on which the truth is measured
_PARTS = ("pipelines", "honest")
_LARGEST = 3000  # rows of an honest table in one draw
ALLOWED = dict.fromkeys(("known rows", "repeated rows", "near copies"), "to see what the checks do")

Matrix = NDArray[np.float64]
Labels = NDArray[np.intp]


class Table(NamedTuple):
    """Rows, labels, and what they belong to."""

    X: Matrix
    y: Labels
    groups: NDArray[np.intp]


def _draw(rng: np.random.Generator, n_rows: int, width: int = 5) -> tuple[Matrix, Labels]:
    """Draw rows whose labels are mostly noise."""
    X = rng.normal(size=(n_rows, width))
    return X, (X[:, 0] + 3 * rng.normal(size=n_rows) > 0).astype(np.intp)


def _times(rng: np.random.Generator, counts: NDArray[np.intp], noise: float = 0.0) -> Table:
    """Draw rows, repeat each a number of times, and add noise to each repetition."""
    X, y = _draw(rng, len(counts))
    rows = np.repeat(np.arange(len(counts)), counts)
    return Table(X[rows] + noise * rng.normal(size=(len(rows), X.shape[1])), y[rows], rows)


def _lines(rng: np.random.Generator, width: int) -> Table:
    """Draw order lines: the columns of a customer, and some of the line."""
    made = _times(rng, rng.integers(2, 6, 400))
    lines = rng.normal(size=(len(made.y), width))
    lines[:, 0] = rng.poisson(3, len(made.y))
    return made._replace(X=np.hstack([made.X, lines]))


PIPELINES: dict[str, Callable[[np.random.Generator], Table]] = {
    "every row twice": lambda rng: _times(rng, np.full(600, 2)),
    "three copies": lambda rng: _times(rng, np.full(400, 3)),
    "five copies": lambda rng: _times(rng, np.full(300, 5)),
    "a one-to-many join": lambda rng: _times(rng, rng.integers(1, 6, 500)),
    "jitter of 1% before the split": lambda rng: _times(rng, np.full(500, 3), noise=0.01),
    "jitter of 10% before the split": lambda rng: _times(rng, np.full(500, 3), noise=0.1),
    "visits of one patient": lambda rng: _times(rng, rng.integers(2, 7, 300), noise=0.1),
    "order lines, two columns of the line": lambda rng: _lines(rng, 2),
    "order lines, four columns of the line": lambda rng: _lines(rng, 4),
}
TRIPLED = "fresh rows tripled, each with a key of its own"
GROUPS = "groups on both sides"


def _promise(model: Any, X: Matrix, y: Labels, fresh: Table, **options: Any) -> str:
    """Ask for a certificate, and compare it with the truth."""
    forget_all()
    try:
        certificate = certify(
            model, X, y, accuracy=ACCURACY, confidence=CONFIDENCE, min_coverage=0, **options
        )
    except CertificateError:
        return "refused"
    if not certificate.certified:
        return "not certified"
    decisions = model.decide(fresh.X)
    right = (decisions.label == fresh.y)[decisions.accepted].mean()
    return "kept" if right >= ACCURACY else "false"


def _by_heart(X: Matrix, y: Labels) -> CascadeClassifier:
    """Fit a tree that knows every row."""
    model: CascadeClassifier = CascadeClassifier(DecisionTreeClassifier(random_state=0))
    model.fit(X, y)
    return model


def _run_pipeline(name: str, seed: int, allow: dict[str, str] | None) -> str:
    rng = np.random.default_rng([seed, len(name)])
    if name in (TRIPLED, GROUPS):
        return (_tripled if name == TRIPLED else _groups)(rng, allow)
    table = PIPELINES[name](rng)
    order = rng.permutation(len(table.y))
    fitted, kept = np.array_split(order, 2)
    fresh = PIPELINES[name](np.random.default_rng([seed, 1]))
    return _promise(
        _by_heart(table.X[fitted], table.y[fitted]),
        table.X[kept],
        table.y[kept],
        fresh,
        allow=allow,
    )


def _tripled(rng: np.random.Generator, allow: dict[str, str] | None) -> str:
    """Give fresh rows three times, to a model that is right just too rarely."""
    X, y = rng.normal(size=(400, 3)), rng.integers(2, size=400)
    model = _by_heart(np.column_stack([y, X]), y)  # it knows the label, but for noise
    fresh = rng.normal(size=(_FRESH, 3))
    told = rng.integers(2, size=_FRESH)
    is_wrong = rng.random(_FRESH) < 1 - ACCURACY + 0.005
    truth = np.where(is_wrong, 1 - told, told)
    rows = np.column_stack([told, fresh])
    some = np.repeat(np.arange(200), 3)
    keys = np.arange(len(some)) + 1_000_000
    return _promise(
        model, rows[some], truth[some], Table(rows, truth, keys), keys=keys, allow=allow
    )


def _groups(rng: np.random.Generator, allow: dict[str, str] | None) -> str:
    """Search with groups, and certify on rows of the same groups."""
    table = _times(rng, rng.integers(2, 6, 200), noise=0.1)
    order = rng.permutation(len(table.y))
    fitted, kept = np.array_split(order, 2)
    search = CascadeSearchCV(
        DecisionTreeClassifier(random_state=0), max_stages=1, luck=False, cv=GroupKFold(3)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmscoWarning)
        search.fit(table.X[fitted], table.y[fitted], groups=table.groups[fitted])
    fresh = _times(np.random.default_rng(len(order)), np.ones(5000, dtype=np.intp), noise=0.1)
    return _promise(
        search.best_cascade_, table.X[kept], table.y[kept], fresh,
        groups=table.groups[kept], allow=allow,
    )  # fmt: skip


def honest() -> dict[str, tuple[pd.DataFrame, Any]]:
    """Read tables with natural duplicates and near-duplicates."""
    made = {
        "credit": load_credit(),
        "pima": load_pima(),
        "heart": load_heart(),
        "Cleveland": load_cleveland(),
        "hepatitis": load_hepatitis(),
        "thyroid": load_thyroid(),
        "magic": load_magic(),
        "spambase": load_spambase(),
        "phishing": load_phishing(),
        "NSL-KDD": load_nslkdd(),
        "covtype": load_covtype(),
    }
    tables = {name: (data.X.fillna(-1), np.asarray(data.y)) for name, data in made.items()}
    for name, width in (
        ("pima", 2), ("pima", 3), ("credit", 5), ("thyroid", 6), ("phishing", 15), ("phishing", 30),
        ("covtype", 4), ("NSL-KDD", 8), ("spambase", 10),
    ):  # fmt: skip
        X, y = tables[name]
        tables[f"{name}, {width} columns"] = (X.iloc[:, :width], y)
    return tables


def _split(X: pd.DataFrame, y: Any, seed: int) -> tuple[str, str]:
    """Certify a fresh split with the checks and without them."""
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(y))[: 2 * _LARGEST]
    fitted, kept = np.array_split(rows, 2)
    model = CascadeClassifier(threshold=0.8).fit(X.iloc[fitted].reset_index(drop=True), y[fitted])
    came = []
    for allow in (None, ALLOWED):
        forget_all()
        try:
            rest = X.iloc[kept].reset_index(drop=True)
            certificate = certify(
                model, rest, y[kept], accuracy=0.75, confidence=0.95, min_coverage=0, allow=allow
            )
            came.append("certified" if certificate.certified else "not certified")
        except CertificateError as error:
            came.append(f"refused: {str(error)[:60]}")
    return came[0], came[1]


def _doubled(X: pd.DataFrame, y: Any, seed: int) -> bool:
    """Give every row twice before the split, and say whether the certificate is refused."""
    rng = np.random.default_rng(seed)
    rows = np.repeat(rng.permutation(len(y))[:_LARGEST], 2)
    fitted, kept = np.array_split(rng.permutation(rows), 2)
    model = CascadeClassifier(threshold=0.8).fit(X.iloc[fitted].reset_index(drop=True), y[fitted])
    forget_all()
    try:
        certify(model, X.iloc[kept].reset_index(drop=True), y[kept], accuracy=0.75)
    except CertificateError:
        return True
    return False


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Try every pipeline and every honest table; exit with an error where a bar is missed."""
    parts = [part for part in _PARTS if not only or part in only]
    broken: list[str] = []
    tables = []
    if "pipelines" in parts:
        tables.append(_pipelines(RUNS_SMALL if small else RUNS, broken))
    if "honest" in parts:
        tables.append(_honest(DRAWS_SMALL if small else DRAWS, broken))
    told = "\n\n".join(tables)
    if broken:
        print(told)
        raise SystemExit("\n".join(["Broken:", *broken]))
    return told


def _pipelines(runs: int, broken: list[str]) -> str:
    rows = []
    for name in (*PIPELINES, TRIPLED, GROUPS):
        counted = []
        for allow in (None, ALLOWED):
            tried = runs if allow is None else min(runs, 100)
            came = Parallel(n_jobs=2)(
                delayed(_run_pipeline)(name, seed, allow) for seed in range(tried)
            )
            counted.append({one: came.count(one) for one in sorted(set(came))})
        false = counted[0].get("false", 0)
        low = stats.beta.ppf(0.025, false, runs - false + 1) if false else 0.0
        if low > 1 - CONFIDENCE:
            broken.append(f"{name}: {false} of {runs} promises are false")
        before = counted[1].get("false", 0)
        print(json.dumps({"pipeline": name, "with": counted[0], "without": counted[1]}), flush=True)
        refused = counted[0].get("refused", 0)
        rows.append(
            [name, f"{runs}", f"{refused}", f"{false}", f"{before} of {sum(counted[1].values())}"]
        )
    header = ["pipeline", "runs", "refused", "false promises", "false without the checks"]
    allowed = f"{1 - CONFIDENCE:.0%} of promises may be false."
    return f"Copied rows on both sides of the split; {allowed}\n\n" + markdown(header, rows)


def _honest(draws: int, broken: list[str]) -> str:
    rows, refused_of_all = [], 0
    tables = honest()
    for name, (X, y) in tables.items():
        came = Parallel(n_jobs=2)(delayed(_split)(X, y, seed) for seed in range(draws))
        doubled = Parallel(n_jobs=2)(
            delayed(_doubled)(X, y, seed) for seed in range(min(draws, 10))
        )
        refusals = [checked for checked, _ in came if checked.startswith("refused")]
        refused_of_all += len(refusals)
        with_checks, without = ([one[side] for one in came].count("certified") for side in (0, 1))
        print(
            json.dumps({"table": name, "refused": refusals, "certified": [with_checks, without]}),
            flush=True,
        )
        noticed = f"{sum(doubled)} of {len(doubled)}"
        rows.append([name, f"{draws}", f"{len(refusals)}", f"{with_checks}", f"{without}", noticed])
    if refused_of_all > MOST_REFUSED * draws * len(tables):
        broken.append(f"{refused_of_all} fresh draws of honest tables were refused")
    header = ["table", "fresh splits", "refused", "certified", "certified without the checks",
              "refused with every row twice"]  # fmt: skip
    return f"Honest tables: {refused_of_all} of {draws * len(tables):,} refused.\n\n" + markdown(
        header, rows
    )
