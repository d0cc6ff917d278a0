"""Factors are exact for linear stages, and for others they say that there are none."""

from __future__ import annotations

from math import log

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from emsco import (
    CascadeClassifier,
    CascadeSearchCV,
    Costs,
    Exhaustive,
    InputGuard,
    MaskedClassifier,
    Source,
    StageDesign,
    dump,
    load,
)
from emsco.cascade.factors import linear_score
from emsco.exceptions import ColumnsError
from emsco.learners.logistic import LinearFit, LinearStage
from emsco.rows.encoding import Category

NAMES = ["age", "income", "town", "member"]
DESIGN = StageDesign.from_stages([["age"], ["income", "town"], ["member"]])


def table(n_rows, seed=0):
    """Make rows with numbers, missing values, text and booleans."""
    rng = np.random.default_rng(seed)
    income = rng.lognormal(8, 1, n_rows)
    income[rng.random(n_rows) < 0.2] = np.nan
    town = rng.choice(np.array(["Oslo", "Bonn", "Graz", "rare", None], dtype=object), n_rows)
    return pd.DataFrame(
        {
            "age": rng.normal(50, 15, n_rows),
            "income": income,
            "town": town,
            "member": rng.random(n_rows) < 0.5,
        }
    )


def labels_of(frame, n_classes):
    """Make labels that depend on all columns."""
    noise = np.random.default_rng(len(frame)).normal(0, 1, len(frame))
    known = frame["age"] / 15 + frame["income"].fillna(9000) / 4000 + (frame["town"] == "Oslo") * 2
    rank = (known + frame["member"] * 1.5 + noise).rank(pct=True)
    return np.array(["c0", "c1", "c2"])[np.minimum((rank * n_classes).astype(int), n_classes - 1)]


def fitted(n_classes=2, estimator=None, **params):
    frame = table(400)
    cascade = CascadeClassifier(estimator, design=DESIGN, threshold=(0.75, 0.8, 0.8), **params)
    return cascade.fit(frame, labels_of(frame, n_classes))


def plainly(cascade, frame, decisions):
    """Compute scores by scikit-learn: encode all columns, and ask for its decision function."""
    decider, names = cascade.decider_, list(cascade.decider_.readers)
    scores = []
    for row, decision in enumerate(decisions):
        bought = cascade.design_.acquired(decision.exit_stage)
        blocks = [
            decider.readers[f].encoding.encode(decider.readers[f].read(frame[f].array[[row]]))
            for f in names
            if f in bought
        ]
        (found,) = cascade.estimators_[decision.exit_stage].decision_function(np.hstack(blocks))
        scores.append(against_others(found, cascade.classes_.tolist().index(decision.label)))
    return scores


def against_others(scores, code):
    """Give the score of a class minus the mean of the others."""
    if np.ndim(scores) == 0:
        return float(scores) if code else -float(scores)
    return float(scores[code] - np.delete(scores, code).mean())


def near(factors, expected):
    """Say whether base and contributions add up, to nine digits of the largest of them."""
    assert factors.features, factors.why_none
    size = max(1.0, abs(factors.base), *(abs(amount) for _, amount in factors.features))
    return abs(factors.score - expected) <= 1e-9 * size


@pytest.mark.parametrize("n_classes", [2, 3])
def test_base_and_contributions_add_up_to_the_decision_function(n_classes):
    cascade = fitted(n_classes)
    frame = table(150, seed=7)
    decisions = cascade.decide(frame, factors=True)
    assert set(decisions.exit_stage.tolist()) == {0, 1, 2}
    for decision, expected in zip(decisions, plainly(cascade, frame, decisions), strict=True):
        factors = decision.factors
        assert near(factors, expected)
        assert (factors.label, factors.stage) == (decision.label, decision.exit_stage)
        bought = cascade.design_.acquired(decision.exit_stage)
        assert sorted(feature for feature, _ in factors.features) == sorted(bought)
        amounts = [abs(amount) for _, amount in factors.features]
        assert amounts == sorted(amounts, reverse=True)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_score_is_what_probabilities_say(n_classes):
    """With two classes it is the log-odds of the label, rejected or not."""
    cascade = fitted(n_classes)
    frame = table(80, seed=3)
    decisions = cascade.decide(frame, factors=True)
    assert not decisions.accepted.all()
    for decision, probability in zip(decisions, cascade.predict_proba(frame), strict=True):
        own = cascade.classes_.tolist().index(decision.label)
        others = np.log(np.delete(probability, own)).mean()
        assert decision.factors.score == pytest.approx(log(probability[own]) - others, rel=1e-7)
        assert decision.factors.score >= 0, "the label is the most probable class"


@settings(max_examples=40)
@given(
    centre=st.floats(-1e9, 1e9),
    scale=st.floats(1e-6, 1e9),
    n_classes=st.integers(2, 3),
    seed=st.integers(0, 2**32 - 1),
)
def test_columns_of_any_size_add_up(centre, scale, n_classes, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 3)) * [1, scale, 1] + [0, centre, 0]
    y = np.arange(60) % n_classes
    cascade = CascadeClassifier(threshold=0.6).fit(X, y)
    decider, estimator = cascade.decider_, cascade.estimators_[0]
    encoded = np.hstack([decider.readers[f"x{i}"].encoding.encode(X[:, i]) for i in range(3)])
    decisions = cascade.decide(X, factors=True)
    for decision, scores in zip(decisions, estimator.decision_function(encoded), strict=True):
        assert near(decision.factors, against_others(scores, decision.label))


def test_a_row_at_the_mean_of_training_is_the_reference():
    frame = table(300)[["age", "member"]].assign(member=lambda f: f["member"] * 2.5)
    cascade = CascadeClassifier().fit(frame, labels_of(table(300), 2))
    means = frame.mean().to_frame().T
    (decision,) = cascade.decide(means, factors=True)
    assert dict(decision.factors.features) == pytest.approx({"age": 0, "member": 0}, abs=1e-12)
    assert decision.factors.score == pytest.approx(decision.factors.base)
    assert decision.factors.reference == "a row with the training mean of every number"


def one_stage():
    frame = table(400)
    return CascadeClassifier().fit(frame, labels_of(frame, 2))


def of_class_1(decision):
    """Give contributions to the log-odds of the second class."""
    sign = 1 if decision.label == "c1" else -1
    return {feature: sign * amount for feature, amount in decision.factors.features}


def test_another_value_changes_its_own_contribution_and_no_other():
    cascade, frame = one_stage(), table(20, seed=5)
    older = frame.assign(age=frame["age"] + 10)
    pairs = zip(
        cascade.decide(frame, factors=True), cascade.decide(older, factors=True), strict=True
    )
    (slope,) = cascade.estimators_[0].coef_[:, 0] / cascade.decider_.readers["age"].encoding.scale
    for before, after in pairs:
        first, second = of_class_1(before), of_class_1(after)
        assert second.pop("age") - first.pop("age") == pytest.approx(10 * slope)
        assert first == second


def test_a_missing_number_contributes_its_median_and_its_absence():
    cascade = one_stage()
    frame = table(2, seed=5).assign(income=[np.nan, 9000.0])
    missing, known = map(of_class_1, cascade.decide(frame, factors=True))
    encoding = cascade.decider_.readers["income"].encoding
    (value, absence) = cascade.estimators_[0].coef_[0, 1:3]
    filled = value * (encoding.median - encoding.centre) / encoding.scale
    assert missing["income"] == pytest.approx(filled + absence)
    assert known["income"] == pytest.approx(value * (9000 - encoding.centre) / encoding.scale)


def test_the_values_of_a_category_average_to_nothing():
    """A missing value is one of its own; the feature is told, and not its encoded columns."""
    cascade = one_stage()
    assert cascade.decider_.readers["town"].encoding.width == 5
    towns = ["Oslo", "Bonn", "Graz", "rare", None]
    frame = table(5, seed=5).assign(town=np.array(towns, dtype=object))
    decisions = cascade.decide(frame, factors=True)
    added = [of_class_1(decision)["town"] for decision in decisions]
    assert sum(added) == pytest.approx(0, abs=1e-12)
    assert added[0] == max(added) > 0.5
    assert "the average of the values of every category" in decisions[0].factors.reference
    assert "counting the median" in decisions[0].factors.reference


def test_whatever_the_weights_are_values_of_a_category_are_against_their_average():
    category = Category(("a", "b"), pooled=False, missing_seen=True)
    encodings = {"town": category}
    weights = LinearFit(np.array([[1.0, 2.0, 6.0]]), np.array([0.5]), (1,))
    stage = LinearStage.compile(["town"], encodings, weights, np.array(["no", "yes"]))
    score = linear_score(stage, ["town"], encodings)
    towns = np.array(["a", "b", None, "unseen"], dtype=object)
    base, added = score.contributions({"town": towns}, np.array([1, 1, 1, 0]))
    assert base.tolist() == [3.5, 3.5, 3.5, -3.5]
    assert added.tolist() == [[-2, -1, 3, 3]]
    yes = stage({"town": towns})[1]
    assert np.allclose(np.log(yes / (1 - yes)), (base + added[0]) * [1, 1, 1, -1])


def test_every_container_gives_the_same_factors():
    cascade, frame = fitted(), table(30, seed=2)
    expected = cascade.decide(frame, factors=True).factors
    told = pl.DataFrame({name: frame[name].replace({np.nan: None}).tolist() for name in NAMES})
    assert cascade.decide(told, factors=True).factors == expected
    typed = frame.astype({"town": "category", "income": "Float64", "member": "boolean"})
    assert cascade.decide(typed, factors=True).factors == expected
    numbers = np.random.default_rng(0).normal(size=(90, 3))
    plain = CascadeClassifier(design=StageDesign([0, 1, 1])).fit(numbers, np.arange(90) % 2)
    whole = plain.decide(numbers, factors=True).factors
    one_by_one = [plain.decide(numbers[[i]], factors=True).factors[0] for i in range(90)]
    assert one_by_one == whole


def numbers_of(n_rows, n_classes):
    rng = np.random.default_rng(n_classes)
    y = np.arange(n_rows) % n_classes
    return y[:, None] * [0.5, 9.0, 0.1] + rng.normal(3, 1, size=(n_rows, 3)) * [1, 5, 0.1], y


MEANS = "a row with the training mean of every number"
ZEROS = "a row with the value 0 of every number"
LOGISTIC = LogisticRegression(max_iter=1000)
LINEAR = {
    "bare": (LOGISTIC, ZEROS),
    "scaled": (make_pipeline(StandardScaler(), LOGISTIC), MEANS),
    "not centred": (make_pipeline(StandardScaler(with_mean=False), LOGISTIC), MEANS),
    "only centred": (make_pipeline(StandardScaler(with_std=False), LOGISTIC), MEANS),
    "no intercept": (
        make_pipeline(StandardScaler(), LogisticRegression(fit_intercept=False)),
        MEANS,
    ),
}


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kind", LINEAR)
@pytest.mark.parametrize("container", ["array", "frame"])
def test_a_logistic_regression_of_scikit_learn_is_linear_too(kind, n_classes, container):
    estimator, reference = LINEAR[kind]
    X, y = numbers_of(240, n_classes)
    frame = pd.DataFrame(X, columns=["x0", "x1", "x2"])
    X = frame if container == "frame" else X
    cascade = CascadeClassifier(estimator, design=StageDesign([1, 0, 1]), threshold=0.7).fit(X, y)
    decisions = cascade.decide(X, factors=True)
    assert set(decisions.exit_stage.tolist()) == {0, 1}
    for row, decision in enumerate(decisions):
        columns = ["x1"] if decision.exit_stage == 0 else ["x0", "x1", "x2"]
        values = frame.loc[[row], columns]
        values = values if container == "frame" else values.to_numpy()
        (scores,) = cascade.estimators_[decision.exit_stage].decision_function(values)
        assert near(decision.factors, against_others(scores, decision.label))
        assert decision.factors.reference == reference


@pytest.mark.parametrize("kind", LINEAR)
def test_the_reference_of_a_logistic_regression_is_what_it_says(kind):
    estimator, reference = LINEAR[kind]
    X, y = numbers_of(240, 2)
    row = X.mean(axis=0) if reference == MEANS else np.zeros(3)
    cascade = CascadeClassifier(estimator, threshold=0.6).fit(X, y)
    (decision,) = cascade.decide(row[None], factors=True)
    assert [amount for _, amount in decision.factors.features] == [0, 0, 0]
    (score,) = cascade.estimators_[0].decision_function(row[None])
    assert decision.factors.base == pytest.approx(score if decision.label == 1 else -score)


@pytest.mark.parametrize("changed", [{"solver": "liblinear"}, {"multi_class": "ovr"}])
def test_probabilities_that_are_made_otherwise_have_no_factors(changed):
    """Older versions of scikit-learn judge three classes one by one with these."""
    X, y = numbers_of(90, 3)
    cascade = CascadeClassifier(LOGISTIC, threshold=0.6).fit(X, y)
    cascade.estimators_[0].__dict__.update(changed)
    (decision,) = cascade.decide(X[:1], factors=True)
    assert decision.factors.features == ()


class Stern(LogisticRegression):
    """A classifier whose probabilities are not those of its scores."""

    def predict_proba(self, X):
        roots = np.sqrt(super().predict_proba(X))
        return roots / roots.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("estimator", "n_classes", "told"),
    [
        (RandomForestClassifier(5, random_state=0), 2, "judged by RandomForestClassifier"),
        (MaskedClassifier(), 2, "judged by MaskedClassifier"),
        (
            CalibratedClassifierCV(LogisticRegression(max_iter=1000)),
            2,
            "judged by CalibratedClassifierCV",
        ),
        (
            make_pipeline(SimpleImputer(), LogisticRegression(max_iter=1000)),
            2,
            "judged by Pipeline(SimpleImputer, LogisticRegression)",
        ),
        (Stern(), 2, "judged by Stern"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_not_linear_has_no_factors_and_says_so(estimator, n_classes, told):
    X, y = numbers_of(200, n_classes)
    cascade = CascadeClassifier(estimator, threshold=0.6).fit(X, y)
    for decision in cascade.decide(X[:5], factors=True):
        assert decision.factors.features == ()
        assert decision.factors.base is decision.factors.score is None
        assert told in decision.factors.why_none
        assert decision.factors.label == decision.label
        assert "no factors" in str(decision.factors)


class Model:
    """A final model."""

    def predict(self, X):
        return np.where(X["age"] > 50, "c1", "c0")


def test_a_final_model_has_none_and_the_stages_before_it_have():
    frame = table(300)
    cascade = CascadeClassifier(design=DESIGN, threshold=0.85, final=Model())
    cascade.fit(frame, labels_of(frame, 2))
    decisions = cascade.decide(frame, factors=True)
    assert set(decisions.exit_stage.tolist()) == {0, 1, 2}
    early = (decisions.exit_stage < 2).nonzero()[0]
    for decision in decisions:
        last = decision.exit_stage == 2
        assert (decision.factors.features == ()) == last
        assert ("final model" in decision.factors.why_none) == last
    for row in early:
        (expected,) = plainly(cascade, frame.iloc[[row]], decisions[[row]])
        assert near(decisions[int(row)].factors, expected)


def test_a_row_that_was_not_judged_has_a_reason_and_no_factors():
    """The label of such a row is that of an earlier stage, or of none."""
    cascade = fitted(guard=InputGuard())
    frame = table(60, seed=4)
    faulty = frame.assign(income=np.where(np.arange(60) % 2, np.inf, frame["income"]))
    faulty.loc[0, "age"] = np.inf
    decisions = cascade.decide(faulty, factors=True)
    kinds = {decision.reason for decision in decisions}
    assert {"", "invalid value: age", "invalid value: income"} <= kinds
    for decision in decisions:
        judged = decision.reason in ("", "low confidence")
        assert bool(decision.factors.features) == judged
        assert judged or repr(decision.reason) in decision.factors.why_none


def test_values_that_were_not_bought_are_not_looked_at():
    """A live cascade has none; and those that came may be lists of plain objects."""
    cascade, frame = fitted(), table(50, seed=6)
    decisions = cascade.decide(frame, factors=True)
    exits = decisions.exit_stage
    held = {}
    for number, stage in enumerate(cascade.stages_):
        for feature in stage:
            given = zip(frame[feature].tolist(), exits.tolist(), strict=True)
            held[feature] = [value if left >= number else "?" for value, left in given]
    assert cascade.decider_.factors(held, cascade.decide(frame)) == decisions.factors
    read = {
        name: reader.read(frame[name].array) for name, reader in cascade.decider_.readers.items()
    }
    assert cascade.decider_.factors(read, decisions) == decisions.factors, "what was read already"
    first = exits == 0
    ages = {"age": frame["age"].to_numpy()[first]}
    told = cascade.decider_.factors(ages, decisions[first])
    assert told == decisions[first].factors
    with pytest.raises(ColumnsError, match="'income' is missing"):
        cascade.decider_.factors({"age": frame["age"].to_numpy()}, decisions)


def test_what_no_float_can_hold_is_not_told():
    X = np.array([[0.0], [1.0], [0.1], [0.9]])
    cascade = CascadeClassifier(threshold=0.6).fit(X * 1e-140, [0, 1, 0, 1])
    (decision,) = cascade.decide(np.array([[1e300]]), factors=True)
    assert decision.factors.features == ()
    assert "so large" in decision.factors.why_none


def test_factors_are_there_only_if_they_are_asked_for():
    cascade, frame = fitted(), table(9)
    plain, told = cascade.decide(frame), cascade.decide(frame, factors=True)
    assert plain.factors is None
    assert plain[0].factors is None
    assert told.to_frame().equals(plain.to_frame())
    assert repr(told) == repr(plain)
    assert [decision.factors for decision in told[::-1]] == told.factors[::-1]
    assert told[[4, 2]][1].factors == told[2].factors
    assert told[told.accepted][0].label == told[told.accepted][0].factors.label
    assert told[2].receipt is None


def test_no_rows_have_no_factors():
    cascade = fitted()
    decisions = cascade.decide(table(3), factors=True)[:0]
    assert cascade.decider_.factors({}, decisions) == []


def test_a_loaded_cascade_tells_the_same(tmp_path):
    cascade, frame = fitted(3), table(40, seed=8)
    dump(cascade, tmp_path / "model.emsco")
    loaded = load(tmp_path / "model.emsco")
    expected = cascade.decide(frame, factors=True).factors
    assert loaded.decide(frame, factors=True).factors == expected


def test_a_search_tells_the_factors_of_what_it_chose():
    frame = table(600)
    costs = Costs([Source(name, cost=1 + place) for place, name in enumerate(NAMES)])
    search = CascadeSearchCV(costs=costs, search=Exhaustive(), max_stages=2, luck=False)
    search.fit(frame, labels_of(frame, 2))
    decisions = search.decide(frame[:9], factors=True)
    assert decisions.factors == search.best_cascade_.decide(frame[:9], factors=True).factors
    assert all(decision.factors.features for decision in decisions)
