"""An evaluation by group is what counting by hand gives, from any container of any labels."""

from __future__ import annotations

import warnings
from dataclasses import FrozenInstanceError
from math import isnan, sqrt

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emsco import Breakdown, CascadeClassifier, Decisions, Evaluation, StageDesign, evaluate
from emsco.core.gap import LEAST_ROWS
from emsco.core.interval import interval
from emsco.datasets import load_cleveland
from emsco.exceptions import DecisionsError, LabelsWarning, ValuesError


@pytest.fixture(scope="module")
def cleveland():
    """Decide every second patient by a cascade that was fitted on the others."""
    X, y, costs = load_cleveland()
    stages = [["age", "sex", "cp"], ["exang", "thalach"], ["ca", "thal"]]
    design = StageDesign.from_stages(stages, costs.names)
    cascade = CascadeClassifier(design=design, costs=costs, threshold=0.8).fit(X[::2], y[::2])
    sex = X.sex[1::2].map({0.0: "women", 1.0: "men"})
    return cascade.decide(X[1::2]), y[1::2], sex


def by_hand(decisions, y, groups, group, label=None):
    """Count rows, accepted, right, missed and rejected rows, and what was paid, in plain Python."""
    rows = accepted = right = missed = rejected = 0
    paid = 0.0
    for one, truth, own in zip(decisions, y, groups, strict=True):
        if own != group or (label is not None and truth != label):
            continue
        rows += 1
        paid += one.cost
        if not one.accepted:
            rejected += 1
        elif one.label == truth:
            accepted, right = accepted + 1, right + 1
        else:
            accepted, missed = accepted + 1, missed + 1
    return rows, accepted, right, missed, rejected, paid


def test_cleveland_by_sex_equals_hand_counts(cleveland):
    decisions, y, sex = cleveland
    parts = evaluate(decisions, y, by=sex)
    assert list(parts) == ["men", "women"]
    assert parts.overall == evaluate(decisions, y)
    for group in parts:
        rows, accepted, right, _, rejected, paid = by_hand(decisions, y, sex, group)
        own = parts[group]
        assert (own.rows, own.accepted, own.right) == (rows, accepted, right)
        assert own.coverage == accepted / rows
        assert accepted + rejected == rows
        assert own.accuracy == right / accepted
        assert own.cost == pytest.approx(paid / rows)
        for label in ("sick", "healthy"):
            n, _, _, missed, away, _ = by_hand(decisions, y, sex, group, label)
            assert own.missed[label] == missed / n
            assert own.rejected[label] == away / n
    frame = parts.to_frame().set_index("group")
    men, sick = by_hand(decisions, y, sex, "men"), by_hand(decisions, y, sex, "men", "sick")
    assert frame.loc["men", "coverage"] == men[1] / men[0]
    assert tuple(frame.loc["men", ["missed sick low", "missed sick high"]]) == interval(
        sick[3], sick[0]
    )
    assert frame.loc["women", "rows sick"] == by_hand(decisions, y, sex, "women", "sick")[0]


def test_the_interval_of_a_cost_is_that_of_a_mean(cleveland):
    """With two more rows, the cheapest and the dearest of all, so that it is never a point."""
    decisions, y, sex = cleveland
    parts = evaluate(decisions, y, by=sex)
    costs = [one.cost for one, own in zip(decisions, sex, strict=True) if own == "women"]
    more = [*costs, min(decisions.cost), max(decisions.cost)]
    mean = sum(more) / len(more)
    error = sqrt(sum((c - mean) ** 2 for c in more) / len(more)) / sqrt(len(costs))
    frame = parts.to_frame().set_index("group")
    high = sum(costs) / len(costs) + 1.959964 * error
    assert frame.loc["women", "cost high"] == pytest.approx(high)


def test_small_groups_are_marked_and_no_gap_is_about_them(cleveland):
    decisions, y, sex = cleveland
    parts = evaluate(decisions, y, by=sex)
    assert parts.size("women", "sick") < LEAST_ROWS <= parts.size("women")
    assert parts.is_small("women", "sick")
    assert not parts.is_small("women")
    text = str(parts)
    assert "women *" in text.split("of 'sick'")[1]
    assert "women *" not in text.split("of 'healthy'")[0]
    assert "* fewer than 30 rows" in text
    assert {(gap.measure, gap.label) for gap in parts.gaps} == {
        ("accuracy", None), ("coverage", None), ("rejected", "healthy"), ("missed", "healthy"),
    }  # fmt: skip


def made(n_rows=400, seed=0):
    """Draw decisions of which group "b" has more rejected and more missed, by known chances."""
    rng = np.random.default_rng(seed)
    groups = np.where(rng.random(n_rows) < 0.3, "b", "a")
    y = rng.integers(0, 2, n_rows)
    accepted = rng.random(n_rows) > np.where(groups == "b", 0.4, 0.1)
    wrong = rng.random(n_rows) < np.where(groups == "b", 0.3, 0.05)
    stage = rng.integers(0, 2, n_rows)
    return Decisions(y ^ wrong, accepted, stage, np.full(n_rows, 0.9), 1.0 + stage), y, groups


def test_a_known_gap_is_found():
    """The gap that the chances have is within its interval, which does not reach 0."""
    decisions, y, groups = made(4000)
    gaps = {(gap.measure, gap.label): gap for gap in evaluate(decisions, y, by=groups).gaps}
    for label in (0, 1):
        rejected = gaps["rejected", label]
        assert (rejected.more, rejected.less) == ("b", "a")
        assert 0 < rejected.low < 0.3 < rejected.high
        missed = gaps["missed", label]
        assert 0 < missed.low < 0.6 * 0.3 - 0.9 * 0.05 < missed.high


@pytest.mark.parametrize(
    "make",
    [
        list,
        tuple,
        np.array,
        lambda g: np.array(g, dtype=object),
        lambda g: pd.Series(g, index=range(400)[::-1]),
        pd.Categorical,
        lambda g: pd.Series(g, dtype="string"),
        lambda g: pd.Index(g),
        pl.Series,
        lambda g: pl.Series(g).cast(pl.Categorical),
        lambda g: iter(g),
    ],
)
def test_any_container_gives_the_same(make):
    """Rows are aligned by position, not by an index."""
    decisions, y, groups = made()
    assert evaluate(decisions, y, by=make(groups.tolist())) == evaluate(decisions, y, by=groups)


def test_labels_may_be_anything_that_can_be_hashed():
    decisions, y, groups = made()
    pairs = [(group, int(row % 2)) for row, group in enumerate(groups)]
    parts = evaluate(decisions, y, by=pairs)
    assert list(parts) == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]
    odd = [3, "3x", (1,), None][: len(parts)]
    mixed = evaluate(decisions, y, by=[odd[row % 4] for row in range(400)])
    assert set(mixed) == {3, "3x", (1,), None}
    assert list(mixed)[-1] is None


@pytest.mark.parametrize("none", [None, float("nan"), np.nan, pd.NA, pd.NaT])
def test_rows_without_a_group_are_a_group_of_their_own(none):
    """Nobody is left out, and it is not the text "nan"."""
    decisions, y, groups = made()
    some = [none if row % 10 == 0 else group for row, group in enumerate(groups)]
    parts = evaluate(decisions, y, by=some)
    assert list(parts) == ["a", "b", None]
    assert parts[None].rows == 40
    assert "no group" in str(parts)
    assert parts.to_frame()["group"].tolist()[:2] == ["a", "b"]


def test_numbers_with_missing_ones_and_text_nan_stay_apart():
    decisions, y, _ = made()
    numbers = np.where(np.arange(400) % 5 == 0, np.nan, np.arange(400) % 2)
    assert list(evaluate(decisions, y, by=numbers)) == [0.0, 1.0, None]
    texts = ["nan" if row % 2 else None for row in range(400)]
    assert list(evaluate(decisions, y, by=texts)) == ["nan", None]


@pytest.mark.parametrize(
    ("by", "message"),
    [
        (["a"] * 399, "one label for each of the 400 decisions, got 399"),
        ("sex", "must be one label for each row, got 'sex'"),
        (7, "must be one label for each row, got 7"),
        (np.zeros((400, 1)), r"an array of the shape \(400, 1\)"),
        (pd.DataFrame({"sex": ["a"] * 400}), r"an array of the shape \(400, 1\)"),
        (pl.DataFrame({"sex": ["a"] * 400}), r"an array of the shape \(400, 1\)"),
        (np.array("a"), "one label for each of the 400 decisions, got 1"),
        ([["a"]] * 400, "can be hashed; row 0 has"),
        ({"a": 1}, "must be one label for each row"),
    ],
)
def test_what_is_no_group_for_each_row_is_refused(by, message):
    decisions, y, _ = made()
    with pytest.raises(ValuesError, match=message) as raised:
        evaluate(decisions, y, by=by)
    assert raised.value.parameter == "by"


def test_an_id_in_place_of_a_group_is_refused():
    decisions, y, _ = made(1001)
    with pytest.raises(ValuesError, match="has 1,001 groups"):
        evaluate(decisions, y, by=range(1001))


def test_groups_that_look_alike_are_warned_of():
    decisions, y, _ = made()
    with pytest.warns(LabelsWarning, match="'F' and 'f ', which count as different groups"):
        evaluate(decisions, y, by=["F", "f "] * 200)


def test_weighted_rows_have_no_intervals_but_their_true_sizes():
    """A group of few rows stays small, whatever its rows weigh."""
    decisions, y, _ = made()
    groups = ["few" if row < LEAST_ROWS - 1 else ("x", "y")[row % 2] for row in range(400)]
    parts = evaluate(decisions, y, by=groups, sample_weight=np.full(400, 10.0))
    assert parts["few"].rows == 10 * (LEAST_ROWS - 1)
    assert parts.is_small("few")
    assert not [name for name in parts.to_frame() if name.endswith((" low", " high"))]
    assert "no intervals" in str(parts)
    assert all(isnan(gap.low) and "few" not in gap[2:4] for gap in parts.gaps)


def test_a_population_weights_all_groups_alike():
    decisions, y, groups = made()
    parts = evaluate(decisions, y, by=groups, population={1: 0.9})
    assert parts.overall == evaluate(decisions, y, population={1: 0.9})
    plain = evaluate(decisions, y, by=groups)
    for group in parts:
        assert parts[group].missed == pytest.approx(dict(plain[group].missed))
    assert sum(own.rows for own in parts.values()) == pytest.approx(400)


@given(st.lists(st.sampled_from(["a", "b", None, 3]), min_size=12, max_size=12), st.integers(0, 9))
def test_groups_sum_to_the_whole(groups, seed):
    decisions, y, _ = made(12, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LabelsWarning)
        parts = evaluate(decisions, y, by=groups)
    for count in ("rows", "accepted", "right", "paid"):
        whole = getattr(parts.overall, count)
        assert sum(getattr(own, count) for own in parts.values()) == pytest.approx(whole)
    assert set(parts) == set(groups)


def test_it_is_a_frozen_mapping():
    decisions, y, groups = made()
    parts = evaluate(decisions, y, by=groups)
    assert len(parts) == 2
    assert parts == evaluate(decisions, y, by=groups)
    assert hash(parts) == hash(evaluate(decisions, y, by=groups))
    assert parts != evaluate(decisions, y, by=groups[::-1])
    with pytest.raises(FrozenInstanceError):
        parts.overall = None
    with pytest.raises(KeyError):
        parts["c"]


def test_a_breakdown_of_other_rows_cannot_be_made():
    one = Evaluation(10, 5, 5, 0)
    with pytest.raises(DecisionsError, match="must sum to all 10 rows, got 20 of 2 groups"):
        Breakdown(one, {"a": one, "b": one})
    with pytest.raises(DecisionsError, match="where rows are weighted"):
        Breakdown(one, {"a": one}, repeats=None)


def test_html_escapes_names():
    decisions, y, groups = made()
    parts = evaluate(decisions, y, by=np.where(groups == "a", "<script>", "b & c"))
    html = parts._repr_html_()
    assert "<script>" not in html
    assert "b &amp; c" in html
    assert html.count("<table>") == 3
