"""Decisions are read-only arrays of one length that a person can read as a table."""

from __future__ import annotations

import numpy as np
import pytest

from emsco import Decisions
from emsco.exceptions import DecisionsError


def make(n=3, **changes):
    fields = {
        "label": ["a", "b", "a"] * n,
        "accepted": [True, False, True] * n,
        "exit_stage": [0, 1, 1] * n,
        "confidence": [0.9, 0.6, 0.8] * n,
        "cost": [1.0, 3.0, 3.0] * n,
    }
    return Decisions(**(fields | changes))


def test_reasons_follow_from_accepted_unless_given():
    assert make(1).reason.tolist() == ["", "low confidence", ""]
    assert make(1, reason=["", "timeout", ""]).reason.tolist() == ["", "timeout", ""]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reason": ["", "", ""]}, '"" exactly where'),
        ({"cost": [1.0]}, "'cost' has the shape"),
        ({"label": [["a", "b", "a"]]}, "'label' has the shape"),
    ],
)
def test_fields_that_contradict_are_refused(changes, message):
    with pytest.raises(DecisionsError, match=message):
        make(1, **changes)


def test_one_row_is_a_decision_and_many_rows_are_decisions():
    decisions = make(2, latency=[0.0, 2.0, 1.0] * 2)
    assert decisions[1] == ("b", False, 1, 0.6, 3.0, "low confidence", 2.0)
    assert [d.label for d in decisions[:3]] == ["a", "b", "a"]
    assert decisions[~decisions.accepted].latency.tolist() == [2.0, 2.0]
    assert len(decisions[np.array([0, 5])]) == 2
    with pytest.raises(IndexError):
        decisions[6]


def test_concatenated_blocks_are_the_whole():
    plain, late = make(1), make(1, reason=["", "timeout", ""], latency=[1.0, 1.0, 1.0])
    both = Decisions.concatenate([plain, late])
    assert both.reason.tolist() == ["", "low confidence", "", "", "timeout", ""]
    assert both.latency.tolist() == [0, 0, 0, 1, 1, 1]
    assert both.label.tolist() == ["a", "b", "a"] * 2


def test_a_long_table_shows_both_ends():
    lines = repr(make(100)).splitlines()
    assert len(lines) == 22
    assert lines[0].split() == [
        "row", "label", "accepted", "exit_stage", "confidence", "cost", "reason",
    ]  # fmt: skip
    assert lines[11].split()[0] == "..."
    assert lines[-1].split()[0] == "299"
    assert "latency" in repr(make(1, latency=[1.0, 2.0, 3.0]))


def test_html_escapes_labels():
    html = make(1, label=["<b>", "b", "a"])._repr_html_()
    assert "&lt;b&gt;" in html
    assert "<b>" not in html


def test_a_frame_has_a_row_a_decision():
    frame = make(1).to_frame()
    assert frame["reason"].tolist() == ["", "low confidence", ""]
    assert list(frame.columns)[:2] == ["label", "accepted"]


def test_decisions_never_change():
    decisions = make(1)
    with pytest.raises(ValueError, match="read-only"):
        decisions.cost[0] = 0
    with pytest.raises(ValueError, match="read-only"):
        decisions.reason[0] = "no"
    with pytest.raises(AttributeError, match="never change"):
        decisions.label = ["x"]
