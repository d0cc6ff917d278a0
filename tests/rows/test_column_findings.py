"""What is unusual about a column is found; what is usual is left alone."""

from __future__ import annotations

import numpy as np
import pytest

from emsco.datasets import load_cleveland, load_heart, load_pima, make_loans
from emsco.rows.column_findings import (
    CONSTANT,
    DATES,
    EMPTY,
    IDS,
    LONG_TEXT,
    UNCLEAR_DATES,
    ZEROS,
    count_copies,
    find_leaks,
    inspect_column,
)

N = 200
SENTENCE = "The customer wants the money for the {} time this year, and asks for a quick answer."
UNUSUAL = {
    "dates": (["2023-05-01", "2024-01-31"] * 100, DATES),
    "times": ([f"2023-05-01 {i % 24:02}:00:00" for i in range(N)], DATES),
    "dates and gaps": (["31.01.2024", "", None, "01.02.2024"] * 50, DATES),
    "slashes": (["01/02/2023", "03/04/2024"] * 100, UNCLEAR_DATES),
    "codes": ([f"C{i:05}" for i in range(N)], IDS),
    "numbers in order": (np.arange(1000.0, 1000.0 + N), IDS),
    "sentences": ([SENTENCE.format(i) for i in range(N)], LONG_TEXT),
    "currency": (["EUR"] * N, CONSTANT),
    "zero": (np.zeros(N), CONSTANT),
    "nothing": ([None, ""] * 100, EMPTY),
    "no number": (np.full(N, np.nan), EMPTY),
    "postcodes": (["04300", "10115"] * 100, ZEROS),
}
USUAL = {
    "one value and gaps": (["yes", None] * 100),
    "one number and gaps": (np.array([1, np.nan] * 100)),
    "words": (["red", "green"] * 100),
    "measures": (np.random.default_rng(0).normal(size=N).round(4)),
    "whole numbers far apart": (np.random.default_rng(0).permutation(10**6)[:N].astype(float)),
    "few rows in order": (np.arange(50.0)),
    "few different words": ([f"word {i}" for i in range(10)]),
    "texts of numbers": (["4300", "10115"] * 100),
    "one date among words": (["2023-05-01", "soon"] * 100),
    "a decimal": (["0.5", "x"] * 100),
    "long categories": ([SENTENCE.format(i % 5) for i in range(N)]),
    "booleans": (np.array([True, False] * 100)),
}


@pytest.mark.parametrize("name", UNUSUAL)
def test_what_is_unusual_is_found(name):
    column, kind = UNUSUAL[name]
    finding = inspect_column(column)
    assert finding.kind == kind
    assert finding.is_left_out == (kind not in (ZEROS, LONG_TEXT))


@pytest.mark.parametrize("name", USUAL)
def test_what_is_usual_is_left_alone(name):
    assert inspect_column(USUAL[name]) is None


@pytest.mark.parametrize("load", [load_cleveland, load_heart, load_pima])
def test_public_tables_without_faults_have_no_findings(load):
    X, y, _ = load()
    columns = {name: X[name].to_numpy() for name in X}
    assert not any(inspect_column(column) for column in columns.values())
    assert find_leaks(columns, y) == {}
    assert count_copies(X, y) == 0


def test_a_leak_is_found_among_numbers_and_words_and_huge_values():
    rng = np.random.default_rng(0)
    y = (rng.random(2000) < 0.02).astype(int)
    columns = {
        "fee": np.where(y, rng.exponential(size=2000), 0),
        "status": np.where(y, "closed", "open").astype(object),
        "huge": np.where(y, 1e300, np.where(rng.random(2000) < 0.1, np.nan, np.inf)),
        "noise": rng.normal(size=2000),
        "weak": y + rng.normal(size=2000),
        "id": np.array([f"{i}" for i in range(2000)], dtype=object),
    }
    assert find_leaks(columns, y).keys() == {"fee", "status", "huge"}


def test_leaks_are_not_looked_for_in_classes_of_a_few_rows():
    y = np.array([0] * 100 + [1] * 9)
    assert find_leaks({"x": y.astype(float)}, y) == {}


def test_copies_of_loans_are_counted():
    X, y, _ = make_loans(3000)
    assert count_copies(X, y) == 45
