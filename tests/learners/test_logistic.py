"""A linear stage gives each row the same bits whatever rows it came with."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emsco import CascadeClassifier, StageDesign

text = st.sampled_from(["a", "b", "c", None])
number = st.floats(-1e6, 1e6) | st.just(float("nan"))
rows = st.lists(st.tuples(number, st.floats(-10, 10), text, st.booleans()), min_size=8, max_size=40)


def table_of(rows):
    table = np.empty((len(rows), 4), dtype=object)
    for i, row in enumerate(rows):
        table[i] = row
    return table


def fitted_on(table, n_classes):
    labels = np.arange(len(table)) % n_classes
    # Both kinds of missing values are known from training.
    table = np.vstack([table, table_of([(float("nan"), 0.0, None, True)] * n_classes)])
    labels = np.concatenate([labels, np.arange(n_classes)])
    cascade = CascadeClassifier(design=StageDesign([2, 0, 1, 1]), threshold=0.6)
    return cascade.fit(table, labels)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_batch_equals_row_by_row_equals_a_permuted_batch(n_classes):
    """To the last bit: live answers must be those that were evaluated."""

    @given(rows, st.randoms())
    def law(rows, random):
        table = table_of(rows)
        cascade = fitted_on(table, n_classes)
        batch = list(cascade.decide(table))
        assert [cascade.decide(table[i : i + 1])[0] for i in range(len(table))] == batch
        order = list(range(len(table)))
        random.shuffle(order)
        assert list(cascade.decide(table[order])) == [batch[i] for i in order]

    law()


@given(st.integers(1, 400), st.integers(0, 2**32 - 1))
def test_any_number_of_plain_rows_gives_the_same_bits(n_rows, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(scale=rng.choice([1, 1e3, 1e-3]), size=(n_rows, PLAIN.n_features_in_))
    whole = PLAIN.predict_proba(X)
    some = rng.integers(n_rows, size=3)
    assert np.array_equal(PLAIN.predict_proba(X[some]), whole[some])
    assert np.array_equal(PLAIN.predict_proba(X[some[:1]]), whole[some[:1]])


def _plain():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 9))
    return CascadeClassifier(design=StageDesign(np.arange(9) % 3)).fit(
        X, (X.sum(axis=1) + rng.normal(size=200) > 0).astype(int)
    )


PLAIN = _plain()


def test_extreme_scores_are_sure_and_warn_of_nothing():
    probability = PLAIN.predict_proba(np.full((2, 9), 1e6) * [[1], [-1]])
    assert probability.max(axis=1).tolist() == [1, 1]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_values_near_the_largest_float_are_judged_alike_and_warn_of_nothing(n_classes):
    """A score may overflow; where infinities cancel, no class is surer than another."""
    rng = np.random.default_rng(0)
    labels = np.arange(300) % n_classes
    X = np.column_stack([labels, labels]) + rng.normal(scale=0.3, size=(300, 2))
    cascade = CascadeClassifier().fit(X, labels)
    largest = np.finfo(np.float64).max
    rows = np.array([[largest, largest], [largest, -largest], [-largest, largest], [0.0, 0.0]])
    decisions = cascade.decide(rows)
    assert [cascade.decide(rows[i : i + 1])[0] for i in range(4)] == list(decisions)
    assert decisions.accepted[0]
    assert decisions.confidence[0] == 1
    assert decisions.confidence[1] == pytest.approx(1 / n_classes)
    assert not decisions.accepted[1:3].any()


def test_a_start_that_is_the_optimum_already_warns_of_nothing():
    """Columns that say nothing: scikit-learn's Newton solver may find no better step."""
    X = np.zeros((9, 2))
    X[5] = 1.0
    for n_classes in (2, 3):
        cascade = CascadeClassifier().fit(X, np.arange(9) % n_classes)
        assert np.allclose(cascade.predict_proba(X).sum(axis=1), 1)
