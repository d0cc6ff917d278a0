"""What a strategy proposes is counted, or refused by name; nothing is counted wrongly."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from problems import problem_of

from emsco import Costs, Source
from emsco.exceptions import SearchError
from emsco.search._proposal_checks import check_designs

NAMES = ["a", "b", "c"]
COSTS = Costs.per_feature(dict.fromkeys(NAMES, 1))
GOOD = [0, 1, -1]

REQUIRING = Costs([Source("a", cost=1), Source("b", cost=1, requires=["a"]), Source("c", cost=1)])


def can_be(design, max_stages, allow_unused):
    """Say in plain Python whether a design can be."""
    used = {stage for stage in design if stage != -1}
    lowest_is_right = min(design) >= (-1 if allow_unused else 0)
    return bool(used) and lowest_is_right and used == set(range(len(used))) and (
        len(used) <= max_stages
    )  # fmt: skip


WAYS = pytest.mark.parametrize("way", ["evaluate", "candidates", "lacking"])


@WAYS
@pytest.mark.parametrize(
    ("design", "fault"),
    [
        ([-1, -1, -1], "which buys nothing; a design has at least one stage."),
        ([0, 2, -1], "which buys nothing in stage 1; stages are 0, 1, ... without gaps."),
        ([1, 1, -1], "which buys nothing in stage 0; stages are 0, 1, ... without gaps."),
        ([0, 1, 3], "which has a stage 3; with at most 3 stages the last is stage 2."),
        ([0, 1, 300], "which has a stage 300; with at most 3 stages the last is stage 2."),
        ([0, -2, 1], "which holds -2; an unused source is -1."),
    ],
)
def test_a_design_that_cannot_be_is_refused_by_name(way, design, fault):
    problem = problem_of(costs=COSTS, max_stages=3)
    proposed = np.array([GOOD, design, [-1, -1, -1], GOOD])
    expected = f"The search proposed {design}, {fault}"
    with pytest.raises(SearchError, match=re.escape(expected)):
        getattr(problem, way)(proposed)
    assert len(problem.table) == 0, "nothing is fitted for it"


@WAYS
def test_an_unused_source_is_refused_where_all_must_be_used(way):
    problem = problem_of(costs=COSTS, max_stages=3, allow_unused=False)
    expected = r"\[0, -1, 1\], which leaves 'b' unused; allow_unused=False forbids that"
    with pytest.raises(SearchError, match=expected):
        getattr(problem, way)(np.array([[0, 1, 1], [0, -1, 1]]))


@WAYS
@pytest.mark.parametrize(
    ("proposed", "fault"),
    [
        (np.array([[0.0, 1.0, -1.0]]), "designs as float64; a design must hold whole numbers"),
        (np.array([[True, False, True]]), "designs as bool"),
        (np.array([["0", "1", "2"]]), "designs as <U1"),
        (np.array(GOOD), "shape (3,); it must be (n_designs, 3), one row per design"),
        (np.array([[0, 1]]), "shape (1, 2)"),
        (np.array([[GOOD]]), "shape (1, 1, 3)"),
    ],
)
def test_another_array_is_refused_by_name(way, proposed, fault):
    with pytest.raises(SearchError, match=re.escape(fault)):
        getattr(problem_of(costs=COSTS), way)(proposed)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int64, np.uint8, np.uint64])
def test_whole_numbers_of_any_size_are_the_same_design(dtype):
    problem = problem_of(costs=COSTS)
    designs = np.array([[0, 1, 2], [1, 0, 0]])
    for one, other in zip(
        problem.evaluate(designs), problem.evaluate(designs.astype(dtype)), strict=True
    ):
        assert np.array_equal(one, other)


@given(
    arrays(np.int64, st.tuples(st.integers(1, 5), st.just(4)), elements=st.integers(-3, 6)),
    st.integers(1, 4),
    st.booleans(),
)
def test_the_first_design_that_cannot_be_is_named_and_no_other(designs, max_stages, allow_unused):
    names = list("abcd")
    wrong = [d.tolist() for d in designs if not can_be(d.tolist(), max_stages, allow_unused)]
    if wrong:
        with pytest.raises(SearchError, match=re.escape(f"proposed {wrong[0]}, which")):
            check_designs(designs, names, max_stages, allow_unused=allow_unused)
    else:
        checked = check_designs(designs, names, max_stages, allow_unused=allow_unused)
        assert checked.dtype == np.int8
        assert np.array_equal(checked, designs)


def test_designs_of_very_many_stages_are_checked_too():
    names = [f"s{i}" for i in range(100)]
    designs = np.arange(100)[None]
    assert np.array_equal(check_designs(designs, names, 100, allow_unused=False), designs)
    gap = designs.copy()
    gap[0, 70] = 0
    with pytest.raises(SearchError, match=r"31 and 68 more\], which buys nothing in stage 70"):
        check_designs(gap, names, 100, allow_unused=False)
    many = np.arange(130)[None]
    with pytest.raises(SearchError, match="stage 129; with at most 128 stages the last"):
        check_designs(many, [f"s{i}" for i in range(130)], 130, allow_unused=False)


def test_what_breaks_a_requirement_is_not_feasible_and_never_a_candidate():
    problem = problem_of(costs=REQUIRING)
    designs = np.array([[0, 0, 1], [1, 0, 0], [-1, 0, 1]])
    assert problem.evaluate(designs).feasible.tolist() == [True, False, False]
    expected = (
        "The search proposed [1, 0, 0] as a candidate, which buys 'b' in stage 0, before 'a', "
        "which it requires"
    )
    with pytest.raises(SearchError, match=re.escape(expected)):
        problem.candidates(designs)


@pytest.mark.parametrize("way", ["evaluate", "candidates"])
@pytest.mark.parametrize(
    ("threshold", "fault"),
    [
        (2, "threshold 2; the alternatives are 0 to 1"),
        (-1, "threshold -1; the alternatives are 0 to 1"),
        (np.array([[0, 1, 2]]), "threshold 2; the alternatives"),
        (np.array([[0, -3, 1]]), "threshold -3; the alternatives"),
        (0.75, "thresholds as float64 of shape ()"),
        (np.array([0, 1, 1]), "of shape (3,); they must be one whole number, or an array of"),
        (np.array([[0, 1]]), "of shape (1, 2)"),
    ],
)
def test_a_threshold_that_there_is_not_is_refused_by_name(way, threshold, fault):
    problem = problem_of(costs=COSTS, max_stages=3, thresholds=(0.6, 0.8))
    with pytest.raises(SearchError, match=re.escape(fault)):
        getattr(problem, way)(np.array([GOOD]), threshold)
    assert len(problem.table) == 0


def test_nothing_proposed_is_nothing_counted():
    problem = problem_of(costs=COSTS)
    none = np.empty((0, 3), dtype=np.int8)
    assert [len(count) for count in problem.evaluate(none)] == [0] * 4
    assert problem.candidates(none) == []
    assert problem.lacking(none).tolist() == []
