"""Ask the same rows again after their columns were changed, by a model of the changed columns.

Every question is false, by a little: the target is just above what is true. A promise is false if
the first model gets one, or else the model of the changed columns. Rows that are really fresh must
not be taken for those that were asked about.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from emsco import CascadeClassifier, datasets, evaluate
from emsco.certify import certify
from emsco.exceptions import CertificateError
from emsco.rows.ledger import forget_all
from emsco.rows.row_sketch import Sketch
from experiments.tables import exact_interval, markdown

Table = tuple[Any, NDArray[Any]]

RUNS, SMALL_RUNS = 400, 15
SPLITS, SMALL_SPLITS = 30, 2
CONFIDENCE = 0.9
TABLES = ("cleveland", "credit", "example", "heart", "hepatitis", "magic", "phishing", "pima",
          "spambase", "thyroid", "kdd", "nslkdd")  # fmt: skip
_NEED_FOLDER = ("kdd", "nslkdd")
_MOST = 2000  # rows of a half
_RECOGNISED = 0.01  # of fresh tables, at most
_ABOVE = 0.002  # how much more is asked for than is true


def _standardised(X: pd.DataFrame) -> pd.DataFrame:
    return (X - X.mean()) / X.std()


CHANGES: dict[str, Callable[[pd.DataFrame, NDArray[Any]], Table]] = {
    "a column added": lambda X, y: (X.assign(more=X["a"].round()), y),
    "a column dropped": lambda X, y: (X.drop(columns="c"), y),
    "columns renamed": lambda X, y: (X.rename(columns="new {}".format), y),
    "standardised": lambda X, y: (_standardised(X), y),
    "an array": lambda X, y: (X.to_numpy(), y),
    "one row left out": lambda X, y: (X[1:].reset_index(drop=True), y[1:]),
    "another model": lambda X, y: (X, y),
    "an array, standardised, one row left out": lambda X, y: (
        _standardised(X[1:]).to_numpy(),
        y[1:],
    ),
}


def draw(rng: np.random.Generator, n_rows: int) -> Table:
    """Draw rows of four columns from a population without end."""
    y = rng.integers(0, 2, n_rows)
    X = rng.normal(size=(n_rows, 4)) + y[:, None] * [1.0, 0.8, 0.6, 0.4]
    return pd.DataFrame(X, columns=list("abcd")), y


class Asker:
    """A model of changed columns, and a target that is just above what is true of it."""

    def __init__(self, change: Callable[..., Table], seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.change = change
        self.model = CascadeClassifier(threshold=0.7).fit(*change(*draw(rng, 400)))
        X, y = change(*draw(rng, 300_000))
        self.target = evaluate(self.model.decide(X), y).accuracy + _ABOVE

    def ask(self, rows: Table) -> str:
        """Ask for too much; the answer is "refused", "not certified" or "false"."""
        X, y = self.change(*rows)
        try:
            certificate = certify(self.model, X, y, accuracy=self.target, confidence=CONFIDENCE)
        except CertificateError:
            return "refused"
        return "false" if certificate.certified else "not certified"


def run(*, small: bool, only: list[str] | None = None) -> str:  # noqa: ARG001
    """Ask again after every change, and show fresh rows; fail if too many promises are false."""
    broken: list[str] = []
    tables = [_again(SMALL_RUNS if small else RUNS, broken)]
    tables.append(
        _fresh(SMALL_SPLITS if small else SPLITS, TABLES[:6] if small else TABLES, broken)
    )
    if broken:
        raise SystemExit("\n".join(broken))
    return "\n\n".join(tables)


def _again(runs: int, broken: list[str]) -> str:
    first = Asker(lambda X, y: (X, y), seed=0)
    others = {
        name: Asker(change, place + 1) for place, (name, change) in enumerate(CHANGES.items())
    }
    false, refused = dict.fromkeys(CHANGES, 0), dict.fromkeys(CHANGES, 0)
    recognised = 0
    for seed in range(runs):
        rng = np.random.default_rng([1, seed])
        rows, fresh = draw(rng, 500), draw(rng, 500)
        for name, other in others.items():
            forget_all()
            answers = first.ask(rows), other.ask(rows)
            refused[name] += answers[1] == "refused"
            false[name] += "false" in answers
        recognised += others["another model"].ask(fresh) == "refused"
    lines = []
    for name in CHANGES:
        low, high = exact_interval(false[name], runs)
        told = {"change": name, "runs": runs, "refused": refused[name], "false": false[name]}
        print(json.dumps(told | {"interval": [round(low, 4), round(high, 4)]}), flush=True)
        lines.append(
            [name, f"{refused[name] / runs:.1%}", f"{false[name] / runs:.1%}",
             f"{low:.1%} to {high:.1%}"]
        )  # fmt: skip
        if low > 1 - CONFIDENCE:
            broken.append(f"{name}: {false[name]} of {runs} promises are false")
    print(json.dumps({"fresh draws": runs, "recognised": recognised}), flush=True)
    if recognised > _RECOGNISED * runs:
        broken.append(f"{recognised} of {runs} fresh draws were refused")
    return markdown(["change", "refused", "false promises", "95% interval"], lines)


def _fresh(splits: int, names: tuple[str, ...], broken: list[str]) -> str:
    """Split tables in halves, which have no row in common."""
    lines, total, recognised = [], 0, 0
    has_folder = os.path.isdir(os.environ.get("EMSCO_DATA", ""))
    for name in names:
        if name in _NEED_FOLDER and not has_folder:
            continue
        X, y, _ = getattr(datasets, f"load_{name}")()
        found = sum(_halves_overlap(X, np.asarray(y), seed) for seed in range(splits))
        print(json.dumps({"table": name, "splits": splits, "recognised": found}), flush=True)
        lines.append([name, str(splits), str(found)])
        total, recognised = total + splits, recognised + found
    if recognised > _RECOGNISED * total:
        broken.append(f"{recognised} of {total} fresh halves were recognised")
    return markdown(["table", "splits", "recognised"], lines)


def _halves_overlap(X: pd.DataFrame, y: NDArray[Any], seed: int) -> bool:
    order = np.random.default_rng(seed).permutation(len(y))[: 2 * _MOST]
    one, other = (
        Sketch.of({name: X[name].to_numpy()[half] for name in X}, y[half])
        for half in np.array_split(order, 2)
    )
    return one.overlaps(other)
