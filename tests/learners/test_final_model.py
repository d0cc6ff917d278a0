"""A model that is there already as the last stage: it stays as it is, and answers every row."""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import polars as pl
import pytest
import skops.io
from skl2onnx import to_onnx
from skl2onnx.common.data_types import FloatTensorType
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from emsco import (
    CascadeClassifier,
    CascadeSearchCV,
    InputGuard,
    StageDesign,
    dump,
    evaluate,
    load,
)
from emsco.cascade.fingerprint import fingerprint
from emsco.certify import Targets, certify, certify_together
from emsco.datasets import make_costly_classification
from emsco.exceptions import (
    ArtifactError,
    CertificateError,
    ClassesError,
    ColumnsError,
    DesignError,
    ModelError,
    SearchError,
)
from emsco.final import LoggedAnswers, OnnxModel
from emsco.io import load_final
from emsco.report import report
from emsco.rows.ledger import forget_all

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


class Wild:
    """A model that answers what it never did before."""

    def predict(self, X):
        return np.full(len(X), 7)


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
    assert search.best_candidate_ is search.front_.select(min_accuracy=0.99)
    counted = search.front_.select(min_accuracy=0.99, caution=0).evaluation
    cheaper = [c for c in search.front_ if c.evaluation.cost < counted.cost <= chosen.cost]
    assert cheaper
    assert all(c.evaluation.accuracy < 0.99 for c in cheaper)
    assert "right if the final model gives the same one" in search.front_.measured_on


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
    assert certificate.sentence.startswith(
        "With 90% confidence, at least 90% of decisions are the same as the final model's, "
        "provided that new rows resemble the calibration rows. "
    )
    assert "leaves fewer than 90% of decisions as the final model's" in certificate.sentence
    cheapest = certificate.select(by="cost")
    changed = search.cascade(cheapest.candidate).decide(FRESH).label != MODEL.predict(FRESH)
    assert cheapest.evaluation.rows - cheapest.evaluation.right == changed.sum()
    expected = certify(search, FRESH, agreement=0.9, confidence=0.9)
    assert expected.sentence == certificate.sentence, "the same question is free"
    forget_all()
    refused = certify(another, FRESH[:40], agreement=0.99)
    assert "40 decisions with 0 changed are too few" in refused.sentence


@pytest.mark.parametrize(
    ("y", "asked", "message"),
    [
        (Y[600:], {"agreement": 0.9}, "do not pass `y`"),
        (None, {"agreement": 0.9, "accuracy": 0.9}, "certify them separately"),
        (None, {}, "Give at least one target to certify"),
    ],
)
def test_agreement_is_a_target_of_its_own(search, y, asked, message):
    with pytest.raises(CertificateError, match=message):
        certify(search, FRESH, y, **asked)


def test_under_agreement_labels_are_ignored_by_fit_and_score_and_refused_by_all_else(
    search, tmp_path
):
    """scikit-learn hands `y` on to `fit` and `score`; whoever gives it elsewhere is mistaken."""
    y, answers = Y[600:], MODEL.predict(FRESH)
    assert not search.needs_labels
    np.testing.assert_array_equal(search.truth(FRESH), answers)
    told = clone(search).set_params(final=FrozenEstimator(MODEL)).fit(X, 1 - Y[:600])
    assert list(told.front_) == list(search.front_)
    agreed = np.mean(search.predict(FRESH) == answers)
    assert search.score(FRESH) == search.score(FRESH, y) == agreed
    for refusing in (
        lambda: search.truth(FRESH, y),
        lambda: search.score_front(FRESH, y),
        lambda: report(search, tmp_path / "report.html", FRESH, y),
    ):
        with pytest.raises(ClassesError, match="takes no `y`"):
            refusing()
    assert not (tmp_path / "report.html").exists()
    for given in (y, None):
        with pytest.raises(CertificateError, match="certify `agreement`"):
            certify(search, FRESH, given, accuracy=0.9)
        with pytest.raises(CertificateError, match="certify `agreement`"):
            certify(search, FRESH, given, max_missed={1: 0.5})
    cascade = search.best_cascade_
    labelled = certify(cascade, FRESH, y, accuracy=0.5, final_fitted_elsewhere=True)
    assert labelled.certified, "of it labels may be"
    forget_all()
    assert certify(cascade, FRESH, agreement=0.5).certified


def test_a_search_for_labels_needs_them():
    asked = {"costs": COSTS, "threshold": 0.8, "max_stages": 2, "select": {"by": "accuracy"}}
    search = CascadeSearchCV(final=MODEL, **asked).fit(X, Y[:600])
    assert search.needs_labels
    np.testing.assert_array_equal(search.truth(FRESH, Y[600:]), Y[600:])
    assert search.score(FRESH, Y[600:]) == np.mean(search.predict(FRESH) == Y[600:])
    for lacking in (search.truth, search.score_front, search.score):
        with pytest.raises(ClassesError, match="`y` is needed"):
            lacking(FRESH)


@pytest.fixture(scope="module")
def knows_these_rows():
    """Return a cascade before a model that has learned the calibration rows by heart."""
    model = DecisionTreeClassifier(random_state=0).fit(FRESH, Y[600:])
    cascade = CascadeClassifier(design=TWO_STAGES, costs=COSTS, threshold=0.99, final=model)
    return cascade.fit(X, Y[:600])


def test_with_labels_a_final_model_must_not_have_seen_the_rows(knows_these_rows):
    """It cannot be seen, so it is asked for: on rows learned by heart, it is never wrong."""
    with pytest.raises(CertificateError, match="final_fitted_elsewhere=True"):
        certify(knows_these_rows, FRESH, Y[600:], accuracy=0.9)
    said = certify(knows_these_rows, FRESH, Y[600:], accuracy=0.9, final_fitted_elsewhere=True)
    assert said.certified
    others = make_costly_classification(5000, 4, class_sep=1.5, random_state=0)
    true = np.mean(knows_these_rows.predict(others[0][900:]) == others[1][900:])
    assert true < 0.9, "what was said is false here, and so is the certificate"
    assert "only if the final model has not seen these rows" in said.sentence
    together = [Targets(accuracy=0.5), Targets(max_missed={1: 0.5})]
    with pytest.raises(CertificateError, match="final_fitted_elsewhere=True"):
        certify_together(knows_these_rows, FRESH, Y[600:], together)


def test_agreement_and_cascades_without_a_final_model_need_no_such_word(knows_these_rows):
    forget_all()
    agreed = certify(knows_these_rows, FRESH, agreement=0.5)
    assert "final model has not seen" not in agreed.sentence
    alone = CascadeClassifier(costs=COSTS).fit(X, Y[:600])
    forget_all()
    assert certify(alone, FRESH, Y[600:], accuracy=0.5).certified


def test_a_search_for_labels_asks_as_well():
    asked = {"costs": COSTS, "threshold": 0.8, "max_stages": 2, "select": {"by": "accuracy"}}
    search = CascadeSearchCV(final=MODEL, **asked).fit(X, Y[:600])
    with pytest.raises(CertificateError, match="final_fitted_elsewhere=True"):
        certify(search, FRESH, Y[600:], accuracy=0.5)


def test_an_answer_that_fit_did_not_see_is_told_as_the_models(search):
    wild = copy.deepcopy(search)
    wild.final = Wild()
    with pytest.raises(ClassesError, match="The final model answers 7, which `fit` did not see"):
        wild.score_front(FRESH)


def test_agreement_needs_a_final_model():
    with pytest.raises(CertificateError, match="this model has none"):
        certify(CascadeClassifier(costs=COSTS).fit(X, Y[:600]), FRESH, agreement=0.9)


def test_what_cannot_be_is_refused():
    fit = (X, Y[:600])
    with pytest.raises(DesignError, match="leaves out 's3'"):
        CascadeClassifier(design=StageDesign([0, 0, 1, -1]), costs=COSTS, final=MODEL).fit(*fit)
    with pytest.raises(DesignError, match="give only one"):
        CascadeClassifier(costs=COSTS, final=MODEL, guard=InputGuard()).fit(*fit)
    with pytest.raises(DesignError, match="give only one"):
        CascadeSearchCV(costs=COSTS, final=MODEL, guard=InputGuard()).fit(*fit)
    with pytest.raises(SearchError, match="give final=model"):
        CascadeSearchCV(costs=COSTS, target="agreement").fit(*fit)
    town = pd.DataFrame({"town": ["Bern", "Thun"] * 20, "x": np.arange(40.0)})
    with pytest.raises(ClassesError, match="answers 'yes', which is not a class"):
        CascadeSearchCV(final=Noting()).fit(town, ["a", "b"] * 20)


def by_matrix() -> OnnxModel:
    """Make a model that takes one matrix."""
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X.to_numpy(), Y[:600])
    return as_onnx(model, X[:1].to_numpy(np.float32))


def by_column() -> OnnxModel:
    """Make a model that takes an input a column."""
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y[:600])
    return as_onnx(model, [(name, FloatTensorType([None, 1])) for name in X])


def as_onnx(model, like, **options) -> OnnxModel:
    named = {"initial_types": like} if isinstance(like, list) else {"X": like}
    options = {id(model): {"zipmap": False, **options}}
    return OnnxModel(to_onnx(model, **named, options=options).SerializeToString())


@pytest.mark.parametrize("make", [by_matrix, by_column])
def test_a_model_may_be_onnx(make):
    model = make()
    expected = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, Y[:600]).predict(FRESH)
    np.testing.assert_array_equal(model.predict(FRESH), expected)
    cascade = CascadeClassifier(design=TWO_STAGES, costs=COSTS, threshold=0.95, final=model)
    decisions = cascade.fit(X, Y[:600]).decide(FRESH)
    late = decisions.exit_stage == 1
    np.testing.assert_array_equal(decisions.label[late], expected[late])
    assert fingerprint(cascade) == fingerprint(copy.deepcopy(cascade))


def test_onnx_labels_may_be_text_or_the_place_of_a_probability(tmp_path):
    text = np.where(Y[:600] == Y[0], "a", "b")
    values = FRESH.to_numpy(np.float32)
    model = LogisticRegression().fit(X.to_numpy(np.float32), text)
    assert as_onnx(model, values[:1]).predict(FRESH).tolist() == model.predict(values).tolist()
    bare = to_onnx(model, values[:1], options={"zipmap": False}, final_types=None)
    bare.graph.output.pop(0)  # the labels
    (tmp_path / "bare.onnx").write_bytes(bare.SerializeToString())
    places = load_final(tmp_path / "bare.onnx").predict(FRESH)
    assert model.classes_[places].tolist() == model.predict(values).tolist()


def test_what_onnx_cannot_answer_has_a_name(tmp_path):
    with pytest.raises(ModelError, match="cannot read this model"):
        OnnxModel(b"no model").predict(FRESH)
    with pytest.raises(ModelError, match="No such file"):
        OnnxModel(tmp_path / "none.onnx")
    with pytest.raises(ModelError, match="cannot run this model"):
        by_matrix().predict(FRESH.iloc[:, :2])
    regression = to_onnx(LinearRegression().fit(X, X.iloc[:, 0]), X[:1].to_numpy(np.float32))
    with pytest.raises(ModelError, match="must hold labels or one probability per class"):
        OnnxModel(regression.SerializeToString()).predict(FRESH)


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
@pytest.mark.parametrize("estimator", [None, GaussianNB()], ids=["default", "own"])
def test_a_model_may_be_what_it_answered(library, estimator):
    log, fresh = (
        library.DataFrame({**dict(rows), "verdict": MODEL.predict(rows)}) for rows in (X, FRESH)
    )
    asked = {"costs": COSTS, "target": "agreement", "threshold": [0.7, 0.9], "max_stages": 2}
    by_log = CascadeSearchCV(estimator, final=LoggedAnswers("verdict"), **asked).fit(log)
    by_model = CascadeSearchCV(estimator, final=MODEL, **asked).fit(X)
    assert list(by_log.front_) == list(by_model.front_)
    assert by_log.feature_names_in_.tolist() == list(X)
    for name in ("label", "accepted", "exit_stage", "cost"):
        expected = getattr(by_model.decide(FRESH), name)
        np.testing.assert_array_equal(getattr(by_log.decide(fresh), name), expected)
    np.testing.assert_array_equal(by_log.predict(fresh), by_model.predict(FRESH))
    scored = zip(by_log.score_front(fresh), by_model.score_front(FRESH), strict=True)
    assert all(one.fresh == other.fresh for one, other in scored)
    found = certify(by_log, fresh, agreement=0.8, confidence=0.9)
    assert found.candidates[0].evaluation.rows == len(FRESH)
    with pytest.raises(ColumnsError, match="lacks the column 'verdict'"):
        by_log.decide(fresh.drop("verdict") if library is pl else fresh.drop(columns="verdict"))
    with pytest.raises(ColumnsError, match="give X as a frame"):
        by_log.decide(FRESH.to_numpy())


def test_a_row_without_an_answer_is_named():
    log = FRESH.assign(verdict=[None, *MODEL.predict(FRESH)[1:]])
    with pytest.raises(ClassesError, match="no answer in row 0"):
        CascadeSearchCV(costs=COSTS, final=LoggedAnswers("verdict"), target="agreement").fit(log)


@pytest.mark.parametrize("kind", ["skops", "onnx", "logged"])
@pytest.mark.parametrize("estimator", [None, GaussianNB()], ids=["default", "own"])
def test_files_keep_the_final_model(kind, estimator, tmp_path):
    final = {
        "skops": lambda: LogisticRegression().fit(X, Y[:600]),
        "onnx": by_matrix,
        "logged": lambda: LoggedAnswers("verdict"),
    }[kind]()
    log, fresh = (rows.assign(verdict=MODEL.predict(rows)) for rows in (X, FRESH))
    if kind != "logged":
        log, fresh = X, FRESH
    search = CascadeSearchCV(
        estimator, costs=COSTS, final=final, target="agreement", threshold=0.8, max_stages=2
    ).fit(log)
    for model in (search, search.best_cascade_):
        dump(model, tmp_path / "model.emsco")
        if kind == "onnx":
            with pytest.raises(ArtifactError, match="onnx"):
                load(tmp_path / "model.emsco")
        again = load(tmp_path / "model.emsco", trusted=["onnx"] if kind == "onnx" else ())
        np.testing.assert_array_equal(again.decide(fresh).label, model.decide(fresh).label)
        np.testing.assert_array_equal(again.decide(fresh).cost, model.decide(fresh).cost)
    assert load(tmp_path / "model.emsco", trusted=["onnx"]).final is not None


@pytest.mark.parametrize("estimator", [None, GaussianNB()], ids=["default", "own"])
def test_files_keep_a_final_model_that_stands_alone(estimator, tmp_path):
    final = LogisticRegression().fit(X, Y[:600])
    cascade = CascadeClassifier(estimator, costs=COSTS, final=final).fit(X, Y[:600])
    dump(cascade, tmp_path / "model.emsco")
    again = load(tmp_path / "model.emsco")
    np.testing.assert_array_equal(again.decide(FRESH).label, final.predict(FRESH))


def test_a_model_kept_by_skops_is_trusted_by_name(tmp_path):
    path = tmp_path / "model.skops"
    skops.io.dump(MODEL, path)
    with pytest.raises(ArtifactError, match="TreePredictor"):
        load_final(path)
    trusted = skops.io.get_untrusted_types(file=path)
    model = load_final(path, trusted=trusted)
    np.testing.assert_array_equal(model.predict(FRESH), MODEL.predict(FRESH))
    path.write_bytes(b"no model")
    with pytest.raises(ModelError, match="Save the model with skops"):
        load_final(path)
    skops.io.dump(StandardScaler(), path)
    with pytest.raises(ModelError, match="StandardScaler, which has no `predict`"):
        load_final(path)
