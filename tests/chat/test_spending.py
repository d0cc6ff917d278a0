"""Money: exact sums, upper bounds, and prices that make sense."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emsco.chat.spending import UNIT, TokenPrices, Usage, bound, to_units
from emsco.exceptions import ModelError

prices = st.floats(0, 1000, allow_nan=False).map(lambda price: round(price, 6))
counts = st.integers(0, 10**6)


@given(prices, prices, counts, counts)
def test_a_cost_is_exact_or_rounded_up(price_in, price_out, tokens_in, tokens_out):
    cost = TokenPrices(price_in, price_out).cost(Usage(tokens_in, tokens_out))
    exact = Fraction(str(price_in)) * tokens_in + Fraction(str(price_out)) * tokens_out
    assert 0 <= cost - exact * UNIT / 10**6 < 1


@given(st.text(max_size=300), st.integers(1, 500))
def test_no_tokens_are_more_than_the_bound(text, max_tokens):
    """However they are cut: a token stands for a byte at least."""
    body = text.encode("utf-8", "replace")
    most = bound(body, 256, max_tokens)
    assert most.tokens_in >= len(text)
    assert most.tokens_out == max_tokens


def test_a_limit_is_rounded_down():
    assert to_units(0.1) == UNIT // 10
    assert to_units(1e-13) == 0


@pytest.mark.parametrize(
    "wrong", [(1, None), (None, 1), (-1, 1), (1, float("nan")), (True, 1), ("1", 1)]
)
def test_prices_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ModelError, match="price_"):
        TokenPrices(*wrong)
