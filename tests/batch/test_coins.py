"""Coins: by place, question and secret, each with its probability."""

from __future__ import annotations

import hmac
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from emsco.batch.coins import digest_of, draw, shuffled


@given(st.binary(min_size=1, max_size=40), st.floats(0, 1), st.integers(0, 2**40))
def test_a_coin_is_the_hmac_of_question_and_place(secret, rate, row):
    number = int.from_bytes(
        hmac.digest(secret, b"question" + row.to_bytes(8, "big"), "sha256")[:8], "big"
    )
    found = draw(secret, b"question", np.array([row]), rate)
    assert bool(found[0]) == (Fraction(number, 2**64) < Fraction(rate))


@pytest.mark.parametrize("rate", [0.001, 0.1, 0.5, 0.99])
def test_a_coin_falls_as_often_as_its_rate_says(rate):
    n_rows = 20_000
    found = draw(b"s", b"q", np.arange(n_rows), rate).sum()
    assert binomtest(int(found), n_rows, rate).pvalue > 1e-4


def test_the_ends_are_exact():
    rows = np.arange(500)
    assert not draw(b"s", b"q", rows, 0.0).any()
    assert draw(b"s", b"q", rows, 1.0).all()


def test_other_questions_secrets_and_places_have_other_coins():
    rows = np.arange(2000)
    first = draw(b"s", b"q", rows, 0.5)
    for other in (draw(b"t", b"q", rows, 0.5), draw(b"s", b"r", rows, 0.5),
                  draw(b"s", b"q", rows + 2000, 0.5)):  # fmt: skip
        assert 0.45 < (first == other).mean() < 0.55
    order = np.random.default_rng(0).permutation(rows)
    assert (draw(b"s", b"q", order, 0.5) == first[order]).all()


def test_parts_of_a_digest_keep_their_borders():
    assert digest_of([b"ab", b"c"]) != digest_of([b"a", b"bc"])


@given(st.binary(min_size=1), st.integers(0, 300))
def test_an_order_has_every_number_once(secret, n_rows):
    assert sorted(shuffled(secret, "ties", n_rows)) == [*range(n_rows)]
