"""Encodings take columns as users have them, and add up to the same scores as their blocks."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emsco.exceptions import ValuesError
from emsco.rows.columns import plain
from emsco.rows.encoding import Category, Codes, Number, learn, read


def learned(column, weight=None):
    return learn(column, "x", np.ones(len(column)) if weight is None else np.asarray(weight, float))


def test_numbers_are_centred_and_scaled():
    encoding = learned(np.array([1, 2, 3, 6]))
    block = encoding.encode(np.array([1, 2, 3, 6]))
    assert block.shape == (4, 1)
    assert block.mean() == pytest.approx(0, abs=1e-12)
    assert block.std() == pytest.approx(1)


@pytest.mark.parametrize("value", [0.0, 7.0, 1e300, 0.1])
def test_a_constant_column_is_kept_without_scale(value):
    encoding = learned(np.full(5, value))
    assert np.allclose(encoding.encode(np.full(5, value)), 0)


def test_huge_values_do_not_overflow():
    encoding = learned(np.array([1e308, -1e308, 1e308, 0]))
    assert np.isfinite(encoding.encode(np.array([1e308, -1e308]))).all()


def test_a_missing_number_is_the_median_and_an_indicator():
    values = np.array([1.0, np.nan, 3.0, 100.0])
    encoding = learned(values)
    assert encoding.median == 3
    block = encoding.encode(values)
    assert block[:, 1].tolist() == [0, 1, 0, 0]
    assert block[1, 0] == block[2, 0]


@given(st.lists(st.tuples(st.floats(-1e6, 1e6) | st.none(), st.integers(0, 3)), min_size=1))
def test_a_weight_counts_as_that_many_rows(rows):
    values = np.array([np.nan if v is None else v for v, _ in rows])
    weight = np.array([w for _, w in rows])
    if not weight.sum():
        weight[:] = 1
    repeated = np.repeat(values, weight)
    one, other = learned(values, weight), learned(repeated)
    if np.isnan(values).any() and not np.isnan(repeated).any():
        return  # a missing value of no weight still has to be encoded
    assert one.median == other.median
    assert one.centre == pytest.approx(other.centre, rel=1e-9, abs=1e-9)
    assert one.scale == pytest.approx(other.scale, rel=1e-6)


def test_text_is_one_hot_and_rare_or_unseen_values_share_a_column():
    values = np.array(["a"] * 5 + ["b"] * 4 + ["c", None], dtype=object)
    encoding = learned(values)
    assert encoding == Category(("a", "b"), pooled=True, missing_seen=True)
    block = encoding.encode(np.array(["a", "b", "c", "new", None], dtype=object))
    assert block.tolist() == [
        [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 1],
    ]  # fmt: skip


def test_an_unseen_value_sets_no_column_where_none_was_rare():
    encoding = learned(np.array(["a", "a", "b", "b"], dtype=object))
    assert encoding.encode(np.array(["new"], dtype=object)).tolist() == [[0, 0]]


def test_a_category_has_a_bounded_number_of_columns():
    encoding = learned(np.array([f"v{i % 500}" for i in range(50_000)], dtype=object))
    assert encoding.width == 101


COLUMNS = {
    "pandas text": pd.Series(["a", "a", None, "b", "b"]).array,
    "pandas category": pd.Series(["a", "a", None, "b", "b"], dtype="category").array,
    "polars text": pl.Series(["a", "a", None, "b", "b"]),
    "polars category": pl.Series(["a", "a", None, "b", "b"], dtype=pl.Categorical),
    "numpy objects": np.array(["a", "a", None, "b", "b"], dtype=object),
    "objects with nan": np.array(["a", "a", np.nan, "b", "b"], dtype=object),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_text_is_encoded_alike_from_every_container(kind):
    encoding = learned(COLUMNS[kind])
    assert encoding == Category(("a", "b"), pooled=False, missing_seen=True)
    block = encoding.encode(read(encoding, COLUMNS[kind]))
    assert block.argmax(axis=1).tolist() == [0, 0, 2, 1, 1]


NUMBERS = {
    "floats": np.array([1.0, np.nan, 2.0]),
    "objects": np.array([1, None, 2], dtype=object),
    "pandas Int64": pd.array([1, None, 2], dtype="Int64"),
    "pandas Float64": pd.array([1, None, 2], dtype="Float64"),
    "pandas arrow": pd.array([1, None, 2], dtype="int64[pyarrow]"),
    "polars": pl.Series([1, None, 2]),
}


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_are_read_alike_from_every_container(kind):
    assert np.array_equal(plain(NUMBERS[kind]), [1, np.nan, 2], equal_nan=True)
    assert isinstance(learned(NUMBERS[kind]), Number)


@pytest.mark.parametrize(
    "column",
    [np.array([True, False]), pd.array([True, False], dtype="boolean"), pl.Series([True, False])],
)
def test_booleans_are_numbers(column):
    assert plain(column).astype(float).tolist() == [1, 0]
    assert isinstance(learned(column), Number)


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([1, 2, 2, 1], dtype="category").array,
        pl.Series(["1", "2", "2", "1"], dtype=pl.Enum(["1", "2"])),
    ],
)
def test_a_declared_category_stays_one(column):
    encoding = learned(column)
    assert isinstance(encoding, Category)
    assert encoding.encode(read(encoding, column)).argmax(axis=1).tolist() == [0, 1, 1, 0]


def test_missing_numeric_categories_have_a_column_of_their_own():
    column = pd.Series([1, 2, None, 2, 1], dtype="category").array
    encoding = learned(column)
    assert encoding.encode(read(encoding, column)).argmax(axis=1).tolist() == [0, 1, 2, 1, 0]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (np.array(["a", 1], dtype=object), "only numbers or only text; row 1 is 1"),
        (np.array([1, {"a": 1}], dtype=object), "row 0 is 1"),
        (np.array(["2020-01-01"], dtype="M8[D]"), "holds datetime64"),
    ],
)
def test_columns_that_are_neither_numbers_nor_text_are_refused(column, message):
    with pytest.raises(ValuesError, match=message):
        learned(column)


def test_text_where_training_had_numbers_is_a_number_or_infinity():
    """The cascade refuses infinity with row and column, or its guard rejects the row."""
    words = np.array([None, "n/a", "1.5", "old"], dtype=object)
    values = read(learned(np.array([1.0, 2.0])), words)
    assert np.array_equal(values, [np.nan, np.nan, 1.5, np.inf], equal_nan=True)


@pytest.mark.parametrize(
    ("training", "fresh"),
    [
        (np.array([1.0, np.nan, 5.0, 2.0]), np.array([np.nan, 3.0, -1e9])),
        (np.array([1.0, 4.0, 5.0, 2.0]), np.array([0.0, 3.0, -1e9])),
        (np.array([1e9, 1e9 + 1e-6, 1e9]), np.array([1e9, 1e9 + 1e-6])),
        (
            np.array(["a", "b", "a", "b", None, "c"], dtype=object),
            np.array(["c", "?", None, "a"], dtype=object),
        ),
    ],
)
def test_a_term_adds_what_the_block_times_the_weights_gives(training, fresh):
    encoding = learned(training)
    weights = np.random.default_rng(0).normal(size=(3, encoding.width))
    expected = weights @ encoding.encode(fresh).T
    assert np.allclose(encoding.term(weights)(fresh), expected, rtol=1e-12, atol=1e-12)


def test_whole_numbers_are_values_and_codes_are_marked_by_their_type():
    """A column of numeric categories may come as integers: 2 is a level, not the third place."""
    category = Category((1, 2), pooled=False, missing_seen=False)
    assert category.codes(np.array([2, 1, 7])).tolist() == [1, 0, 2]
    codes = np.array([0, 1, 2]).view(Codes)
    assert category.codes(codes) is codes
    assert isinstance(codes[np.array([2, 0])], Codes)
    assert category.term(np.array([[0.5, -0.5]]))(codes).tolist() == [[0.5, -0.5, 0.0]]
