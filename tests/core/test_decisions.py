"""Decisions are read-only arrays of one length that a person can read as a table."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from emsco import CascadeClassifier, Decisions
from emsco.exceptions import DecisionsError, ValuesError


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
    assert decisions[1] == ("b", False, 1, 0.6, 3.0, "low confidence", 2.0, None, None, None)
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


def test_decisions_keep_the_index_of_a_frame_and_hand_it_to_frames():
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=60)
    X = pd.DataFrame({"a": y + rng.normal(size=60)}, index=[f"p{i}" for i in range(60)])
    cascade = CascadeClassifier().fit(X, y)
    decisions = cascade.decide(X[::-1])
    assert decisions.index.tolist() == X.index[::-1].tolist()
    assert decisions.to_frame().index.tolist() == X.index[::-1].tolist()
    assert decisions[[0, 2]].index.tolist() == ["p59", "p57"]
    assert decisions[decisions.accepted].to_frame().index.isin(X.index).all()
    unnamed = CascadeClassifier().fit(X.to_numpy(), y).decide(X.to_numpy())
    assert unnamed.index is None
    assert unnamed.to_frame().index.tolist() == list(range(60))
    with pytest.raises(DecisionsError, match="`index` must name 1 rows, has 2"):
        Decisions(["a"], [True], [0], [1.0], [1.0], index=[1, 2])


LABELS = np.array([0, 1] * 30)


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (pd.Series(LABELS, dtype="Int64"), "i"),
        (pd.Series(LABELS, dtype="UInt8"), "u"),
        (pd.Series(LABELS.astype(bool), dtype="boolean"), "b"),
        (pd.Series(LABELS, dtype="category"), "i"),
        (pd.Series(LABELS.astype(str), dtype="string"), "O"),
    ],
    ids=lambda value: str(getattr(value, "dtype", value)),
)
def test_labels_of_pandas_types_are_classes_of_numpys(given, kind):
    X = np.column_stack([LABELS + np.linspace(0, 1, 60)])
    classes = CascadeClassifier().fit(X, given).classes_
    assert classes.dtype.kind == kind
    assert classes.tolist() == sorted(set(given.tolist()))
    missing = given.copy()
    missing.iloc[7] = pd.NA
    with pytest.raises(ValuesError, match=r"Row 7 has no label: it is .*; leave the row out"):
        CascadeClassifier().fit(X, missing)


@pytest.mark.parametrize("value", [None, np.nan])
def test_a_missing_label_is_refused_by_its_row(value):
    X = np.column_stack([LABELS + np.linspace(0, 1, 60)])
    words = LABELS.astype(str).astype(object)
    words[9] = value
    with pytest.raises(ValuesError, match="Row 9 has no label"):
        CascadeClassifier().fit(X, words)
    numbers = LABELS.astype(float)
    numbers[9] = np.nan
    with pytest.raises(ValuesError, match="Row 9 has no label: it is NaN"):
        CascadeClassifier().fit(X, numbers)
