"""The rate of random checks, against exact fractions and scipy."""

from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import binom, hypergeom

from emsco.certify.check_rate import HeldOut, chance, rate_for, tolerated_at

CASES = [(most, tolerated, error) for most in (1, 5, 25, 120) for tolerated in (0, 1, 4, 12)
         for error in (0.1, 0.01, 0.001)]  # fmt: skip


def exact_tail(count, rows, share):
    """Return the binomial probability without any rounding."""
    share = Fraction(share)
    return sum(comb(rows, i) * share**i * (1 - share) ** (rows - i) for i in range(count + 1))


@pytest.mark.parametrize(("most", "tolerated", "error"), CASES)
def test_a_rate_keeps_its_promise_exactly_and_is_the_least_that_does(most, tolerated, error):
    rate, first = rate_for(most, tolerated, error), most + 1 + tolerated
    assert exact_tail(tolerated, first, rate) <= Fraction(error)
    assert binom.cdf(tolerated, first, rate * (1 - 1e-6)) > error


def test_a_root_finder_alone_would_break_the_promise_as_often_as_not():
    """Its result is on either side; so rates are rounded up."""
    above = 0
    for most, tolerated, error in CASES:
        first = most + 1 + tolerated
        root = brentq(
            lambda q, n=first, c=tolerated, d=error: binom.cdf(c, n, q) - d, 1e-9, 1 - 1e-9
        )
        above += exact_tail(tolerated, first, root) > Fraction(error)
    assert above >= len(CASES) // 5


@given(
    st.integers(1, 60), st.integers(0, 6), st.integers(1, 300), st.integers(0, 300),
    st.floats(0, 1),
)  # fmt: skip
def test_held_out_rows_are_hypergeometric_among_the_first(most, tolerated, held, rest, rate):
    first = most + 1 + tolerated
    rows = held + max(rest, first)
    found = chance(most, tolerated, rate, HeldOut(held, rows))
    numbers = np.arange(tolerated + 1)
    expected = (
        hypergeom.pmf(numbers, rows, first, held)
        * binom.cdf(tolerated - numbers, np.maximum(first - numbers, 0), rate)
    ).sum()
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-14)


@given(st.integers(1, 40), st.integers(0, 5), st.sampled_from([0.1, 0.01]), st.integers(50, 900))
def test_a_rate_beside_held_out_rows_keeps_its_promise(most, tolerated, error, held):
    held_out = HeldOut(held, held + 1000)
    rate = rate_for(most, tolerated, error, held_out)
    assert chance(most, tolerated, rate, held_out) <= error
    assert rate == 0 or chance(most, tolerated, rate * (1 - 1e-6), held_out) > error


@given(st.integers(1, 200), st.floats(0.001, 0.9), st.sampled_from([0.1, 0.01]))
def test_as_many_are_tolerated_as_a_rate_allows(most, rate, error):
    found = tolerated_at(rate, most, error)
    if found is None:
        assert chance(most, 0, rate) > error * (1 - 1e-8)
        return
    assert chance(most, found, rate) <= error
    if found < max(most, 20):  # more than these are not looked for
        assert chance(most, found + 1, rate) > error * (1 - 1e-8)
