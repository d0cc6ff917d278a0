"""Batches labelled by spot checks: more than two classes, a rare class, and no cascade yet.

*classes*: the seven kinds of forest of covtype; the final model is boosted trees, the cheap one a
logistic regression on half of the columns; beside BARGAIN. *rare*: 1% of the rows are positive, and
at most a share of them may be missed. *cold*: nothing is known, and a first random part of the
batch is sent, on covtype (two classes) and phishing; for each first part, the coins of the walk are
drawn many times.

Without the package bargain, its figures are those of `results/batches.csv`.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from itertools import product
from math import ceil, e
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import binomtest  # type: ignore[import-untyped]  # scipy ships no types
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from emsco import Costs
from emsco.batch.answers_store import MemoryStore
from emsco.batch.ask import Wish
from emsco.batch.batch_labels import BatchLabels
from emsco.batch.cheap_answers import CheapAnswers
from emsco.batch.row_marks import RowMarks
from emsco.batch.task import ColdStart, Task, WalkTask
from emsco.datasets import load_covtype, load_phishing
from emsco.exceptions import EmscoWarning, require
from experiments.results import FOLDER, Row, load, write
from experiments.tables import markdown

NAME = "batches"
COMMAND = "python -m experiments batches"
PARTS = ("classes", "rare", "cold")
CONFIDENCE = 0.99


class Sizes(NamedTuple):
    """How much is measured."""

    batch: int
    draws: int
    agreements: tuple[float, ...]
    missed: tuple[float, ...]
    cold_batch: int
    first_parts: int
    coins: int


WHOLE = Sizes(20_000, 20, (0.95, 0.98, 0.99), (0.05, 0.1, 0.2), 5_000, 50, 2_000)
SMALL = Sizes(2_000, 2, (0.95,), (0.2,), 1_500, 2, 40)


class Table(NamedTuple):
    """Rows with the answers of the final model."""

    X: pd.DataFrame
    final: NDArray[Any]
    costs: Costs


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Measure all parts, or those named; small: little of each, and nothing is written."""
    sizes = SMALL if small else WHOLE
    path = FOLDER / f"{NAME}.csv"
    rows = [] if small or not path.exists() else load(NAME)
    for part in only or PARTS:
        rows = [row for row in rows if row["part"] != part]
        for row in _MEASURES[part](sizes):
            print(json.dumps(row), flush=True)
            rows.append({"part": part} | row)
    if not small:
        rows.sort(key=lambda row: PARTS.index(row["part"]))
        names = dict.fromkeys(name for row in rows for name in row)
        write(NAME, COMMAND, [{name: row.get(name, "") for name in names} for row in rows])
    _check(rows)
    return table(rows)


def _walk(task: Task, store: MemoryStore, final: NDArray[Any]) -> BatchLabels:
    """Label a batch whose final answers are known."""
    task.open(RowMarks())
    while (due := task.due()) is not None:
        store.record([(row, final[row].item()) for row in due.rows.tolist()])
    return task.result()


def _secret(*parts: object) -> bytes:
    return hashlib.sha256(repr(parts).encode()).digest()


def _trees() -> HistGradientBoostingClassifier:
    return HistGradientBoostingClassifier(max_iter=100, random_state=0)


def measure_classes(sizes: Sizes) -> Iterator[Row]:
    """Seven classes, beside BARGAIN."""
    X, y, _ = load_covtype(classes=7)
    drawn = np.random.default_rng(0).permutation(len(X))
    fitted, rest = drawn[:20_000], drawn[20_000:]
    trees = _trees().fit(X.iloc[fitted], y[fitted])
    half = list(X.columns)[::2]
    cheap = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1_000))
    cheap.fit(X.iloc[fitted][half], trees.predict(X.iloc[fitted]))
    for draw in range(sizes.draws):
        batch = np.random.default_rng(draw).choice(rest, sizes.batch, replace=False)
        final, probabilities = (
            trees.predict(X.iloc[batch]),
            cheap.predict_proba(X.iloc[batch][half]),
        )
        labels = cheap.classes_[probabilities.argmax(axis=1)]
        answers = CheapAnswers(labels.tolist(), probabilities.max(axis=1))
        for agreement in sizes.agreements:
            store = MemoryStore(_secret("classes", draw, agreement))
            wish = Wish.of(agreement, CONFIDENCE, None, None, 1)
            found = _walk(WalkTask(wish, answers, store, [None] * len(batch)), store, final)
            wrong = int((np.array(found.labels) != final).sum())
            theirs = _bargain(labels, probabilities.max(axis=1), final, agreement, draw)
            yield {
                "case": "covtype, 7 classes", "draw": draw, "bound": agreement, "rows": len(batch),
                "calls": found.n_calls, "wrong": wrong, "allowed": found.promises[0].most,
                "bargain": theirs,
            }  # fmt: skip


def _bargain(
    labels: NDArray[Any], trust: NDArray[np.float64], final: NDArray[Any], target: float, seed: int
) -> int | str:
    """Return how many rows BARGAIN sends, with its own defaults; as before if it is not there."""
    if find_spec("BARGAIN") is None:
        return _bargain_before().get((seed, target), "")
    bargain = require("BARGAIN")

    class Cheap(bargain.Proxy):  # type: ignore[name-defined]
        def proxy_func(self, record: str) -> tuple[Any, float]:
            return labels[int(record)].item(), float(trust[int(record)])

    class Final(bargain.Oracle):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__(verbose=False, max_workers=1)
            self.sent: set[int] = set()

        def oracle_func(self, record: str, given: Any) -> tuple[bool, Any]:
            self.sent.add(int(record))
            answer = final[int(record)].item()
            return bool(given == answer), answer

    oracle = Final()
    method = bargain.BARGAIN_A(
        Cheap(verbose=False, max_workers=1), oracle, target=target, delta=1 - CONFIDENCE,
        verbose=False, seed=seed,
    )  # fmt: skip
    method.process([str(row) for row in range(len(final))], return_oracle_usage=True)
    return len(oracle.sent)


@cache
def _bargain_before() -> dict[tuple[int, float], int | str]:
    rows = load(NAME) if (FOLDER / f"{NAME}.csv").exists() else []
    return {(row["draw"], row["bound"]): row["bargain"] for row in rows if row["part"] == "classes"}


def measure_rare(sizes: Sizes) -> Iterator[Row]:
    """One row in a hundred is positive; so many of these may be missed."""
    for draw, bound in product(range(sizes.draws), sizes.missed):
        rng = np.random.default_rng(draw)
        n_rows = 5 * sizes.batch
        positive = rng.random(n_rows) < 0.01
        score = rng.normal(size=n_rows) + 4.0 * positive
        odds = np.exp(4.0 * score - 8.0) * 0.01 / 0.99  # the true ones
        share = odds / (1 + odds)
        answers = CheapAnswers(
            np.where(share > 0.5, "yes", "no").tolist(), np.maximum(share, 1 - share)
        )
        final = np.where(positive, "yes", "no")
        store = MemoryStore(_secret("rare", draw, bound))
        wish = Wish.of(None, CONFIDENCE, {"yes": bound}, None, 1)
        found = _walk(WalkTask(wish, answers, store, [None] * n_rows), store, final)
        wrong = int((positive & (np.array(found.labels) != "yes")).sum())
        yield {
            "case": "1% positive", "draw": draw, "bound": bound, "rows": n_rows,
            "calls": found.n_calls, "wrong": wrong, "allowed": float(bound * positive.sum()),
            "rounds": found.rounds,
        }  # fmt: skip


def _covtype() -> Table:
    X, y, costs = load_covtype()
    return _with_trees(X, y, costs)


def _phishing() -> Table:
    return _with_trees(*load_phishing())


def _with_trees(X: pd.DataFrame, y: NDArray[Any], costs: Costs) -> Table:
    """Let boosted trees answer, which were fitted on other rows."""
    drawn = np.random.default_rng(0).permutation(len(X))
    fitted, rest = drawn[:5_000], drawn[5_000:]
    trees = _trees().fit(X.iloc[fitted], y[fitted])
    left = X.iloc[rest].reset_index(drop=True)
    return Table(left, trees.predict(left), costs)


COLD: dict[str, Callable[[], Table]] = {"covtype, 2 classes": _covtype, "phishing": _phishing}


def measure_cold(sizes: Sizes) -> Iterator[Row]:
    """Label a batch of which nothing is known, from several first parts."""
    agreements = (0.98, 0.99)
    for case, make in COLD.items():
        X, final, costs = make()
        batch = np.random.default_rng(1).permutation(len(X))[: sizes.cold_batch]
        X, final = X.iloc[batch].reset_index(drop=True), final[batch]
        for part in range(sizes.first_parts):
            store = MemoryStore(_secret("cold", case, part))
            wishes = [Wish.of(agreement, CONFIDENCE, None, None, 1) for agreement in agreements]
            task = ColdStart(wishes[0], X, store, [None] * len(X), costs, None, case)
            task.open(RowMarks())
            due = task.due()
            assert due is not None
            store.record([(row, final[row].item()) for row in due.rows.tolist()])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", EmscoWarning)
                first = task.walk
            for wish in wishes:  # the same first part and cascade for each
                store = MemoryStore(_secret("cold", case, part, wish.agreement))
                walk = replace(first, wish=wish, store=store)
                found = _walk(walk, store, final)
                yield {
                    "case": case, "draw": part, "bound": wish.agreement, "rows": len(X),
                    "calls": found.n_calls, "wrong": int((np.array(found.labels) != final).sum()),
                    "allowed": found.promises[0].most, "first": found.calls["first part"],
                    "coins": sizes.coins, "broken": _broken(walk, final, sizes.coins),
                }  # fmt: skip


def _broken(task: WalkTask, final: NDArray[Any], coins: int) -> int:
    """Return how often the promise is broken, if the coins of one first part are drawn anew."""
    question, codes = task.question, task.codes.read(final)
    (promise,) = question.promises
    broken = 0
    for seed in range(coins):
        drawn = question.with_secret(seed.to_bytes(32, "big"))
        above = drawn.order[: drawn.stop(codes)]
        checked = drawn.checked[: len(above)]
        broken += (
            int(promise.broken(drawn.cheap[above], codes[above])[~checked].sum()) > promise.most
        )
    return broken


_MEASURES = {"classes": measure_classes, "rare": measure_rare, "cold": measure_cold}


def _check(rows: list[Row]) -> None:
    """End with an error if promises are broken more often than chance explains."""
    p_values = []
    for some in _by_case(rows).values():
        broken = sum(row["wrong"] > row["allowed"] for row in some)
        p_values.append(_p_value(broken, len(some)))
        # First parts are part of the chance, too: each has a share of coins that break the promise.
        shares = sum(row["broken"] / row["coins"] for row in some if row.get("coins"))
        p_values.append(min(1.0, e * _p_value(ceil(shares - 1e-9), len(some))))  # Bentkus (2004)
    if min(p_values) * len(p_values) < 0.01:
        raise SystemExit(f"Promises are broken: p-values {p_values}.")


def _p_value(broken: int, n: int) -> float:
    return float(binomtest(broken, n, 1 - CONFIDENCE, alternative="greater").pvalue)


def _by_case(rows: list[Row]) -> dict[tuple[str, float], list[Row]]:
    found: dict[tuple[str, float], list[Row]] = {}
    for row in rows:
        found.setdefault((row["case"], row["bound"]), []).append(row)
    return found


def table(rows: list[Row]) -> str:
    """Give the calls avoided, and how often promises were broken."""
    lines = []
    for (case, bound), some in _by_case(rows).items():
        calls, n_rows = (np.array([row[name] for row in some]) for name in ("calls", "rows"))
        theirs = [row.get("bargain", "") for row in some]
        bargain = "-"
        if all(isinstance(one, int) for one in theirs):
            bargain = f"{100 * (1 - np.array(theirs) / n_rows).mean():.1f}"
        coins = sum(row["coins"] for row in some if row.get("coins"))
        lines.append([
            case, f"{bound:g}", str(len(some)), f"{100 * (1 - calls / n_rows).mean():.1f}", bargain,
            f"{sum(row['wrong'] > row['allowed'] for row in some)} of {len(some)}",
            f"{sum(row['broken'] for row in some)} of {coins:,}" if coins else "-",
        ])  # fmt: skip
    return markdown(
        ("problem", "bound", "draws", "calls avoided %", "BARGAIN %", "broken", "broken, coins"),
        lines,
    )
