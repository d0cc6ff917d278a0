"""Bands are as wide as their rows are many, and say what those paid."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from emsco import CascadeClassifier, Costs, Decisions, Review, Source, StageDesign
from emsco.core.interval import interval
from emsco.exceptions import DecisionsError
from emsco.plotting import FlowDisplay

COSTS = Costs(
    [
        Source("age", cost=1),
        Source("marker", cost=12, setup="blood draw"),
        Source("sugar", cost=4, setup="blood draw"),
        Source("scan", cost=150),
    ],
    setups={"blood draw": 3},
    unit="EUR",
)


def cascade_of(stages, costs=COSTS):
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=200)
    X = y[:, None] + rng.normal(size=(200, 4))
    design = StageDesign.from_stages(stages, COSTS.names)
    frame = pd.DataFrame(X, columns=list(COSTS.names))
    return CascadeClassifier(design=design, costs=costs, threshold=0.9).fit(frame, y)


def decisions_of(*groups):
    """Make decisions of (rows, accepted, exit stage, cost, reason)."""
    spelled = [group for rows, *group in groups for _ in range(rows)]
    accepted, stage, cost, reason = zip(*spelled, strict=True)
    n = len(spelled)
    return Decisions(["a"] * n, accepted, stage, [0.9] * n, cost, reason)


THREE = [["age"], ["marker", "sugar"], ["scan"]]
SOME = decisions_of(
    (60, True, 0, 1.0, ""),
    (25, True, 1, 20.0, ""),
    (5, True, 2, 170.0, ""),
    (10, False, 2, 170.0, "low confidence"),
)


def heights(display):
    """Measure every band at its right end."""
    measured = []
    for band in display.bands_:
        x, y = band.get_paths()[0].vertices.T
        right = y[x == x.max()]
        measured.append(right.max() - right.min())
    return measured


def test_bands_are_as_wide_as_their_rows_are_many():
    display = FlowDisplay.from_decisions(SOME, cascade_of(THREE))
    assert [way.rows for way in display.exits] == [60, 25, 5, 10]
    np.testing.assert_allclose(heights(display), [0.60, 0.25, 0.05, 0.10])


def test_every_exit_says_how_many_leave_and_what_they_paid():
    display = FlowDisplay.from_decisions(SOME, cascade_of(THREE))
    assert [text.get_text() for text in display.texts_] == [
        "accepted at stage 0\n60 rows (60.0%), paid 1 EUR each",
        "accepted at stage 1\n25 rows (25.0%), paid 20 EUR each",
        "accepted at stage 2\n5 rows (5.0%), paid 170 EUR each",
        "rejected at stage 2: low confidence\n10 rows (10.0%), paid 170 EUR each",
    ]


def test_stages_say_how_many_come_and_what_they_buy():
    display = FlowDisplay.from_decisions(SOME, cascade_of(THREE))
    assert [label.get_text() for label in display.ax_.get_xticklabels()] == [
        "stage 0: 100 rows\nbuy age\nfor 1 EUR",
        "stage 1: 40 rows\nbuy marker, sugar\nfor 19 EUR",
        "stage 2: 15 rows\nbuy scan\nfor 150 EUR",
    ]


def test_the_title_sums_up():
    display = FlowDisplay.from_decisions(SOME, cascade_of(THREE))
    assert display.ax_.get_title("left") == "100 rows, coverage 0.900"


TRUTH = ["b"] * 10 + ["a"] * 75 + ["b"] * 15  # of SOME, in its order


def test_with_the_truth_every_exit_and_class_is_told(assert_legible):
    display = FlowDisplay.from_decisions(SOME, cascade_of(THREE), y=TRUTH)
    assert [text.get_text().splitlines()[2] for text in display.texts_] == [
        "66.7% of a, 40.0% of b",
        "33.3% of a, 0.0% of b",
        "20.0% of b, 0.0% of a",
        "40.0% of b, 0.0% of a",
    ]
    for label in ("a", "b"):
        assert sum(way.classes[label] for way in display.exits) == pytest.approx(1)
    assert display.ax_.get_title("left") == "100 rows, coverage 0.900, accuracy 0.833"
    told = assert_legible(display.figure_)
    low, high = interval(90, 100)
    assert (
        f"cost 31.1 EUR\n95% interval of the coverage: {low:.3f} to {high:.3f}\n"
        "a: rejected 0.000, missed 0.000, recall when accepted 1.000, precision 0.833\n"
        "    0 of 75 rejected (0 to 5%), 0 of 75 missed (0 to 5%), recall when\n"
        "    accepted 75 of 75 (95 to 100%), precision 75 of 90 (74 to 90%)\n"
        "b: rejected 0.400, missed 0.600, recall when accepted 0.000, precision \u2013\n"
        "    10 of 25 rejected (23 to 59%), 15 of 25 missed (41 to 77%), recall\n"
        "    when accepted 0 of 15 (0 to 20%)\n"
    ) in "".join(f"{text}\n" for text in told)


def test_review_is_in_the_price_where_it_has_one(assert_legible):
    cascade = cascade_of(THREE, replace(COSTS, review=Review(40.0)))
    display = FlowDisplay.from_decisions(SOME, cascade)
    assert display.ax_.get_title("left") == "100 rows, coverage 0.900"
    (told,) = (text for text in assert_legible(display.figure_) if "loss" in text)
    assert told.startswith("cost 31.1 + review 4 = loss 35.1 EUR\n")


@pytest.mark.parametrize("n_classes", [2, 3, 9])
@pytest.mark.parametrize("n_stages", [1, 4])
def test_classes_lie_on_no_other_text(n_classes, n_stages, assert_legible):
    rng = np.random.default_rng(0)
    y = rng.integers(n_classes, size=400)
    X = y[:, None] * 0.7 + rng.normal(size=(400, 4))
    names = np.array([f"a label of some length {k}" for k in range(n_classes)])
    design = StageDesign(np.arange(4) % n_stages, COSTS.names)
    costs = replace(COSTS, review=Review(40.0))
    cascade = CascadeClassifier(design=design, costs=costs, threshold=0.6)
    frame = pd.DataFrame(X, columns=list(COSTS.names))
    decisions = cascade.fit(frame, names[y]).decide(frame)
    assert_legible(FlowDisplay.from_decisions(decisions, cascade, y=names[y]).figure_)


def test_rows_rejected_on_the_way_leave_there_for_their_reasons(assert_legible):
    """By kind, whichever the columns are."""
    decisions = decisions_of(
        (70, True, 0, 1.0, ""),
        (6, False, 0, 1.0, "invalid value: one"),
        (4, False, 0, 1.0, "invalid value: two"),
        (20, False, 1, 20.0, "low confidence"),
    )
    display = FlowDisplay.from_decisions(decisions, cascade_of(THREE[:2]))
    told = [(way.stage, way.accepted, way.rows, way.reasons) for way in display.exits]
    assert told == [
        (0, True, 70, ()),
        (0, False, 10, ("invalid value",)),
        (1, True, 0, ()),
        (1, False, 20, ("low confidence",)),
    ]
    np.testing.assert_allclose(heights(display), [0.7, 0.1, 0.0, 0.2])
    assert_legible(display.figure_)


def test_bands_never_cross(assert_legible):
    display = FlowDisplay.from_decisions(SOME, cascade_of(THREE))
    for upper, lower in zip(display.bands_, display.bands_[1:], strict=False):
        above, below = (band.get_paths()[0].vertices for band in (upper, lower))
        for x in np.linspace(0.1, 2.5, 25):
            bottom = above[np.abs(above[:, 0] - x) < 0.03][:, 1]
            top = below[np.abs(below[:, 0] - x) < 0.03][:, 1]
            if len(bottom) and len(top):
                assert bottom.min() >= top.max() - 0.05
    assert_legible(display.figure_)


def test_real_decisions_are_drawn_whole_and_legible(search, rows, assert_legible):
    decisions = search.decide(rows[2])
    display = FlowDisplay.from_decisions(decisions, search)
    assert sum(way.rows for way in display.exits) == len(decisions)
    paid = sum(way.rows * way.cost for way in display.exits)
    assert paid == pytest.approx(decisions.cost.sum())
    assert_legible(display.figure_)


def test_long_lists_of_sources_are_cut_and_wrapped(assert_legible):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 40)), np.arange(60) % 2
    names = [f"a_word_longer_than_its_column_{i}" if i % 4 else f"measured_{i}" for i in range(40)]
    costs = Costs.per_feature([1.0] * 40, names)
    frame = pd.DataFrame(X, columns=list(costs.names))
    cascade = CascadeClassifier(design=StageDesign(np.arange(40) % 4), costs=costs, threshold=0.9)
    decisions = cascade.fit(frame, y).decide(frame)
    display = FlowDisplay.from_decisions(decisions, cascade)
    label = display.ax_.get_xticklabels()[0].get_text()
    assert "and 4 more" in label.replace("\n", " ")
    assert max(map(len, label.splitlines())) <= 22
    assert "a_word_longer_than_..." in display.ax_.get_xticklabels()[1].get_text()
    assert_legible(display.figure_)


def test_errors_are_named():
    cascade = cascade_of(THREE[:1])
    with pytest.raises(DecisionsError, match="left at stage 2, but the cascade has 1"):
        FlowDisplay.from_decisions(SOME, cascade)
    with pytest.raises(DecisionsError, match="at least one"):
        FlowDisplay.from_decisions(SOME[:0], cascade)
    with pytest.raises(NotFittedError):
        FlowDisplay.from_decisions(SOME, CascadeClassifier())
