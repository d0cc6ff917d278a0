"""The plan of spot checks: what is allowed, which terms are best, and where the walk stops."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from emsco.batch.spot_checks import Allowance, Risk, allowed, best_terms, stop_rank
from emsco.certify.check_rate import HeldOut, chance


@given(st.integers(0, 10**7), st.integers(1, 9999))
def test_the_allowed_number_is_that_of_exact_fractions(n_rows, part):
    agreement = part / 10_000
    assert allowed(n_rows, agreement) == n_rows * (10_000 - part) // 10_000


@given(st.lists(st.floats(-0.5, 99.5), max_size=30), st.integers(0, 12))
def test_the_walk_stops_before_the_next_known_disagreement(known, tolerated):
    found = stop_rank(np.array(known), tolerated, 100)
    above = [sum(place <= rank for place in known) <= tolerated for rank in range(100)]
    assert found == sum(above)


def test_rows_too_few_to_break_a_promise_need_no_checks():
    terms = best_terms([Allowance(50, 0.01)], None, 50)
    assert (terms.rate, terms.expected_cheap) == (0.0, 50)
    terms = best_terms([Allowance(50, 0.01), Allowance(3, 0.01)], None, 50)
    assert terms.rate > 0.5
    assert terms.tolerated[0] == 50


def test_terms_come_to_an_end_where_held_out_rows_are_many_and_the_rows_of_the_walk_few():
    terms = best_terms([Allowance(100, 0.01)], None, 99, HeldOut(500, 599))
    assert terms.rate == 0


@given(st.integers(1, 30), st.integers(40, 2000), st.floats(0, 0.5), st.sampled_from([0.1, 0.01]))
def test_all_terms_that_are_planned_are_valid(most, n_rows, worst, error):
    """Whatever is expected."""
    risk = Risk(np.cumsum(np.linspace(0, worst, n_rows)))
    terms = best_terms([Allowance(most, error), Allowance(2 * most, error)], [risk, risk], n_rows)
    if terms is not None and n_rows > 2 * most:
        for number, tolerated in zip((most, 2 * most), terms.tolerated, strict=True):
            assert chance(number, tolerated, terms.rate) <= error


def test_nothing_is_planned_for_no_rows():
    assert best_terms([Allowance(3, 0.1)], None, 0).rate == 0
