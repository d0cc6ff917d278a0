"""A model that is there already as the last stage: it stays as it is, and answers every row."""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from emsco import (
    CascadeClassifier,
    CascadeSearchCV,
    InputGuard,
    StageDesign,
    dump,
    evaluate,
)
from emsco._fingerprint import fingerprint
from emsco.certify import certify
from emsco.datasets import make_costly_classification
from emsco.exceptions import (
    ArtifactError,
    CertificateError,
    ClassesError,
    DesignError,
    SearchError,
)

X, Y, COSTS = make_costly_classification(900, 4, class_sep=1.5, random_state=0)
FRESH, X = X[600:].reset_index(drop=True), X[:600]
MODEL = HistGradientBoostingClassifier(max_iter=10, random_state=0).fit(X, Y[:600])
TWO_STAGES = StageDesign([0, 0, 1, 1], COSTS.names)


class Noting:
    """A model that notes what it is given."""

    def __init__(self):
        self.given = []

    def predict(self, X):
        self.given.append(X)
        return np.where(np.asarray(X["town"] == "Bern"), "yes", "no")


@pytest.fixture(scope="module")
def search():
    return CascadeSearchCV(
        costs=COSTS, final=MODEL, target="agreement", threshold=[0.7, 0.8, 0.9], max_stages=3
    ).fit(X)


@pytest.mark.parametrize("estimator", [None, LogisticRegression()], ids=["default", "own"])
@pytest.mark.parametrize("container", ["array", "pandas"])
def test_rows_that_get_there_are_answered_as_the_model_does(estimator, container):
    take = pd.DataFrame.to_numpy if container == "array" else pd.DataFrame.copy
    model = HistGradientBoostingClassifier(max_iter=5).fit(take(X), Y[:600])
    design = TWO_STAGES if container == "pandas" else StageDesign([0, 0, 1, 1])
    costs = COSTS if container == "pandas" else [1, 2, 3, 4]
    cascade = CascadeClassifier(estimator, design=design, costs=costs, threshold=0.9, final=model)
    decisions = cascade.fit(take(X), Y[:600]).decide(take(FRESH))
    late = decisions.exit_stage == 1
    assert decisions.accepted.all()
    assert 0 < late.sum() < len(late)
    np.testing.assert_array_equal(decisions.label[late], model.predict(take(FRESH))[late])
    assert set(decisions.confidence[late]) == {1.0}


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_the_model_is_given_columns_as_they_were(library):
    rng = np.random.default_rng(0)
    table = {
        "town": rng.choice(["Bern", "Thun"], 300),
        "count": rng.integers(5, size=300),
        "when": rng.normal(size=300),
    }
    frame = library.DataFrame(table)
    kind = "category" if library is pd else pl.Categorical
    frame = frame.astype({"town": kind}) if library is pd else frame.cast({"town": kind})
    y = np.where(table["when"] > 0, "yes", "no")
    model = Noting()
    design = StageDesign.from_stages([["when"], ["town", "count"]])
    cascade = CascadeClassifier(design=design, threshold=0.99, final=model).fit(frame, y)
    late = cascade.decide(frame).exit_stage == 1
    (given,) = model.given
    expected = frame[late] if library is pd else frame.filter(late)
    assert type(given) is library.DataFrame
    assert list(given.columns) == list(frame.columns)
    assert list(given.dtypes) == list(frame.dtypes)
    assert given.to_numpy().tolist() == expected.to_numpy().tolist()


def test_a_search_for_agreement_needs_no_labels_and_rejects_nothing(search):
    assert {c.evaluation.coverage for c in search.front_} == {1.0}
    assert {c.design.unused for c in search.front_} == {()}
    assert search.all_sources_.evaluation.accuracy == 1
    chosen = search.best_candidate_.evaluation
    assert chosen.accuracy >= 0.99
    assert chosen.cost < COSTS.total
    cheaper = [c for c in search.front_ if c.evaluation.cost < chosen.cost]
    assert cheaper
    assert all(c.evaluation.accuracy < 0.99 for c in cheaper)
    assert "Right is what the final model answers" in search.front_.measured_on


def test_fresh_figures_are_those_of_the_cascades(search):
    answers = MODEL.predict(FRESH)
    for scored in search.score_front(FRESH):
        cascade = search.cascade(scored.candidate)
        assert cascade.estimators_[-1] is MODEL
        assert scored.fresh == evaluate(cascade.decide(FRESH), answers)


def test_a_final_model_may_be_held_against_labels_too():
    asked = {"threshold": 0.8, "max_stages": 2, "select": {"by": "accuracy"}}
    search = CascadeSearchCV(costs=COSTS, final=MODEL, **asked).fit(X, Y[:600])
    assert search.all_sources_.evaluation.right == (MODEL.predict(X) == Y[:600]).sum()


def test_another_final_model_is_another_cascade():
    other = HistGradientBoostingClassifier(max_iter=11, random_state=0).fit(X, Y[:600])
    cascade = CascadeClassifier(design=TWO_STAGES, costs=COSTS, final=MODEL).fit(X, Y[:600])
    again = CascadeClassifier(design=TWO_STAGES, costs=COSTS, final=MODEL).fit(X, Y[:600])
    changed = CascadeClassifier(design=TWO_STAGES, costs=COSTS, final=other).fit(X, Y[:600])
    assert fingerprint(cascade) == fingerprint(again) != fingerprint(changed)


def test_frozen_it_survives_a_clone():
    cascade = CascadeClassifier(design=TWO_STAGES, costs=COSTS, final=FrozenEstimator(MODEL))
    assert clone(cascade).fit(X, Y[:600]).decide(FRESH).accepted.all()
    with pytest.raises(NotFittedError):
        clone(cascade.set_params(final=MODEL)).fit(X, Y[:600])


def test_agreement_is_certified_without_labels(search):
    search, another = copy.deepcopy(search), copy.deepcopy(search)
    certificate = certify(search, FRESH, agreement=0.9, confidence=0.9)
    assert "leaves fewer than 90% of decisions as the final model's" in certificate.sentence
    cheapest = certificate.select(by="cost")
    changed = search.cascade(cheapest.candidate).decide(FRESH).label != MODEL.predict(FRESH)
    assert cheapest.evaluation.rows - cheapest.evaluation.right == changed.sum()
    expected = certify(search, FRESH, agreement=0.9, confidence=0.9)
    assert expected.sentence == certificate.sentence, "the same question is free"
    refused = certify(another, FRESH[:40], agreement=0.99)
    assert "40 decisions with 0 changed are too few" in refused.sentence


@pytest.mark.parametrize(
    ("y", "asked", "message"),
    [
        (Y[600:], {"agreement": 0.9}, "no `y`"),
        (None, {"agreement": 0.9, "accuracy": 0.9}, "certify one"),
        (None, {}, "Say what to certify"),
    ],
)
def test_agreement_is_a_target_of_its_own(search, y, asked, message):
    with pytest.raises(CertificateError, match=message):
        certify(search, FRESH, y, **asked)


def test_agreement_needs_a_final_model():
    with pytest.raises(CertificateError, match="this one has none"):
        certify(CascadeClassifier(costs=COSTS).fit(X, Y[:600]), FRESH, agreement=0.9)


def test_what_cannot_be_is_refused(search, tmp_path):
    fit = (X, Y[:600])
    with pytest.raises(DesignError, match="leaves out 's3'"):
        CascadeClassifier(design=StageDesign([0, 0, 1, -1]), costs=COSTS, final=MODEL).fit(*fit)
    with pytest.raises(DesignError, match="give one"):
        CascadeClassifier(costs=COSTS, final=MODEL, guard=InputGuard()).fit(*fit)
    with pytest.raises(DesignError, match="give one"):
        CascadeSearchCV(costs=COSTS, final=MODEL, guard=InputGuard()).fit(*fit)
    with pytest.raises(SearchError, match="give final=model"):
        CascadeSearchCV(costs=COSTS, target="agreement").fit(*fit)
    cascade = CascadeClassifier(design=TWO_STAGES, costs=COSTS, final=MODEL).fit(*fit)
    for model in (cascade, search):
        with pytest.raises(ArtifactError, match="do not keep a final model"):
            dump(model, tmp_path / "model.emsco")
    town = pd.DataFrame({"town": ["Bern", "Thun"] * 20, "x": np.arange(40.0)})
    with pytest.raises(ClassesError, match="answers 'yes', which is no class"):
        CascadeSearchCV(final=Noting()).fit(town, ["a", "b"] * 20)
