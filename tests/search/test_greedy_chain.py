"""Chains of source sets: nested, within their budget, and in the order in which sources tell."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from emsco import CascadeSearchCV, Costs, Exhaustive, LocalSearch, Source
from emsco.search._thresholds import alternatives, thresholds_by_stage
from emsco.search.strategies._greedy_chain import designs_along_chain
from tests.search.problems import problem_of


def _told_by(problem):
    """Let each set say the truth of a row with a confidence that grows with the weights it has."""
    weights = 2.0 ** -np.arange(problem.n_sources)

    def outcomes(sets):
        sure = 0.5 + 0.49 * (sets @ weights) / weights.sum()
        confidence = np.repeat(sure[:, None], problem.n_rows, axis=1)
        return confidence, np.tile(problem.table.truth, (len(sets), 1)).astype(np.uint8)

    problem.table.fitter.outcomes = outcomes
    return problem


def _order(designs):
    """Read the order of sources off the designs whose only stage grows."""
    first = designs[designs.max(axis=1) == 0]
    return np.argsort((first < 0).sum(axis=0), kind="stable").tolist()


@pytest.mark.parametrize("n_sources", [3, 9, 40])
def test_designs_are_canonical_and_nested(n_sources):
    problem = problem_of(n_sources, max_stages=3)
    designs = designs_along_chain(problem, 4 * n_sources)
    assert len(np.unique(designs, axis=0)) == len(designs)
    assert ((designs >= 0).sum(axis=1).max()) == n_sources
    sets = [frozenset(np.flatnonzero((row >= 0) & (row <= s))) for row in designs for s in range(3)]
    by_size = sorted(set(sets), key=len)
    assert all(small <= large for small, large in pairwise(by_size))
    for row in designs:
        assert set(row.tolist()) - {-1} == set(range(row.max() + 1))


def test_what_tells_most_comes_first_where_prices_are_equal():
    costs = Costs.per_feature([1.0] * 8)
    assert _order(designs_along_chain(_told_by(problem_of(8, costs=costs)), 100)) == [*range(8)]


def test_what_tells_most_for_its_price_comes_first():
    """The first source tells twice what the second does, and costs a thousand times as much."""
    costs = Costs.per_feature([1000.0, *[1.0] * 7])
    order = _order(designs_along_chain(_told_by(problem_of(8, costs=costs)), 100))
    assert order == [*range(1, 8), 0]


def test_what_a_source_requires_joins_with_it():
    sources = [Source("index", cost=0, requires=("lab",)), Source("lab", cost=9)]
    costs = Costs([*sources, Source("age", cost=1)])
    problem = _told_by(problem_of(3, costs=costs))
    designs = designs_along_chain(problem, 100)
    sets, _ = problem.chains(designs)
    assert problem.exist(sets).all()


@pytest.mark.parametrize("most", [1, 9, 10, 11, 25, 1000])
def test_fits_are_bounded(most):
    """Ten sources by themselves, or nothing; a step more only where all of it can be afforded."""
    problem = problem_of(10)
    designs = designs_along_chain(problem, most)
    assert len(problem.table) <= most
    assert (len(designs) > 0) == (most >= 10)


def test_every_source_is_bought_where_none_may_be_left_out():
    problem = problem_of(6, max_stages=3, allow_unused=False)
    designs = designs_along_chain(problem, 100)
    assert len(designs)
    assert (designs >= 0).all()


def test_local_search_among_forty_sources_finds_what_tells():
    """With one fit in a billion: the cheapest design that says all is the source that does."""
    costs = Costs.per_feature([1.0] * 40)
    problem = _told_by(problem_of(40, costs=costs, thresholds=(0.7,), max_stages=2))
    front = LocalSearch(evaluations=5_000, fits=200).run(problem, np.random.default_rng(0)).front
    assert front.select(min_coverage=1.0).evaluation.cost == 1.0


def test_designs_are_moved_with_thresholds_where_not_all_were_walked():
    """Joint steps only add to a front, need no fit, and are what a weak front lacks."""
    grid = tuple(alternatives([0.55, 0.65, 0.75, 0.85, 0.95], 2))
    problem = problem_of(5, 200, thresholds=grid, max_stages=3)
    exact = Exhaustive().run(problem).front
    weak = problem.front([exact[0]])
    fitted = len(problem.table)
    alone = thresholds_by_stage(problem, weak, np.random.default_rng(0))
    joint = thresholds_by_stage(problem, weak, np.random.default_rng(0), designs=True)
    assert len(problem.table) == fitted
    assert joint.hypervolume() > alone.hypervolume()
    assert joint.hypervolume() >= 0.99 * exact.hypervolume()


def test_a_search_without_a_walk_moves_designs_with_thresholds():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    y = (X @ [2.0, 1.0, 0.5, 0.2, 0.0, 0.0] + rng.normal(size=300) > 0).astype(int)
    volumes = [
        CascadeSearchCV(search=search, select=lambda front: front[0], random_state=0)
        .fit(X, y)
        .front_.hypervolume()
        for search in (LocalSearch(200), Exhaustive())
    ]
    assert volumes[0] >= 0.999 * volumes[1]
