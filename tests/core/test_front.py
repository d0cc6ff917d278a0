"""Fronts keep what no other candidate beats, agree with moocore, and choose within bounds."""

from __future__ import annotations

from itertools import product

import moocore
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emsco import Candidate, Costs, Evaluation, ParetoFront, Review, StageDesign
from emsco.exceptions import SelectionError

COSTS = Costs.per_feature({"a": 1, "b": 2, "c": 5})


def candidate(accepted, right, paid, assignment=(0, 1, 2), threshold=0.75, **more):
    return Candidate(
        StageDesign(np.array(assignment)), threshold, Evaluation(10, accepted, right, paid, **more)
    )


# Listed, not built of draws: drawing took longer than what was tested.
accepted_and_right = [(accepted, right) for accepted in range(11) for right in range(accepted + 1)]
designs = [a for a in product([-1, 0, 1, 2], repeat=3) if max(a) >= 0]
candidates = st.builds(
    lambda counted, paid, assignment, threshold: candidate(*counted, paid, assignment, threshold),
    st.sampled_from(accepted_and_right),
    st.integers(0, 80),
    st.sampled_from(designs),
    st.sampled_from([0.6, 0.75, (0.6, 0.7), {"x": 0.6, "y": 0.9}]),
)
fronts = st.lists(candidates, max_size=12).map(lambda some: ParetoFront(some, COSTS))


@given(st.lists(candidates, max_size=20))
def test_a_front_holds_what_moocore_finds_undominated(some):
    front = ParetoFront(some, COSTS)
    points = np.array([c.objectives for c in some if c.evaluation.accepted]).reshape(-1, 3)
    expected = moocore.filter_dominated(points, maximise=[True, True, False])
    found = np.array([c.objectives for c in front]).reshape(-1, 3)
    assert {tuple(point) for point in found} == {tuple(point) for point in expected}
    assert len(found) == len(expected)


@given(fronts)
def test_merging_is_idempotent(front):
    assert front.merge(front) == front


@given(fronts, fronts)
def test_merging_is_commutative(one, other):
    assert one.merge(other) == other.merge(one)


@given(fronts, fronts, fronts)
def test_merging_is_associative(one, two, three):
    assert one.merge(two).merge(three) == one.merge(two.merge(three)) == one.merge(two, three)


@given(fronts, fronts)
def test_merging_never_loses_hypervolume(one, other):
    merged = one.merge(other).hypervolume()
    assert merged >= max(one.hypervolume(), other.hypervolume()) - 1e-12
    assert 0 <= merged <= 1


def test_hypervolume_is_the_share_of_the_unit_box():
    front = ParetoFront([candidate(5, 4, 20)], COSTS)  # accuracy .8, coverage .5, cost 2 of 8
    assert front.hypervolume() == pytest.approx(0.8 * 0.5 * 0.75)
    assert ParetoFront([], COSTS).hypervolume() == 0


def test_fronts_of_different_prices_do_not_merge():
    with pytest.raises(SelectionError, match="one total cost"):
        ParetoFront([], COSTS).merge(ParetoFront([], Costs.per_feature([1, 2])))


def test_of_equal_candidates_the_simplest_stays():
    same = [
        candidate(5, 5, 10, (0, 1, 2)),
        candidate(5, 5, 10, (1, 0, 0), 0.8),
        candidate(5, 5, 10, (0, 1, 1), 0.8),
        candidate(5, 5, 10, (0, 1, 1), 0.7),
    ]
    (kept,) = ParetoFront(same, COSTS)
    assert kept.design.assignment.tolist() == [0, 1, 1]
    assert kept.threshold == 0.7


def test_what_accepts_nothing_never_enters():
    assert len(ParetoFront([candidate(0, 0, 0)], COSTS)) == 0


CLASSES = [
    {
        "class_rows": {"sick": 4, "well": 6},
        "class_accepted": {"sick": sick, "well": well},
        "class_right": {"sick": sick_right, "well": well_right},
        "waited": waited,
        "worst_latency": waited / 5,
    }
    for sick, sick_right, well, well_right, waited in [
        (2, 1, 3, 3, 5),
        (4, 2, 5, 5, 10),
        (4, 4, 6, 5, 20),
    ]
]
PRICED = Costs(COSTS.sources, review=Review(3, accuracy=0.9))
FRONT = ParetoFront(
    [
        candidate(5, 4, 10, (0, -1, -1), **CLASSES[0]),
        candidate(9, 7, 30, (0, 1, -1), **CLASSES[1]),
        candidate(10, 9, 60, (0, 1, 2), **CLASSES[2]),
    ],
    PRICED,
)


@pytest.mark.parametrize(
    ("bounds", "chosen"),
    [
        ({}, 0),
        ({"by": "accuracy"}, 2),
        ({"by": "coverage", "max_cost": 3}, 1),
        ({"min_coverage": 0.9}, 1),
        ({"min_accuracy": 0.85}, 2),
        ({"max_missed": {"sick": 0.3}}, 0),
        ({"max_missed": {"sick": 0.3}, "min_coverage": 0.6}, 2),
        ({"max_latency": 2, "by": "coverage"}, 1),
        ({"by": "fitness"}, 2),
        ({"by": "loss"}, 0),
        ({"by": "loss", "error_cost": {"sick": 40}}, 2),
        ({"by": "loss", "error_cost": 100}, 2),
    ],
)
def test_the_best_candidate_within_bounds(bounds, chosen):
    assert FRONT.select(**bounds, caution=0) is FRONT[chosen]


def test_fitness_is_the_papers_norm():
    def norm(c):
        e = c.evaluation
        return np.sqrt(e.accuracy**2 + e.coverage**2 + (1 - e.cost / COSTS.total) ** 2)

    assert FRONT.select(by="fitness") is max(FRONT, key=norm)


def test_what_cannot_be_met_names_the_closest():
    unmet = r"No candidate meets cost <= 2 and coverage >= 0\.9"
    with pytest.raises(SelectionError, match=unmet) as e:
        FRONT.select(max_cost=2, min_coverage=0.9)
    assert e.value.closest is FRONT[1]
    assert "a | b at threshold 0.75" in str(e.value)
    assert "fails cost" in str(e.value)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({"by": "costs"}, "did you mean 'cost'"),
        ({"error_cost": 3}, "needs by='loss'"),
        ({"max_missed": {"sik": 0.1}}, "'sik', which is not a class; did you mean 'sick'"),
    ],
)
def test_a_wrong_choice_is_refused(bounds, message):
    with pytest.raises(SelectionError, match=message):
        FRONT.select(**bounds)


def test_an_empty_front_says_so():
    with pytest.raises(SelectionError, match="empty"):
        ParetoFront([], COSTS).select()


def test_a_front_is_a_table_in_a_terminal_a_notebook_and_a_frame():
    assert repr(FRONT).splitlines()[0].split()[:3] == ["design", "threshold", "accuracy"]
    assert "<td>a | b</td>" in FRONT._repr_html_()
    frame = FRONT.to_frame()
    assert frame["missed sick"].tolist() == [0.25, 0.5, 0]
    assert frame["worst_latency"].tolist() == [1, 2, 4]


def test_what_was_measured_on_is_told_wherever_a_front_is_shown():
    measured = ParetoFront(FRONT, PRICED, "On <ten> rows.")
    assert measured.measured_on == "On <ten> rows."
    assert repr(measured) == f"{FRONT!r}\nOn <ten> rows."
    assert "<caption>On &lt;ten&gt; rows.</caption>" in measured._repr_html_()
    assert FRONT.measured_on == ""
    assert "caption" not in FRONT._repr_html_()
    assert measured != FRONT, "the same figures from elsewhere are other figures"
    with pytest.raises(AttributeError):
        measured.measured_on = "elsewhere"


def test_merged_fronts_tell_of_all_that_they_were_measured_on():
    told = [ParetoFront(FRONT, PRICED, where) for where in ("in May", "", "in April", "in May")]
    assert told[0].merge(*told[1:]).measured_on == "in April; in May"
    assert told[0].merge(told[0]) == told[0]


def test_a_front_is_a_read_only_sequence():
    assert list(FRONT) == [FRONT[0], FRONT[1], FRONT[2]]
    assert FRONT[-1] in FRONT
    assert len({FRONT, FRONT.merge(FRONT)}) == 1
    with pytest.raises(TypeError):
        FRONT[0] = FRONT[1]
    with pytest.raises(AttributeError):
        FRONT.costs = COSTS
