"""Rows that a model knows come back in disguise; truly fresh rows come as they are.

The model is a decision tree that knows its training rows by heart, on labels that are mostly
noise, so that a certificate on known rows would promise 90% where 60% is true.
"""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from decimal import Decimal
from io import BytesIO, StringIO
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder
from sklearn.tree import DecisionTreeClassifier

from emsco import CascadeClassifier, StageDesign, dump, load
from emsco.certify import certify
from emsco.exceptions import CertificateError, EmscoError
from emsco.rows.ledger import forget_all
from experiments.tables import markdown
from tests.soak import asking_again

ROWS = 600
TRUSTED = ["sklearn.tree._tree.Tree"]
ASKED: dict[str, Any] = {"accuracy": 0.9, "confidence": 0.99}
MOST_REFUSED = 0.005  # of fresh draws
_PARTS = ("known", "again", "fresh")
_TEXTS = {"true": 1.0, "false": 0.0, "u": 0.0, "v": 1.0, "w": 2.0}


def as_numbers(frame: Any) -> NDArray[np.float64]:
    """Read whatever form values have, so that no disguise is noticed by the tree."""
    frame = pd.DataFrame(
        frame.to_dict(as_series=False) if isinstance(frame, pl.DataFrame) else frame
    )

    def number(value: Any) -> float:
        known = _TEXTS.get(str(value).strip().lower())
        return float(value) if known is None else known

    return np.column_stack([[number(value) for value in frame[name]] for name in frame])


def tree() -> Any:
    """Give a classifier that knows every row it was fitted on."""
    return make_pipeline(FunctionTransformer(as_numbers), DecisionTreeClassifier(random_state=0))


def table(n_rows: int, seed: int) -> tuple[pd.DataFrame, NDArray[np.intp]]:
    """Draw rows with every kind of column, and labels that are mostly noise."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n_rows, 3)) * (1, 100, 0.01), columns=["a", "b", "c"])
    X["count"] = rng.poisson(20, n_rows)
    X["flag"] = rng.random(n_rows) < 0.5
    X["text"] = rng.choice(["u", "v", "w"], n_rows)
    X["unused"] = rng.normal(size=n_rows)
    y = (X["a"] + 3 * rng.normal(size=n_rows) > 0).astype(np.intp).to_numpy()
    return X, y


USED = ["a", "b", "c", "count", "flag", "text"]
NUMBERS = ["a", "b", "c", "unused"]


def fitted_on(X: pd.DataFrame, y: NDArray[np.intp]) -> Any:
    """Fit the tree as one stage that leaves a column out."""
    design = StageDesign.from_stages([USED], list(X.columns))
    return CascadeClassifier(tree(), design=design).fit(X, y)


class Known(NamedTuple):
    """A model, rows of its own in disguise, their labels, and what else `certify` is given."""

    model: Any
    X: Any
    y: NDArray[Any]
    options: Mapping[str, Any] = {}


def disguises() -> dict[str, Callable[[], Known | str]]:
    """List the ways in which known rows come back."""
    X, y = table(ROWS, 0)
    fresh, truth = table(ROWS, 1)
    model = fitted_on(X, y)
    rng = np.random.default_rng(0)
    order = rng.permutation(ROWS)
    found: dict[str, Callable[[], Known | str]] = {}

    def add(name: str, X_known: Any, y_known: Any = y, by: Any = model, **options: Any) -> None:
        found[name] = lambda: Known(by, X_known, np.asarray(y_known), options)

    def numbers(change: Callable[[pd.DataFrame], Any]) -> pd.DataFrame:
        return X.assign(**dict(change(X[NUMBERS])))

    add("as they were", X)
    # Types and formats of values.
    add("float32", numbers(lambda n: n.astype(np.float32)))
    add("float16", numbers(lambda n: n.astype(np.float16)))
    add("longdouble", numbers(lambda n: n.astype(np.longdouble)))
    add("nullable numbers", numbers(lambda n: n.astype("Float64")))
    add("Arrow's numbers", numbers(lambda n: n.astype("double[pyarrow]")))
    add("Arrow's text", X.astype("string[pyarrow]"))
    add("categories", X.astype("category"))
    add("objects", X.astype(object))
    add("decimals", numbers(lambda n: n.map(lambda v: Decimal(repr(v)))))
    add("text, as Python prints it", X.astype(str))
    add("text with 15 digits", numbers(lambda n: n.map(lambda v: f"{v:.15g}")))
    add("text with spaces", X.astype(str).map(lambda v: f" {v} "))
    add("9 digits", numbers(lambda n: n.map(lambda v: float(f"{v:.9g}"))))
    add("6 digits", numbers(lambda n: n.map(lambda v: float(f"{v:.6g}"))))
    add("4 digits", numbers(lambda n: n.map(lambda v: float(f"{v:.4g}"))))
    add("4 decimals", numbers(lambda n: n.round(4)))
    add("measured again, 1e-6 off", numbers(lambda n: n * (1 + 1e-6)))
    add("measured again, noise of 0.1%", numbers(lambda n: n * (1 + rng.normal(0, 1e-3, n.shape))))
    add("booleans as whole numbers", X.assign(flag=X["flag"].astype(int)))
    add("booleans as text", X.assign(flag=X["flag"].map({True: "TRUE", False: "false"})))
    add("counts as floats", X.assign(count=X["count"].astype(float)))
    add("counts as text", X.assign(count=X["count"].astype(str)))
    add("polars", pl.from_pandas(X))
    add("polars, all text", pl.from_pandas(X.astype(str)))
    # Order, subsets, duplicates.
    add("rows shuffled", X.iloc[order].reset_index(drop=True), y[order])
    add("columns turned round", X[X.columns[::-1]])
    add("half of them", X[: ROWS // 2], y[: ROWS // 2])
    add("every third", X[::3].reset_index(drop=True), y[::3])
    add("60 of them", X[:60], y[:60])
    for share in (0.5, 0.1):
        n = int(share * ROWS)
        mixed = pd.concat([X[:n], fresh[: ROWS - n]], ignore_index=True)
        add(f"{share:.0%} known, the others fresh", mixed, [*y[:n], *truth[: ROWS - n]])
    add("each of them twice", pd.concat([X, X], ignore_index=True), [*y, *y])
    drawn = rng.integers(ROWS, size=ROWS)
    add("a bootstrap of them", X.iloc[drawn].reset_index(drop=True), y[drawn])
    # Training rows that repeat.
    for name, places in (
        ("training rows ten times", np.tile(np.arange(ROWS), 10)),
        ("training on a bootstrap", drawn),
        ("training with one class twice", np.append(np.arange(ROWS), np.flatnonzero(y))),
    ):
        repeated = X.iloc[places]
        add(f"{name}, index kept", X.iloc[np.unique(places)].reset_index(drop=True),
            y[np.unique(places)], fitted_on(repeated, y[places]))  # fmt: skip
        add(name, X.iloc[np.unique(places)], y[np.unique(places)],
            fitted_on(repeated.reset_index(drop=True), y[places]))  # fmt: skip
    # Columns.
    add("the unused column dropped", X.drop(columns="unused"))
    add("the unused column renamed", X.rename(columns={"unused": "other"}))
    add("the unused column drawn anew", X.assign(unused=rng.normal(size=ROWS)))
    add("a column added", X.assign(row=np.arange(ROWS)))
    add("dropped, added and as text", X[USED].astype(str).assign(row=np.arange(ROWS)))
    # Keys and groups.
    add("a new index", X.set_axis([f"new {i}" for i in range(ROWS)]))
    add("an index of numbers, moved", X.set_axis(np.arange(ROWS) + 10_000))
    add("an index of days", X.set_axis(pd.date_range("2026-01-01", periods=ROWS)))
    add("new keys", X, keys=[f"new {i}" for i in range(ROWS)])
    add("each row a group", X, groups=np.arange(ROWS))
    add("groups of two", X, groups=np.arange(ROWS) // 2)
    # Files of rows.
    add("CSV", pd.read_csv(StringIO(X.to_csv(index=False))))
    add("CSV with 6 digits", pd.read_csv(StringIO(X.to_csv(index=False, float_format="%.6g"))))
    add("CSV with an index", pd.read_csv(StringIO(X.to_csv())))
    add("JSON", pd.read_json(StringIO(X.to_json(orient="records"))))
    parquet = BytesIO()
    numbers(lambda n: n.astype(np.float32)).to_parquet(parquet)
    add("Parquet of float32", pd.read_parquet(parquet))
    # The model from elsewhere.
    plain = X[["a", "b", "c", "unused"]]
    design = StageDesign.from_stages([["a", "b", "c"]], list(plain.columns))
    by_heart = CascadeClassifier(DecisionTreeClassifier(random_state=0), design=design)
    by_heart.fit(plain, y)
    add("a copy of the model", plain, by=copy.deepcopy(by_heart))
    add("a pickled copy of the model", plain, by=pickle.loads(pickle.dumps(by_heart)))
    add("the model from a file", plain, by=_from_file(by_heart))
    add("from a file, the unused column dropped", plain[["c", "b", "a"]], by=_from_file(by_heart))
    add("from a file without hashes of rows", plain, by=_from_file(by_heart, rows=False))
    add("fitted again on the same rows", plain, by=clone(by_heart).fit(plain[::-1], y[::-1]))
    found["the command line, in a process of its own"] = lambda: _by_command(by_heart, plain, y)
    # Fresh rows that count as more than they are.
    ten = pd.concat([fresh[:100]] * 10, ignore_index=True)
    add("100 fresh rows ten times", ten, np.tile(truth[:100], 10))
    add("the same under repeated keys", ten, np.tile(truth[:100], 10), keys=np.arange(1000) % 100)
    add("the same, training rows ten times", ten, np.tile(truth[:100], 10),
        fitted_on(pd.concat([X] * 10, ignore_index=True), np.tile(y, 10)))  # fmt: skip
    return found


def _from_file(model: Any, *, rows: bool = True) -> Any:
    with TemporaryDirectory() as folder:
        dump(model, f"{folder}/model.emsco", rows=rows)
        return load(f"{folder}/model.emsco", trusted=TRUSTED)


def _by_command(model: Any, X: pd.DataFrame, y: NDArray[np.intp]) -> str:
    """Let `emsco certify` look at a file of the training rows, the unused column left out."""
    with TemporaryDirectory() as folder:
        dump(model, f"{folder}/model.emsco")
        X.drop(columns="unused").assign(y=y).to_csv(f"{folder}/rows.csv", index=False)
        command = [sys.executable, "-m", "emsco", "certify", "model.emsco", "rows.csv"]
        command += ["--label", "y", "--accuracy", "0.9", "--trust", *TRUSTED]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    told = done.stderr if done.returncode == 2 else done.stdout
    return f"{'refused' if done.returncode == 2 else 'certified'}: {told[:100]}"


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Try all disguises, all ways to ask again, and fresh rows; exit with an error on a failure."""
    parts = [part for part in _PARTS if not only or part in only]
    broken: list[str] = []
    tables = []
    if "known" in parts:
        tables.append(_known(broken))
    if "again" in parts:
        tables.append(asking_again.run(broken))
    if "fresh" in parts:
        tables.append(_fresh(100 if small else 1000, broken))
    told = "\n\n".join(tables)
    if broken:
        print(told)
        raise SystemExit("\n".join(["Broken:", *broken]))
    return told


def _known(broken: list[str]) -> str:
    rows = []
    for name, make in disguises().items():
        made = make()
        came = made if isinstance(made, str) else outcome(*made)
        if came.startswith("certified"):
            broken.append(f"{name}: {came}")
        rows.append([name, came])
        print(json.dumps({"disguise": name, "outcome": came}))
    counts = Counter(came.split(":")[0] for _, came in rows)
    header = f"Known rows in {len(rows)} disguises, {dict(counts)}:\n\n"
    return header + markdown(["disguise", "outcome"], rows)


def outcome(model: Any, X: Any, y: Any, options: Mapping[str, Any]) -> str:
    """Ask for a certificate, and say what came of it."""
    try:
        certificate = certify(model, X, y, **ASKED, **options)
    except CertificateError as error:
        return f"refused: {str(error).split(';')[0][:100]}"
    except EmscoError as error:
        return f"not decided: {str(error)[:100]}"
    if certificate.doubts:
        return f"said in the sentence: {certificate.doubts[0]}"
    if not certificate.certified:
        return "not certified"
    return "certified, as if nothing were wrong"


def draw_fresh(kind: str, n_rows: int, rng: np.random.Generator) -> pd.DataFrame:
    """Draw rows of a population that has continuous columns, categories only, or many repeats."""
    if kind == "continuous":
        return pd.DataFrame(rng.normal(size=(n_rows, 3)), columns=["a", "b", "c"])
    if kind == "one continuous column":
        words = {name: rng.choice(["u", "v"], n_rows) for name in "ab"}
        return pd.DataFrame(words | {"c": rng.normal(size=n_rows)})
    if kind == "all categorical":
        chances = [0.4, 0.3, 0.2, 0.1]
        return pd.DataFrame(
            {c: rng.choice(["u", "v", "w", "true"], n_rows, p=chances) for c in "abc"}
        )
    some = np.random.default_rng(7).normal(size=(400, 3))  # a third of the rows is one of these
    X = np.where(rng.random((n_rows, 1)) < 1 / 3, some[rng.integers(400, size=n_rows)],
                 rng.normal(size=(n_rows, 3)))  # fmt: skip
    return pd.DataFrame(X, columns=["a", "b", "c"])


def _fresh(draws: int, broken: list[str]) -> str:
    rows = []
    for kind in ("continuous", "one continuous column", "all categorical", "repeated values"):
        refused = doubted = 0
        for number in range(draws):
            forget_all()  # every draw is another study
            rng = np.random.default_rng(number)
            n_fitted, n_fresh = ((400, 400), (400, 150), (150, 400))[number % 3]
            X = draw_fresh(kind, n_fitted + n_fresh, rng)
            y = rng.integers(2, size=len(X))
            codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
            by_heart = make_pipeline(codes, DecisionTreeClassifier(random_state=0))
            model = CascadeClassifier(by_heart).fit(X[:n_fitted], y[:n_fitted])
            rest = X[n_fitted:].reset_index(drop=True)
            try:
                doubted += bool(certify(model, rest, y[n_fitted:], **ASKED).doubts)
            except CertificateError:
                refused += 1
        rows.append([kind, f"{draws:,}", f"{refused / draws:.2%}", f"{doubted / draws:.2%}"])
        print(json.dumps({"fresh": kind, "refused": refused, "doubted": doubted}))
        if refused > MOST_REFUSED * draws:
            broken.append(f"{kind}: {refused} of {draws} fresh draws refused")
        if "continuous" in kind and doubted > MOST_REFUSED * draws:
            broken.append(f"{kind}: {doubted} of {draws} fresh draws carry the sentence")
    header = ["fresh rows", "draws", "refused", "the sentence says what could not be told"]
    return "Truly fresh rows:\n\n" + markdown(header, rows)
