"""Evidence is a martingale while the bound holds, and grows when it does not."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from emsco.certify.monitor import _evidence
from emsco.certify.monitor._evidence import Evidence, upper_bound

bounds = st.floats(0, 0.999)
numbers = st.lists(st.floats(0, 1), max_size=250)


@pytest.mark.parametrize("bound", [0.01, 0.05, 0.3, 0.9])
@pytest.mark.parametrize("every", [3, 4, 100])
def test_no_evidence_is_to_be_expected_of_a_mean_on_the_bound(bound, every, monkeypatch):
    """Over all sequences of coins the expectation is 1, with new gamblers and without."""
    monkeypatch.setattr(_evidence, "EVERY", every)
    expected = 0.0
    for coins in itertools.product((0, 1), repeat=8):
        evidence = Evidence(bound)
        path = evidence.add(coins)
        assert path[-1] == pytest.approx(evidence.log_evidence, abs=1e-12)
        probability = np.prod(np.where(coins, bound, 1 - bound))
        expected += probability * np.exp(path[-1])
    assert expected == pytest.approx(1, abs=1e-9)


@settings(max_examples=100)
@given(bounds, numbers, st.lists(st.integers(1, 120), max_size=20))
def test_portions_do_not_matter(bound, values, cuts):
    whole, portions = Evidence(bound), Evidence(bound)
    path = whole.add(values)
    parts = np.split(np.array(values), np.cumsum(cuts))
    assert np.array_equal(np.concatenate([portions.add(part) for part in parts]), path)
    assert portions.state() == whole.state()
    again = Evidence(bound).restore(json.loads(json.dumps(whole.state())))
    assert np.array_equal(again.add([1.0, 0.0]), whole.add([1.0, 0.0]))


@settings(max_examples=100)
@given(bounds, numbers, st.floats(0, 1), st.floats(0, 1))
def test_a_larger_number_is_more_evidence(bound, values, one, other):
    paths = []
    for number in sorted((one, other)):
        evidence = Evidence(bound)
        evidence.add(values)
        paths.append(evidence.add([number])[0])
    assert paths[0] <= paths[1]


def test_a_late_change_is_found_after_a_long_good_time():
    rng = np.random.default_rng(0)
    evidence = Evidence(0.05)
    assert evidence.add(rng.random(20_000) < 0.03).max() < np.log(100)
    delay = int(np.argmax(evidence.add(rng.random(5_000) < 0.10) > np.log(100)))
    assert 0 < delay < 2_000
    mean, count = evidence.recent
    assert 100 <= count < 1_100
    assert mean == pytest.approx(0.10, abs=0.04)


def test_what_is_told_of_late_begins_where_the_change_did():
    evidence = Evidence(0.05)
    evidence.add(np.zeros(1000))
    assert evidence.recent == (0.0, 1000)
    evidence.add(np.tile([0, 1], 130))
    assert evidence.recent == (0.5, 260)


def test_a_bound_of_zero_is_broken_by_the_first_number():
    evidence = Evidence(0.0)
    assert evidence.add(np.zeros(500)).max() <= 0
    assert evidence.add([1.0])[0] > np.log(1e4)


def test_evidence_is_finite_whatever_comes():
    evidence = Evidence(0.5)
    evidence.add(np.zeros(100_000))
    assert np.isfinite(evidence.log_evidence)
    evidence.add(np.ones(100_000))
    assert np.isfinite(evidence.log_evidence)


@pytest.mark.parametrize("broken", [{"held": [0.0]}, {"gained": [float("nan")] * 9}])
def test_a_state_that_cannot_be_is_refused(broken):
    with pytest.raises(ValueError, match="finite wealths"):
        Evidence(0.5).restore(Evidence(0.5).state() | broken)


@settings(max_examples=100)
@given(st.integers(1, 5000), st.floats(0, 1), st.floats(1e-6, 0.5))
def test_the_bound_of_an_estimate_is_no_smaller_than_the_exact_one(rows, share, delta):
    count = round(share * rows)
    exact = stats.beta.ppf(1 - delta, count + 1, rows - count) if count < rows else 1.0
    assert upper_bound(count / rows, rows, delta) >= exact - 1e-9
    assert upper_bound(count / rows, rows, delta) <= 1
