"""One row as a mapping is decided as the decision loop decides it, and as a table of it is."""

from __future__ import annotations

import pickle
from collections import namedtuple
from collections.abc import Mapping

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeClassifier

from emsco import CascadeClassifier, Costs, InputGuard, Source, StageDesign
from emsco.exceptions import ColumnsError, ValuesError

DESIGN = StageDesign.from_stages([["form"], ["lab"], ["scan"]])
COSTS = Costs(
    [
        Source("form", features=["age", "town", "smoker"], cost=1),
        Source("lab", features=["marker", "sugar"], cost=12, latency=30),
        Source("scan", cost=150, latency=600),
    ]
)


def patients(n_rows=600, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n_rows)
    frame = pd.DataFrame(
        {
            "age": 45 + 8 * y + rng.normal(0, 9, n_rows).round(),
            "town": np.array(["Bern", "Chur", None], dtype=object)[rng.integers(3, size=n_rows)],
            "smoker": rng.random(n_rows) < 0.3 + 0.2 * (y == 1),
            "marker": np.where(rng.random(n_rows) < 0.1, np.nan, y + rng.normal(0, 1, n_rows)),
            "sugar": rng.integers(60, 200, size=n_rows) + 30 * y,
            "scan": 2 * y + rng.normal(0, 1, n_rows),
        }
    )
    return frame, np.array(["well", "sick", "unsure"])[y]


def fitted(n_classes=2, **params):
    X, y = patients(n_classes=n_classes)
    given = {"design": DESIGN, "costs": COSTS, "threshold": 0.8} | params
    return CascadeClassifier(**given).fit(X, y)


def as_rows(X):
    return X.astype(object).to_dict("records")


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"guard": InputGuard()},
        {"threshold": {"well": 0.9, "sick": 0.7}},
        {"label_weights": "balanced"},
        {"label_weights": {"well": 1, "sick": 20}},
        {"estimator": DecisionTreeClassifier(max_depth=3, random_state=0)},
    ],
    ids=str,
)
def test_a_row_is_decided_as_a_table_of_it(n_classes, params):
    """To the last bit, and for every field."""
    X, _ = patients(300, n_classes, seed=1)
    if n_classes == 3:
        for name in ("threshold", "label_weights"):
            if isinstance(params.get(name), dict):
                params = params | {name: params[name] | {"unsure": 0.75}}
    if "estimator" in params:
        X = X.assign(town=0, smoker=0, marker=X.marker.fillna(0))
        fit_X, y = patients(n_classes=n_classes)
        fit_X = fit_X.assign(town=0, smoker=0, marker=fit_X.marker.fillna(0))
        cascade = CascadeClassifier(design=DESIGN, costs=COSTS, threshold=0.8, **params)
        cascade.fit(fit_X, y)
    else:
        cascade = fitted(n_classes, **params)
    expected = list(cascade.decide(X))
    assert {decision.exit_stage for decision in expected} == {0, 1, 2}
    assert [cascade.decide_one(row) for row in as_rows(X)] == expected


class Asked(Mapping):
    """A mapping that notes what is looked up."""

    def __init__(self, values):
        self.values_, self.asked = values, []

    def __getitem__(self, name):
        self.asked.append(name)
        return self.values_[name]

    def __iter__(self):
        return iter(self.values_)

    def __len__(self):
        return len(self.values_)


def test_what_no_stage_needs_is_never_looked_up():
    """And each value once at most, also of a row that the loop decides."""
    X, _ = patients(200, seed=1)
    for cascade in (fitted(), fitted(guard=InputGuard())):
        for row, decision in zip(as_rows(X), cascade.decide(X), strict=True):
            asked = Asked(row)
            assert cascade.decide_one(asked) == decision
            stages = cascade.decider_.plan.stages[: decision.exit_stage + 1]
            needed = sorted(feature for stage in stages for feature in stage.features)
            assert sorted(asked.asked) == needed


def test_values_of_stages_that_are_not_reached_may_be_missing_or_senseless():
    cascade = fitted()
    X, _ = patients(200, seed=1)
    early = [(row, d) for row, d in zip(as_rows(X), cascade.decide(X), strict=True)
             if d.exit_stage == 0]  # fmt: skip
    for row, decision in early:
        first = {name: row[name] for name in ("age", "town", "smoker")}
        assert cascade.decide_one(first) == decision
        assert cascade.decide_one(first | {"scan": object()}) == decision


def test_a_value_that_a_stage_needs_must_be_there():
    with pytest.raises(ColumnsError, match=r"no value of 'smoker'.*did you mean 'smokes'"):
        fitted().decide_one({"age": 50.0, "town": "Bern", "smokes": True})


@pytest.mark.parametrize("row", [None, [50.0, "Bern", True], "a81f", np.zeros(3), (1, 2, 3)])
def test_what_is_no_mapping_is_refused(row):
    with pytest.raises(ColumnsError, match="must be a mapping of feature to value"):
        fitted().decide_one(row)


def test_a_value_that_cannot_be_judged_is_named():
    with pytest.raises(ValuesError, match="Column 'age' held numbers") as caught:
        fitted().decide_one({"age": "old", "town": "Bern", "smoker": True})
    assert (caught.value.row, caught.value.column) == (0, "age")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"age": 5000.0}, "out of range: age"),
        ({"age": "old"}, "invalid value: age"),
        ({"age": None}, "invalid value: age"),
        ({"town": "Atlantis"}, "unseen category: town"),
        ({"town": ["Bern"]}, "invalid value: town"),
    ],
)
def test_a_guard_rejects_with_its_reason(change, reason):
    cascade = fitted(guard=InputGuard())
    row = {"age": 50.0, "town": "Bern", "smoker": True} | change
    decision = cascade.decide_one(row)
    assert (decision.accepted, decision.reason, decision.cost) == (False, reason, 1.0)


@pytest.mark.parametrize("spelled", [50, 50.0, "50", " 50.0 ", np.float32(50), np.int8(50)])
def test_numbers_are_read_as_in_a_table(spelled):
    cascade = fitted()
    row = {"age": spelled, "town": "Bern", "smoker": 1, "marker": None, "sugar": 90, "scan": 0}
    assert cascade.decide_one(row) == cascade.decide_one(row | {"age": 50.0})


def test_a_named_tuple_is_a_row():
    X, _ = patients(20, seed=1)
    cascade, Patient = fitted(), namedtuple("Patient", list(X.columns))
    for values, decision in zip(X.astype(object).to_numpy(), cascade.decide(X), strict=True):
        assert cascade.decide_one(Patient(*values)) == decision


def test_deciding_changes_nothing_that_is_pickled():
    cascade = fitted()
    row = as_rows(patients(1, seed=1)[0])[0]
    before = pickle.dumps(cascade)
    decision = cascade.decide_one(row)
    assert pickle.dumps(cascade) == before
    assert pickle.loads(before).decide_one(row) == decision


def test_declared_types_are_read():
    """A postcode that is text, and a date."""
    X, y = patients(400)
    X = X.assign(code=["04300", "12000"] * 200, born=["1970-01-01", "01.06.1990"] * 200)
    costs = Costs(
        [
            *COSTS.sources,
            Source("code", cost=1, type="text"),
            Source("born", cost=1, type="date"),
        ]
    )
    design = StageDesign.from_stages([["form", "code", "born"], ["lab"], ["scan"]])
    cascade = CascadeClassifier(design=design, costs=costs, threshold=0.8).fit(X, y)
    expected = list(cascade.decide(X))
    assert [cascade.decide_one(row) for row in as_rows(X)] == expected
