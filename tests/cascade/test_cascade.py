"""The cascade fits and decides whatever users bring, and refuses by name what it cannot."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.datasets import load_iris
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from emsco import (
    CascadeClassifier,
    CascadeSearchCV,
    Costs,
    Source,
    StageDesign,
    dump,
    evaluate,
    load,
)
from emsco.certify import certify
from emsco.exceptions import (
    CertificateError,
    ClassesError,
    ColumnsError,
    DesignError,
    ThresholdError,
    ValuesError,
)

RNG = np.random.default_rng(0)
N = 300
Y = RNG.integers(2, size=N)
X = np.column_stack([Y + RNG.normal(size=N), 3 * Y + RNG.normal(size=N), RNG.normal(size=N)])
NAMES = ["cheap", "dear", "noise"]
FRAME = pd.DataFrame(X, columns=NAMES)
COSTS = Costs.per_feature({"cheap": 1, "dear": 20, "noise": 3})
DESIGN = StageDesign.from_stages([["cheap"], ["dear"]], NAMES)


def cascade(**params):
    return CascadeClassifier(**({"design": DESIGN, "costs": COSTS, "threshold": 0.9} | params))


def same(one, other):
    return list(one) == list(other)


def test_stages_are_fitted_on_what_is_acquired_so_far():
    fitted = cascade().fit(FRAME, Y)
    assert fitted.stages_ == (("cheap",), ("dear",))
    assert [e.n_features_in_ for e in fitted.estimators_] == [1, 2]
    assert fitted.classes_.tolist() == [0, 1]
    assert fitted.thresholds_.tolist() == [[0.9, 0.9], [0.9, 0.9]]


def test_deciding_saves_money_and_tells_the_whole_truth():
    decisions = cascade().fit(FRAME, Y).decide(FRAME)
    evaluation = evaluate(decisions, Y)
    assert 1 < evaluation.cost < 21
    assert evaluation.accuracy > 0.9
    assert set(decisions.cost) == {1.0, 21.0}
    assert set(decisions.reason[~decisions.accepted]) == {"low confidence"}


def test_probabilities_are_those_of_scikit_learn_on_the_encoded_columns():
    fitted = CascadeClassifier().fit(X, Y)
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    assert np.allclose(
        fitted.predict_proba(X), fitted.estimators_[0].predict_proba(scaled), rtol=0, atol=1e-12
    )


def test_predict_answers_for_rejected_rows_too():
    fitted = cascade(threshold=1.0).fit(FRAME, Y)
    decisions = fitted.decide(FRAME)
    assert not decisions.accepted.any()
    assert np.array_equal(fitted.predict(FRAME), decisions.label)
    assert fitted.score(FRAME, Y) > 0.9


@pytest.mark.parametrize(
    "estimator",
    [
        None,
        LogisticRegression(),
        HistGradientBoostingClassifier(max_iter=10),
        KNeighborsClassifier(),
    ],
)
def test_predict_proba_is_the_exit_stages_own(estimator):
    fitted = cascade(estimator=estimator).fit(FRAME, Y)
    decisions, probability = fitted.decide(FRAME), fitted.predict_proba(FRAME)
    assert np.array_equal(probability.max(axis=1), decisions.confidence)
    assert np.allclose(probability.sum(axis=1), 1)
    assert np.array_equal(fitted.classes_[probability.argmax(axis=1)], decisions.label)


CONTAINERS = {
    "numpy": (X, X),
    "pandas": (FRAME, FRAME),
    "polars": (pl.DataFrame(FRAME), pl.DataFrame(FRAME)),
    "float32": (X.astype(np.float32), X.astype(np.float32)),
}


@pytest.mark.parametrize("estimator", [None, make_pipeline(StandardScaler(), LogisticRegression())])
@pytest.mark.parametrize("container", CONTAINERS)
def test_every_container_decides_alike(container, estimator):
    train, fresh = CONTAINERS[container]
    costs = [1, 20, 3] if container in ("numpy", "float32") else COSTS
    design = StageDesign([0, 1, -1])
    reference = cascade(estimator=estimator).fit(FRAME, Y).decide(FRAME)
    fitted = cascade(estimator=estimator, costs=costs, design=design).fit(train, Y)
    decisions = fitted.decide(fresh)
    assert np.array_equal(decisions.label, reference.label)
    tolerance = 1e-4 if container == "float32" else 1e-12
    assert np.allclose(decisions.confidence, reference.confidence, rtol=0, atol=tolerance)


class Remembering(LogisticRegression):
    """A classifier that remembers what it was given."""

    def fit(self, X, y, sample_weight=None):
        self.given_ = X
        return super().fit(np.asarray(X), y, sample_weight)

    def predict_proba(self, X):
        assert type(X) is type(self.given_)
        return super().predict_proba(np.asarray(X))


@pytest.mark.parametrize("container", ["numpy", "pandas", "polars"])
def test_an_estimator_receives_its_columns_in_the_users_container(container):
    train, fresh = CONTAINERS[container]
    costs = [1, 20, 3] if container == "numpy" else COSTS
    fitted = cascade(estimator=Remembering(), costs=costs, design=StageDesign([1, 0, -1]))
    fitted.fit(train, Y).decide(fresh)
    first, second = (estimator.given_ for estimator in fitted.estimators_)
    assert type(first) is type(train)
    if container != "numpy":
        assert list(first.columns) == ["dear"]
        assert list(second.columns) == ["cheap", "dear"], "the order of X, whatever the design"


def test_the_order_of_stages_changes_no_stage_that_holds_the_same_set():
    one = cascade(design=StageDesign([0, 1, -1])).fit(FRAME, Y)
    other = cascade(design=StageDesign([1, 0, -1])).fit(FRAME, Y)
    assert np.array_equal(one.estimators_[1].coef_, other.estimators_[1].coef_)


def test_several_classes_and_thresholds_of_every_form():
    iris = load_iris(as_frame=True)
    design = StageDesign([0, 0, 1, 1])
    labels = iris.target_names[iris.target]
    by_class = {"setosa": 0.6, "versicolor": 0.95, "virginica": 0.8}
    for threshold in (0.8, by_class, (0.9, by_class)):
        fitted = CascadeClassifier(design=design, threshold=threshold).fit(iris.data, labels)
        decisions = fitted.decide(iris.data)
        limits = fitted.thresholds_[
            decisions.exit_stage, np.searchsorted(fitted.classes_, decisions.label)
        ]
        assert np.array_equal(decisions.accepted, decisions.confidence >= limits)
        assert evaluate(decisions, labels).accuracy > 0.95
        assert np.allclose(fitted.predict_proba(iris.data).sum(axis=1), 1)


def test_a_source_yields_several_features():
    costs = Costs([Source("both", features=["dear", "cheap"], cost=5), Source("noise", cost=1)])
    fitted = cascade(costs=costs, design=StageDesign.from_stages([["noise"], ["both"]]))
    fitted.fit(FRAME, Y)
    assert fitted.estimators_[1].n_features_in_ == 3
    assert set(fitted.decide(FRAME).cost) <= {1.0, 6.0}


def test_setups_and_latencies_are_paid_along_the_path():
    costs = Costs(
        [
            Source("cheap", cost=1, setup="draw", latency=2),
            Source("dear", cost=20, setup="draw", latency=3),
            Source("noise", cost=3, latency=5),
        ],
        setups={"draw": 10},
    )
    design = StageDesign.from_stages([["cheap"], ["dear", "noise"]])
    decisions = cascade(costs=costs, design=design).fit(FRAME, Y).decide(FRAME)
    assert set(zip(decisions.cost, decisions.latency, strict=True)) == {(11.0, 2.0), (34.0, 7.0)}


def test_sixty_sources_and_more():
    wide = RNG.normal(size=(N, 70))
    fitted = CascadeClassifier(design=StageDesign(np.arange(70) % 6)).fit(wide, Y)
    decisions = fitted.decide(wide)
    assert decisions.cost.max() == 70


def test_a_frame_is_read_by_name_and_other_columns_are_ignored():
    fitted = cascade().fit(FRAME, Y)
    expected = fitted.decide(FRAME)
    shuffled = FRAME[["dear", "cheap"]].assign(extra="?")
    assert same(fitted.decide(shuffled), expected)
    assert same(fitted.decide(pl.DataFrame(shuffled)), expected)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        assert same(fitted.decide(X), expected)


def test_many_blocks_decide_like_one_row_after_the_other():
    fitted = cascade(costs=[1, 20, 3], design=StageDesign([0, 1, -1])).fit(X, Y)
    whole = fitted.decide(X)
    fitted.decider_ = replace(fitted.decider_, block_rows=7)
    assert same(fitted.decide(X), whole)
    assert np.array_equal(fitted.predict_proba(X)[:, 1] > 0.5, whole.label == 1)
    assert same([fitted.decide(X[i : i + 1])[0] for i in range(N)], whole)


def test_an_empty_frame_is_decided_as_no_rows():
    assert len(cascade().fit(FRAME, Y).decide(FRAME[:0])) == 0


def test_weights_reach_the_fits_and_the_encoding():
    weight = RNG.integers(0, 3, size=N)
    weighted = cascade().fit(FRAME, Y, sample_weight=weight)
    repeated = np.repeat(np.arange(N), weight)
    by_rows = cascade().fit(FRAME.iloc[repeated], Y[repeated])
    assert np.allclose(weighted.predict_proba(FRAME), by_rows.predict_proba(FRAME), atol=1e-8)
    with pytest.raises(ValueError, match=r"non-zero|at least one row"):
        cascade().fit(FRAME, Y, sample_weight=np.zeros(N))
    with pytest.raises(ColumnsError, match=r"KNeighborsClassifier\.fit does not take it"):
        cascade(estimator=KNeighborsClassifier()).fit(FRAME, Y, sample_weight=weight)


def test_it_lives_inside_scikit_learn():
    assert cross_val_score(cascade(), FRAME, Y, cv=3).min() > 0.8
    grid = GridSearchCV(cascade(), {"threshold": [0.6, 0.9]}, cv=2).fit(FRAME, Y)
    assert grid.best_params_["threshold"] in (0.6, 0.9)
    fitted = cascade().fit(FRAME, Y)
    assert same(pickle.loads(pickle.dumps(fitted)).decide(FRAME), fitted.decide(FRAME))
    assert clone(fitted).get_params()["design"] == DESIGN


def test_metadata_is_routed_as_scikit_learn_does():
    import sklearn

    weight = np.ones(N)
    with sklearn.config_context(enable_metadata_routing=True):
        asked = LogisticRegression().set_fit_request(sample_weight=True)
        cascade(estimator=asked).fit(FRAME, Y, sample_weight=weight)
        cascade().fit(FRAME, Y, sample_weight=weight)
        with pytest.raises(Exception, match="sample_weight"):
            cascade(estimator=LogisticRegression()).fit(FRAME, Y, sample_weight=weight)


# What is refused.


def broken(row, column, value):
    frame = FRAME.copy()
    frame.loc[row, column] = value
    return frame


@pytest.mark.parametrize("estimator", [None, HistGradientBoostingClassifier(max_iter=5)])
@pytest.mark.parametrize("kind", ["pandas", "numpy"])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_invalid_values_are_refused_with_row_and_column(value, kind, estimator):
    train, fresh = FRAME, broken(17, "dear", value)
    named, params = "dear", {}
    if kind == "numpy":
        train, fresh, named = X, fresh.to_numpy(), "x1"
        params = {"costs": [1, 20, 3], "design": StageDesign([0, 1, -1])}
    fitted = cascade(estimator=estimator, **params).fit(train, Y)
    for method in (fitted.decide, fitted.predict, fitted.predict_proba):
        with pytest.raises(ValuesError, match=f"Row 17 of column '{named}' is") as e:
            method(fresh)
        assert (e.value.row, e.value.column) == (17, named)


def test_infinity_is_refused_in_training():
    with pytest.raises(ValuesError, match="Row 3 of column 'cheap' is infinity"):
        cascade().fit(broken(3, "cheap", np.inf), Y)


def test_what_no_stage_buys_is_not_looked_at():
    fitted = cascade().fit(FRAME, Y)
    assert same(fitted.decide(broken(3, "noise", np.inf)), fitted.decide(FRAME))


def test_missing_values_known_from_training_are_judged():
    train = broken(slice(0, 30), "dear", np.nan)
    for estimator in (None, HistGradientBoostingClassifier(max_iter=5)):
        fitted = cascade(estimator=estimator).fit(train, Y)
        assert len(fitted.decide(broken(17, "dear", np.nan))) == N
        with pytest.raises(ValuesError, match="Row 17 of column 'cheap' is missing"):
            fitted.decide(broken(17, "cheap", np.nan))


def test_what_pandas_calls_na_is_missing():
    text = pd.array(["a", None, "b"] * (N // 3), dtype="string[python]")
    fitted = cascade(design=None, costs=None).fit(FRAME.assign(text=text), Y)
    assert len(fitted.decide(FRAME.assign(text=text))) == N


def test_an_estimator_that_refuses_missing_values_names_stage_and_column():
    with pytest.raises(ValuesError, match="Stage 1 has missing values in 'dear'") as e:
        cascade(estimator=LogisticRegression()).fit(broken(17, "dear", np.nan), Y)
    assert e.value.column == "dear"


@pytest.mark.parametrize("columns", [["cheap", "dear"], [0, 1], "noise"])
def test_a_column_transformer_that_names_columns_not_bought_is_explained(columns):
    """Its own message does not say that a stage sees only what was bought so far."""
    named = ColumnTransformer([("scale", StandardScaler(), columns)])
    with pytest.raises(ColumnsError, match=r"here 'cheap'\. .*make_column_selector\(pattern") as e:
        cascade(estimator=make_pipeline(named, LogisticRegression())).fit(FRAME, Y)
    assert repr(columns[-1] if isinstance(columns, list) else columns) in str(e.value)
    selected = ColumnTransformer(
        [("scale", StandardScaler(), make_column_selector(pattern="cheap|dear"))]
    )
    fitted = cascade(estimator=make_pipeline(selected, LogisticRegression())).fit(FRAME, Y)
    assert [len(e[0].get_feature_names_out()) for e in fitted.estimators_] == [1, 2]


@pytest.mark.parametrize("estimator", [None, LogisticRegression()])
def test_a_column_without_a_price_is_left_out_with_a_warning(estimator, tmp_path):
    """Nothing reads it: not the fit, not a decision, not a file, not what knows rows again."""
    costs = {"cheap": 1, "dear": 20}
    design = StageDesign([0, 1])
    reference = cascade(design=design, costs=costs, estimator=estimator).fit(FRAME[[*costs]], Y)
    frame = FRAME[["noise", "cheap", "dear"]].assign(noise=np.inf)
    with pytest.warns(UserWarning, match="no price for them: 'noise'"):
        fitted = cascade(design=design, costs=costs, estimator=estimator).fit(frame, Y)
    dump(fitted, tmp_path / "model.emsco")
    loaded = load(tmp_path / "model.emsco")
    for model in (fitted, loaded):
        assert model.feature_names_in_.tolist() == ["noise", "cheap", "dear"]
        assert same(model.decide(frame[[*costs]]).label, reference.decide(FRAME[[*costs]]).label)
        assert same(model.predict(frame), reference.predict(FRAME[[*costs]]))
        with pytest.raises(CertificateError, match="fitted on"):
            certify(model, frame.assign(noise=0.0), Y, accuracy=0.6)
    names = ["x0", "x1", "x2"]
    with pytest.warns(UserWarning, match="no price for them: 'x0'"):
        by_place = cascade(
            design=design, costs=dict(zip(names[1:], costs.values(), strict=True)),
            estimator=estimator,
        ).fit(frame.to_numpy(), Y)  # fmt: skip
    assert same(by_place.decide(frame.to_numpy()).label, reference.decide(FRAME[[*costs]]).label)


@pytest.mark.filterwarnings("ignore::emsco.exceptions.SelectionWarning")
def test_a_search_leaves_columns_without_a_price_out(tmp_path):
    """Its front, its choice and its fresh figures are those of the columns that have one."""
    costs = {"cheap": 1, "dear": 20}
    reference = CascadeSearchCV(costs=costs, cv=3, random_state=0, luck=False)
    reference.fit(FRAME[[*costs]], Y)
    search = CascadeSearchCV(costs=costs, cv=3, random_state=0, luck=False)
    with pytest.warns(UserWarning, match="no price for them: 'noise'"):
        search.fit(FRAME.assign(noise="a text"), Y)
    assert [c.evaluation for c in search.front_] == [c.evaluation for c in reference.front_]
    fresh = FRAME[[*costs]] + 0.1
    assert (
        search.score_front(fresh, Y).to_frame().equals(reference.score_front(fresh, Y).to_frame())
    )
    dump(search, tmp_path / "search.emsco")
    loaded = load(tmp_path / "search.emsco")
    assert same(loaded.decide(fresh).label, reference.decide(fresh).label)


def test_a_final_model_needs_a_price_for_every_column():
    """It takes X as it is, so a column without a price would be had for nothing."""
    final = LogisticRegression().fit(FRAME, Y)
    with (
        pytest.warns(UserWarning, match="'noise'"),
        pytest.raises(ColumnsError, match="A final model uses every column; give 'noise' a price"),
    ):
        cascade(design=None, costs={"cheap": 1, "dear": 20}, final=final).fit(FRAME, Y)


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"costs": {"cheep": 1, "dear": 2}}, ColumnsError, "not in X: 'cheep'; did you mean"),
        ({"costs": [1, 2]}, ColumnsError, "2 prices for 3 features"),
        ({"costs": [1, 2, -3]}, ValueError, "cost of source 'noise' must be a number >= 0"),
        ({"costs": Costs.per_feature([1, 2, 3])}, ColumnsError, "not in X: 'x0', 'x1', 'x2'"),
        ({"design": StageDesign([0, 1])}, DesignError, "assigns 2 sources"),
        ({"design": StageDesign.from_stages([["dera"]])}, DesignError, "did you mean 'dear'"),
        ({"threshold": 0.5}, ThresholdError, "above 1 / 2 classes"),
        ({"threshold": 1.2}, ThresholdError, "at most 1"),
        ({"threshold": (0.7,)}, ThresholdError, "holds 1 stages but the design has 2"),
        ({"threshold": {0: 0.7}}, ThresholdError, "missing: 1"),
        ({"threshold": "high"}, ValueError, "'threshold' parameter"),
        ({"design": [0, 1]}, ValueError, "'design' parameter"),
        ({"estimator": StandardScaler()}, ValueError, "'estimator' parameter"),
    ],
)
def test_parameters_that_contradict_are_refused(params, error, message):
    with pytest.raises(error, match=message):
        cascade(**params).fit(FRAME, Y)


def test_a_source_bought_before_what_it_requires_is_refused():
    costs = Costs([*COSTS.sources[:2], Source("noise", cost=3, requires=["dear"])])
    with pytest.raises(DesignError, match="Stage 0 buys 'noise' before 'dear'"):
        cascade(costs=costs, design=StageDesign([0, 1, 0])).fit(FRAME, Y)


def test_fewer_than_two_classes_are_refused():
    with pytest.raises(ClassesError, match="at least 2 classes, got 1 class: 1"):
        cascade().fit(FRAME, np.ones(N, dtype=int))


def test_columns_that_do_not_match_are_refused():
    fitted = cascade().fit(FRAME, Y)
    with pytest.raises(ColumnsError, match="lacks the column 'dear'; did you mean 'deer'"):
        fitted.decide(FRAME.rename(columns={"dear": "deer"}))
    with pytest.raises(ValueError, match="Feature names unseen at fit time"):
        fitted.predict(FRAME.rename(columns={"dear": "deer"}))
    twice = pd.concat([FRAME, FRAME[["dear"]]], axis=1)
    with pytest.raises(ColumnsError, match="repeated: 'dear'"):
        fitted.decide(twice)
    with pytest.raises(ColumnsError, match="repeated: 'dear'"):
        cascade().fit(twice, Y)
    unnamed = cascade(costs=[1, 20, 3], design=StageDesign([0, 1, -1])).fit(X, Y)
    with pytest.raises(ValueError, match="X has 2 features, but CascadeClassifier is expecting 3"):
        unnamed.decide(X[:, :2])


def test_a_frame_without_rows_teaches_nothing():
    with pytest.raises(ValueError, match=r"\(0, 3\)"):
        cascade().fit(FRAME[:0], Y[:0])


class Below:
    """A guard that refuses what lies below the lowest training value."""

    def fit(self, columns):
        self.lowest_ = {name: np.nanmin(values) for name, values in columns.items()}

    def reasons(self, columns):
        reasons = np.full(len(next(iter(columns.values()))), "", dtype=object)
        for name, values in columns.items():
            reasons[values < self.lowest_[name]] = "out of range"
        return reasons


@pytest.mark.parametrize("estimator", [None, LogisticRegression()])
def test_a_guard_rejects_with_a_reason_instead_of_raising(estimator):
    fitted = cascade(estimator=estimator, guard=Below()).fit(FRAME, Y)
    assert fitted.guard_ is not fitted.guard
    clean = fitted.decide(FRAME)
    frame = broken(17, "cheap", np.nan)
    frame.loc[18, "cheap"] = -1e6
    frame.loc[19, "cheap"] = np.inf
    decisions = fitted.decide(frame)
    assert decisions.reason[17:20].tolist() == [
        "invalid value: cheap", "out of range", "invalid value: cheap",
    ]  # fmt: skip
    assert decisions.cost[17:20].tolist() == [1, 1, 1]
    others = np.delete(np.arange(N), [17, 18, 19])
    assert same(decisions[others], clean[others])
    assert fitted.predict_proba(frame)[17].tolist() == [0.5, 0.5]
    assert len(fitted.predict(frame)) == N
