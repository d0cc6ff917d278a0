"""The loop asks only for rows still undecided, closes them once, and checks what it is told."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from emsco import StageDesign, evaluate
from emsco.cascade.decision_loop import (
    Answer,
    Leaving,
    Plan,
    Stage,
    decide_block,
    decide_rows,
    drive,
)
from emsco.exceptions import DecisionsError

LABELS = np.array(["no", "yes"])


def plan_of(n_stages, thresholds, prices=None, **more):
    """Make a cascade whose stage i reads the probability of "yes" from column i."""
    prices = np.ones(n_stages) if prices is None else prices
    return Plan(
        tuple(
            Stage(
                sources=(f"s{i}",),
                features=(f"s{i}",),
                judge=lambda columns, i=i: (1 - columns[f"s{i}"], columns[f"s{i}"]),
                threshold=np.atleast_1d(thresholds[i]),
                cost=float(np.sum(prices[: i + 1])),
            )
            for i in range(n_stages)
        ),
        LABELS,
        **more,
    )


def columns_of(table):
    return {f"s{i}": column for i, column in enumerate(np.asarray(table).T)}


tables = arrays(
    float,
    st.tuples(st.integers(1, 12), st.integers(1, 4)),
    elements=st.integers(0, 20).map(lambda i: i / 20),
)
thresholds = st.integers(11, 20).map(lambda i: i / 20)


@given(tables, thresholds)
def test_accepted_exactly_when_the_largest_stage_confidence_reaches_the_threshold(table, threshold):
    decisions = decide_block(plan_of(table.shape[1], [threshold] * 4), columns_of(table))
    confidence = np.maximum(table, 1 - table)
    assert np.array_equal(decisions.accepted, confidence.max(axis=1) >= threshold)
    first = np.where(
        decisions.accepted, (confidence >= threshold).argmax(axis=1), table.shape[1] - 1
    )
    assert np.array_equal(decisions.exit_stage, first)
    exit_probability = np.take_along_axis(table, first[:, None], axis=1)[:, 0]
    assert np.array_equal(decisions.label, np.where(exit_probability > 0.5, "yes", "no"))


@given(tables, thresholds, thresholds)
def test_accepted_sets_are_nested_as_the_threshold_rises(table, one, other):
    """Coverage never rises and cost never falls; accuracy may do either."""
    low, high = sorted([one, other])
    loose, strict = (
        decide_block(plan_of(table.shape[1], [threshold] * 4), columns_of(table))
        for threshold in (low, high)
    )
    assert not (strict.accepted & ~loose.accepted).any()
    assert (strict.cost >= loose.cost).all()
    assert (strict.exit_stage >= loose.exit_stage).all()


def test_accuracy_may_fall_as_the_threshold_rises():
    """A row that waits for a later stage may get another label there."""
    table, truth = [[0.8, 0.1], [0.95, 0.95]], ["yes", "yes"]
    accuracies = [
        evaluate(decide_block(plan_of(2, [t, t]), columns_of(table)), truth).accuracy
        for t in (0.75, 0.85)
    ]
    assert accuracies == [1.0, 0.5]


prices = st.lists(st.integers(0, 1000), min_size=4, max_size=4).map(np.array)


@given(tables, thresholds, prices)
def test_mean_cost_lies_between_the_first_stage_and_all_of_them(table, threshold, prices):
    n_stages = table.shape[1]
    decisions = decide_block(plan_of(n_stages, [threshold] * 4, prices), columns_of(table))
    assert prices[0] <= decisions.cost.mean() <= prices[:n_stages].sum()


@given(tables, thresholds, prices, prices, st.integers(0, 9))
def test_cost_is_linear_in_the_prices(table, threshold, one, other, factor):
    def paid(prices):
        plan = plan_of(table.shape[1], [threshold] * 4, prices)
        return decide_block(plan, columns_of(table)).cost.sum()

    assert paid(factor * one + other) == factor * paid(one) + paid(other)


@given(tables, thresholds, st.randoms())
def test_a_batch_equals_row_by_row_equals_a_permuted_batch(table, threshold, random):
    plan = plan_of(table.shape[1], [threshold] * 4)
    batch = decide_block(plan, columns_of(table))
    alone = [decide_block(plan, columns_of(row[None]))[0] for row in table]
    assert list(batch) == alone
    order = list(range(len(table)))
    random.shuffle(order)
    assert list(decide_block(plan, columns_of(table[order]))) == [alone[i] for i in order]


@given(tables, thresholds)
def test_later_stages_are_asked_only_for_rows_still_undecided(table, threshold):
    """A counting source sees what a live one would be asked for: nothing that is not needed."""
    asked: list[list[int]] = []

    def answer(ask):
        assert ask.stage == len(asked)
        asked.append(ask.rows.tolist())
        return Answer([table[ask.rows, ask.stage]])

    decisions = drive(decide_rows(plan_of(table.shape[1], [threshold] * 4), len(table)), answer)
    confidence = np.maximum(table, 1 - table)
    for stage, rows in enumerate(asked):
        undecided = (confidence[:, :stage] < threshold).all(axis=1)
        assert rows == np.flatnonzero(undecided).tolist()
        assert rows, "a stage that nobody needs is not asked at all"
    assert sum(len(rows) for rows in asked) == (decisions.exit_stage + 1).sum()


def test_thresholds_by_class_and_by_stage():
    plan = plan_of(2, [np.array([0.9, 0.6]), np.array([0.7, 0.7])])
    decisions = decide_block(plan, columns_of([[0.65, 0.5], [0.2, 0.2], [0.05, 0.5]]))
    assert decisions.exit_stage.tolist() == [0, 1, 0]
    assert decisions.accepted.tolist() == [True, True, True]


def test_several_classes_take_the_first_of_equals():
    stage = Stage(
        ("a",), ("a",), lambda c: (c["a"], c["a"], 1 - 2 * c["a"]), np.array([0.4]), cost=1.0
    )
    plan = Plan((stage,), np.array(["x", "y", "z"]))
    decisions = decide_block(plan, {"a": np.array([0.4, 0.1])})
    assert decisions.label.tolist() == ["x", "z"]


def test_a_row_that_cannot_be_judged_is_rejected_for_its_reason():
    """Its label is what the last stage that judged it said, or the default where none did."""
    table = np.array([[0.6, 0.9], [0.6, 0.9], [0.95, 0.9]])

    def answer(ask):
        reasons = np.full(len(ask.rows), "", dtype=object)
        if ask.stage == 1:
            reasons[ask.rows == 0] = "timeout"
        return Answer([table[ask.rows, ask.stage]], reasons)

    decisions = drive(decide_rows(plan_of(2, [0.75, 0.75]), 3), answer)
    assert decisions.reason.tolist() == ["timeout", "", ""]
    assert decisions.accepted.tolist() == [False, True, True]
    assert decisions.label.tolist() == ["yes", "yes", "yes"]
    assert decisions.exit_stage.tolist() == [1, 1, 0]

    def refuse(ask):
        return Answer([table[ask.rows, 0]], np.full(len(ask.rows), "out of range", dtype=object))

    decisions = drive(decide_rows(plan_of(2, [0.75, 0.75], default=1), 3), refuse)
    assert decisions.reason.tolist() == ["out of range"] * 3
    assert decisions.label.tolist() == ["yes"] * 3
    assert decisions.confidence.tolist() == [0, 0, 0]
    assert decisions.cost.tolist() == [1, 1, 1]


def test_a_row_that_is_never_sure_keeps_low_confidence_beside_other_reasons():
    def answer(ask):
        reasons = np.array(["" if row else "timeout" for row in ask.rows], dtype=object)
        return Answer([np.full(len(ask.rows), 0.6)], reasons)

    decisions = drive(decide_rows(plan_of(2, [0.75, 0.75]), 2), answer)
    assert decisions.reason.tolist() == ["timeout", "low confidence"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([np.zeros(2)], "answered 2 values of 's0' for 3 rows"),
        ([], r"answered 0 columns for \('s0',\)"),
    ],
)
def test_a_short_answer_is_refused_and_never_shifts_rows(columns, message):
    with pytest.raises(DecisionsError, match=message):
        drive(decide_rows(plan_of(1, [0.75]), 3), lambda _: Answer(columns))


def test_no_rows_ask_for_nothing():
    assert len(drive(decide_rows(plan_of(1, [0.75]), 0), lambda _: pytest.fail("asked"))) == 0


def plan_along(stages):
    """Make a cascade whose stages judge by the mean of every column acquired so far."""

    def judge(columns):
        yes = np.mean([columns[name] for name in sorted(columns)], axis=0)
        return 1 - yes, yes

    bought = np.cumsum([len(stage) for stage in stages])
    return Plan(
        tuple(
            Stage(tuple(stage), tuple(stage), judge, np.array([0.75]), cost=float(paid))
            for stage, paid in zip(stages, bought, strict=True)
        ),
        LABELS,
    )


@given(st.lists(st.integers(-1, 6), min_size=4, max_size=4).filter(lambda a: max(a) >= 0), tables)
def test_compressing_an_assignment_changes_no_evaluation(assignment, table):
    columns = {f"s{i}": np.resize(table, (len(table), 4))[:, i] for i in range(4)}
    raw = [[f"s{i}" for i in range(4) if assignment[i] == s] for s in range(7)]
    design = StageDesign(assignment, [f"s{i}" for i in range(4)])
    by_gaps = decide_block(plan_along([stage for stage in raw if stage]), columns)
    compressed = decide_block(plan_along(design.stages), columns)
    truth = np.where(np.arange(len(table)) % 2, "yes", "no")
    assert evaluate(by_gaps, truth) == evaluate(compressed, truth)


@given(tables, thresholds, st.randoms())
def test_rows_that_are_held_back_leave_at_the_last_stage_and_others_as_always(
    table, threshold, random
):
    n_rows, n_stages = table.shape
    plan, columns = plan_of(n_stages, [threshold] * 4), columns_of(table)
    expected = decide_block(plan, columns)
    held_back, told = np.zeros(n_rows, dtype=bool), {}
    loop = decide_rows(plan, n_rows, held_back=held_back)
    sent = None
    while True:
        try:
            asked = loop.send(sent)
        except StopIteration as end:
            decisions = end.value
            break
        if isinstance(asked, Leaving):
            may_leave = np.array([random.random() < 0.5 for _ in asked.rows])
            for row, winner, leaves in zip(asked.rows, asked.winner, may_leave, strict=True):
                assert row not in told  # each row is admitted once
                told[int(row)] = bool(leaves)
                assert LABELS[int(winner)] == expected.label[row]
                assert asked.stage == expected.exit_stage[row]
            sent = may_leave
        else:
            sent = Answer([columns[name][asked.rows] for name in asked.features])
    early = expected.accepted & (expected.exit_stage < n_stages - 1)
    assert set(told) == set(np.flatnonzero(early).tolist())
    assert held_back.tolist() == [not told.get(row, True) for row in range(n_rows)]
    last = decide_block(plan_of(n_stages, [2.0] * (n_stages - 1) + [threshold] * 4), columns)
    for name in ("label", "accepted", "exit_stage", "confidence", "cost"):
        values = np.where(held_back, getattr(last, name), getattr(expected, name))
        assert getattr(decisions, name).tolist() == values.tolist()
