"""Near-copies: small groups of close rows with one label, and clusters that are natural."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from emsco.rows.near_copies import FALSE_ALARM, Cliff, find_cliff
from emsco.rows.row_hashes import HashableColumn


def cliff_of(X, y):
    columns = {
        f"c{i}": HashableColumn.read(column) for i, column in enumerate(np.asarray(X, object).T)
    }
    return find_cliff(columns, np.asarray(y), np.arange(len(y)))


def groups(seed, n_groups=200, noise=0.05, width=5):
    rng = np.random.default_rng(seed)
    rows = np.repeat(np.arange(n_groups), 3)
    X = rng.normal(size=(n_groups, width))[rows]
    return X + noise * rng.normal(size=X.shape), rng.integers(2, size=n_groups)[rows]


def test_rows_of_one_patient_are_noticed():
    cliff = cliff_of(*groups(0))
    assert cliff.is_clear
    assert cliff.rows == 600
    assert cliff.outside > 100
    assert cliff.inside < 5


def test_rows_of_one_customer_are_noticed_by_equal_values_and_words():
    rng = np.random.default_rng(1)
    rows = np.repeat(np.arange(150), 3)
    own = np.column_stack([rng.normal(size=150).round(3), rng.choice(list("abcdefgh"), 150)])
    town = np.array([f"town {i}" for i in rng.integers(60, size=150)], dtype=object)
    X = np.column_stack([own[rows], town[rows], rng.poisson(3, 450), rng.normal(size=450)])
    assert cliff_of(X, rng.integers(2, size=150)[rows]).is_clear


@pytest.mark.parametrize("seed", range(5))
def test_labels_that_differ_within_a_group_are_no_near_copies(seed):
    X, _ = groups(seed)
    assert not cliff_of(X, np.random.default_rng(seed).integers(2, size=len(X))).is_clear


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("noise", [0.0, 0.5, 3.0])
def test_independent_rows_are_not_taken_for_copies(seed, noise):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(600, 6))
    y = X[:, 0] + X[:, 1] * X[:, 2] + noise * rng.normal(size=600) > 0
    assert not cliff_of(X, y).is_clear
    assert not cliff_of(X.round(), y).is_clear


def test_missing_values_are_values_of_their_own():
    X, y = groups(2)
    X[y == 1, 3] = np.nan
    assert cliff_of(X, y).rows == 600


def test_few_rows_say_nothing():
    X, y = groups(0)
    assert cliff_of(X[:79], y[:79]) is None


def test_the_alarm_is_the_binomial_test_that_it_says():
    for changes in (30, 60, 200):
        most = max(k for k in range(changes) if binom.cdf(k, changes, 0.2) <= FALSE_ALARM)
        assert Cliff(changes, changes, most, changes - most).is_clear
        assert not Cliff(changes, changes, most + 1, changes - most - 1).is_clear
    assert not Cliff(1000, 40, 0, 40).is_clear  # of too few rows to matter
