"""Rows that are known again in whatever form, and chance told apart from knowing."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from emsco.rows.fitted_rows import MOST_REMEMBERED, FittedRows, compare, compare_within
from emsco.rows.row_hashes import HashableColumn, hash_keys, hash_rows
from emsco.rows.rows import Rows


def hashes(*values):
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return hash_rows({"a": HashableColumn.read(column)}, ("a",), {}, b"")[0]


def rows_of(X, given=None):
    """Give rows without an index, unless one is given with X."""
    columns = {str(name): X[name].to_numpy() for name in X}
    index = None if given is None else given.index
    return Rows(tuple(columns), "pandas", columns, len(X), index)


def remembered(X, used=None):
    return FittedRows.of(rows_of(X, X), [str(name) for name in X] if used is None else used)


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_a_number_is_the_same_in_every_form(number):
    forms = [number, np.float32(number), f"{number:.15g}", repr(number), f" {number!r} "]
    forms += [Decimal(repr(number)), np.longdouble(number)]
    if number == int(number) and abs(number) < 2**53:
        forms += [int(number), str(int(number)), np.int64(int(number))]
    assert len(set(hashes(*forms).tolist())) == 1


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e30, max_value=1e30))
def test_fifteen_digits_and_float32_are_enough_but_for_ties(number):
    """A double that lies between two numbers of float32, to the last digits, may go either way."""
    near = np.float32(number)
    around = [np.nextafter(near, np.float32(side)) for side in (-np.inf, np.inf)]
    ties = [(float(near) + float(other)) / 2 for other in around]
    assume(min(abs(number - tie) for tie in ties) > 1e-14 * abs(number))
    assert len(set(hashes(number, float(near), f"{number:.15g}").tolist())) == 1


@pytest.mark.parametrize(
    "same",
    [
        (True, 1, 1.0, "1", "true", "True", " TRUE ", np.bool_(True)),
        (False, 0, -0.0, "0.0", "false"),
        (None, np.nan, pd.NA, "", " ", "NA", pd.NaT),
        ("yes", " yes"),
        ("2026-01-02", "2026-01-02T00:00", "2026-01-02 00:00:00"),
        (10**400, str(10**400)),
    ],
)
def test_forms_of_one_value(same):
    assert len(set(hashes(*same).tolist())) == 1


def test_values_that_differ_are_told_apart():
    different = (0, 1, 2, None, "yes", "no", 0.1, 0.1000001, 1e300, 1e301, -1, "2026-01-02")
    assert len(set(hashes(*different).tolist())) == len(different)


def test_times_are_the_same_in_any_unit_and_as_text():
    days = np.array(["2026-01-02", "2026-03-04", "NaT"], dtype="M8[D]")
    forms = [days, days.astype("M8[ns]"), days.astype("M8[us]"), days.astype("M8[s]")]
    forms.append(np.array(["2026-01-02", "2026-03-04", None], dtype=object))
    found = [hash_rows({"a": HashableColumn.read(f)}, ("a",), {}, b"")[0].tolist() for f in forms]
    assert all(one == found[0] for one in found)
    assert len(set(found[0])) == 3


def test_names_of_columns_matter_their_order_does_not():
    X = pd.DataFrame({"a": [1.0, 2.0], "b": [2.0, 1.0]})
    fitted = remembered(X)
    swapped = X.rename(columns={"a": "b", "b": "a"})
    assert compare(fitted.look(rows_of(X[["b", "a"]])), fitted.rows).twins == 2
    assert compare(fitted.look(rows_of(swapped)), fitted.rows).twins == 2  # a row turned round
    assert compare(fitted.look(rows_of(swapped[:1])), fitted.rows).twins == 1
    assert compare(fitted.look(rows_of(X.assign(b=[5.0, 6.0]))), fitted.rows).twins == 0


def normal(n, seed=0, width=4):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(rng.normal(size=(n, width)), columns=list("abcdefgh")[:width])


@pytest.mark.parametrize(
    "disguise",
    [
        lambda X: X.astype(np.float32),
        lambda X: X.astype(np.float16),
        lambda X: X.map(lambda v: f"{v:.15g}"),
        lambda X: X.map(lambda v: f"{v:.6g}").astype(float),
        lambda X: X.round(3),
        lambda X: X + 1e-4,
        lambda X: X[["d", "b"]],
        lambda X: X.assign(a=0.0, c=np.arange(len(X))),
        lambda X: X.sample(frac=1, random_state=0),
        lambda X: X[:30],
        lambda X: pd.concat([X[:50], normal(450, seed=1)]),
        lambda X: X.astype("string"),
        lambda X: X.astype("Float64"),
        lambda X: X.astype("category"),
        lambda X: pl.from_pandas(X).to_pandas(),
    ],
)
def test_known_rows_are_known_again(disguise):
    X = normal(500)
    fitted = remembered(X, used=["b", "d"])
    hidden = disguise(X)
    columns = {name: column.array for name, column in hidden.items()}
    rows = fitted.look(Rows(tuple(columns), "pandas", columns, len(hidden)))
    assert compare(rows, fitted.rows).beyond


@pytest.mark.parametrize("oversample", [1, 2, 10])
def test_training_rows_that_repeat_do_not_make_every_twin_allowed(oversample):
    X = normal(500)
    fitted = remembered(pd.concat([X] * oversample, ignore_index=True))
    assert compare(fitted.look(rows_of(X)), fitted.rows).beyond == 500
    fresh = fitted.look(rows_of(normal(500, seed=1)))
    assert compare(fresh, fitted.rows) == (0, 0, True, True)


def test_a_row_drawn_twice_under_one_key_is_one_row():
    X = normal(300)
    drawn = X.sample(3000, replace=True, random_state=0)
    fitted = remembered(drawn)
    assert len(fitted.rows) == drawn.index.nunique()


def tables(kind, n, rng):
    if kind == "continuous":
        return pd.DataFrame(rng.normal(size=(n, 3)), columns=list("abc"))
    if kind == "categories":
        return pd.DataFrame({c: rng.choice(list("uvwxyz"), n) for c in "abc"})
    if kind == "few categories":
        return pd.DataFrame({c: rng.choice(list("uv"), n) for c in "ab"})
    if kind == "counts":
        return pd.DataFrame({c: rng.poisson(8, n) for c in "abc"})
    return pd.DataFrame({"a": rng.zipf(1.4, n).clip(max=10**6), "b": rng.integers(3, size=n)})


@pytest.mark.parametrize("kind", ["continuous", "categories", "few categories", "counts", "zipf"])
@pytest.mark.parametrize(("fitted_on", "n_fresh"), [(600, 600), (600, 100), (100, 600)])
def test_fresh_rows_are_not_taken_for_known_ones(kind, fitted_on, n_fresh):
    rng = np.random.default_rng(0)
    for _ in range(20):
        fitted = remembered(tables(kind, fitted_on, rng), used=["a", "b"])
        rows = fitted.look(rows_of(tables(kind, n_fresh, rng)))
        found, within = compare(rows, fitted.rows), compare_within(rows, fitted.rows)
        assert not found.beyond
        assert not within.beyond
        if kind == "continuous":
            assert found.tells
            assert within.tells
        if kind == "few categories":
            assert not found.tells
            assert not within.tells


@pytest.mark.parametrize("oversample", [1, 10])
@pytest.mark.parametrize("kind", ["continuous", "categories"])
def test_rows_given_ten_times_are_noticed(kind, oversample):
    rng = np.random.default_rng(0)
    fitted = remembered(pd.concat([tables(kind, 600, rng)] * oversample, ignore_index=True))
    rows = fitted.look(rows_of(pd.concat([tables(kind, 60, rng)] * 10, ignore_index=True)))
    assert not compare(rows, fitted.rows).beyond
    within = compare_within(rows, fitted.rows)
    assert within.beyond == 600 or not within.tells
    assert within.beyond == 600 or kind == "categories"


def test_the_same_table_is_the_same_however_often_its_values_repeat():
    rng = np.random.default_rng(0)
    X = tables("counts", 300, rng).assign(c=0)
    fitted = remembered(X)
    again = fitted.look(rows_of(X.sample(frac=1, random_state=0)))
    assert compare(again, fitted.rows).beyond == 300


def test_of_many_rows_some_are_remembered_and_still_tell():
    X = normal(MOST_REMEMBERED + 20_000)
    fitted = remembered(X)
    assert len(fitted.rows) == MOST_REMEMBERED
    known = fitted.look(rows_of(X[:200]))
    assert 100 < compare(known, fitted.rows).beyond < 200
    assert compare(fitted.look(rows_of(normal(200, seed=1))), fitted.rows) == (0, 0, True, True)


def test_hashes_are_salted_by_the_rows():
    X = normal(50)
    one, other = remembered(X), remembered(X[:49])
    first, second = one.look(rows_of(X)), other.look(rows_of(X))
    assert not np.isin(first.views[0].hashes[0], second.views[0].hashes[0]).any()
    assert one.digest == remembered(X.sample(frac=1, random_state=0).astype("Float64")).digest
    assert one.digest != other.digest


def test_no_column_is_hashed_by_itself_unless_it_is_all_there_is():
    fitted = remembered(normal(50), used=["a", "b"])
    assert fitted.sets == (("a", "b", "c", "d"), ("a", "b"))
    assert len(fitted.rows.views) == 2


def test_an_index_of_numbers_in_order_is_no_key():
    X = normal(5)
    assert hash_keys(5, X.index) is None
    assert hash_keys(5, None) is None
    assert len(hash_keys(5, X.set_axis(list("vwxyz")).index)) == 5
    assert len(hash_keys(3, X[2:].index)) == 3
