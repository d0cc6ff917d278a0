"""The guard rejects what training did not hold, with a reason, and nothing that it did."""

from __future__ import annotations

import json
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

from emsco import CascadeClassifier, CascadeSearchCV, InputGuard, StageDesign, evaluate
from emsco.core.decisions import (
    INVALID_VALUE,
    KINDS,
    LOW_CONFIDENCE,
    OUT_OF_RANGE,
    UNSEEN_CATEGORY,
    kind_of,
)
from emsco.exceptions import ColumnsError, GuardWarning, ValuesError
from emsco.rows.guard import Range

RNG = np.random.default_rng(0)
N = 400
Y = RNG.integers(2, size=N)
FRAME = pd.DataFrame(
    {
        "cheap": 2 * Y + RNG.normal(size=N),
        "dear": 3 * Y + RNG.normal(size=N),
        "kind": np.where(RNG.random(N) < 0.8, np.where(Y == 1, "a", "b"), "c"),
    }
)
DESIGN = StageDesign.from_stages([["cheap", "kind"], ["dear"]])

finite = st.floats(allow_nan=False, allow_infinity=False)
columns_of_numbers = st.lists(finite, min_size=1, max_size=30).map(np.array)
margins = st.floats(0, 10)


def cascade(**params):
    given = {"design": DESIGN, "threshold": 0.9, "guard": InputGuard()} | params
    return CascadeClassifier(**given)


def reasons(guard, columns):
    n_rows = len(next(iter(columns.values())))
    given = guard.reasons(columns)
    return [""] * n_rows if given is None else given.tolist()


def kinds(decisions):
    return set(map(kind_of, decisions.reason))


# What a guard learns of numbers.


@settings(max_examples=100)
@given(columns_of_numbers, margins)
def test_no_row_of_training_is_rejected(values, margin):
    guard = InputGuard(margin=margin).fit({"x": values})
    assert guard.reasons({"x": values}) is None
    with np.errstate(over="ignore"):
        single = values.astype(np.float32)
    representable = np.isfinite(single) & ((single != 0) | (values == 0))
    normal = representable & (np.abs(values) >= np.finfo(np.float32).tiny)
    assert guard.reasons({"x": single[normal]}) is None


@settings(max_examples=100)
@given(columns_of_numbers, st.tuples(margins, margins), finite)
def test_a_wider_margin_rejects_no_more(values, both, value):
    narrow, wide = (InputGuard(margin=margin).fit({"x": values}) for margin in sorted(both))
    if wide.reasons({"x": np.array([value])}) is not None:
        assert narrow.reasons({"x": np.array([value])}) is not None


@settings(max_examples=100)
@given(columns_of_numbers, st.lists(st.floats(), max_size=20).map(np.array), margins)
def test_a_row_is_judged_alike_alone_and_among_others(values, fresh, margin):
    guard = InputGuard(margin=margin).fit({"x": values})
    fresh = fresh.astype(np.float64)
    together = reasons(guard, {"x": fresh})
    assert together == [reasons(guard, {"x": fresh[i : i + 1]})[0] for i in range(len(fresh))]
    assert [fault.row for fault in guard.explain({"x": fresh})] == [
        row for row, reason in enumerate(together) if reason
    ]
    learned = guard.learned_["x"]
    for value, reason in zip(fresh.tolist(), together, strict=True):
        if np.isnan(value):
            assert reason == "", "the cascade knows whether a value may be missing"
        elif np.isinf(value):
            assert reason == "invalid value: x"
        else:
            outside = not learned.low <= value <= learned.high
            assert reason == ("out of range: x" if outside else "")


def test_the_limits_are_the_range_and_a_share_of_it():
    guard = InputGuard(margin=0.25).fit({"x": np.linspace(-10, 30, 401)})
    assert guard.learned_["x"].low == pytest.approx(-20, rel=1e-5)
    assert guard.learned_["x"].high == pytest.approx(40, rel=1e-5)
    assert reasons(guard, {"x": np.array([-20, -21, 40, 41])}) == [
        "", "out of range: x", "", "out of range: x",
    ]  # fmt: skip


def test_a_sign_that_training_never_saw_is_out_of_range():
    guard = InputGuard().fit({"up": np.arange(100.0), "down": -np.arange(100.0)})
    fresh = {"up": np.array([0.0, -1.0]), "down": np.array([0.0, 1.0])}
    assert reasons(guard, fresh) == ["", "out of range: up"], "the first fault is told"
    alone = {"down": fresh["down"]}
    assert reasons(guard, alone) == ["", "out of range: down"]


def test_a_constant_column_allows_its_one_value():
    guard = InputGuard().fit({"x": np.full(50, 0.1)})
    assert reasons(guard, {"x": np.array([0.1, np.float32(0.1), 0.1001, -0.1])}) == [
        "", "", "out of range: x", "out of range: x",
    ]  # fmt: skip


def test_a_column_that_was_always_missing_allows_no_number():
    guard = InputGuard().fit({"x": np.full(50, np.nan)})
    assert reasons(guard, {"x": np.array([np.nan, 0.0])}) == ["", "out of range: x"]


@pytest.mark.parametrize("n_rows", [1000, 1_000_000])
def test_a_normal_column_of_any_length_has_no_long_tail(n_rows):
    values = np.random.default_rng(1).normal(size=n_rows)
    learned = Range.learn(values, 0.25)
    width = values.max() - values.min()
    assert learned.high == pytest.approx(values.max() + 0.25 * width, rel=1e-4)
    assert learned.low == pytest.approx(values.min() - 0.25 * width, rel=1e-4)


def test_long_tails_have_a_wider_margin():
    """A fresh value beyond them is usual, one times a million is not."""
    rng = np.random.default_rng(2)
    values = rng.pareto(1.0, size=3000)
    learned = Range.learn(values, 0.25)
    assert learned.low == 0
    assert learned.high == pytest.approx(2 * values.max() - values.min(), rel=1e-4)


def test_a_rare_flag_has_no_tail():
    assert Range.learn((np.arange(1000) == 0).astype(float), 0.25).high == pytest.approx(1.25)


# What it learns of categories.


def test_rare_values_are_seen_values():
    values = np.array(["a"] * 500 + ["b"] * 499 + ["rare", None], dtype=object)
    guard = InputGuard().fit({"x": values})
    fresh = np.array(["a", "rare", "new", None, np.nan], dtype=object)
    assert reasons(guard, {"x": fresh}) == ["", "", "unseen category: x", "", ""]


def test_pooled_columns_are_left_to_the_estimator():
    values = np.array([f"town {i}" for i in range(50)], dtype=object)
    with pytest.warns(GuardWarning, match="About 100% of fresh rows will have a value of 'town'"):
        closed = InputGuard().fit({"town": values})
    elsewhere = {"town": np.array(["elsewhere"], dtype=object)}
    assert reasons(closed, elsewhere) == ["unseen category: town"]
    pooled = InputGuard(pool=["town"]).fit({"town": values})
    assert pooled.reasons(elsewhere) is None


def test_columns_with_many_values_are_pooled_where_the_guard_may_choose():
    """With a warning; a column of few values still knows what it has not seen."""
    towns = np.array([f"town {i}" for i in range(50)], dtype=object)
    columns = {"town": towns, "kind": np.array(["a", "b"] * 25, dtype=object)}
    with pytest.warns(
        GuardWarning, match="a value of 'town' that was not seen in training: the co"
    ):
        guard = InputGuard(pool="auto").fit(columns)
    new = np.array(["new", None], dtype=object)
    assert guard.reasons({"town": new}) is None
    assert reasons(guard, {"town": new, "kind": new}) == ["unseen category: kind", ""]
    assert guard.reasons(columns) is None
    data = json.loads(json.dumps(guard.to_data()))
    assert data == {
        "margin": 0.25, "pool": "auto", "columns": {"town": {}, "kind": {"values": ["a", "b"]}},
    }  # fmt: skip
    again = InputGuard.from_data(data)
    assert again.get_params() == {"margin": 0.25, "pool": "auto"}
    assert again.learned_ == guard.learned_
    assert reasons(again, {"town": new, "kind": new}) == ["unseen category: kind", ""]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        InputGuard(pool="auto").fit({"kind": columns["kind"], "x": np.arange(50.0)})


CONTAINERS = {
    "pandas text": lambda frame: frame,
    "pandas category": lambda frame: frame.astype({"kind": "category"}),
    "polars text": pl.DataFrame,
    "polars category": lambda frame: pl.DataFrame(frame).with_columns(
        pl.col("kind").cast(pl.Categorical)
    ),
}


@pytest.mark.parametrize("container", CONTAINERS)
def test_an_unseen_category_is_rejected_from_every_container(container):
    make = CONTAINERS[container]
    fitted = cascade().fit(make(FRAME), Y)
    fresh = FRAME.copy()
    fresh.loc[7, "kind"] = "new"
    decisions, clean = fitted.decide(make(fresh)), fitted.decide(make(FRAME))
    assert decisions.reason[7] == "unseen category: kind"
    assert not decisions.accepted[7]
    others = np.delete(np.arange(N), 7)
    assert list(decisions[others]) == list(clean[others])
    assert "unseen category" not in kinds(clean)


@pytest.mark.parametrize(
    "estimator",
    [None, HistGradientBoostingClassifier(max_iter=5, categorical_features="from_dtype")],
)
def test_numbers_declared_as_categories_are_categories(estimator):
    frame = FRAME.assign(kind=pd.Categorical(np.where(FRAME["kind"] == "a", 10, 30)))
    fitted = cascade(estimator=estimator).fit(frame, Y)
    fresh = frame.astype({"kind": "int64"})
    fresh.loc[3, "kind"] = 20
    fresh["kind"] = fresh["kind"].astype("category")
    assert fitted.decide(fresh).reason[3] == "unseen category: kind"
    assert "unseen category" not in kinds(fitted.decide(frame))


# What a cascade does with it.


@pytest.mark.parametrize("estimator", [None, LogisticRegression()])
@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1e6, "out of range"),
        (-9999.0, "out of range"),
        (np.inf, "invalid value"),
        (-np.inf, "invalid value"),
        (np.nan, "invalid value"),
    ],
)
@pytest.mark.parametrize(("column", "stage"), [("cheap", 0), ("dear", 1)])
def test_only_what_was_bought_is_examined(estimator, value, kind, column, stage):
    """A faulty value rejects every row that bought it, at that stage, and changes no other."""
    frame = FRAME[["cheap", "dear"]]
    design = StageDesign.from_stages([["cheap"], ["dear"]])
    fitted = cascade(estimator=estimator, design=design).fit(frame, Y)
    clean = fitted.decide(frame)
    assert kind not in kinds(clean)
    faulty = fitted.decide(frame.assign(**{column: value}))
    bought = clean.exit_stage >= stage
    assert bought.any()
    assert set(faulty.reason[bought]) == {f"{kind}: {column}"}
    assert not faulty.accepted[bought].any()
    assert set(faulty.exit_stage[bought]) == {stage}
    assert set(faulty.cost[bought]) == {stage + 1.0}
    assert list(faulty[~bought]) == list(clean[~bought])


@settings(max_examples=100)
@given(st.lists(st.tuples(st.integers(0, N - 1), st.floats(1e4, 1e300)), max_size=20))
def test_no_faulty_value_that_was_bought_is_ever_accepted(faults):
    design = StageDesign.from_stages([["cheap"], ["dear"]])
    frame = FRAME[["cheap", "dear"]].copy()
    if not FITTED:
        FITTED.append(cascade(design=design).fit(frame, Y))
    for row, value in faults:
        frame.loc[row, "cheap"] = value
    rows = sorted({row for row, _ in faults})
    decisions = FITTED[0].decide(frame)
    assert not decisions.accepted[rows].any()
    assert set(decisions.reason[rows]) <= {"out of range: cheap"}
    assert (decisions.reason == "out of range: cheap").sum() == len(rows)
    assert kinds(decisions) <= {"", "low confidence", "out of range"}


FITTED: list[CascadeClassifier] = []


def test_missing_values_known_from_training_are_judged():
    frame = FRAME.copy()
    frame.loc[:30, "cheap"] = np.nan
    frame.loc[:40, "kind"] = None
    fitted = cascade().fit(frame, Y)
    assert not set(fitted.decide(frame).reason) - {"", "low confidence"}


def test_text_among_numbers_is_invalid_for_an_estimator():
    frame = FRAME[["cheap", "dear"]]
    design = StageDesign.from_stages([["cheap"], ["dear"]])
    fitted = cascade(estimator=LogisticRegression(), design=design).fit(frame, Y)
    fresh = frame.astype({"cheap": object})
    fresh.loc[5, "cheap"] = "n/a"
    fresh.loc[6, "cheap"] = 1e6
    decisions = fitted.decide(fresh)
    assert decisions.reason[5:7].tolist() == ["invalid value: cheap", "out of range: cheap"]
    assert "invalid value" not in kinds(decisions[7:])


def test_the_kinds_of_reasons_are_a_closed_list():
    """Whatever is wrong, and every kind of them is met."""
    fitted = cascade().fit(FRAME, Y)
    faulty = {name: FRAME[name].tolist() for name in FRAME}
    for row, (column, value) in enumerate(FAULTS):
        faulty[column][row] = value
    decisions = fitted.decide(pd.DataFrame(faulty, dtype=object))
    assert {kind_of(reason) for reason in decisions.reason if reason} == set(OFFLINE)
    assert set(OFFLINE) < set(KINDS)  # the others are of sources that are fetched live
    named = {f"{kind}: {name}" for kind in OFFLINE[1:] for name in FRAME}
    assert set(decisions.reason) <= {"", "low confidence"} | named


OFFLINE = (LOW_CONFIDENCE, INVALID_VALUE, OUT_OF_RANGE, UNSEEN_CATEGORY)
FAULTS = [
    *((name, value) for name in ("cheap", "dear") for value in (1e6, -1e9, np.inf, np.nan, "old")),
    *(("kind", value) for value in ("new", None, 7, 1e400, [1.0])),
]


def test_many_blocks_reject_like_one():
    fresh = FRAME.copy()
    fresh.loc[::7, "cheap"] = 1e6
    fresh.loc[::11, "dear"] = np.nan
    fitted = cascade().fit(FRAME, Y)
    whole = fitted.decide(fresh)
    fitted.decider_ = replace(fitted.decider_, block_rows=13)
    assert list(fitted.decide(fresh)) == list(whole)


def test_explain_names_the_values():
    fitted = cascade().fit(FRAME, Y)
    faults = fitted.guard_.explain(
        {"kind": np.array(["new", "a"], dtype=object), "cheap": np.array([1e6, np.inf])}
    )
    assert json.loads(json.dumps(faults[:2])) == [
        [0, "kind", "new", "unseen category: kind"],
        [0, "cheap", 1e6, "out of range: cheap"],
    ]
    assert faults[2].reason == "invalid value: cheap"


def test_a_guard_is_a_parameter_of_its_cascade():
    guarded = cascade()
    assert clone(guarded).get_params()["guard__margin"] == 0.25
    grid = GridSearchCV(guarded, {"guard__margin": [0.0, 1.0]}, cv=2).fit(FRAME, Y)
    assert grid.best_params_["guard__margin"] in (0.0, 1.0)
    fitted = guarded.fit(FRAME, Y)
    assert not hasattr(guarded.guard, "learned_")
    unused = pickle.dumps(fitted.guard_)
    fitted.decide(FRAME)
    assert pickle.dumps(fitted.guard_) == unused
    again = pickle.loads(pickle.dumps(fitted))
    assert again.guard_.learned_ == fitted.guard_.learned_
    assert list(again.decide(FRAME)) == list(fitted.decide(FRAME))


def test_a_search_takes_a_guard_along():
    select = {"min_coverage": 0.5, "by": "accuracy"}
    guard = InputGuard(pool=["kind"])  # not every candidate uses it
    search = CascadeSearchCV(guard=guard, max_stages=2, cv=3, select=select)
    search.fit(FRAME, Y)
    faulty = FRAME.assign(cheap=1e6, dear=1e6)
    for candidate in search.front_:
        cascade = search.cascade(candidate)
        bought_a_fault = {"cheap", "dear"} & set(cascade.stages_[0])
        assert not (cascade.decide(faulty).accepted.any() and bought_a_fault)
    assert evaluate(search.decide(FRAME), Y).coverage > 0.5


# What is refused.


def test_what_was_not_learned_is_refused():
    with pytest.raises(NotFittedError):
        InputGuard().reasons({"x": np.zeros(1)})
    guard = InputGuard().fit({"price": np.zeros(3)})
    with pytest.raises(ColumnsError, match="not learned the column 'prize'; did you mean 'price'"):
        guard.reasons({"prize": np.zeros(1)})
    with pytest.raises(ColumnsError, match="for text and categories, but 'price' holds numbers"):
        InputGuard(pool=["price"]).fit({"price": np.zeros(3)})
    with pytest.raises(ValuesError, match="Row 1 of column 'x' is infinity"):
        InputGuard().fit({"x": np.array([0.0, np.inf])})


@pytest.mark.parametrize("params", [{"margin": -0.1}, {"margin": "wide"}, {"pool": "town"}])
def test_parameters_that_cannot_be_are_refused(params):
    with pytest.raises(ValueError, match="parameter of InputGuard"):
        InputGuard(**params).fit({"x": np.zeros(3)})
