"""Whatever the order of an estimator's `classes_`, its probabilities are those of its classes."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from emsco import CascadeClassifier, CascadeSearchCV, StageDesign, evaluate
from emsco.cascade.fingerprint import fingerprint
from emsco.datasets import make_costly_classification
from emsco.exceptions import ModelError
from emsco.io import dump, load
from emsco.learners.estimator_learner import class_order, read_probabilities
from emsco.masked import MaskedClassifier

X, Y, COSTS = make_costly_classification(900, 3, class_sep=2, random_state=0)
X, Y = X.to_numpy(), np.where(Y == 1, "sick", "well")
TWO_STAGES = StageDesign([0, 1, 1])
TREES = HistGradientBoostingClassifier(max_iter=5, random_state=0)


class Backwards(ClassifierMixin, BaseEstimator):
    """A classifier that lists its classes in the order that its user prefers."""

    def __init__(self, inner=None):
        self.inner = inner

    def fit(self, X, y):
        self.inner_ = clone(self.inner or GaussianNB()).fit(X, y)
        self.classes_ = self.inner_.classes_[::-1]
        return self

    def predict_proba(self, X):
        return self.inner_.predict_proba(X)[:, ::-1]

    def predict(self, X):
        return self.inner_.predict(X)


class Faulty(Backwards):
    """A classifier with an answer that is changed afterwards."""

    def __init__(self, inner=None, fault="none"):
        super().__init__(inner)
        self.fault = fault

    def predict_proba(self, X):
        answer = super().predict_proba(X)
        if self.fault == "short":
            return answer[:-1]
        if self.fault == "one column":
            return answer[:, 0]
        if self.fault == "percent":
            return 100 * answer
        if self.fault == "halves":
            return answer / 2
        if self.fault == "nan":
            return np.where(np.arange(len(answer)) == 3, np.nan, answer.T).T
        return answer


class OtherClasses(Backwards):
    """A classifier whose classes are not the labels."""

    def fit(self, X, y):
        super().fit(X, y)
        self.classes_ = np.array([1, 0])
        return self


def test_a_cascade_goes_by_the_classes_of_its_estimator():
    turned = CascadeClassifier(Backwards(), design=TWO_STAGES, threshold=0.9).fit(X[:600], Y[:600])
    usual = CascadeClassifier(GaussianNB(), design=TWO_STAGES, threshold=0.9).fit(X[:600], Y[:600])
    np.testing.assert_array_equal(turned.predict_proba(X[600:]), usual.predict_proba(X[600:]))
    decisions = turned.decide(X[600:])
    np.testing.assert_array_equal(decisions.label, usual.decide(X[600:]).label)
    assert evaluate(decisions, Y[600:]).accuracy > 0.9


def test_a_pipeline_hands_on_the_classes_of_its_last_step():
    pipeline = make_pipeline(FunctionTransformer(), Backwards())
    cascade = CascadeClassifier(pipeline, design=TWO_STAGES).fit(X[:600], Y[:600])
    assert cascade.score(X[600:], Y[600:]) > 0.7


@pytest.mark.filterwarnings("ignore::emsco.exceptions.CalibrationWarning")
def test_a_search_goes_by_the_classes_of_its_estimator():
    options = {"costs": [1, 2, 3], "threshold": [0.7, 0.9], "random_state": 0}
    turned = CascadeSearchCV(Backwards(), **options).fit(X[:600], Y[:600])
    usual = CascadeSearchCV(GaussianNB(), **options).fit(X[:600], Y[:600])
    assert turned.front_ == usual.front_
    assert turned.score(X[600:], Y[600:]) > 0.8


def test_a_masked_model_goes_by_the_classes_of_its_estimator():
    turned = MaskedClassifier(Backwards(TREES), repeats=4, random_state=0).fit(X[:600], Y[:600])
    usual = MaskedClassifier(TREES, repeats=4, random_state=0).fit(X[:600], Y[:600])
    assert turned.classes_.tolist() == ["sick", "well"]
    np.testing.assert_allclose(turned.temperatures_, usual.temperatures_)
    np.testing.assert_allclose(turned.predict_proba(X[600:]), usual.predict_proba(X[600:]))
    cascade = CascadeClassifier(turned, design=TWO_STAGES).fit(X[:600], Y[:600])
    assert cascade.score(X[600:], Y[600:]) > 0.7


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("short", r"one row for each of 300 rows .* is \(299, 2\)"),
        ("one column", r"one column for each of 2 classes.* is \(300,\)"),
        ("percent", r"for row 0, which is no probability"),
        ("halves", r"must sum to 1; those of row 0 sum to 0\.5"),
        ("nan", r"returned nan for row 3, which is no probability"),
    ],
)
def test_an_answer_without_a_probability_for_every_row_is_an_error(fault, said):
    cascade = CascadeClassifier(Faulty(fault=fault)).fit(X[:600], Y[:600])
    with pytest.raises(ModelError, match=rf"(?s)Faulty\.predict_proba.*{said}"):
        cascade.decide(X[600:])
    with pytest.raises(ModelError, match=r"Faulty\.predict_proba"):
        CascadeSearchCV(Faulty(fault=fault), costs=[1, 2, 3]).fit(X, Y)
    masked = MaskedClassifier(Faulty(TREES), repeats=1).fit(X, Y)
    masked.estimator_.fault = fault
    with pytest.raises(ModelError, match=r"Faulty\.predict_proba"):
        masked.predict_proba(X)


def test_classes_that_are_not_the_labels_are_an_error():
    with pytest.raises(ModelError, match=r"`classes_` of OtherClasses.*'sick', 'well'.* 1, 0"):
        CascadeClassifier(OtherClasses()).fit(X[:600], Y[:600]).predict(X[600:])


def test_rounding_is_no_fault():
    classes = np.array([0, 1])
    single = LogisticRegression().fit(X, Y == "sick").predict_proba(X).astype(np.float32)
    got = read_probabilities(None, single * np.float32(1.000001), classes, len(X))
    np.testing.assert_allclose(got, single, rtol=1e-5)


def test_an_estimator_without_classes_has_the_sorted_order():
    assert class_order(object(), np.array(["a", "b"])) is None


def test_a_file_keeps_the_order_of_the_estimator(tmp_path):
    cascade = CascadeClassifier(Backwards(), design=TWO_STAGES).fit(X[:600], Y[:600])
    dump(cascade, tmp_path / "turned.emsco")
    again = load(tmp_path / "turned.emsco", trusted=[f"{__name__}.Backwards"])
    np.testing.assert_array_equal(again.predict(X[600:]), cascade.predict(X[600:]))
    assert fingerprint(again) == fingerprint(cascade)


class Short:
    """A final model that forgets a row."""

    def predict(self, X):
        return np.full(len(X) - 1, "sick")


def test_a_final_model_answers_every_row():
    cascade = CascadeClassifier(final=Short()).fit(X[:600], Y[:600])
    with pytest.raises(ModelError, match=r"Short\.predict must return one label for each of 300"):
        cascade.decide(X[600:])
    with pytest.raises(ModelError, match=r"Short\.predict must return one label for each of 600"):
        CascadeSearchCV(costs=[1, 2, 3], final=Short()).fit(X[:600], Y[:600])
