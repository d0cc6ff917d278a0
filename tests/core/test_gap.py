"""Gaps between groups: the bound of a difference keeps its level, exactly and over all pairs."""

from __future__ import annotations

from itertools import permutations
from statistics import NormalDist

import numpy as np
import pytest
from scipy.stats import binom

from emsco import Evaluation
from emsco.core.gap import LEAST_ROWS, GapBound, largest_gap, most_difference, read_max_gap
from emsco.core.measures import MEASURES
from emsco.core.selection import Figures
from emsco.exceptions import SelectionError

LEVELS = (1.0, 1.645, 2.326)


def passing(n, other_n, share, other, z):
    """Sum the probabilities of all counts for which a bound just below the truth is met."""
    k, other_k = np.arange(n + 1)[:, None], np.arange(other_n + 1)[None]
    met = most_difference(k, n, other_k, other_n, z) <= share - other - 1e-12
    return binom.pmf(k[:, 0], n, share) @ met @ binom.pmf(other_k[0], other_n, other)


LARGE = pytest.param(700, marks=pytest.mark.nightly)


@pytest.mark.parametrize("z", LEVELS)
@pytest.mark.parametrize("n", [30, 150, LARGE])
@pytest.mark.parametrize("other_n", [30, 150, LARGE])
def test_a_true_difference_above_the_bound_passes_as_rarely_as_the_margin_says(n, other_n, z):
    """Exactly, by enumeration, also for shares near 0 and 1 and groups of unequal size."""
    allowed = 1 - NormalDist().cdf(z)
    for other in (0.0, 0.01, 0.05, 0.2, 0.5, 0.8, 0.9):
        for gap in (0.01, 0.05, 0.1):
            assert passing(n, other_n, other + gap, other, z) <= allowed


def test_the_bound_is_no_wider_than_it_must_be():
    """With many rows it passes nearly as often as the margin allows."""
    assert passing(300, 300, 0.3, 0.2, 1.0) > 0.13


def test_without_a_margin_the_bound_is_the_difference():
    assert most_difference(3, 10, 1, 10, 0.0) == pytest.approx(0.2)


@pytest.mark.parametrize("z", [0.0, 1.0])
def test_a_share_of_no_rows_may_differ_by_all(z):
    """Otherwise a group of which nothing is accepted would have no accuracy to compare."""
    assert most_difference(0, 0, 5, 10, z) == most_difference(5, 10, 0, 0, z) == 1


def test_more_margin_never_gives_a_smaller_bound():
    k = np.arange(31)
    bounds = [most_difference(k, 30, 4, 40, z) for z in (0.0, *LEVELS, 5.0)]
    assert (np.diff(bounds, axis=0) >= 0).all()


def drawn(shares, n_rows, n_candidates, seed=0):
    """Evaluate candidates that reject each group's rows with a chance."""
    rng = np.random.default_rng(seed)
    return {
        group: [
            Evaluation(n, n - k, n - k, n, {"a": n}, {"a": n - k}, {"a": n - k})
            for k in rng.binomial(n, share, n_candidates).tolist()
        ]
        for group, (n, share) in enumerate(zip(n_rows, shares, strict=True))
    }


def test_a_bound_is_kept_by_every_ordered_pair():
    """As a loop over pairs and candidates finds it."""
    evaluations = drawn((0.1, 0.2, 0.15), (200, 90, 400), 50)
    figures = {group: Figures(own) for group, own in evaluations.items()}
    (bound,) = read_max_gap({"rejected": 0.1}, ["a"])
    values = bound.values(figures, 1.3, 2.0)
    for i in range(50):
        counts = [(200, 0), (90, 1), (400, 2)]
        pairs = [
            most_difference(
                (n - evaluations[a][i].accepted) / 2, n / 2,
                (m - evaluations[b][i].accepted) / 2, m / 2, 1.3,
            )
            for (n, a), (m, b) in permutations(counts, 2)
        ]  # fmt: skip
        assert values[i] == pytest.approx(max(pairs))


def test_no_correction_is_needed_for_the_number_of_pairs():
    """The pair that exceeds the bound must pass, too: 500 draws, exact test, five groups."""
    shares, z = (0.2, 0.1, 0.1, 0.1, 0.1), 1.0
    figures = {g: Figures(own) for g, own in drawn(shares, (400,) * 5, 500).items()}
    (bound,) = read_max_gap({"rejected": 0.1 - 1e-9}, ["a"])
    passed = int((bound.values(figures, z, 1.0) <= bound.limit).sum())
    assert binom.sf(passed - 1, 500, 1 - NormalDist().cdf(z)) > 0.01
    assert passed > 0


def test_small_groups_are_left_out_whatever_was_decided():
    """By their size alone: as many candidates keep the bound as without them."""
    large = drawn((0.1, 0.12), (300, 300), 20)
    small = drawn((1.0,), (LEAST_ROWS - 1,), 20)[0]
    (bound,) = read_max_gap({"rejected": 0.1}, ["a"])
    without = {group: Figures(own) for group, own in large.items()}
    figures = {**without, "small": Figures(small)}
    assert (bound.values(figures, 1.0, 1.0) == bound.values(without, 1.0, 1.0)).all()
    assert bound.left_out(figures, 1.0) == ["small"]
    counted_twice = drawn((0.1, 0.12), (300, 2 * LEAST_ROWS - 1), 20)
    with pytest.raises(SelectionError, match="fewer than two are so large: '0' 150, '1' 30"):
        bound.values({group: Figures(own) for group, own in counted_twice.items()}, 1.0, 2.0)


def test_bounds_of_0_and_1_have_no_margin():
    for limit, margin in ((0, 0.0), (1, 0.0), (0.1, 1.5)):
        assert GapBound(MEASURES["coverage"], limit).margin(1.5) == margin


def test_a_gap_is_the_largest_difference_of_two_groups():
    sizes = {"x": (100, 80), "y": (50, 30), None: (10, 7)}
    groups = {name: Evaluation(n, k, k, 0) for name, (n, k) in sizes.items()}
    gap = largest_gap(groups, MEASURES["coverage"])
    assert (gap.more, gap.less, gap.difference) == ("x", "y", pytest.approx(0.2))
    assert gap.low <= gap.difference <= gap.high
    assert largest_gap({"x": groups["x"]}, MEASURES["coverage"]) is None
    del groups["y"]
    assert "'x' over no group" in str(largest_gap(groups, MEASURES["coverage"]))


@pytest.mark.parametrize("shares", [(0.3, 0.3, 0.3, 0.3), (0.3, 0.2, 0.25, 0.2)])
def test_the_interval_of_a_gap_covers_the_truth(shares):
    """Of 150 draws, at most as many miss it as chance explains, at either end."""
    evaluations = drawn(shares, (150,) * 4, 150, seed=1)
    truth, below, above = max(shares) - min(shares), 0, 0
    for i in range(150):
        gap = largest_gap({g: own[i] for g, own in evaluations.items()}, MEASURES["rejected"], "a")
        below += gap.high < truth
        above += gap.low > truth
    assert binom.sf(below - 1, 150, 0.025) > 0.01
    assert binom.sf(above - 1, 150, 0.025) > 0.01


@pytest.mark.parametrize(
    ("max_gap", "message"),
    [
        (0.1, "must be a mapping"),
        ({}, "must be a mapping"),
        ({"rejectd": 0.1}, "did you mean 'rejected'"),
        ({"cost": 0.1}, "must name accuracy, coverage"),
        ({"missed": 5}, "5% is 0.05"),
        ({"missed": "little"}, "must be a number"),
        ({"missed": {"b": 0.1}}, "'b', which is not a class"),
        ({"coverage": {"a": 0.1}}, "one share for all rows"),
    ],
)
def test_bounds_that_mean_nothing_are_refused(max_gap, message):
    with pytest.raises(SelectionError, match=message):
        read_max_gap(max_gap, ["a"])
