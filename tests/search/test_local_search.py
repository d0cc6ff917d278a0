"""Local search finds the exact front of small problems, keeps its budget, and repeats itself."""

from __future__ import annotations

import numpy as np
import pytest
from problems import problem_of

from emsco import Costs, Source
from emsco.engine import LocalEngine
from emsco.exceptions import SearchError
from emsco.search._thresholds import thresholds_by_stage
from emsco.search.strategies.emsco import EMSCO
from emsco.search.strategies.exhaustive import Exhaustive
from emsco.search.strategies.hybrid import Hybrid, default_search
from emsco.search.strategies.local_search import LocalSearch, _Descent

REQUIRING = Costs(
    [
        Source("a", cost=2),
        Source("b", cost=0, requires=["a"]),
        Source("c", cost=1.5, setup="s"),
        Source("d", cost=4, setup="s"),
        Source("e", cost=3),
    ],
    setups={"s": 1},
)


@pytest.mark.parametrize("search", [LocalSearch(), Hybrid()], ids=["local", "hybrid"])
@pytest.mark.parametrize(
    "params",
    [
        {"n_sources": 5, "max_stages": 3},
        {"n_sources": 5, "max_stages": 3, "allow_unused": False},
        {"n_sources": 4, "max_stages": 4, "thresholds": (0.65, 0.8), "n_classes": 3},
        {"costs": REQUIRING, "max_stages": 3},
        {"n_sources": 5, "max_stages": 3, "max_missed": {"a": 0.1}},
        {"n_sources": 1, "max_stages": 1},
    ],
)
def test_the_exact_front_of_a_small_problem_is_found(search, params):
    """Where the budget covers every design, nothing is missed."""
    problem = problem_of(**params)
    front = search.run(problem, np.random.default_rng(0)).front
    assert front == Exhaustive().run(problem).front


def test_a_start_that_is_not_feasible_is_left_behind():
    problem = problem_of(
        5, 60, max_stages=3, thresholds=(0.55,), max_missed={"a": 0.05}, slope=-0.5
    )
    start = np.zeros((1, 5), dtype=np.int8)
    assert not problem.evaluate(start).feasible[0]
    exact = Exhaustive().run(problem).front
    assert len(exact)
    assert LocalSearch().run(problem, np.random.default_rng(0)).front == exact


def test_nobody_looks_around_once_every_design_is_met(monkeypatch):
    problem = problem_of(n_sources=3, max_stages=2)
    step, met = _Descent.step, []

    def counting(descent):
        met.append(len(descent.seen))
        step(descent)

    monkeypatch.setattr(_Descent, "step", counting)
    history = LocalSearch().run(problem, np.random.default_rng(0)).history
    assert history[-1]["designs"] == problem.n_designs
    assert max(met) < problem.n_designs


def test_nothing_is_evaluated_beyond_the_budget():
    problem = problem_of(9, max_stages=4)
    result = LocalSearch(evaluations=3000).run(problem, np.random.default_rng(0))
    assert result.history[-1]["designs"] == 3000
    result = Hybrid(EMSCO(population=20, generations=5), LocalSearch(evaluations=500)).run(
        problem_of(9, max_stages=4), np.random.default_rng(0)
    )
    genetic = max(entry["designs"] for entry in result.history if "generation" in entry)
    whole = max(entry["designs"] for entry in result.history if "generation" not in entry)
    assert 0 < genetic < whole == 500, "local search spends what the genetic one left"


def test_fits_are_bounded_and_what_needs_none_comes_first():
    problem = problem_of(30, max_stages=4)
    LocalSearch(fits=2000).run(problem, np.random.default_rng(0))
    assert 2000 - 4 < len(problem.table) <= 2000, "short by less than a design can need"


@pytest.mark.parametrize("thresholds", [(0.75,), (0.6, 0.7, 0.8, 0.9)])
def test_all_thresholds_share_the_bound_on_fits(thresholds):
    problem = problem_of(30, max_stages=4, thresholds=thresholds)
    result = LocalSearch(fits=4000).run(problem, np.random.default_rng(0))
    ends = [_last(result.history, threshold)["source_sets"] for threshold in thresholds]
    chain = 4 * 30  # every source by itself, then three a step: once for all, before the first
    shares = [4000 * (i + 1) // len(thresholds) for i in range(len(thresholds))]
    for share, end in zip(shares, ends, strict=True):
        assert share - 4 < end <= share + chain, "short by less than a design can need"
    assert ends[-1] <= 4000
    assert len(problem.table) == ends[-1]


def test_every_threshold_has_the_budget_of_evaluations():
    thresholds = (0.6, 0.75, 0.9)
    problem = problem_of(9, max_stages=4, thresholds=thresholds)
    result = LocalSearch(evaluations=500).run(problem, np.random.default_rng(0))
    assert [_last(result.history, t)["designs"] for t in thresholds] == [500] * 3
    done = [_last(result.history, t)["done"] for t in thresholds]
    assert done == pytest.approx([1 / 3, 2 / 3, 1])
    assert {c.threshold for c in result.front} == set(thresholds)


def _last(history, threshold):
    return [entry for entry in history if entry["threshold"] == threshold][-1]


def test_a_time_limit_ends_the_search():
    problem = problem_of(12, max_stages=4)
    result = LocalSearch(seconds=0.2).run(problem, np.random.default_rng(0))
    assert result.history[-1]["designs"] < 1_000_000


@pytest.mark.parametrize("search", [LocalSearch(evaluations=4000), Hybrid(local=LocalSearch(5000))])
def test_the_same_seed_gives_the_same_front_with_any_number_of_workers(search):
    """Bit for bit: all randomness is drawn by the search, and fits are pure."""
    results = [
        search.run(
            problem_of(8, max_stages=4, engine=LocalEngine(n_jobs)), np.random.default_rng(5)
        )
        for n_jobs in (1, 2, 3)
    ]
    assert results[0] == results[1] == results[2]


def test_progress_is_told():
    told = []
    LocalSearch(evaluations=2000).run(problem_of(8), np.random.default_rng(0), told.append)
    assert told[-1]["designs"] == 2000
    assert [entry["designs"] for entry in told] == sorted(entry["designs"] for entry in told)


@pytest.mark.parametrize("wrong", [{"evaluations": 0}, {"fits": -1}, {"seconds": 0}])
def test_an_empty_budget_is_refused(wrong):
    with pytest.raises(SearchError, match="must be above 0"):
        LocalSearch(**wrong)


def test_the_default_search_is_chosen_by_size_alone():
    assert isinstance(default_search(problem_of(14, max_stages=4)), Exhaustive)
    assert isinstance(default_search(problem_of(14, 100_000, max_stages=4)), LocalSearch)
    assert isinstance(default_search(problem_of(17, max_stages=2)), LocalSearch)


def test_by_default_few_sets_are_fitted_one_by_one():
    problem = problem_of(11, max_stages=4)
    problem.table.fitter.chunk = 1
    search = default_search(problem)
    search.run(problem, np.random.default_rng(0))
    assert len(problem.table) <= 1024
    problem = problem_of(10, max_stages=4)
    problem.table.fitter.chunk = 1
    assert isinstance(default_search(problem), Exhaustive)


def test_thresholds_by_stage_only_add_to_the_front():
    grid = (0.55, 0.65, 0.75, 0.85, 0.95)
    problem = problem_of(4, 200, thresholds=grid, max_stages=3)
    shared = Exhaustive().run(problem).front
    asked = problem.table.fitter.asked
    own = thresholds_by_stage(problem, shared, np.random.default_rng(0))
    assert problem.table.fitter.asked == asked, "no fit"
    assert own.hypervolume() > shared.hypervolume()
    assert own.merge(shared) == own
    by_stage = [c for c in own if isinstance(c.threshold, tuple)]
    assert by_stage
    for candidate in by_stage[:10]:
        which = [grid.index(t) for t in candidate.threshold]
        which += [0] * (problem.max_stages - len(which))
        design = candidate.design.assignment.astype(np.int8)[None]
        (again,) = problem.candidates(design, np.array([which]))
        assert again == candidate
