"""Neighbours are canonical designs one change away, and every simple change is among them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emsco import StageDesign
from emsco.search.strategies._neighbours import neighbours, perturbed


def around(assignment, max_stages=4, allow_unused=True, divisions=0, seed=0):
    made, near = neighbours(
        np.array([assignment], dtype=np.int8), max_stages, allow_unused, divisions,
        np.random.default_rng(seed),
    )  # fmt: skip
    assert (near == 0).all()
    return {tuple(row) for row in made.tolist()}


def test_every_move_exchange_and_merger_of_a_small_design():
    assert around([0, 1], allow_unused=False) >= {(1, 0), (0, 0)}
    found = around([0, 1, 1])
    assert found >= {
        (0, 0, 0),  # merged
        (1, 0, 0),  # exchanged
        (0, 0, 1),  # moved to a stage
        (0, 2, 1),  # moved to a stage of its own, behind
        (1, 0, 2),  # ... in front
        (0, 1, 2),  # ... between
        (-1, 0, 0),  # dropped
        (0, -1, 1),
    }


def test_an_unused_source_is_bought():
    assert around([0, -1]) >= {(0, 0), (0, 1), (1, 0)}


designs = st.lists(st.integers(-1, 3), min_size=1, max_size=9).filter(lambda a: max(a) >= 0)


@given(designs, st.integers(1, 5), st.integers(0, 100))
def test_neighbours_are_canonical_and_within_the_limits(assignment, max_stages, seed):
    design = StageDesign(assignment)
    unused = bool(design.unused)
    start = design.assignment.astype(np.int8)[None]
    rng = np.random.default_rng(seed)
    made, near = neighbours(start.repeat(2, axis=0), max_stages, unused, 8, rng)
    made = np.vstack([made, perturbed(start.repeat(5, axis=0), max_stages, unused, rng)])
    assert set(near.tolist()) <= {0, 1}
    for row in made:
        assert StageDesign(row.astype(int)).assignment.tolist() == row.tolist()
        assert row.max() < max_stages
        assert unused or row.min() >= 0


@pytest.mark.parametrize("allow_unused", [False, True])
def test_divisions_reach_every_set_between_neighbours(allow_unused):
    """The middle set of a chain of three can become any set between the others."""
    reached = around([0, 1, 1, 2, 2], 3, allow_unused, divisions=4000)
    middles = {
        tuple(i for i in range(1, 5) if row[i] == 1)
        for row in reached
        if row[0] == 0 and set(row[1:]) == {1, 2}
    }
    assert len(middles) == 2**4 - 2
