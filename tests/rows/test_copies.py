"""Copies: isolated rows that are equal, among few coarse columns or many fine ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emsco.rows.fitted_rows import find_isolated
from emsco.rows.row_hashes import HashableColumn, hash_parts, hash_rows

tables = st.integers(1, 5).flatmap(
    lambda width: st.lists(
        st.lists(st.integers(0, 3), min_size=width, max_size=width), min_size=1, max_size=20
    )
)


def isolated(X):
    values = {f"c{i}": HashableColumn.read(np.asarray(column)) for i, column in enumerate(X.T)}
    rows = hash_rows(values, tuple(values), {}, b"salt", resolutions=1)[0]
    return find_isolated(rows, hash_parts(values, tuple(values), b"salt"))


@given(tables)
def test_isolated_is_what_its_definition_says(table):
    X = np.array(table, dtype=float)
    differ = (X[:, None, :] != X[None, :, :]).sum(axis=2)
    assert isolated(X).tolist() == (~(differ == 1).any(axis=1)).tolist()


@pytest.mark.parametrize("width", [64, 65, 130, 200])
def test_many_columns_are_compared_in_groups(width):
    X = np.random.default_rng(0).normal(size=(50, width))
    X[1] = X[0]
    X[1, width // 2] += 1  # a neighbour
    X[3] = X[2]  # a copy
    assert isolated(X).tolist() == [False, False, *[True] * 48]


def test_the_parts_of_a_row_add_up_to_its_hash():
    X = np.random.default_rng(0).normal(size=(10, 150))
    values = {f"c{i}": HashableColumn.read(column) for i, column in enumerate(X.T)}
    parts = list(hash_parts(values, tuple(values), b"salt"))
    assert len(parts) == 64
    whole = hash_rows(values, tuple(values), {}, b"salt", resolutions=1)[0]
    assert (np.sum(parts, axis=0, dtype=np.uint64) == whole).all()
