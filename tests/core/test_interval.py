"""Intervals of shares: right as often as they say, and told where rows are few."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from emsco import Evaluation
from emsco.core.interval import few_rows_text, interval, interval_text


@pytest.mark.parametrize(("part", "whole"), [(0, 15), (3, 15), (93, 93), (450, 1000)])
def test_an_interval_is_wilsons(part, whole):
    expected = binomtest(part, whole).proportion_ci(method="wilson")
    assert interval(part, whole) == pytest.approx((expected.low, expected.high), abs=1e-6)
    assert interval(5 * part, 5 * whole, repeats=5) == pytest.approx(interval(part, whole))


def test_it_holds_the_share_about_as_often_as_it_says():
    counts = np.random.default_rng(0).binomial(300, 0.85, size=2000)
    held = [low <= 0.85 <= high for low, high in (interval(n, 300) for n in counts)]
    assert np.mean(held) == pytest.approx(0.95, abs=0.015)


def test_shares_of_few_rows_are_told_with_counts_and_others_are_not():
    rows, accepted, right = ({"sick": n, "well": 10 * n} for n in (90, 80, 60))
    evaluation = Evaluation(990, 880, 660, 1, rows, accepted, right)
    told = few_rows_text(evaluation, "sick")
    assert told.startswith(f"10 of 90 rejected ({interval_text(10, 90)}), 20 of 90 missed (")
    assert "precision" not in told, "60 of 260 is of many"
    assert few_rows_text(evaluation, "well") == ""
    assert few_rows_text(evaluation, "sick", repeats=2).startswith("5 of 45 rejected (")
