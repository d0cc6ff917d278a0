"""A threshold is one number, one a class, or one of those a stage; others are refused."""

from __future__ import annotations

import pytest

from emsco.core.threshold import freeze, resolve, sort_key
from emsco.exceptions import ThresholdError


def test_each_form_is_spelled_out_by_stage_and_class():
    assert resolve(0.75, ["a", "b"], 2).tolist() == [[0.75, 0.75], [0.75, 0.75]]
    assert resolve({"b": 0.9, "a": 0.6}, ["a", "b"], 1).tolist() == [[0.6, 0.9]]
    assert resolve((0.8, {"a": 0.6, "b": 1}), ["a", "b"], 2).tolist() == [[0.8, 0.8], [0.6, 1.0]]


@pytest.mark.parametrize(
    ("threshold", "classes", "stages", "message"),
    [
        (0.5, "ab", 1, "above 1 / 2 classes"),
        (1 / 3, "abc", 1, "above 1 / 3 classes"),
        ({"a": 0.9, "b": 0.4}, "ab", 1, "above 1 / 2 classes"),
        (1.01, "ab", 1, "at most 1, got 1.01"),
        (float("nan"), "ab", 1, "at most 1, got nan"),
        (True, "ab", 1, "got True"),
        ("high", "ab", 1, "got 'high'"),
        ((0.7, 0.8), "ab", 3, "holds 2 stages but the design has 3"),
        ({"a": 0.7}, "ab", 1, "missing: 'b'; not a class: none"),
        ({"a": 0.7, "b": 0.7, "c": 0.7}, "ab", 1, "missing: none; not a class: 'c'"),
    ],
)
def test_a_threshold_that_means_nothing_is_refused(threshold, classes, stages, message):
    with pytest.raises(ThresholdError, match=message):
        resolve(threshold, list(classes), stages)


def test_a_frozen_threshold_does_not_follow_the_users_mapping():
    mine = {"a": 0.6, "b": 0.9}
    frozen = freeze((0.7, mine))
    mine["a"] = 1.0
    assert frozen == (0.7, {"a": 0.6, "b": 0.9})
    assert hash(frozen) == hash(freeze((0.7, {"b": 0.9, "a": 0.6})))


def test_thresholds_sort_from_low_to_high():
    assert sort_key(0.6) < sort_key(0.7)
    assert sort_key((0.6, 0.9)) < sort_key((0.7, 0.6))
