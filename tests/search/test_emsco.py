"""EMSCO keeps the paper's properties, halts as it says, and repeats itself bit for bit."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest
from problems import every_design, problem_of

from emsco import Candidate, Costs, Evaluation, ParetoFront, StageDesign
from emsco.exceptions import SearchError
from emsco.search._problem import Counts, Problem
from emsco.search.strategies import _operators as operators
from emsco.search.strategies.emsco import EMSCO

ELITES = ["evaluations", "designs"]


class PlainProblem:
    """Random outcomes for every source set and a walk along the stages in plain Python.

    An independent reference: it shares nothing with the table, the kernels or their bits. The more
    sources a set has, the more rows it accepts and has right. Every evaluated design is logged.
    """

    def __init__(
        self, n_sources=6, max_stages=3, allow_unused=False, n_rows=40, n_thresholds=1, seed=0,
        prices=None, forbidden=lambda _: False,
    ):  # fmt: skip
        rng = np.random.default_rng(seed)
        self.n_sources, self.max_stages, self.allow_unused = n_sources, max_stages, allow_unused
        self.n_rows = self.whole = n_rows
        self.n_thresholds = n_thresholds
        self.thresholds = [0.75 + 0.05 * i for i in range(n_thresholds)]
        self.prices = rng.integers(1, 20, n_sources).tolist() if prices is None else prices
        self.total = sum(self.prices)
        self.costs = Costs.per_feature(self.prices)
        self.forbidden = forbidden
        self.confidence, self.hits = {}, {}
        for bought in product([0, 1], repeat=n_sources):
            share = sum(bought) / n_sources
            self.confidence[bought] = (rng.random(n_rows) * (0.4 + 0.9 * share)).tolist()
            self.hits[bought] = (rng.random(n_rows) < 0.5 + 0.45 * share).tolist()
        self.log = []

    span, hypervolume = Problem.span, Problem.hypervolume
    table = ()  # nothing is fitted here

    def walk(self, assignment, threshold):
        accepted = right = paid = 0
        for row in range(self.n_rows):
            for stage in range(max(assignment) + 1):
                bought = tuple(int(0 <= a <= stage) for a in assignment)
                paid += sum(p for p, a in zip(self.prices, assignment, strict=True) if a == stage)
                if self.confidence[bought][row] >= 0.5 + 0.1 * threshold:
                    accepted += 1
                    right += self.hits[bought][row]
                    break
        return accepted, right, paid

    def evaluate(self, assignments, threshold=0):
        assert assignments.dtype == np.int8
        counts = []
        for assignment in map(tuple, assignments.tolist()):
            used = {stage for stage in assignment if stage >= 0}
            assert used == set(range(len(used))), f"{assignment} is not canonical"
            assert 1 <= len(used) <= self.max_stages
            assert self.allow_unused or min(assignment) >= 0
            self.log.append((threshold, assignment))
            if self.forbidden(assignment):
                counts.append((False, self.n_rows, self.n_rows, 0))  # tempting, and meaning nothing
            else:
                counts.append((True, *self.walk(assignment, threshold)))
        feasible, *rest = zip(*counts, strict=True)
        return Counts(np.array(feasible), *(np.array(count, dtype=np.int64) for count in rest))

    def candidates(self, assignments, threshold=0):
        return [
            Candidate(
                StageDesign(np.array(assignment, dtype=np.int64), self.costs.names),
                0.5 + 0.1 * threshold,
                Evaluation(self.n_rows, *self.walk(tuple(int(a) for a in assignment), threshold)),
            )
            for assignment in assignments
        ]

    def front(self, candidates):
        return ParetoFront(candidates, self.costs)

    def front_of_the_log(self):
        return self.front(
            candidate
            for threshold, assignment in set(self.log)
            if not self.forbidden(assignment)
            for candidate in self.candidates([assignment], threshold)
        )

    def all_designs(self):
        low = -1 if self.allow_unused else 0
        for assignment in product(range(low, self.max_stages), repeat=self.n_sources):
            used = {stage for stage in assignment if stage >= 0}
            if used and used == set(range(len(used))):
                yield assignment


def small(**changed):
    return EMSCO(**{"population": 30, "generations": 12, **changed})


def evaluations(front):
    return {(c.evaluation.accepted, c.evaluation.right, c.evaluation.paid) for c in front}


@pytest.mark.parametrize("elite", ELITES)
@pytest.mark.parametrize("unused", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_nothing_undominated_that_was_met_is_ever_lost(elite, unused, seed):
    problem = PlainProblem(allow_unused=unused, seed=seed)
    result = small(elite=elite).run(problem, np.random.default_rng(seed))
    assert result.front == problem.front_of_the_log()
    assert evaluations(result.front) == evaluations(problem.front_of_the_log())
    assert len(result.front) > 3


@pytest.mark.parametrize("elite", ELITES)
def test_the_globally_optimal_evaluations_of_a_generation_never_become_fewer(elite):
    problem = PlainProblem(seed=5)
    best = evaluations(problem.front(problem.candidates(list(problem.all_designs()))))
    curves = []
    for seed in range(6):
        curve = []
        for generation in small(elite=elite, generations=25).evolve(
            problem, np.random.default_rng(seed)
        ):
            met = set(zip(*(c.tolist() for c in generation.counts[1:]), strict=True))
            curve.append(len(met & best))
        assert curve == sorted(curve)
        curves.append(curve + curve[-1:] * (26 - len(curve)))  # a halted run keeps what it has
    mean = np.mean(curves, axis=0)
    assert (np.diff(mean) >= 0).all()
    assert mean[0] < mean[-1] <= len(best)


def test_the_exact_front_of_a_small_problem_is_found():
    problem = PlainProblem(n_sources=4, seed=8)
    exact = problem.front(problem.candidates(list(problem.all_designs())))
    result = EMSCO(population=60, generations=60).run(problem, np.random.default_rng(0))
    assert evaluations(result.front) == evaluations(exact)
    assert [c.design.n_stages for c in result.front] == [c.design.n_stages for c in exact]


@pytest.mark.parametrize("unused", [False, True])
@pytest.mark.parametrize("missed", [{}, {"a": 0.2}])
def test_the_exact_front_of_a_table_of_outcomes_is_found(unused, missed):
    problem = problem_of(
        3, thresholds=(0.6, 0.75), max_stages=2, allow_unused=unused, max_missed=missed
    )
    every = np.array([design.assignment for design in every_design(problem)], dtype=np.int8)
    exact = problem.front(
        candidate
        for threshold in range(2)
        for candidate in problem.candidates(
            every[problem.evaluate(every, threshold).feasible], threshold
        )
    )
    result = EMSCO(population=60, generations=60).run(problem, np.random.default_rng(0))
    assert result.front == exact
    assert len(exact) > 1


def test_a_generation_is_sorted_by_rank_and_then_by_norm():
    problem = PlainProblem(seed=1)
    (generation,) = small(generations=0).evolve(problem, np.random.default_rng(0))
    accepted, right, paid = (count.astype(float) for count in generation.counts[1:])
    points = np.column_stack([accepted, right / np.maximum(accepted, 1), -paid])
    level, left = np.full(len(points), -1), np.arange(len(points))
    while len(left):
        here = points[left]
        beaten = [((here >= p).all(axis=1) & (here > p).any(axis=1)).any() for p in here]
        level[left[~np.array(beaten)]] = level.max() + 1
        left = left[np.array(beaten)]
    shares = points * [1 / problem.n_rows, 1, 1]
    shares[:, 2] = paid.min() / paid
    norm = np.sqrt((shares**2).sum(axis=1))
    assert (np.diff(level) >= 0).all()
    assert (np.diff(norm)[np.diff(level) == 0] <= 1e-9).all()
    assert np.array_equal(generation.front, level == 0)
    fitness = (norm.max() / norm.min() + 0.01) ** (level.max() - level) * norm
    assert np.exp(generation.log_fitness) == pytest.approx(fitness, rel=1e-6)


@pytest.mark.parametrize("elite", ELITES)
def test_the_elite_is_the_fittest_of_what_is_distinct_and_passes_on_unchanged(elite):
    problem = PlainProblem(seed=2)
    before = None
    for generation in small(elite=elite, elite_fraction=0.3).evolve(
        problem, np.random.default_rng(1)
    ):
        rows = list(map(tuple, generation.assignments.tolist()))
        told = list(zip(*(c.tolist() for c in generation.counts[1:]), strict=True))
        kinds = rows if elite == "designs" else told
        distinct = list(dict.fromkeys(kinds))
        best = {kind for kind, front in zip(kinds, generation.front, strict=True) if front}
        size = max(int(np.rint(0.3 * len(distinct))), len(best))
        assert [kinds[i] for i in generation.elite] == distinct[:size]
        if elite == "evaluations":
            for i in generation.elite:
                same = [row for row, counted in zip(rows, told, strict=True) if counted == told[i]]
                assert rows[i] == min(same, key=lambda row: (max(row), row))
        if before is not None and elite == "designs":
            assert before <= set(rows)
        before = {rows[i] for i in generation.elite}


def test_ties_fill_the_elite_of_designs_but_not_that_of_evaluations():
    # One source decides everything, so every design that buys it first is as good as any other.
    def run(elite):
        problem = PlainProblem(n_sources=6, prices=[0] * 6)
        problem.confidence = {bought: [float(bought[0])] * 40 for bought in problem.confidence}
        problem.hits = {bought: [True] * 40 for bought in problem.hits}
        return EMSCO(population=20, generations=30, elite=elite).run(
            problem, np.random.default_rng(0)
        )

    crowded, spared = run("designs"), run("evaluations")
    assert crowded.history[-1]["halted"] == "elite"
    assert spared.history[-1]["halted"] == "generations"
    assert evaluations(crowded.front) == evaluations(spared.front) == {(40, 40, 0)}
    assert spared.front[0].design.n_stages <= crowded.front[0].design.n_stages


def test_it_halts_after_so_many_generations():
    history = small(generations=7).run(PlainProblem(), np.random.default_rng(0)).history
    assert [entry["generation"] for entry in history] == list(range(8))
    assert [entry["halted"] for entry in history] == [None] * 7 + ["generations"]


def test_it_halts_when_the_best_design_stays_the_same():
    search = small(generations=300, patience=4)
    history = search.run(PlainProblem(), np.random.default_rng(0)).history
    assert history[-1]["halted"] == "patience"
    best = [tuple(entry["best"]) for entry in history]
    assert len(set(best[-5:])) == 1
    for end in range(5, len(best)):
        assert len(set(best[end - 5 : end])) > 1
    assert len(history) < 300


def test_it_halts_when_the_elite_fills_the_population():
    problem = PlainProblem()
    history = small(population=4, generations=200).run(problem, np.random.default_rng(0)).history
    assert history[-1]["halted"] == "elite"
    assert history[-1]["elite"] == history[-1]["population"] == 4
    assert all(entry["elite"] < 4 for entry in history[:-1])


def test_a_population_that_its_elite_fills_grows_instead_of_halting():
    search = small(population=4, growth=3, generations=40)
    history = search.run(PlainProblem(), np.random.default_rng(0)).history
    assert history[-1]["halted"] == "generations"
    sizes = [entry["population"] for entry in history]
    assert max(sizes) > 4
    for entry, after in pairwise(history):
        size, elite = entry["population"], entry["elite"]
        grown = size + 3 if elite == size else size
        shrinks = elite < grown - 3 and grown > 4
        assert after["population"] == (grown - 3 if shrinks else grown)


@pytest.mark.parametrize(
    ("size", "elite_size", "expected"),
    [
        (10, 10, 15),  # filled: grow
        (10, 9, 10),  # not filled, never below what was asked for
        (15, 15, 20),
        (15, 12, 15),  # would not fit into 10
        (15, 10, 15),  # would fill 10 at once
        (15, 9, 10),  # room again: shrink
        (20, 3, 15),  # one step a generation
    ],
)
def test_the_population_grows_and_shrinks_as_in_the_pseudocode(size, elite_size, expected):
    assert EMSCO(population=10, growth=5)._resized(size, elite_size) == expected


def test_a_population_shrinks_again_once_a_better_design_clears_the_front():
    # Until a design of three stages is met everything is undominated by its price; that one wins.
    problem = PlainProblem(n_sources=5, max_stages=3)

    def walk(assignment, _):
        if max(assignment) == 2:
            return 40, 40, 0
        number = int("".join(map(str, assignment)), 3)
        return 1 + number % 20, 1, 100 + number % 20

    problem.walk = walk
    history = (
        small(population=6, growth=2, generations=60).run(problem, np.random.default_rng(3)).history
    )
    sizes = [entry["population"] for entry in history]
    assert max(sizes) > 6
    assert sizes[-1] == 6
    assert history[-1]["front"] == 1


@pytest.mark.parametrize("elite", ELITES)
def test_the_same_seed_gives_the_same_result_bit_for_bit(elite):
    def run(seed):
        problem = PlainProblem(allow_unused=True, n_thresholds=2)
        result = small(elite=elite).run(problem, np.random.default_rng(seed))
        return result, problem.log

    (one, first_log), (two, second_log), (other, other_log) = run(4), run(4), run(5)
    assert one.front == two.front
    assert one.history == two.history
    assert first_log == second_log
    assert other.history != one.history
    assert other_log != first_log


@pytest.mark.parametrize("unused", [False, True])
def test_one_source_has_one_design(unused):
    problem = PlainProblem(n_sources=1, max_stages=3, allow_unused=unused)
    problem.confidence[(1,)] = [0.9] * 40
    result = small().run(problem, np.random.default_rng(0))
    assert [c.design.assignment.tolist() for c in result.front] == [[0]]
    assert {assignment for _, assignment in problem.log} == {(0,)}


def test_one_stage_without_unused_sources_has_one_design():
    problem = PlainProblem(max_stages=1)
    small().run(problem, np.random.default_rng(0))
    assert {assignment for _, assignment in problem.log} == {(0,) * 6}


def test_one_stage_with_unused_sources_chooses_among_them():
    problem = PlainProblem(n_sources=5, max_stages=1, allow_unused=True)
    result = EMSCO(population=40, generations=40).run(problem, np.random.default_rng(0))
    exact = problem.front(problem.candidates(list(problem.all_designs())))
    assert evaluations(result.front) == evaluations(exact)


def test_a_child_that_buys_nothing_is_drawn_again():
    # Two sources that all mutate: every fourth child or so would buy nothing.
    problem = PlainProblem(n_sources=2, max_stages=2, allow_unused=True)
    small(mutation_rate=1.0).run(problem, np.random.default_rng(0))
    assert all(max(assignment) >= 0 for _, assignment in problem.log)
    assert {(-1, 0), (0, -1)} <= {assignment for _, assignment in problem.log}


def test_sources_are_left_unused_only_where_that_is_allowed():
    for unused in (False, True):
        problem = PlainProblem(allow_unused=unused)
        small().run(problem, np.random.default_rng(0))
        assert any(min(assignment) < 0 for _, assignment in problem.log) is unused


def test_the_fronts_of_several_thresholds_are_merged():
    problem = PlainProblem(n_thresholds=3, seed=3)
    result = small().run(problem, np.random.default_rng(0))
    assert {threshold for threshold, _ in problem.log} == {0, 1, 2}
    assert result.front == problem.front_of_the_log()
    assert len({candidate.threshold for candidate in result.front}) > 1
    ends = [entry["threshold"] for entry in result.history if entry["halted"]]
    assert ends == problem.thresholds


@pytest.mark.parametrize("elite", ELITES)
def test_what_is_not_feasible_is_never_elite_and_never_in_the_front(elite):
    def forbidden(assignment):
        return assignment[0] > assignment[1]  # the second source may not come before the first

    problem = PlainProblem(forbidden=forbidden)
    for generation in small(elite=elite, elite_fraction=0.9).evolve(
        problem, np.random.default_rng(0)
    ):
        feasible = generation.counts.feasible
        assert feasible[generation.elite].all()
        assert feasible[generation.front].all()
        if feasible.any() and not feasible.all():
            fitness = generation.log_fitness
            assert fitness[~feasible].max() < fitness[feasible].min()
    assert feasible.mean() > 0.5
    result = small(elite=elite).run(problem, np.random.default_rng(0))
    assert not any(forbidden(tuple(c.design.assignment.tolist())) for c in result.front)
    assert result.front == problem.front_of_the_log()


def test_where_nothing_is_feasible_the_front_is_empty_and_the_search_goes_on():
    problem = PlainProblem(forbidden=lambda _: True)
    result = small(patience=3).run(problem, np.random.default_rng(0))
    assert len(result.front) == 0
    assert result.history[-1]["halted"] == "generations"
    assert result.history[-1]["front"] == result.history[-1]["evaluations"] == 0
    assert result.history[-1]["hypervolume"] == 0


def test_a_search_leaves_what_is_not_feasible_behind_once_something_is():
    problem = PlainProblem(n_sources=5, forbidden=lambda assignment: max(assignment) < 2)
    result = small(generations=30).run(problem, np.random.default_rng(0))
    assert result.history[0]["front"] == 0
    assert {c.design.n_stages for c in result.front} == {3}


@pytest.mark.parametrize("prices", [[0] * 6, [0, 0, 0, 1, 5, 9]])
def test_free_sources_are_searched_like_others(prices):
    problem = PlainProblem(prices=prices, allow_unused=True)
    result = small().run(problem, np.random.default_rng(0))
    assert result.front == problem.front_of_the_log()
    assert all(np.isfinite(entry["log_fitness"]) for entry in result.history)


def test_designs_that_accept_nothing_are_searched_but_never_in_the_front():
    problem = PlainProblem()
    problem.confidence = {bought: [0.0] * 40 for bought in problem.confidence}
    result = small().run(problem, np.random.default_rng(0))
    assert len(result.front) == 0
    assert result.history[-1]["hypervolume"] == 0


def test_the_history_tells_what_was_evaluated_and_the_callback_hears_it_as_it_happens():
    problem, heard = PlainProblem(allow_unused=True), []
    result = small().run(problem, np.random.default_rng(0), callback=heard.append)
    assert heard == result.history
    assert result.history[-1]["designs"] == len(problem.log)
    for entry in result.history:
        assert sum(entry["stages"]) == entry["population"]
        assert entry["front"] <= entry["evaluations"] <= entry["population"]
    volumes = [entry["hypervolume"] for entry in result.history]
    assert volumes == sorted(volumes)
    assert volumes[-1] == pytest.approx(result.front.hypervolume())
    assert result.history[-1]["front"] == len(result.front)


def test_only_children_are_evaluated():
    problem = PlainProblem()
    sizes = []
    counted = problem.evaluate
    problem.evaluate = lambda assignments, threshold=0: (
        sizes.append(len(assignments)) or counted(assignments, threshold)
    )
    history = small().run(problem, np.random.default_rng(0)).history
    assert sizes[0] == 30
    assert sizes[1:] == [30 - entry["elite"] for entry in history[:-1]]


def test_the_mutation_rate_is_one_source_a_design_unless_given(monkeypatch):
    rates = []
    mutate = operators.mutate

    def watched(assignments, rate, *more):
        rates.append(rate)
        return mutate(assignments, rate, *more)

    monkeypatch.setattr(operators, "mutate", watched)
    small(generations=1).run(PlainProblem(), np.random.default_rng(0))
    small(generations=1, mutation_rate=0.3).run(PlainProblem(), np.random.default_rng(0))
    assert rates == [1 / 6, 0.3]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("population", 0), ("population", 2.5), ("population", True), ("generations", -1),
        ("mutation_rate", 1.1), ("crossover_rate", -0.1), ("crossover_rate", None),
        ("elite_fraction", float("nan")), ("beta", 0), ("beta", "2"), ("epsilon", 0.0),
        ("epsilon", float("inf")), ("growth", -1), ("patience", 0), ("elite", "best"),
    ],
)  # fmt: skip
def test_a_parameter_that_cannot_be_is_refused_by_name(name, value):
    with pytest.raises(SearchError, match=f"`{name}` must be"):
        EMSCO(**{name: value})


def test_numbers_of_numpy_are_numbers():
    search = EMSCO(population=np.int64(5), beta=np.float32(1.5), patience=np.int32(2))
    assert search == EMSCO(population=5, beta=1.5, patience=2)
