"""What is fitted is the only thing that decides, and any driver can ask for it."""

from __future__ import annotations

import asyncio
import inspect

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier
from toy_driver import from_functions

from emsco import CascadeClassifier, Costs, InputGuard, Source, StageDesign, dump, load
from emsco.cascade.decision_loop import Answer, decide_rows, drive, drive_async
from emsco.cascade.fingerprint import fingerprint
from emsco.exceptions import DecisionsError, ValuesError


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=400)
    X = pd.DataFrame(
        {
            "cheap": y + rng.normal(size=400),
            "dear": 3 * y + rng.normal(size=400),
            "town": np.where(rng.random(400) < 0.3 + 0.4 * y, "here", "there"),
        }
    )
    return X, y


COSTS = Costs(
    [
        Source("cheap", cost=1, latency=2.0),
        Source("dear", cost=20, latency=5.0),
        Source("town", cost=3),
    ]
)


def fitted(rows, **params):
    design = StageDesign.from_stages([["cheap"], ["town"], ["dear"]])
    params = {"design": design, "costs": COSTS, "threshold": 0.9} | params
    return CascadeClassifier(**params).fit(*rows)


def same(one, other):
    fields = ("label", "accepted", "exit_stage", "confidence", "cost", "reason", "latency")
    return all(np.array_equal(getattr(one, f), getattr(other, f)) for f in fields)


CHANGES = {
    "estimator": DecisionTreeClassifier(),
    "threshold": 0.5001,
    "design": None,
    "costs": None,
    "guard": InputGuard(),
    "final": LogisticRegression(),
}


@pytest.mark.parametrize("name", CHANGES)
def test_parameters_set_after_fit_change_no_decision(rows, name, tmp_path):
    """Neither a decision, nor the fingerprint, nor what a file keeps."""
    cascade = fitted(rows)
    before, known = cascade.decide(rows[0]), fingerprint(cascade.decider_)
    probability = cascade.predict_proba(rows[0])
    cascade.set_params(**{name: CHANGES[name]})
    assert same(cascade.decide(rows[0]), before)
    assert np.array_equal(cascade.predict_proba(rows[0]), probability)
    assert fingerprint(cascade.decider_) == known
    dump(cascade, tmp_path / "set.emsco")
    loaded = load(tmp_path / "set.emsco")
    assert same(loaded.decide(rows[0]), before)
    assert fingerprint(loaded.decider_) == known


def test_a_guard_taken_away_after_fit_still_guards(rows):
    """It was fitted, so it decides."""
    cascade = fitted(rows, guard=InputGuard())
    odd = rows[0][:3].assign(cheap=1e9)
    cascade.set_params(guard=None)
    assert cascade.decide(odd).reason.tolist() == ["out of range: cheap"] * 3


@pytest.mark.parametrize(
    "name",
    ["thresholds_", "classes_", "costs_", "design_", "stages_", "estimators_", "guard_"],
)
def test_fitted_attributes_cannot_be_set(rows, name):
    """They show what decides; a file would keep another than decisions come from."""
    cascade = fitted(rows)
    with pytest.raises(AttributeError):
        setattr(cascade, name, None)


def test_weights_changed_in_place_change_nothing(rows, tmp_path):
    """What scikit-learn knows the stages as are copies."""
    cascade = fitted(rows)
    before, known = cascade.decide(rows[0]), fingerprint(cascade.decider_)
    for estimator in cascade.estimators_:
        estimator.coef_[:] = 0
    assert same(cascade.decide(rows[0]), before)
    assert fingerprint(cascade.decider_) == known
    dump(cascade, tmp_path / "changed.emsco")
    assert same(load(tmp_path / "changed.emsco").decide(rows[0]), before)
    with pytest.raises(ValueError, match="read-only"):
        cascade.thresholds_[:] = 0


def test_a_driver_over_functions_is_short_and_decides_alike(rows):
    """What a driver needs is public: in at most 25 lines."""
    assert len(inspect.getsource(from_functions).splitlines()) <= 25
    X, _ = rows
    cascade, called = fitted(rows), []

    def function(name):
        def call(key):
            called.append((name, key))
            return X[name][key]

        return call

    functions = {name: function(name) for name in X}
    decisions = from_functions(cascade.decider_, functions, list(range(50)))
    assert same(decisions, cascade.decide(X[:50]))
    assert sum(name == "dear" for name, _ in called) == (decisions.exit_stage == 2).sum() < 50


@pytest.mark.parametrize("guard", [None, InputGuard()])
def test_a_driver_hears_of_what_cannot_be_judged(rows, guard):
    """By name and row, or as a reason."""
    X, _ = rows
    decider = fitted(rows, guard=guard).decider_
    functions = {name: (lambda key, name=name: X[name][key]) for name in X}
    functions["cheap"] = lambda key: np.nan if key == 7 else X["cheap"][key]
    if guard is None:
        with pytest.raises(ValuesError, match="Row 3 of column 'cheap' is missing"):
            from_functions(decider, functions, [4, 5, 6, 7])
    else:
        decisions = from_functions(decider, functions, [4, 5, 6, 7])
        assert decisions.reason[3] == "invalid value: cheap"


def test_an_async_driver_decides_alike(rows):
    """The loop is the same, and is waited for."""
    X, _ = rows
    cascade = fitted(rows)

    async def answer(ask):
        await asyncio.sleep(0)
        found = {name: X[name].to_numpy()[ask.rows] for name in ask.features}
        return cascade.decider_.answer(found)

    loop = decide_rows(cascade.decider_.plan, len(X))
    assert same(asyncio.run(drive_async(loop, answer)), cascade.decide(X))


class Spending:
    """Answers as planned, but for what it is told otherwise of some stages."""

    def __init__(self, decider, X, **stages):
        self.decider, self.X, self.stages = decider, X, stages

    def __call__(self, ask):
        found = {name: self.X[name].to_numpy()[ask.rows] for name in ask.features}
        answer = self.decider.answer(found)
        told = self.stages.get(f"stage{ask.stage}", {})
        return answer._replace(**{k: v(ask.rows) for k, v in told.items()})


def test_what_was_paid_is_told_by_the_driver(rows):
    """A row's cost is the sum of what its stages took, as planned where nothing is told."""
    X, _ = rows
    cascade = fitted(rows)
    planned = cascade.decide(X)
    driver = Spending(cascade.decider_, X, stage1={"cost": lambda rows: np.full(len(rows), 0.5)})
    decisions = cascade.decider_.drive(len(X), driver)
    went_on = planned.exit_stage >= 1
    assert np.array_equal(decisions.exit_stage, planned.exit_stage)
    assert np.allclose(decisions.cost, planned.cost - 2.5 * went_on)
    assert np.array_equal(decisions.latency, planned.latency)


def test_what_was_waited_is_told_by_the_driver(rows):
    """Beside planned prices."""
    X, _ = rows
    cascade = fitted(rows)
    planned = cascade.decide(X)
    driver = Spending(cascade.decider_, X, stage0={"latency": lambda rows: rows.astype(float)})
    decisions = cascade.decider_.drive(len(X), driver)
    assert np.allclose(decisions.latency, planned.latency - 2.0 + np.arange(len(X)))
    assert np.allclose(decisions.cost, planned.cost)


def test_a_row_for_which_nothing_is_bought_pays_nothing(rows):
    """It leaves at stage 0, whatever the reason says."""
    X, _ = rows
    cascade = fitted(rows)
    refused = np.arange(len(X)) % 2 == 0
    driver = Spending(
        cascade.decider_,
        X,
        stage0={
            "bought": lambda rows: ~refused[rows],
            "reasons": lambda rows: np.where(refused[rows], "budget", "").astype(object),
        },
    )
    decisions = cascade.decider_.drive(len(X), driver)
    assert (decisions.cost[refused] == 0).all()
    assert (decisions.latency[refused] == 0).all()
    assert (decisions.exit_stage[refused] == 0).all()
    assert (decisions.reason[refused] == "budget").all()
    planned = cascade.decide(X)
    assert np.array_equal(decisions.cost[~refused], planned.cost[~refused])


def test_a_row_stays_at_the_stage_bought_last(rows):
    """Where a later one is not bought, nothing more is paid."""
    X, _ = rows
    cascade = fitted(rows)
    driver = Spending(
        cascade.decider_,
        X,
        stage2={
            "bought": lambda rows: np.zeros(len(rows), dtype=bool),
            "reasons": lambda rows: np.full(len(rows), "deadline", dtype=object),
        },
    )
    decisions = cascade.decider_.drive(len(X), driver)
    late = decisions.reason == "deadline"
    assert late.any()
    assert (decisions.exit_stage[late] == 1).all()
    assert (decisions.cost[late] == 4).all()


@pytest.mark.parametrize("field", ["reasons", "cost", "latency", "bought"])
def test_an_answer_of_another_length_is_refused(rows, field):
    """It would be given to other rows."""
    X, _ = rows
    decider = fitted(rows).decider_

    def answer(ask):
        columns = [X[name].to_numpy()[ask.rows] for name in ask.features]
        return Answer(columns, **{field: np.zeros(len(ask.rows) + 1)})

    with pytest.raises(DecisionsError, match=f"`{field}` for 400 rows"):
        drive(decide_rows(decider.plan, len(X)), answer)


def test_reading_without_a_guard_equals_deciding_a_frame(rows):
    """A value in another form is read as training had it."""
    X, _ = rows
    cascade = fitted(rows)
    words = {name: X[name].astype(str).to_numpy(dtype=object) for name in X}
    decisions = cascade.decider_.drive(
        len(X), lambda ask: cascade.decider_.answer({n: words[n][ask.rows] for n in ask.features})
    )
    assert same(decisions, cascade.decide(X))
