"""The operators do what the paper's equations say, on whole populations, and keep designs valid."""

from __future__ import annotations

from math import comb, gamma, lgamma

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from emsco import StageDesign
from emsco.core.design import compress as compress_one
from emsco.search.strategies import _operators as operators

# Read off the paper's figure of P_incr: 15 sources, rate 0.1; beta, then 2, 3 and 4 stages.
FIGURE = [
    (1.0, 0.3986169993576385, 0.3159793144360765, 0.26143089735459624),
    (1.33, 0.32410897337981825, 0.2368569285737545, 0.1832331775943603),
    (1.5, 0.29307893089033654, 0.20572920262140382, 0.15393725112292855),
    (2.0, 0.2228382476098566, 0.13994164535871156, 0.09546549096187629),
    (2.37, 0.18543801756111333, 0.10795414295999839, 0.06912767307460288),
    (2.5, 0.17444211727388415, 0.09900681696187918, 0.062063203196442984),
    (3.0, 0.13994164535871156, 0.07243103118167216, 0.04201052185184839),
    (3.61, 0.10992604035402376, 0.05137342326138794, 0.027318243916401808),
    (3.99, 0.09580024470262005, 0.04222101136945511, 0.021349406715612473),
]


def beta_binomial(n_stages, stage, beta):
    """Compute the paper's mutation equation as it is printed."""

    def log_beta_function(a, b):
        return lgamma(a) + lgamma(b) - lgamma(a + b)

    log_ratio = log_beta_function(stage + 1, n_stages - stage + beta) - log_beta_function(1, beta)
    return comb(n_stages, stage) * np.exp(log_ratio)


def chi_square(observed, expected):
    return float(((np.asarray(observed) - expected) ** 2 / expected).sum())


def populations(max_stages=5):
    def buy(drawn):
        drawn[drawn.max(axis=1) < 0, 0] = 0
        return drawn

    shapes = st.tuples(st.integers(1, 12), st.integers(1, 8))
    return arrays(np.int8, shapes, elements=st.integers(-1, max_stages - 1)).map(buy)


@given(populations())
def test_compressing_many_designs_is_compressing_each(population):
    compressed = operators.compress(population)
    assert compressed.dtype == np.int8
    assert compressed.tolist() == [compress_one(row).tolist() for row in population]


@given(populations())
def test_compressing_twice_is_compressing_once(population):
    compressed = operators.compress(population)
    assert np.array_equal(operators.compress(compressed), compressed)


@given(populations())
def test_compressing_keeps_the_order_of_stages_and_what_is_unused(population):
    for before, after in zip(population, operators.compress(population), strict=True):
        assert np.array_equal(before < 0, after < 0)
        assert np.array_equal(np.sign(before[:, None] - before), np.sign(after[:, None] - after))


def test_compressing_follows_the_example_of_the_paper():
    assert operators.compress(np.array([[0, 0, 2, 3]])).tolist() == [[0, 0, 1, 2]]


def test_no_designs_and_designs_that_buy_nothing_are_compressed_too():
    assert operators.compress(np.zeros((0, 3), dtype=np.int8)).shape == (0, 3)
    assert operators.compress(np.full((2, 3), -1, dtype=np.int8)).tolist() == [[-1] * 3] * 2


def test_compressing_closes_up_a_hundred_stages():
    stages = np.arange(127, dtype=np.int8)[::-1].reshape(1, -1)
    assert np.array_equal(operators.compress(stages), stages)


@given(populations())
def test_keys_sort_by_stage_count_then_by_assignment(population):
    population = operators.compress(population)
    order = np.argsort(operators.sort_keys(population), kind="stable")
    told = [(StageDesign(row.astype(int)).n_stages, row.tolist()) for row in population]
    assert [told[i] for i in order] == sorted(told)


@pytest.mark.parametrize(("n_sources", "max_stages"), [(2, 2), (3, 4), (14, 4), (50, 10)])
def test_the_first_population_has_two_stages_only(n_sources, max_stages):
    rng = np.random.default_rng(0)
    population = operators.initial_population(400, n_sources, max_stages, rng)
    assert population.shape == (400, n_sources)
    assert (population.min(axis=1) == 0).all()
    assert (population.max(axis=1) == 1).all()
    assert abs(population.mean() - 0.5) < 0.05


@pytest.mark.parametrize(("n_sources", "max_stages"), [(1, 4), (6, 1)])
def test_where_two_stages_cannot_be_the_first_population_has_one(n_sources, max_stages):
    rng = np.random.default_rng(0)
    assert not operators.initial_population(20, n_sources, max_stages, rng).any()


@pytest.mark.parametrize(
    ("stages", "parent_stages", "child_stages", "carried"),
    [
        ([0, 1, 2], 3, 3, [0, 1, 2]),  # the same count: the same stages
        ([0, 1], 2, 4, [1, 3]),  # 1/2 x 4 = 2, 2/2 x 4 = 4
        ([0, 1, 2, 3], 4, 2, [0, 0, 1, 1]),  # .5 -> 0 -> stage 0; 1; 1.5 -> 2; 2
        ([0, 1, 2], 3, 2, [0, 0, 1]),  # .67 -> 1; 1.33 -> 1; 2
        ([0, 1, 2, 3, 4], 5, 2, [0, 0, 0, 1, 1]),  # .4 -> 0, no stage below 0; 1.6 -> 2
        ([0, 1], 2, 3, [1, 2]),  # 1.5 -> 2, half to even; 3
        ([0, 1], 2, 5, [1, 4]),  # 2.5 -> 2, half to even; 5
        ([0, 0, -1], 1, 3, [2, 2, -1]),  # 1/1 x 3 = 3; unused stays unused
    ],
)
def test_a_stage_is_carried_over_as_worked_by_hand(stages, parent_stages, child_stages, carried):
    assert operators.transfer(np.array(stages), parent_stages, child_stages).tolist() == carried


def test_halves_are_rounded_as_halves_for_every_pair_of_stage_counts():
    for parent in range(1, 31):
        for child in range(1, 31):
            stages = np.arange(parent)
            doubled = 2 * (stages + 1) * child
            down, rest = doubled // (2 * parent), doubled % (2 * parent)
            up = (rest > parent) | ((rest == parent) & (down % 2 == 1))
            expected = np.maximum(down + up - 1, 0)
            assert operators.transfer(stages, parent, child).tolist() == expected.tolist()


@given(populations(), st.floats(0, 1), st.integers(0, 2**32))
def test_crossover_stays_within_the_stages_of_its_parents(population, rate, seed):
    parents = operators.compress(population)
    partners = parents[::-1]
    children = operators.crossover(parents, partners, rate, np.random.default_rng(seed))
    most = np.maximum(operators.stage_counts(parents), operators.stage_counts(partners))
    assert (operators.stage_counts(children) <= most).all()
    assert np.array_equal(operators.compress(children), children)
    both_unused, neither = (parents < 0) & (partners < 0), (parents >= 0) & (partners >= 0)
    assert (children[both_unused] == -1).all()
    assert (children[neither] >= 0).all()


def test_without_crossover_a_child_is_one_of_its_parents_by_a_fair_coin():
    first = np.tile(np.array([0, 1, 2, -1], dtype=np.int8), (4000, 1))
    second = np.tile(np.array([1, 0, 0, 0], dtype=np.int8), (4000, 1))
    children = operators.crossover(first, second, 0.0, np.random.default_rng(1))
    is_first = (children == first).all(axis=1)
    assert (is_first | (children == second).all(axis=1)).all()
    assert chi_square([is_first.sum(), (~is_first).sum()], np.array([2000, 2000])) < 10.8


def test_a_child_of_equal_parents_with_equal_stage_counts_is_its_parent():
    parents = np.tile(np.array([0, 2, 1, -1, 2], dtype=np.int8), (50, 1))
    children = operators.crossover(parents, parents, 1.0, np.random.default_rng(2))
    assert np.array_equal(children, parents)


def test_crossover_draws_stage_counts_by_thirds_and_indices_by_halves():
    # |A| = 4, |B| = 1, so |C| is 4, 1 or rint(2.5) = 2. From A stage 3 is carried over to |C| - 1;
    # from B stage 0 is too: only A's lower stages tell the counts apart.
    size = 9000
    first = np.tile(np.arange(4, dtype=np.int8), (size, 1))
    second = np.zeros((size, 4), dtype=np.int8)
    children = operators.crossover(first, second, 1.0, np.random.default_rng(3))
    # By hand: every index is A's (a) or B's (b); with |C| = 4 B's become stage 3; with |C| = 2 A's
    # are 0 0 1 1 and B's 1; with |C| = 1 all are 0; then compressed.
    expected = {}
    for choice in range(16):
        from_first = [bool(choice >> i & 1) for i in range(4)]
        for carried, other in (([0, 1, 2, 3], 3), ([0, 0, 1, 1], 1), ([0, 0, 0, 0], 0)):
            raw = [c if mine else other for c, mine in zip(carried, from_first, strict=True)]
            child = tuple(compress_one(raw).tolist())
            expected[child] = expected.get(child, 0) + size / 48
    drawn, counts = np.unique(children, axis=0, return_counts=True)
    found = dict(zip(map(tuple, drawn.tolist()), counts.tolist(), strict=True))
    assert found.keys() == expected.keys()
    observed = [found[child] for child in expected]
    # 99.9% points of chi-square: about df + 4.5 sqrt(df) for these few degrees of freedom.
    degrees = len(expected) - 1
    assert chi_square(observed, np.array(list(expected.values()))) < degrees + 4.5 * degrees**0.5


@pytest.mark.parametrize("beta", [1.0, 1.5, 2.0, 2.5, 3.99])
@pytest.mark.parametrize("n_stages", [0, 1, 2, 3, 4, 9, 40])
def test_mutation_probabilities_are_the_beta_binomial(n_stages, beta):
    found = operators.mutation_probabilities(n_stages, beta)
    expected = [beta_binomial(n_stages, stage, beta) for stage in range(n_stages + 1)]
    assert found == pytest.approx(expected, rel=1e-10)
    assert found.sum() == pytest.approx(1, abs=1e-12)
    assert found @ np.arange(n_stages + 1) == pytest.approx(n_stages / (beta + 1))


@given(st.integers(1, 30), st.floats(1.001, 20))
def test_mutation_prefers_early_stages_when_beta_is_above_one(n_stages, beta):
    assert (np.diff(operators.mutation_probabilities(n_stages, beta)) < 0).all()


def test_a_beta_of_one_draws_all_stages_alike():
    assert operators.mutation_probabilities(4, 1.0) == pytest.approx([0.2] * 5)


@pytest.mark.parametrize("row", FIGURE, ids=lambda row: f"beta {row[0]}")
def test_the_probability_of_a_new_stage_is_that_of_the_papers_figure(row):
    beta, *expected = row
    found = [operators.increment_probability(stages, 15, 0.1, beta) for stages in (2, 3, 4)]
    assert found == pytest.approx(expected, abs=1e-12, rel=0)


def test_the_probability_of_a_new_stage_is_the_papers_closed_formula_along_its_figure():
    for n_stages in (2, 3, 4):
        for beta in np.arange(100, 400) / 100:
            opens = beta * gamma(n_stages + 1) * gamma(beta) / gamma(n_stages + beta + 1)
            expected = 1 - (1 - 0.1 * opens) ** 15
            found = operators.increment_probability(n_stages, 15, 0.1, beta)
            assert found == pytest.approx(expected, abs=1e-12, rel=0)


@pytest.mark.parametrize("n_stages", [2, 3, 4])
def test_mutation_opens_new_stages_as_often_as_the_paper_says(n_stages):
    # Many sources in each stage, so that no stage is emptied and the stage count cannot hide it.
    size = 40_000
    design = np.repeat(np.arange(n_stages, dtype=np.int8), 15)
    population = np.tile(design, (size, 1))
    rng = np.random.default_rng(n_stages)
    mutated = operators.mutate(population, 0.1, 2.0, n_stages + 1, False, rng)
    opened = int((mutated.max(axis=1) == n_stages).sum())
    expected = size * operators.increment_probability(n_stages, 15 * n_stages, 0.1, 2.0)
    assert chi_square([opened, size - opened], np.array([expected, size - expected])) < 10.8


@pytest.mark.parametrize(("max_stages", "last"), [(4, 3), (3, 2), (8, 3)])
def test_mutated_stages_are_drawn_from_the_beta_binomial_within_the_limit(max_stages, last):
    # Of 3 x 20 sources one in ten mutates; the change from the known stage is what was drawn.
    design = np.repeat(np.arange(3, dtype=np.int8), 20)
    population = np.tile(design, (4000, 1))
    rng = np.random.default_rng(7)
    mutated = operators.mutate(population, 0.1, 2.5, max_stages, False, rng)
    drawn_anew = population.size * 0.1
    probabilities = operators.mutation_probabilities(last, 2.5)
    for stage in range(3):
        indices = mutated[:, design != stage]
        found = int((indices == stage).sum())
        expected = drawn_anew * 2 / 3 * probabilities[stage]
        variance = expected * (1 - expected / indices.size)
        assert abs(found - expected) < 4 * variance**0.5
    assert mutated.max() == last


@given(populations(), st.floats(0, 1), st.integers(5, 9), st.booleans(), st.integers(0, 2**32))
def test_mutation_stays_within_the_stages_allowed(population, rate, max_stages, unused, seed):
    if not unused:
        population = np.maximum(population, 0)
    designs = operators.compress(population)
    before = designs.copy()
    rng = np.random.default_rng(seed)
    mutated = operators.mutate(designs, rate, 2.0, max_stages, unused, rng)
    assert np.array_equal(designs, before)
    assert np.array_equal(operators.compress(mutated), mutated)
    most = np.minimum(operators.stage_counts(designs) + 1, max_stages)
    assert (operators.stage_counts(mutated) <= most).all()
    assert unused or (mutated >= 0).all()


def test_a_rate_of_zero_changes_nothing():
    designs = np.array([[0, 1, -1], [2, 1, 0]], dtype=np.int8)
    rng = np.random.default_rng(0)
    assert np.array_equal(operators.mutate(designs, 0.0, 2.0, 4, True, rng), designs)


def test_a_mutating_index_is_left_unused_once_in_stages_plus_two():
    designs = np.tile(np.array([0, 1, 2] * 10, dtype=np.int8), (2000, 1))
    mutated = operators.mutate(designs, 1.0, 2.0, 5, True, np.random.default_rng(4))
    unused = int((mutated < 0).sum())
    expected = np.array([designs.size / 5, designs.size * 4 / 5])
    assert chi_square([unused, designs.size - unused], expected) < 10.8


def test_with_one_stage_allowed_mutation_keeps_one():
    designs = np.zeros((200, 6), dtype=np.int8)
    mutated = operators.mutate(designs, 1.0, 2.0, 1, False, np.random.default_rng(5))
    assert not mutated.any()


def test_levels_are_found_by_taking_fronts_away():
    accepted = np.array([5, 9, 9, 4, 9])
    accuracy = np.array([1.0, 0.9, 0.9, 1.0, 0.8])
    paid = np.array([10, 20, 20, 11, 21])
    assert operators.domination_levels(accepted, accuracy, paid).tolist() == [0, 0, 0, 1, 1]


def test_levels_tell_prices_apart_that_floats_cannot():
    price = 2**60
    same = np.array([7, 7])
    levels = operators.domination_levels(same, same / 10, np.array([price + 1, price]))
    assert levels.tolist() == [1, 0]


norms = st.floats(0.01, 3**0.5)


def log_selection_probabilities(fitness):
    """Return the log of each design's probability on the roulette wheel, from its log fitness."""
    relative = fitness - fitness.max()
    return relative - np.log(np.exp(relative).sum())


@given(st.lists(st.tuples(st.integers(0, 299), norms), min_size=2, max_size=60))
def test_a_higher_rank_is_always_selected_more_often_whatever_the_norm(some):
    ranks = np.array([rank for rank, _ in some])
    fitness = operators.log_fitness(ranks, np.array([norm for _, norm in some]), 0.01)
    chances = log_selection_probabilities(fitness)
    higher = ranks[:, None] > ranks
    assert (chances[:, None] > chances)[higher].all()
    assert np.isfinite(chances).all()
    assert np.exp(chances).sum() == pytest.approx(1)


@given(st.integers(0, 299), st.lists(norms, min_size=2, max_size=40))
def test_within_a_rank_selection_grows_strictly_with_the_norm(rank, some):
    distinct = np.unique(np.round(some, 9))
    fitness = operators.log_fitness(np.full(len(distinct), rank), distinct, 0.01)
    assert (np.diff(log_selection_probabilities(fitness)) > 0).all()


def test_three_hundred_levels_keep_their_order_and_overflow_nothing():
    ranks = np.arange(300)
    fitness = operators.log_fitness(ranks, np.linspace(1.7, 0.02, 300), 0.01)
    chances = log_selection_probabilities(fitness)
    assert np.isfinite(chances).all()
    assert (np.diff(chances) > 0).all()


@given(st.lists(st.tuples(st.integers(0, 5), norms), min_size=1, max_size=20))
def test_few_levels_have_the_papers_selection_probabilities(some):
    ranks = np.array([rank for rank, _ in some])
    lengths = np.array([norm for _, norm in some])
    fitness = (lengths.max() / lengths.min() + 0.01) ** ranks * lengths
    chances = log_selection_probabilities(operators.log_fitness(ranks, lengths, 0.01))
    assert np.exp(chances) == pytest.approx(fitness / fitness.sum(), rel=1e-9)


def test_the_roulette_draws_as_often_as_the_probabilities_say():
    fitness = np.log(np.array([4.0, 3.0, 2.0, 1.0])) + 5000  # exp of these overflows
    drawn = operators.roulette(fitness, 20_000, np.random.default_rng(6))
    expected = np.array([8000, 6000, 4000, 2000])
    assert chi_square(np.bincount(drawn, minlength=4), expected) < 16.3


def test_the_roulette_never_draws_what_has_no_chance_left():
    drawn = operators.roulette(np.array([-9000.0, 0.0, -9000.0]), 1000, np.random.default_rng(0))
    assert (drawn == 1).all()


@pytest.mark.parametrize("max_stages", [2, 3, 4])
def test_the_number_of_designs_approaches_stages_to_the_power_of_sources(max_stages):
    ratios = [StageDesign.count(n, max_stages) / max_stages**n for n in range(10, 130, 10)]
    gaps = [abs(1 - ratio) for ratio in ratios]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < 1e-12
