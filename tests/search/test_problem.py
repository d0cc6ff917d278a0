"""Designs are evaluated by bit arithmetic, exactly as row by row."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from problems import AnyFits, evaluate_plainly, every_design, keeps_to_limits, problem_of

from emsco import Costs, Source, StageDesign
from emsco.search._outcome_table import OutcomeTable, keys_of, pack

TURNEY = Costs(
    [
        Source("age", cost=1, latency=1),
        Source("chol", cost=5.17, setup="blood", latency=2),
        Source("fbs", cost=3.10, setup="blood", latency=5),
        Source("ratio", cost=0, requires=["chol", "fbs"]),
    ],
    setups={"blood": 2.10},
)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("n_rows", [1, 63, 64, 130])
def test_counts_are_those_of_row_by_row(n_rows, n_classes):
    problem = problem_of(3, n_rows, thresholds=(0.6, 0.8), n_classes=n_classes)
    designs = every_design(problem)
    for threshold in range(2):
        counts = problem.evaluate(np.array([d.assignment for d in designs]), threshold)
        for i, design in enumerate(designs):
            expected = evaluate_plainly(problem, design, threshold)
            assert (counts.accepted[i], counts.right[i], counts.paid[i]) == expected[:3]
        assert counts.feasible.all()


def test_prices_are_whole_units_with_setups_once():
    problem = problem_of(costs=TURNEY, max_stages=4)
    assert problem.scale == 100
    assert problem.total == 1137
    for design in every_design(problem):
        counts = problem.evaluate(design.assignment[None])
        assert counts.paid[0] == evaluate_plainly(problem, design).paid


@pytest.mark.parametrize(
    ("prices", "scale"),
    [([1, 20], 1), ([0.5, 1], 10), ([1e-3, 2], 1000), ([2e-9, 1e-8], 10**9), ([0, 0], 1)],
)
def test_units_are_the_smallest_power_of_ten_that_makes_prices_whole(prices, scale):
    assert problem_of(costs=Costs.per_feature(prices)).scale == scale


@pytest.mark.parametrize(
    "prices", [[1 / 3, 1], [1e12, 1e-12], [1e-300 / 3, 2e-300], [1e200, 3e200]]
)
def test_units_stay_small_enough_to_be_exact(prices):
    problem = problem_of(costs=Costs.per_feature(prices))
    assert 2**49 < problem.total * problem.n_rows <= 2**53
    dearest = problem.candidates(np.array([[0, 0]]))[0].evaluation
    assert dearest.cost == pytest.approx(sum(prices))


def test_what_is_required_and_what_may_be_missed_is_said_not_scored():
    problem = problem_of(costs=TURNEY, max_stages=4, max_missed={"a": 0.1})
    designs = np.array([[0, 0, 0, 0], [0, 0, 1, 0], [0, -1, 1, 1], [0, 1, 1, 2]])
    counts = problem.evaluate(designs)
    assert not counts.feasible[1:3].any(), "the ratio before its tests"
    for i in (0, 3):
        missed = evaluate_plainly(problem, StageDesign(designs[i])).missed
        assert counts.feasible[i] == (missed[0] <= problem.most_missed[0])
    assert problem.most_missed.tolist()[1] == (problem.table.truth == 1).sum()


@pytest.mark.parametrize("max_missed", [{}, {"a": 0.15}])
@pytest.mark.parametrize("max_rejected", [{"b": 0.25}, {"a": 0.3, "b": 0.5, "c": 0.4}, {"c": 1.0}])
def test_a_design_that_rejects_more_than_it_may_is_not_feasible(max_rejected, max_missed):
    problem = problem_of(4, n_classes=3, max_rejected=max_rejected, max_missed=max_missed)
    free = problem_of(4, n_classes=3)
    designs = every_design(problem)
    assignments = np.array([d.assignment for d in designs])
    counts, unlimited = problem.evaluate(assignments), free.evaluate(assignments)
    expected = [keeps_to_limits(problem, evaluate_plainly(problem, d)) for d in designs]
    assert counts.feasible.tolist() == expected
    assert any(expected)
    assert all(expected) == (max_rejected == {"c": 1.0} and not max_missed)
    for one, other in zip(counts[1:], unlimited[1:], strict=True):
        assert np.array_equal(one, other), "the limits change no count"


def test_a_limit_of_a_share_is_that_many_rows():
    shares = {"a": 0.1, "b": 0.0}
    problem = problem_of(n_rows=100, max_missed=shares, max_rejected=dict(reversed(shares.items())))
    rows = np.bincount(problem.table.truth)
    assert problem.most_missed.tolist() == [int(rows[0] * 0.1), 0]
    assert problem.most_rejected.tolist() == [int(rows[0] * 0.1), 0]
    for many in range(rows[0] + 1):  # whichever way the product is rounded
        allowed = replace(problem, max_rejected={"a": many / rows[0]})
        assert allowed.most_rejected.tolist() == [many, rows[1]]


def test_a_candidate_has_counts_by_class_and_latencies():
    problem = problem_of(costs=TURNEY, max_stages=3)
    design = StageDesign([0, 1, 2, 2])
    (candidate,) = problem.candidates(design.assignment[None])
    accepted, right, paid, missed, _ = evaluate_plainly(problem, design)
    evaluation = candidate.evaluation
    assert (evaluation.accepted, evaluation.right) == (accepted, right)
    assert evaluation.paid == pytest.approx(paid / 100)
    rows = np.bincount(problem.table.truth)
    assert evaluation.missed == {"a": missed[0] / rows[0], "b": missed[1] / rows[1]}
    assert candidate.threshold == 0.75
    assert evaluation.worst_latency == 8
    assert 1 <= evaluation.latency <= 8


def test_a_candidate_waits_as_its_cascade_does():
    """A source of a stage waits for those that it requires there."""
    first, second = Source("a", cost=1, latency=1), Source("b", cost=1, latency=2, requires=["a"])
    problem = problem_of(costs=Costs([first, second, Source("c", cost=1, latency=4)]), max_stages=3)
    designs = [[0, 0, -1], [0, 1, -1], [0, 0, 0], [0, 1, 1], [0, 0, 1]]
    found = problem.candidates(np.array(designs))
    assert [c.evaluation.worst_latency for c in found] == [3, 3, 4, 5, 7]


def test_a_set_is_fitted_once_whatever_asks_for_it():
    problem = problem_of(5, max_stages=5)
    designs = np.array([d.assignment for d in every_design(problem)])
    problem.evaluate(designs)
    assert problem.table.fitter.asked == len(problem.table) == 2**5 - 1
    problem.evaluate(designs[::-1])
    assert problem.table.fitter.asked == 2**5 - 1


def test_ninety_sources_have_tables_too():
    problem = problem_of(90, max_stages=6)
    rng = np.random.default_rng(0)
    designs = [StageDesign(rng.integers(-1, 6, 90)) for _ in range(40)]
    counts = problem.evaluate(np.array([d.assignment for d in designs]))
    for i in (0, 17, 39):
        assert counts.accepted[i] == evaluate_plainly(problem, designs[i]).accepted


def test_confidences_beyond_the_memory_are_fitted_again_and_alike():
    rows = 70
    small, large = problem_of(6, rows, memory=9 * rows * 300), problem_of(6, rows)
    numbers = np.arange(1, 64)
    sets = (numbers[:, None] >> np.arange(6)) & 1 == 1
    tight = problem_of(6, rows, memory=9 * rows * 10)
    for problem in (small, large, tight):
        problem.table.positions(sets)
    expected = large.table.outcomes(sets)
    asked = tight.table.fitter.asked
    for one, other in zip(tight.table.outcomes(sets), expected, strict=True):
        assert np.array_equal(one, other)
    assert tight.table.fitter.asked == asked + 63 - 10
    assert large.table.fitter.asked == 63
    assert np.array_equal(tight.table.accepted, large.table.accepted)


def test_bits_are_packed_into_words_row_after_row():
    bits = np.zeros((1, 130), dtype=bool)
    bits[0, [0, 63, 64, 129]] = True
    assert pack(bits).tolist() == [[(1 << 63) | 1, 1, 2]]


def test_keys_tell_sets_apart_beyond_sixty_four_sources():
    sets = np.zeros((3, 100), dtype=bool)
    sets[1, 99] = True
    sets[2, 0] = True
    assert len(set(keys_of(sets).tolist())) == 3


def test_a_new_table_is_empty():
    truth = np.array([0, 1, 1])
    assert len(OutcomeTable(AnyFits(truth), truth, 3, np.array([[0.7, 0.7]]))) == 0
