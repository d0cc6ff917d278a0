"""Rows are recognised by whatever part of them is as it was; fresh rows are not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from emsco import datasets
from emsco.datasets import make_costly_classification
from emsco.rows.row_sketch import Sketch

TABLES = ("cleveland", "credit", "example", "heart", "hepatitis", "pima")
LARGER_TABLES = ("covtype", "kdd", "magic", "nslkdd", "phishing", "spambase", "thyroid")


def sketch(X, y):
    return Sketch.of({name: X[name].to_numpy() for name in X}, np.asarray(y))


@pytest.fixture(scope="module")
def data():
    X, y, _ = make_costly_classification(1200, 6, class_sep=2, random_state=0)
    return X, y


def standardised(X):
    return (X - X.mean()) / X.std()


FORMS = {
    "as they were": lambda X, y: (X, y),
    "a column added": lambda X, y: (X.assign(noise=np.arange(len(X)) % 7), y),
    "a column inserted": lambda X, y: (X.assign(a=np.arange(len(X)) % 7)[["a", *X]], y),
    "a column dropped": lambda X, y: (X.drop(columns="s2"), y),
    "all but two dropped": lambda X, y: (X[["s1", "s4"]], y),
    "renamed": lambda X, y: (X.rename(columns="new {}".format), y),
    "standardised": lambda X, y: (standardised(X), y),
    "standardised, some dropped": lambda X, y: (standardised(X)[["s5", "s3"]], y),
    "standardised, one row left out": lambda X, y: (standardised(X[1:]), y[1:]),
    "one row left out": lambda X, y: (X.drop(index=600), np.delete(y, 600)),
    "every other row": lambda X, y: (X[::2], y[::2]),
    "backwards, a column dropped": lambda X, y: (X[::-1].drop(columns="s0"), y[::-1]),
    "float32, rounded": lambda X, y: (X.astype(np.float32).round(3), y),
    "with other names of labels": lambda X, y: (standardised(X), np.array(["no", "yes"])[y]),
    "other columns altogether": lambda X, y: (X @ np.random.default_rng(1).random((6, 2)), y),
}


@pytest.mark.parametrize("form", FORMS)
def test_rows_are_recognised_in_another_form(data, form):
    X, y = FORMS[form](*data)
    assert sketch(X, y).overlaps(sketch(*data))
    assert sketch(*data).overlaps(sketch(X, y))


def false_recognitions(names, folder=None, splits=10):
    """Split each table into two halves again and again; count halves that are recognised."""
    found = []
    for name in names:
        X, y, _ = getattr(datasets, f"load_{name}")(*([folder] if folder else []))
        for seed in range(splits):
            order = np.random.default_rng(seed).permutation(len(y))[:4000]
            halves = (
                sketch(X.iloc[half], np.asarray(y)[half]) for half in np.array_split(order, 2)
            )
            found += [name] * next(halves).overlaps(next(halves))
    return found


def test_fresh_rows_of_the_same_table_are_not_recognised():
    assert false_recognitions(TABLES) == []


def test_fresh_rows_of_larger_tables_are_not_recognised(data_folder):
    assert false_recognitions(LARGER_TABLES, data_folder, splits=2) == []


def correlated(rng, n_rows):
    """Make rows that resemble those before them, as measurements over time do."""
    X = pd.DataFrame(
        {
            "hour": np.arange(n_rows) % 24,
            "weekday": np.arange(n_rows) // 24 % 7,
            "level": np.cumsum(rng.normal(size=n_rows)).round(),
            "state": np.cumsum(rng.random(n_rows) < 0.05) % 3,
        }
    )
    return X, np.cumsum(rng.random(n_rows) < 0.1) % 2


def in_order_of_labels(rng, n_rows):
    y = np.sort(rng.integers(0, 3, n_rows))
    return pd.DataFrame(rng.integers(0, 4, (n_rows, 3)) + y[:, None], columns=list("abc")), y


def rare(rng, n_rows):
    y = rng.random(n_rows) < 0.01
    return pd.DataFrame((rng.random((n_rows, 5)) < 0.02) | y[:, None], columns=list("abcde")), y


@pytest.mark.parametrize("draw", [correlated, in_order_of_labels, rare])
def test_rows_that_repeat_a_pattern_are_not_recognised_by_it(draw):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        assert not sketch(*draw(rng, 1000)).overlaps(sketch(*draw(rng, 1000)))


def test_shared_columns_do_not_make_rows_the_same(data):
    """The weather of the same days, with what two shops sold."""
    X, y = data
    other = np.random.default_rng(1).random((len(X), 3))
    rows = pd.DataFrame(other, columns=list("abc")).assign(weather=X["s0"].to_numpy())
    assert not sketch(rows, np.random.default_rng(2).integers(0, 2, len(X))).overlaps(sketch(X, y))


def test_a_sketch_of_many_rows_is_small():
    rng = np.random.default_rng(0)
    X, y = pd.DataFrame(rng.random((30_000, 10))), rng.integers(0, 2, 30_000)
    large = sketch(X, y)
    assert sum(part.hashes.nbytes for part in large.parts.values()) < 50_000
    assert sketch(X[:3000], y[:3000]).overlaps(large), "a tenth of the rows"
    assert not sketch(X[:3000] + 1, rng.integers(0, 2, 3000)).overlaps(large)


@pytest.mark.parametrize("n_rows", [1, 2, 40])
def test_few_rows_are_no_evidence(n_rows):
    X, y = pd.DataFrame({"a": np.arange(n_rows) % 3, "b": ["x"] * n_rows}), np.zeros(n_rows)
    assert not sketch(X, y).overlaps(sketch(X, y))
