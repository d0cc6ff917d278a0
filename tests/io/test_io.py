"""Files: what comes back decides alike, what was changed is refused, and nothing runs unasked."""

from __future__ import annotations

import ast
import json
import os
import resource
import stat
import subprocess
import sys
import warnings
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import ShuffleSplit
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import emsco.io
from emsco import (
    EMSCO,
    Candidate,
    CascadeClassifier,
    CascadeSearchCV,
    Costs,
    Evaluation,
    Hybrid,
    InputGuard,
    LocalSearch,
    ParetoFront,
    Review,
    Source,
    StageDesign,
    dump,
    load,
)
from emsco.cascade.fingerprint import fingerprint
from emsco.exceptions import ArtifactError, Code, EmscoWarning, GuardWarning, MissingExtraError
from emsco.io import _json

FOLDER = Path(__file__).parents[1] / "files"
FIELDS = ("label", "accepted", "exit_stage", "confidence", "cost", "reason", "latency")
TREE = "sklearn.tree._tree.Tree"
RNG = np.random.default_rng(0)
N_ROWS = 400
LABELS = RNG.integers(3, size=N_ROWS)
WORDS = np.array(["high", "low", "mid"])[LABELS]
MIXED = pd.DataFrame(
    {
        "number": LABELS + RNG.normal(size=N_ROWS),
        "holes": np.where(RNG.random(N_ROWS) < 0.1, np.nan, 2 * LABELS + RNG.normal(size=N_ROWS)),
        "text": RNG.choice(["a", "b", "rare", None], N_ROWS, p=[0.5, 0.3, 0.005, 0.195]),
        "flag": RNG.random(N_ROWS) < 0.3 + 0.2 * LABELS,
        "kind": pd.Categorical(RNG.integers(4, size=N_ROWS)),
    }
)
NUMBERS = np.column_stack(
    [LABELS + RNG.normal(size=N_ROWS) for _ in range(2)] + [RNG.normal(size=N_ROWS)]
)
STAGES = StageDesign([0, 1, 1])
COSTS = Costs(
    [
        Source("talk", features=["number", "text"], cost=0.1, latency=2.0),
        Source("blood", features=["holes"], cost=5.17, setup="draw", requires=["talk"]),
        Source("more", features=["flag", "kind"], cost=3.1, setup="draw", latency=1.5),
    ],
    setups={"draw": 2.1},
    review=Review(25.0, accuracy=0.9),
    unit="EUR",
)


def same(one, other, X):
    """Say whether two models decide alike, to the last bit."""
    decided, again = one.decide(X), other.decide(X)
    for field in FIELDS:
        np.testing.assert_array_equal(getattr(decided, field), getattr(again, field))
        assert getattr(decided, field).dtype == getattr(again, field).dtype
    np.testing.assert_array_equal(one.predict(X), other.predict(X))
    np.testing.assert_array_equal(one.predict_proba(X), other.predict_proba(X))
    assert one.classes_.dtype == other.classes_.dtype
    return True


def again(model, tmp_path, **options):
    dump(model, tmp_path / "model.emsco")
    return load(tmp_path / "model.emsco", **options)


def quiet_search(X, y, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmscoWarning)
        return CascadeSearchCV(random_state=0, **options).fit(X, y)


@pytest.fixture(scope="module")
def mixed():
    design = StageDesign.from_stages([["talk"], ["blood"], ["more"]])
    thresholds = (0.8, {"high": 0.7, "low": 0.9, "mid": 0.75}, 0.6)
    return CascadeClassifier(design=design, costs=COSTS, threshold=thresholds).fit(MIXED, WORDS)


@pytest.fixture(scope="module")
def forest():
    estimator = RandomForestClassifier(5, max_depth=4, random_state=0)
    return CascadeClassifier(estimator, design=STAGES).fit(NUMBERS, WORDS)


@pytest.fixture(scope="module")
def search():
    return quiet_search(MIXED, WORDS, costs=COSTS)


# What comes back


def test_a_default_cascade_comes_back_as_it_was(mixed, tmp_path):
    loaded = again(mixed, tmp_path)
    assert same(mixed, loaded, MIXED)
    for row in range(5):
        assert same(mixed, loaded, MIXED[row : row + 1])
    assert loaded.costs_ == COSTS
    assert loaded.design_ == mixed.design_
    assert loaded.stages_ == mixed.stages_
    assert loaded.threshold == mixed.threshold
    np.testing.assert_array_equal(loaded.thresholds_, mixed.thresholds_)
    assert loaded.feature_names_in_.tolist() == mixed.feature_names_in_.tolist()
    assert loaded.n_features_in_ == 5
    for one, other in zip(mixed.estimators_, loaded.estimators_, strict=True):
        assert type(other) is LogisticRegression
        assert one.get_params() == other.get_params()
        encoded = RNG.normal(size=(20, one.n_features_in_))
        np.testing.assert_array_equal(one.predict_proba(encoded), other.predict_proba(encoded))


def test_what_comes_back_can_be_fitted_again(mixed, tmp_path):
    refitted = clone(again(mixed, tmp_path)).fit(MIXED, WORDS)
    assert same(mixed, refitted, MIXED)


@pytest.mark.parametrize("labels", ["two", "three"])
def test_a_default_cascade_of_an_array_comes_back(labels, tmp_path):
    y = LABELS if labels == "three" else (LABELS > 0).astype(int)
    cascade = CascadeClassifier(design=STAGES).fit(NUMBERS, y)
    loaded = again(cascade, tmp_path)
    assert same(cascade, loaded, NUMBERS)
    assert not hasattr(loaded, "feature_names_in_")


def test_a_default_cascade_of_a_polars_frame_comes_back(tmp_path):
    frame = pl.DataFrame({"a": NUMBERS[:, 0], "t": list(WORDS[::-1])})
    cascade = CascadeClassifier().fit(frame, WORDS)
    assert same(cascade, again(cascade, tmp_path), frame)


def encoded():
    numbers = make_pipeline(StandardScaler(), LogisticRegression())
    return make_pipeline(
        make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["flag"]),
                                remainder="passthrough"),
        numbers,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("estimator", "trusted"),
    [
        (make_pipeline(StandardScaler(), LogisticRegression()), []),
        (
            HistGradientBoostingClassifier(max_iter=2, max_leaf_nodes=4),
            ["sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor"],
        ),
        (RandomForestClassifier(5, random_state=0), [TREE]),
        (
            CalibratedClassifierCV(LogisticRegression(), cv=3),
            [
                "sklearn.calibration._CalibratedClassifier",
                "sklearn.calibration._SigmoidCalibration",
            ],
        ),
        (
            CalibratedClassifierCV(RandomForestClassifier(3), method="isotonic", cv=2),
            ["sklearn.calibration._CalibratedClassifier", TREE],
        ),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "fit") else "",
)
@pytest.mark.parametrize("container", ["array", "pandas", "polars"])
def test_an_estimator_of_the_users_comes_back(estimator, trusted, container, tmp_path):
    columns = dict(zip(["a", "b", "c"], NUMBERS.T, strict=True))
    frames = {"array": NUMBERS, "pandas": pd.DataFrame(columns), "polars": pl.DataFrame(columns)}
    X = frames[container]
    cascade = CascadeClassifier(estimator, design=STAGES, threshold=0.6).fit(X, WORDS)
    loaded = again(cascade, tmp_path, trusted=trusted)
    assert same(cascade, loaded, X)
    assert repr(loaded.estimator) == repr(estimator)
    assert [type(stage) for stage in loaded.estimators_] == [type(estimator)] * 2
    if trusted:
        with pytest.raises(ArtifactError) as caught:
            load(tmp_path / "model.emsco")
        assert f"trusted={sorted(trusted)!r}" in str(caught.value)


def test_sparse_matrices_inside_an_estimator_come_back(tmp_path):
    X = MIXED[["flag"]].assign(word=MIXED["text"].fillna("none"))
    estimator = make_pipeline(OneHotEncoder(), KNeighborsClassifier(algorithm="brute"))
    cascade = CascadeClassifier(estimator).fit(X, WORDS)
    sparse = [f"scipy.sparse._csr.{name}" for name in ("csr_matrix", "csr_array")]
    loaded = again(cascade, tmp_path, trusted=sparse)
    assert same(cascade, loaded, X)


@pytest.mark.parametrize(
    "classes",
    [
        np.array(["no", "yes\u00e9\U0001f600"]),
        np.array(["no", "yes"], dtype=object),
        np.array([0, 1]),
        np.array([-3, 7], dtype=np.int8),
        np.array([1, 2**64 - 1], dtype=np.uint64),
        np.array([False, True]),
        np.array([-0.0, 2.0**53]),
        np.array([1, 3], dtype=np.float32),
    ],
    ids=lambda classes: str(classes.dtype),
)
def test_labels_keep_their_types(classes, tmp_path):
    y = classes[(LABELS > 0).astype(int)]
    cascade = CascadeClassifier(threshold=dict.fromkeys(classes.tolist(), 0.8))
    cascade.fit(NUMBERS, y)
    loaded = again(cascade, tmp_path)
    assert loaded.classes_.dtype == classes.dtype
    assert list(map(type, loaded.classes_.tolist())) == list(map(type, classes.tolist()))
    assert same(cascade, loaded, NUMBERS)


@pytest.mark.parametrize(
    "levels", [["x", "y"], [1, 2], [0.5, 1e-300], [True, False], ["\u00fc", ""]], ids=str
)
def test_categories_keep_their_types(levels, tmp_path):
    column = pd.Categorical([levels[i] for i in (LABELS > 0).astype(int)])
    X = pd.DataFrame({"level": column, "number": NUMBERS[:, 0]})
    cascade = CascadeClassifier(guard=InputGuard()).fit(X, WORDS)
    assert same(cascade, again(cascade, tmp_path), X)


def test_a_guard_comes_back(tmp_path):
    cascade = CascadeClassifier(guard=InputGuard(margin=0.1, pool=["text"])).fit(MIXED, WORDS)
    loaded = again(cascade, tmp_path)
    faulty = MIXED.copy()
    faulty.loc[::7, "number"] = 1e9
    faulty.loc[::11, "holes"] = np.inf
    faulty.loc[::5, "text"] = "never seen"
    assert set(loaded.decide(faulty).reason) >= {"", "out of range: number", "invalid value: holes"}
    assert same(cascade, loaded, faulty)
    assert loaded.guard_.learned_ == cascade.guard_.learned_
    assert loaded.guard.get_params() == {"margin": 0.1, "pool": ["text"]}


def test_a_guard_that_chooses_what_to_pool_comes_back(tmp_path):
    X = MIXED.assign(text=[f"town {i}" for i in range(N_ROWS)])
    with pytest.warns(
        GuardWarning, match="of 'text' that was not seen in training: the column is pooled"
    ):
        cascade = CascadeClassifier(guard=InputGuard(pool="auto")).fit(X, WORDS)
    loaded = again(cascade, tmp_path)
    faulty = X.assign(text="never seen").astype({"kind": object})
    faulty.loc[::7, "kind"] = 7
    assert set(loaded.decide(faulty).reason[::7]) == {"unseen category: kind"}
    assert same(cascade, loaded, faulty)
    assert loaded.guard_.learned_ == cascade.guard_.learned_
    assert loaded.guard.get_params() == {"margin": 0.25, "pool": "auto"}


def test_a_column_that_was_never_there_is_guarded_alike(tmp_path):
    X = pd.DataFrame({"empty": np.full(N_ROWS, np.nan), "number": NUMBERS[:, 0]})
    cascade = CascadeClassifier(guard=InputGuard()).fit(X, WORDS)
    loaded = again(cascade, tmp_path)
    assert same(cascade, loaded, X.assign(empty=1.0))


def test_what_was_set_after_fit_does_not_count(tmp_path):
    cascade = CascadeClassifier(threshold=0.8).fit(NUMBERS, WORDS)
    fitted = cascade.decide(NUMBERS).accepted
    cascade.set_params(threshold=0.99, design=STAGES)
    np.testing.assert_array_equal(again(cascade, tmp_path).decide(NUMBERS).accepted, fitted)


@pytest.mark.parametrize("guard", [None, InputGuard(margin=1, pool=["text"])], ids=str)
def test_what_was_certified_is_known_again(guard, tmp_path):
    cascade = CascadeClassifier(costs=COSTS, guard=guard).fit(MIXED, WORDS)
    assert fingerprint(again(cascade, tmp_path)) == fingerprint(cascade)


def test_only_a_certificate_travels_as_one(tmp_path):
    cascade = CascadeClassifier().fit(NUMBERS, WORDS)
    cascade.certificate_ = {"sentence": "All is well.", "confidence": 0.99}
    with pytest.raises(ArtifactError, match="`certificate_` must be a Certificate, got a dict"):
        dump(cascade, tmp_path / "model.emsco")


# Fronts and searches


def test_a_front_comes_back(search, tmp_path):
    loaded = again(search.front_, tmp_path)
    assert loaded == search.front_
    assert repr(loaded) == repr(search.front_)
    assert loaded.select(min_coverage=0.8) == search.front_.select(min_coverage=0.8)


def test_candidates_of_every_shape_come_back(tmp_path):
    costs = Costs.per_feature({"a": 1, "b": 2})
    plain = Evaluation(100, 60, 54, paid=100)
    by_class = Evaluation(
        100.0, 80.5, 76, paid=150, waited=3.5, worst_latency=2.0,
        class_rows={1: 40, True + 1: 60.0}, class_accepted={1: 30, 2: 50.5},
        class_right={1: 30, 2: 46},
    )  # fmt: skip
    threshold = ({1: 0.9, 2: 0.8}, 0.75)
    front = ParetoFront(
        [
            Candidate(StageDesign([0, -1]), 0.75, plain),
            Candidate(StageDesign([1, 0]), threshold, by_class),
        ],
        costs,
        "told",
    )
    loaded = again(front, tmp_path)
    assert loaded == front
    assert [repr(candidate) for candidate in loaded] == [repr(candidate) for candidate in front]


def test_an_empty_front_comes_back(tmp_path):
    front = ParetoFront([], COSTS)
    assert again(front, tmp_path) == front


def test_a_search_comes_back_in_all_that_needs_no_rows(search, tmp_path):
    loaded = again(search, tmp_path)
    assert same(search, loaded, MIXED)
    for name in ("front_", "best_candidate_", "all_sources_", "history_", "costs_", "search_"):
        assert getattr(loaded, name) == getattr(search, name), name
    assert loaded.summary() == search.summary()
    assert loaded.n_splits_ == search.n_splits_
    assert loaded.feature_names_in_.tolist() == list(MIXED)
    assert any(candidate is loaded.best_candidate_ for candidate in loaded.front_)
    for coverage in (0.0, 0.37, 1.0):
        assert loaded.all_sources_at(coverage) == search.all_sources_at(coverage)
    told = loaded.get_params(deep=False)
    assert told == search.get_params(deep=False) | {"costs": COSTS}


def test_what_a_front_was_measured_on_comes_back_in_parts(search, tmp_path):
    """So that the command line has its own word for the call in it, whatever was added to it."""
    note = again(search, tmp_path).front_.measured_on
    assert note == search.front_.measured_on
    assert note.parts == search.front_.measured_on.parts
    (call,) = (part for part in note.parts if isinstance(part, Code))
    assert call == "score_front(X, y)"


def test_a_loaded_search_chooses_among_the_stages_that_were_kept(search, tmp_path):
    loaded = again(search, tmp_path)
    best = loaded.best_candidate_
    stricter = Candidate(best.design, 0.9, best.evaluation)
    assert same(search.cascade(stricter), loaded.choose(stricter).best_cascade_, MIXED)
    bought = {frozenset(best.design.acquired(i)) for i in range(best.design.n_stages)}
    other = next(c for c in loaded.front_ if frozenset(c.design.acquired(0)) not in bought)
    with pytest.raises(ArtifactError, match="no training rows to fit it on"):
        loaded.choose(other)
    assert loaded.best_candidate_ is stricter  # the choice before is not lost
    assert loaded.decide(MIXED[:3])


@pytest.mark.parametrize("pool", [(), "auto"])
def test_every_stage_fitted_so_far_is_kept(pool, tmp_path):
    search = quiet_search(MIXED, WORDS, costs=COSTS, threshold=0.75, guard=InputGuard(pool=pool))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmscoWarning)
        cascades = [search.cascade(candidate) for candidate in search.front_]
        loaded = again(search, tmp_path)
        for candidate, cascade in zip(search.front_, cascades, strict=True):
            assert same(cascade, loaded.choose(candidate).best_cascade_, MIXED)
        scored, again_scored = (s.score_front(MIXED, WORDS) for s in (search, loaded))
    assert list(scored) == list(again_scored)
    assert loaded.guard.get_params() == {"margin": 0.25, "pool": pool}
    assert same(search, loaded.choose(search.best_candidate_), MIXED)


def test_fresh_figures_of_a_loaded_search_are_those_of_its_cascades(tmp_path):
    search = quiet_search(NUMBERS, WORDS, threshold=0.75, max_stages=2)
    for candidate in search.front_:
        search.cascade(candidate)
    loaded = again(search, tmp_path)
    assert list(loaded.score_front(NUMBERS, WORDS)) == list(search.score_front(NUMBERS, WORDS))


@pytest.mark.parametrize("cv", [3, ShuffleSplit(1, random_state=0)], ids=["folds", "one split"])
def test_a_search_without_a_refit_comes_back(cv, tmp_path):
    search = quiet_search(NUMBERS, WORDS, cv=cv, refit=False)
    loaded = again(search, tmp_path)
    assert loaded.best_candidate_ == search.best_candidate_
    assert hasattr(loaded, "best_cascade_") == (cv != 3) == hasattr(search, "best_cascade_")
    if cv == 3:
        search.choose(search.best_candidate_, refit=True)
        loaded = again(search, tmp_path)
    assert same(search, loaded, NUMBERS)


def test_a_search_with_stages_of_the_users_comes_back(tmp_path):
    estimator = make_pipeline(StandardScaler(), LogisticRegression())
    search = quiet_search(NUMBERS, WORDS, estimator=estimator, threshold=0.7)
    loaded = again(search, tmp_path)
    assert same(search, loaded, NUMBERS)
    assert repr(loaded.estimator) == repr(estimator)


@pytest.mark.parametrize(
    "strategy",
    [
        EMSCO(population=20, generations=3),
        LocalSearch(200),
        Hybrid(EMSCO(population=20, generations=2), LocalSearch(100)),
    ],
    ids=lambda strategy: type(strategy).__name__,
)
def test_strategies_and_their_histories_come_back(strategy, tmp_path):
    options = {"search": strategy, "threshold": [0.7, {"high": 0.8, "low": 0.7, "mid": 0.9}]}
    search = quiet_search(NUMBERS, WORDS, **options)
    loaded = again(search, tmp_path)
    assert loaded.search == loaded.search_ == strategy
    assert loaded.history_ == search.history_
    assert [list(entry) for entry in loaded.history_] == [list(entry) for entry in search.history_]
    assert loaded.threshold == options["threshold"]


def print_nothing(state):
    assert "phase" in state


def test_parameters_that_are_no_data_are_told_in_the_file_and_left_out(tmp_path):
    search = quiet_search(
        NUMBERS, WORDS, cv=ShuffleSplit(2, random_state=0), select=lambda front: front[0],
        max_missed={"low": 0.5}, callback=print_nothing,
    )  # fmt: skip
    loaded = again(search, tmp_path)
    left_out = json.loads(manifest(tmp_path / "model.emsco"))["model"]["parameters"]["left_out"]
    assert set(left_out) == {"cv", "select", "callback"}
    assert "ShuffleSplit" in left_out["cv"]
    assert loaded.max_missed == {"low": 0.5}
    assert loaded.select is None


def test_a_search_that_was_loaded_is_dumped_to_the_same_bytes(search, tmp_path):
    dump(search, tmp_path / "one.emsco")
    dump(load(tmp_path / "one.emsco"), tmp_path / "two.emsco")
    assert (tmp_path / "one.emsco").read_bytes() == (tmp_path / "two.emsco").read_bytes()


def test_a_cascade_put_in_place_of_the_chosen_one_is_not_dumped_for_it(tmp_path):
    search = quiet_search(NUMBERS, WORDS)
    search.best_cascade_.set_params(design=None, threshold=0.8).fit(NUMBERS, WORDS)
    with pytest.raises(ArtifactError, match="was changed after the search"):
        dump(search, tmp_path / "model.emsco")


# The file


def manifest(path):
    with zipfile.ZipFile(path) as archive:
        return archive.read("manifest.json")


def test_any_zip_tool_reads_it(mixed, tmp_path):
    dump(mixed, tmp_path / "model.emsco")
    with zipfile.ZipFile(tmp_path / "model.emsco") as archive:
        assert archive.testzip() is None
        archive.extractall(tmp_path / "extracted")
    told = json.loads((tmp_path / "extracted/manifest.json").read_text())
    assert set(told) >= {"format", "kind", "versions", "certificate", "fingerprint", "members"}
    assert told["format"] == emsco.io.FORMAT == 2
    assert told["model"]["design"] == [["talk"], ["blood"], ["more"]]
    weights = np.load(tmp_path / "extracted" / told["model"]["training"]["stages"][0]["weights"])
    np.testing.assert_array_equal(weights, mixed.estimators_[0].coef_)


@pytest.mark.parametrize("model", ["mixed", "forest"])
def test_a_model_makes_the_same_bytes_every_time(model, request, tmp_path):
    for name in ("one", "two"):
        dump(request.getfixturevalue(model), tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_default_cascades_name_no_class_and_need_no_skops(mixed, tmp_path):
    dump(mixed, tmp_path / "model.emsco")
    assert b"sklearn." not in (tmp_path / "model.emsco").read_bytes()
    code = (
        "import sys; sys.modules['skops'] = None\n"
        "from emsco import load; before = set(sys.modules)\n"
        f"model = load({str(tmp_path / 'model.emsco')!r})\n"
        "print(sorted(set(sys.modules) - before))"
    )
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout.strip() == "[]"


def test_other_estimators_say_that_they_need_skops(forest, tmp_path, monkeypatch):
    dump(forest, tmp_path / "model.emsco")
    monkeypatch.setitem(sys.modules, "skops", None)
    monkeypatch.delitem(sys.modules, "skops.io")
    with pytest.raises(MissingExtraError, match=r"emsco\[skops\]"):
        load(tmp_path / "model.emsco", trusted=[TREE])
    with pytest.raises(MissingExtraError, match=r"emsco\[skops\]"):
        dump(forest, tmp_path / "model.emsco")


@pytest.mark.parametrize("number", [1, 3])
def test_another_format_says_so(mixed, tmp_path, monkeypatch, number):
    monkeypatch.setattr("emsco.io._model_file.FORMAT", number)
    dump(mixed, tmp_path / "model.emsco")
    monkeypatch.undo()
    with pytest.raises(ArtifactError, match=rf"has format {number}, and .* reads format 2 only"):
        load(tmp_path / "model.emsco")


# Writing


def test_a_full_disk_leaves_what_was_there(mixed, forest, tmp_path):
    path = tmp_path / "model.emsco"
    dump(mixed, path)
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limits[1]))
    try:
        with pytest.raises(ArtifactError, match="cannot be written: File too large"):
            dump(forest, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["model.emsco"]


def test_a_folder_that_is_not_there_is_named(mixed, tmp_path):
    with pytest.raises(ArtifactError, match=r"nowhere.model\.emsco cannot be written: No such"):
        dump(mixed, tmp_path / "nowhere" / "model.emsco")
    with pytest.raises(ArtifactError, match="is a folder; give a file"):
        dump(mixed, tmp_path)
    assert os.listdir(tmp_path) == []


def test_links_and_rights_stay(mixed, tmp_path):
    target = tmp_path / "target.emsco"
    dump(mixed, target)
    target.chmod(0o600)
    (tmp_path / "link.emsco").symlink_to(target)
    dump(mixed, tmp_path / "link.emsco")
    assert (tmp_path / "link.emsco").is_symlink()
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


class Rule:
    """A guard of the user's own."""

    def fit(self, columns):
        self.names = list(columns)
        return self

    def reasons(self, columns):
        assert set(columns) <= set(self.names)


class Derived(CascadeClassifier):
    """A cascade of the user's own."""


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda: CascadeClassifier(guard=Rule()).fit(NUMBERS, WORDS), "its guard is a Rule"),
        (lambda: Derived().fit(NUMBERS, WORDS), "got a Derived"),
        (lambda: LogisticRegression(), "got a LogisticRegression"),
        (
            lambda: CascadeClassifier(
                make_pipeline(StandardScaler(), Opaque(LogisticRegression()))
            ).fit(NUMBERS, WORDS),
            "cannot be saved by skops",
        ),
    ],
)
def test_what_cannot_be_kept_is_named(model, message, tmp_path):
    with pytest.raises(ArtifactError, match=message):
        dump(model(), tmp_path / "model.emsco")
    assert os.listdir(tmp_path) == []


class Opaque(CalibratedClassifierCV):
    """An estimator that holds what skops cannot write."""

    def fit(self, X, y):
        self.open_ = (number for number in range(3))
        return super().fit(X, y)


# Reading


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    path = tmp_path_factory.mktemp("small") / "model.emsco"
    dump(CascadeClassifier().fit(NUMBERS[:, :1], LABELS > 0), path)
    return path.read_bytes()


def test_a_bit_flipped_in_any_byte_is_noticed(small, tmp_path):
    path = tmp_path / "model.emsco"
    rng = np.random.default_rng()  # other bytes every time: all of them take a minute
    for place in rng.choice(len(small), len(small) // 5, replace=False):
        bit = rng.integers(8)
        changed = bytearray(small)
        changed[place] ^= 1 << int(bit)
        path.write_bytes(changed)
        with pytest.raises(ArtifactError):
            pytest.fail(f"bit {bit} of byte {place}: {load(path)}")


def test_a_file_cut_anywhere_is_noticed(small, tmp_path):
    path = tmp_path / "model.emsco"
    for size in range(0, len(small), 7):
        path.write_bytes(small[:size])
        with pytest.raises(ArtifactError):
            load(path)


def test_what_is_not_a_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(ArtifactError, match="it is not a file"):
            load(path)
    with pytest.raises(ArtifactError, match="No such file"):
        load(tmp_path / "nowhere")


def test_trust_is_a_list_of_names(forest, tmp_path):
    dump(forest, tmp_path / "model.emsco")
    for trusted in (TREE, True, [RandomForestClassifier]):
        with pytest.raises((ArtifactError, TypeError)):
            load(tmp_path / "model.emsco", trusted=trusted)
    with pytest.raises(ArtifactError, match="does not trust by default"):
        load(tmp_path / "model.emsco", trusted=["os.system"])


def test_no_loader_that_runs_code_is_in_the_package():
    folder = Path(emsco.io.__file__).parent
    banned = {"pickle", "_pickle", "dill", "cloudpickle", "joblib", "importlib", "marshal",
              "shelve", "runpy", "ctypes", "subprocess", "code", "pkgutil"}  # fmt: skip
    calls = {"eval", "exec", "compile", "__import__", "globals"}
    files = [*folder.glob("*.py"), folder.parent / "learners/training.py",
             folder.parent / "_utils/atomic_write.py"]  # fmt: skip
    assert len(files) > 5
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name.partition(".")[0] for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [(node.module or "").partition(".")[0]]
            assert not banned & set(names), file
            if isinstance(node, ast.Name):
                assert node.id not in calls, file
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                assert isinstance(node.value, ast.Constant), file
                assert node.value.value is False, file


# JSON


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
    | st.builds(np.int64, st.integers(-(2**63), 2**63 - 1))
    | st.builds(np.float32, st.floats(width=32, allow_nan=False)) | st.builds(np.str_, st.text())
    | st.builds(np.bool_, st.booleans()),
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple)
    | st.dictionaries(st.text() | st.integers(), inner),
    max_leaves=8,
)  # fmt: skip


@given(plain)
def test_plain_values_come_back_with_their_types(value):
    again = _json.from_plain(_json.parse(_json.write(_json.to_plain(value))))
    assert again == value
    assert repr(again) == repr(value)


@given(st.binary() | st.text(alphabet='[]{}",:\\0eNa ').map(str.encode))
def test_what_is_no_json_is_refused(data):
    try:
        known = json.loads(data)
    except (ValueError, RecursionError):
        with pytest.raises(ArtifactError):
            _json.parse(data)
    else:
        with suppress(ArtifactError):  # NaN, a key told twice, or text that is not ASCII
            assert repr(_json.parse(data)) == repr(known)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"[" * 10**6, "nested"),
        (b'{"a":' * 100 + b"1" + b"}" * 100, "nested"),
        (b'["[[[[', "not valid"),
        (b"[NaN]", "NaN"),
        (b"[1e400]", "1e400"),
        (b'{"a": 1, "a": 2}', "repeated"),
        (b"[" + b"0," * 400_000 + b"0]", "more than 300,000 values"),
        (b'""' * 10**6, "more than 300,000 values"),
        (b'"' + b"a" * 9 * 10**6 + b'"', "at most"),
        ('"\u00e9"'.encode(), "ASCII"),
    ],
)
def test_json_is_looked_at_before_it_is_parsed(data, message):
    with pytest.raises(ArtifactError, match=message):
        _json.parse(data)
