"""A design is an ordered partition of the sources: canonical, hashable, aligned with costs."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emsco import Costs, Source, StageDesign
from emsco.core.design import compress
from emsco.exceptions import DesignError

assignments = st.lists(st.integers(-1, 6), min_size=1, max_size=12).filter(
    lambda stages: max(stages) >= 0
)


@given(assignments)
def test_compressing_is_idempotent_and_keeps_the_order(assignment):
    once = compress(assignment)
    assert np.array_equal(compress(once), once)
    used = np.array(assignment) >= 0
    assert set(once[used]) == set(range(len(set(np.array(assignment)[used]))))
    for i, j in product(np.flatnonzero(used), repeat=2):
        assert (assignment[i] < assignment[j]) == (once[i] < once[j])


def test_the_papers_example_of_compression():
    assert compress([0, 0, 2, 3]).tolist() == [0, 0, 1, 2]


@given(assignments)
def test_a_design_is_the_same_from_its_assignment_and_from_its_stages(assignment):
    names = [f"s{i}" for i in range(len(assignment))]
    design = StageDesign(assignment, names)
    again = StageDesign.from_stages(design.stages, names)
    assert again == design
    assert hash(again) == hash(design)
    assert design.acquired(design.n_stages - 1) == tuple(n for n in names if n not in design.unused)


def test_equality_is_over_names_and_stages_not_their_order():
    one = StageDesign([0, 1, -1], ["a", "b", "c"])
    assert one == StageDesign([-1, 1, 0], ["c", "b", "a"])
    assert one != StageDesign([0, 1], ["a", "b"])
    assert one != StageDesign([0, 1, -1])
    assert one != StageDesign([1, 0, -1], ["a", "b", "c"])
    assert StageDesign([0, 3]) == StageDesign([0, 1])
    assert one != "a | b"


@pytest.mark.parametrize("unused", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("max_stages", [1, 2, 3, 5])
def test_the_count_is_the_number_of_designs_there_are(n, max_stages, unused):
    lowest = -1 if unused else 0
    every = {
        StageDesign(a) for a in product(range(lowest, max_stages), repeat=n) if max(a) >= 0
    }  # fmt: skip
    assert StageDesign.count(n, max_stages, unused=unused) == len(every)


def test_the_count_of_the_papers_credit_search():
    assert StageDesign.count(14, 4) == 254_152_083


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: StageDesign.from_stages([["a"], []]), "Stage 1 is empty"),
        (lambda: StageDesign.from_stages([["a"], ["a"]]), "bought only once"),
        (lambda: StageDesign.from_stages([["agee"]], ["age"]), "'agee' is not a source; did you"),
        (lambda: StageDesign([-1, -1]), "at least one source"),
        (lambda: StageDesign([0, -2]), "got -2"),
        (lambda: StageDesign([0.5, 1]), "one integer per source"),
        (lambda: StageDesign([[0, 1]]), "one integer per source"),
        (lambda: StageDesign([0, 1], ["a"]), "2 stages for 1 names"),
        (lambda: StageDesign([0, 1], ["a", "a"]), "named only once"),
        (lambda: StageDesign([0, 1]).acquired(2), "must be in 0..1, got 2"),
    ],
)
def test_wrong_designs_cannot_be_built(make, message):
    with pytest.raises(DesignError, match=message):
        make()


COSTS = Costs(
    [Source("tt4", cost=1), Source("t4u", cost=2), Source("fti", cost=0, requires=["tt4", "t4u"])]
)


def test_a_named_design_meets_costs_by_name_an_unnamed_one_by_position():
    named = StageDesign.from_stages([["t4u"], ["tt4"]])
    assert named.align(COSTS).assignment.tolist() == [1, 0, -1]
    assert StageDesign([1, 0, -1]).align(COSTS) == named.align(COSTS)


def test_designs_that_disagree_with_costs_are_refused():
    with pytest.raises(DesignError, match="assigns 2 sources but `costs` has 3"):
        StageDesign([0, 1]).align(COSTS)
    with pytest.raises(DesignError, match=r"names 'tt5', which .* did you mean 'tt4'"):
        StageDesign.from_stages([["tt5"]]).align(COSTS)


def test_a_source_is_never_bought_before_what_it_requires():
    with pytest.raises(DesignError, match="Stage 0 buys 'fti' before 't4u'"):
        StageDesign([0, 1, 0]).align(COSTS)
    with pytest.raises(DesignError, match="before 'tt4'"):
        StageDesign([-1, 0, 0]).align(COSTS)
    assert StageDesign([0, 0, 0]).align(COSTS).n_stages == 1


def test_sixty_sources_and_more_are_one_design_like_any_other():
    design = StageDesign(np.arange(100) % 7)
    assert design.n_stages == 7
    assert len(design.acquired(6)) == 100


def test_a_design_never_changes():
    given_stages = np.array([0, 1])
    design = StageDesign(given_stages)
    given_stages[0] = 1
    assert design.assignment.tolist() == [0, 1]
    with pytest.raises(ValueError, match="read-only"):
        design.assignment[0] = 1
    with pytest.raises(AttributeError):
        design.names = ("a", "b")
