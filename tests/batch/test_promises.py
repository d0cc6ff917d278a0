"""What a promise comes to, against all truths that are possible."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from emsco.batch.promises import NEVER, NO_LABEL, Labelled, Promise

YES = 1


def promises(most, missed, false):
    """Return the promises of which the number is not None."""
    kinds = [("agreement", NO_LABEL, most), ("missed", YES, missed), ("false", YES, false)]
    return tuple(
        Promise(kind, code, Fraction(1, 10), number, 0.1)
        for kind, code, number in kinds
        if number is not None
    )


numbers = st.none() | st.integers(0, 4)


@settings(max_examples=150)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from([NEVER, NEVER, NEVER, 0, 1, 2, -1])),
             min_size=1, max_size=6),
    numbers, numbers, numbers,
)  # fmt: skip
def test_no_truth_within_the_bounds_is_worse_than_what_is_stated(rows, most, missed, false):
    """Every truth of the cheap rows is tried that all numbers allow."""
    own = promises(most, missed, false)
    if not own:
        return
    cheap, final = (np.array(column, dtype=np.int32) for column in zip(*rows, strict=True))
    standings = Labelled(cheap, final).standings(own, [0] * len(own))
    is_cheap = final == NEVER
    labels = np.where(is_cheap, cheap, final)
    for guess in product(range(3), repeat=int(is_cheap.sum())):
        truth = labels.copy()
        truth[is_cheap] = guess
        broken = [int(each.broken(cheap, truth)[is_cheap].sum()) for each in own]
        if any(n > each.most for n, each in zip(broken, own, strict=True)):
            continue
        for standing in standings:
            differs = (labels != truth) | (labels == NO_LABEL)
            if standing.promise.kind == "agreement":
                share = Fraction(int(differs.sum()), len(labels))
            else:
                among = (truth if standing.promise.kind == "missed" else labels) == YES
                share = Fraction(int(differs[among].sum()), max(int(among.sum()), 1))
            assert share <= standing.share


def test_rows_that_could_not_be_answered_count_and_free_nothing():
    """What they would have been is unknown, also where the money ended."""
    cheap = np.zeros(100, dtype=np.int32)
    final = np.full(100, NEVER, dtype=np.int32)
    final[90:] = NO_LABEL
    own = promises(5, 3, None)
    agreement, missed = Labelled(cheap, final).standings(own, [0, 0])
    assert (agreement.left, agreement.lacking, agreement.share) == (5, 10, Fraction(15, 100))
    assert agreement.holds is (Fraction(5, 100) <= agreement.promise.share)
    assert missed.share == 1


def test_a_row_without_an_answer_disagrees_in_every_way():
    cheap = np.array([0, 1], dtype=np.int32)
    final = np.array([NO_LABEL, NO_LABEL], dtype=np.int32)
    assert all(each.broken(cheap, final).all() for each in promises(1, 1, 1))
