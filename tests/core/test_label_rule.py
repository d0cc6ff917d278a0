"""How probabilities become labels: with equal weights, with others, and what cannot be a weight."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emsco.core.label_rule import EQUAL, LabelRule, by_class, rule_for
from emsco.exceptions import ClassesError

CLASSES = ["a", "b", "c"]


@st.composite
def probabilities(draw, n_classes):
    rows = draw(st.integers(1, 5))
    raw = draw(st.lists(st.floats(0.01, 1), min_size=n_classes * rows, max_size=n_classes * rows))
    matrix = np.array(raw).reshape(n_classes, rows)
    return list(matrix / matrix.sum(axis=0))


@given(st.integers(2, 4).flatmap(probabilities))
def test_equal_weights_take_the_most_probable_class(probability):
    winner, confidence, share = EQUAL.judge(probability)
    stacked = np.array(probability)
    assert (winner == stacked.argmax(axis=0)).all()
    assert (confidence == stacked.max(axis=0)).all()
    assert share is confidence


@given(st.integers(2, 4).flatmap(probabilities), st.lists(st.floats(0.1, 50), min_size=4))
def test_the_label_has_the_least_expected_price_of_an_error(probability, weights):
    weights = weights[: len(probability)]
    winner, confidence, share = LabelRule.of(weights).judge(probability)
    stacked = np.array(probability)
    for row in range(stacked.shape[1]):
        risks = [w * p for w, p in zip(weights, stacked[:, row], strict=True)]
        whole = sum(risks)
        prices = [whole - risk for risk in risks]  # of each label: what it costs if it is wrong
        assert prices[int(winner[row])] == pytest.approx(min(prices))
        assert confidence[row] == stacked[int(winner[row]), row]
        assert share[row] == pytest.approx(1 - min(prices) / whole)


def test_a_row_is_judged_alike_in_any_company():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), size=(4, 50))  # sets x rows x classes
    rule = LabelRule.of([1, 7, 3])
    together = rule.judge(list(np.moveaxis(p, 2, 0)))
    for one in range(4):
        for row in range(50):
            alone = rule.judge([np.array([value]) for value in p[one, row]])
            assert [float(v[0]) for v in alone] == [float(v[one, row]) for v in together]


def test_a_certain_answer_is_never_reweighted():
    certain = list(np.eye(3))
    winner, confidence, share = LabelRule.of([1, 1000, 3]).judge(certain)
    assert winner.tolist() == [0, 1, 2]
    assert confidence.tolist() == share.tolist() == [1, 1, 1]


def test_weights_of_any_scale_are_one_rule():
    assert LabelRule.of([2, 6, 4]) == LabelRule.of([1, 3, 2]) == LabelRule((1.0, 3.0, 2.0))
    assert LabelRule.of([5, 5]) == EQUAL
    assert rule_for({"a": 3, "b": 3, "c": 3}, CLASSES, [0.5, 0.3, 0.2]) == EQUAL
    assert rule_for(None, CLASSES, [0.5, 0.3, 0.2]) == EQUAL
    assert rule_for("balanced", CLASSES, [0.5, 0.25, 0.25]).weights == (1, 2, 2)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("even", "must be a mapping of label to weight, or 'balanced'; got 'even'"),
        ({"a": 1, "b": 2}, "must name every class, and does not name 'c'"),
        ({"a": 1, "b": 2, "c": 0}, "of 'c' must be a number above 0, got 0"),
        ({"a": 1, "b": 2, "c": float("inf")}, "above 0, got inf"),
        ({"a": 1, "b": 2, "c": True}, "above 0, got True"),
        ({"a": 1, "b": 2, "c": 1, "cc": 1}, "names 'cc', which is not a class; did you mean 'c'"),
    ],
)
def test_what_cannot_be_a_weight_is_refused(weights, message):
    with pytest.raises(ClassesError, match=message):
        rule_for(weights, CLASSES, [0.5, 0.3, 0.2])


def test_a_file_names_numbers_by_their_text():
    assert by_class({"0": 1, "1": 50}, [0, 1], "`errors`") == {0: 1.0, 1: 50.0}
