"""Columns of what sources gave: read as the table would be, and nothing of another type."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emsco.live.typed_columns import to_column
from emsco.rows.column_reader import BOOLEAN, NUMBER, TEXT, ColumnReader
from emsco.rows.value_types import to_number

AGE = ColumnReader(NUMBER, missing_seen=True)
WORD = ColumnReader(TEXT, missing_seen=True)
SPELLED = st.one_of(
    st.sampled_from([b"", b"nan", b"NA", b"inf", b"1_0", b" 1 ", b"1\0", b"0x10", b"true", b"\xff",
                     b"1e999", b"+.5", b"5.", "\u0661".encode()]),
    st.floats().map(lambda x: repr(x).encode()),
    st.integers().map(lambda x: str(x).encode()),
    st.binary(max_size=4),
    st.none(),
)  # fmt: skip


@given(st.lists(SPELLED, min_size=1, max_size=5))
def test_spelled_numbers_are_read_as_those_of_a_table(values):
    """Whatever way is taken: the quick one for usual values, or value by value."""
    column, others = to_column(values, AGE, spelled=True)
    assert not others
    texts = [v if v is None else v.decode("utf-8", "surrogateescape") for v in values]
    expected = np.array([to_number(text) for text in texts])
    np.testing.assert_array_equal(AGE.read(column), expected)


@given(
    st.lists(
        st.one_of(st.floats(), st.integers(), st.none(), st.decimals(allow_nan=False)),
        max_size=5,
    )
)
def test_numbers_are_read_as_those_of_a_table(values):
    """Whole numbers too large for a float are no numbers that can be judged."""
    column, others = to_column(values, AGE)
    assert not others
    expected = np.array([to_number(value) for value in values], dtype=float)
    np.testing.assert_array_equal(AGE.read(column), expected)


@pytest.mark.parametrize(
    ("reader", "values", "others"),
    [
        (AGE, [1.0, "2.0", None], [1]),
        (AGE, [b"1", 2.0], [0]),
        (ColumnReader(BOOLEAN, missing_seen=False), [True, "true"], [1]),
        (WORD, ["a", 1, None, True], [1, 3]),
        (WORD, ["a", Decimal(1)], [1]),
        (WORD, [b"a", "b"], []),
        (None, [1, "a"], []),
    ],
)
def test_another_type_than_training_had_is_noted(reader, values, others):
    """Text where numbers were, and numbers where text was."""
    assert to_column(values, reader)[1] == others
