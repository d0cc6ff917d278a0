"""Evaluations are counts, by true class too, and rates derived from them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emsco import Decisions, Evaluation, Review, evaluate
from emsco.core.validation import weights_of
from emsco.exceptions import DecisionsError

TRUTH = ["sick", "sick", "well", "well", "well"]
DECISIONS = Decisions(
    label=["well", "sick", "well", "well", "sick"],
    accepted=[True, True, True, False, True],
    exit_stage=[0, 1, 0, 1, 0],
    confidence=[0.9] * 5,
    cost=[1.0, 3.0, 1.0, 3.0, 1.0],
    latency=[0.0, 2.0, 0.0, 2.0, 0.0],
)


def test_counts_and_rates():
    evaluation = evaluate(DECISIONS, TRUTH)
    assert (evaluation.rows, evaluation.accepted, evaluation.right) == (5, 4, 2)
    assert evaluation.accuracy == 0.5
    assert evaluation.coverage == 0.8
    assert evaluation.cost == pytest.approx(9 / 5)
    assert evaluation.missed == {"sick": 0.5, "well": pytest.approx(1 / 3)}
    assert evaluation.recall == {"sick": 0.5, "well": 0.5}
    assert evaluation.latency == pytest.approx(4 / 5)
    assert evaluation.worst_latency == 2


def test_nothing_accepted_has_accuracy_zero():
    evaluation = evaluate(DECISIONS[[3]], ["well"])
    assert (evaluation.accuracy, evaluation.coverage) == (0, 0)
    assert evaluation.missed == {"well": 0}


rows = st.lists(
    st.tuples(
        st.sampled_from("ab"), st.sampled_from("ab"), st.booleans(), st.integers(0, 3),
        st.integers(0, 100),
    ),
    min_size=1,
    max_size=30,
)  # fmt: skip


@given(rows)
def test_a_weight_counts_as_that_many_rows(rows):
    truth, label, accepted, weight, cost = (list(column) for column in zip(*rows, strict=True))
    weighted = Decisions(label, accepted, [0] * len(rows), [0.9] * len(rows), cost)
    if not sum(weight):
        weight[0] = 1
    repeated = np.repeat(np.arange(len(rows)), weight)
    by_weight = evaluate(weighted, truth, sample_weight=weight)
    by_rows = evaluate(weighted[repeated], np.array(truth)[repeated])
    assert by_weight.rows == by_rows.rows
    for rate in ("accuracy", "coverage", "cost"):
        assert getattr(by_weight, rate) == pytest.approx(getattr(by_rows, rate))
    for label_, missed in by_rows.missed.items():
        assert by_weight.missed[label_] == pytest.approx(missed)


def test_loss_adds_review_and_errors():
    evaluation = evaluate(DECISIONS, TRUTH)
    free_errors = evaluation.loss(review=Review(10))
    assert free_errors == pytest.approx(9 / 5 + 10 / 5)
    assert evaluation.loss(review=Review(10), error_cost=100) == pytest.approx((9 + 10 + 200) / 5)
    by_class = evaluation.loss(review=Review(10, accuracy=0.5), error_cost={"well": 100})
    assert by_class == pytest.approx((9 + 10 + 100 + 0.5 * 100) / 5)


def test_a_reject_is_not_free():
    with pytest.raises(DecisionsError, match=r"give the costs a Review\(cost\)"):
        evaluate(DECISIONS, TRUTH).loss(error_cost=1)
    assert evaluate(DECISIONS[:3], TRUTH[:3]).loss(error_cost=3) == pytest.approx((5 + 3) / 3)


def test_an_unknown_class_has_no_price():
    with pytest.raises(DecisionsError, match="'sik' is not a class; did you mean 'sick'"):
        evaluate(DECISIONS, TRUTH).loss(review=Review(1), error_cost={"sik": 1})


@pytest.mark.parametrize(
    "counts",
    [
        {"rows": 1, "accepted": 2, "right": 0, "paid": 0},
        {"rows": 2, "accepted": 1, "right": 2, "paid": 0},
        {"rows": 2, "accepted": 1, "right": 1, "paid": -1},
        {"rows": 2, "accepted": 0, "right": 0, "paid": 1, "class_rows": {"a": 1}},
        {
            "rows": 1, "accepted": 0, "right": 0, "paid": 1,
            "class_rows": {"a": 1}, "class_accepted": {"b": 0}, "class_right": {"a": 0},
        },
    ],
)  # fmt: skip
def test_wrong_counts_cannot_be_built(counts):
    with pytest.raises(DecisionsError):
        Evaluation(**counts)


def test_figures_by_class_are_computed_once():
    evaluation = evaluate(
        Decisions(["a", "b"], [True] * 2, [0] * 2, [0.9] * 2, [1.0] * 2), ["a", "a"]
    )
    for name in ("missed", "rejected", "precision", "recall"):
        assert getattr(evaluation, name) is getattr(evaluation, name)


def test_rows_are_weighted_so_that_classes_have_the_shares_of_a_population():
    assert weights_of({"fraud": 0.1}, {"fraud": 50, "fair": 50}) == {"fraud": 0.2, "fair": 1.8}


def test_labels_and_weights_must_fit_the_decisions():
    with pytest.raises(DecisionsError, match="5 labels"):
        evaluate(DECISIONS, TRUTH[:2])
    with pytest.raises(DecisionsError, match="one number >= 0"):
        evaluate(DECISIONS, TRUTH, sample_weight=[1, 1, 1, 1, -1])


def test_printed_it_is_a_line_for_all_rows_and_an_aligned_one_for_each_class():
    decisions = Decisions(
        ["sick", "well", "well"], [True, True, False], [0, 0, 1], [0.9, 0.9, 0.6], [1.0, 1.0, 3.0]
    )
    summary, *lines = str(evaluate(decisions, ["sick", "sick", "well"])).splitlines()
    assert summary == "50.0% right of the 66.7% accepted, for 1.667 per row"
    assert lines == [
        "  of 'sick'   0.0% rejected,  50.0% missed, recall when accepted  50.0%, precision 100.0%",
        "  of 'well' 100.0% rejected,   0.0% missed, precision   0.0%",
    ]


def test_within_a_sentence_it_takes_one_line():
    evaluation = Evaluation(4, 4, 3, 8, {"a": 4}, {"a": 4}, {"a": 3})
    assert evaluation.in_one_line == (
        "75.0% right of the 100.0% accepted, for 2 per row; "
        "of 'a' 0.0% rejected, 25.0% missed, recall when accepted 75.0%"
    )
