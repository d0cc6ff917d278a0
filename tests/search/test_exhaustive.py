"""The exhaustive search walks every design, and its front is that of brute force."""

from __future__ import annotations

from threading import get_ident

import joblib
import numpy as np
import pytest
from problems import as_brute_force, brute_force, every_design, problem_of

from emsco import Costs, Source, StageDesign
from emsco.engine import LocalEngine
from emsco.exceptions import SearchError
from emsco.search.strategies import exhaustive
from emsco.search.strategies.exhaustive import Exhaustive, _Walk

REQUIRING = Costs(
    [
        Source("a", cost=2),
        Source("b", cost=0, requires=["a"]),
        Source("c", cost=1.5, setup="s"),
        Source("d", cost=4, setup="s"),
    ],
    setups={"s": 1},
)


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("allow_unused", [False, True])
@pytest.mark.parametrize(
    "params",
    [
        {"max_stages": 1},
        {"max_stages": 2},
        {"max_stages": 4, "n_rows": 20},
        {"max_stages": 3, "n_classes": 3},
        {"max_stages": 3, "max_missed": {"a": 0.1, "b": 0.3}},
        {"max_stages": 4, "max_missed": {"b": 0.15}, "seed": 3},
        {"max_stages": 3, "max_rejected": {"a": 0.3, "b": 0.4}},
        {"max_stages": 4, "max_rejected": {"b": 0.2}, "max_missed": {"a": 0.3}, "seed": 3},
        {"max_stages": 2, "max_rejected": {"a": 0.0}},
        {"max_stages": 3, "costs": REQUIRING},
    ],
)
def test_the_front_is_that_of_brute_force(params, allow_unused, listed, monkeypatch):
    """With the dense table and with the list that stands in for it where rows are many."""
    if listed:
        monkeypatch.setattr(exhaustive, "DENSE_BYTES", 0)
        monkeypatch.setattr(exhaustive, "_LIST_ENTRIES", 20)
    problem = problem_of(4, allow_unused=allow_unused, **params)
    result = Exhaustive().run(problem)
    assert as_brute_force(problem, result) == brute_force(problem)
    assert result.history[0]["designs"] == len(every_design(problem))


@pytest.mark.parametrize("allow_unused", [False, True])
def test_every_design_is_walked(allow_unused):
    problem = problem_of(9, n_rows=30, max_stages=4, allow_unused=allow_unused)
    _, (history,) = Exhaustive().run(problem)
    assert history["designs"] == StageDesign.count(9, 4, unused=allow_unused)


def test_any_number_of_workers_gives_the_same_front():
    results = [
        Exhaustive().run(
            problem_of(7, max_stages=4, thresholds=(0.65, 0.8), engine=LocalEngine(n_jobs))
        )
        for n_jobs in (1, 2, 3)
    ]
    assert results[0] == results[1] == results[2]


class Elsewhere:
    """An engine of many workers, none of them of this process."""

    n_workers = 64

    def map(self, function, chunks, *, shared=None):
        return [function(chunk, shared) for chunk in chunks]


def test_many_workers_elsewhere_start_no_threads_here(monkeypatch):
    walk_chunk, threads, walked = _Walk._walk_chunk, set(), []

    def counting(walk, firsts, bits):
        threads.add(get_ident())
        walked.append(len(firsts))
        return walk_chunk(walk, firsts, bits)

    monkeypatch.setattr(_Walk, "_walk_chunk", counting)
    far = Exhaustive().run(problem_of(7, max_stages=3, engine=Elsewhere()))
    assert len(threads) <= len(walked) == joblib.cpu_count()
    assert sum(walked) == 2**7 - 1
    assert far == Exhaustive().run(problem_of(7, max_stages=3))


def test_several_thresholds_merge_and_each_candidate_carries_its_own():
    problem = problem_of(4, thresholds=(0.6, 0.9, {"a": 0.6, "b": 0.8}))
    front, history = Exhaustive().run(problem)
    assert len(history) == 3
    singly = [
        Exhaustive().run(problem_of(4, thresholds=(threshold,))).front
        for threshold in problem.thresholds
    ]
    assert front == singly[0].merge(*singly[1:])


def test_more_than_can_be_walked_is_refused_with_its_size():
    with pytest.raises(SearchError, match=r"17 sources .* 1\.68e\+10 designs in 1\.31e\+05"):
        Exhaustive().run(problem_of(17, max_stages=4, allow_unused=False))
    with pytest.raises(SearchError, match="use Hybrid"):
        Exhaustive(most=1e3).run(problem_of(6))


def test_progress_is_told():
    told = []
    Exhaustive().run(problem_of(3), callback=told.append)
    assert told[0]["source_sets"] == 7
    assert np.sum(told[0]["ties"]) >= told[0]["front"]
