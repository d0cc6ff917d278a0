"""Files whose hashes are right and whose values cannot be: refused at load, not found out later."""

from __future__ import annotations

import io
import json
import zipfile
from functools import reduce

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.mixture import GaussianMixture
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from emsco import CascadeClassifier, CascadeSearchCV, InputGuard, StageDesign, dump, load
from emsco.exceptions import ArtifactError
from emsco.final import LoggedAnswers
from emsco.io._skops import to_skops
from emsco.io._zip import pack
from tests.soak.forgeries import npy, opened, seal

pytestmark = pytest.mark.filterwarnings("ignore::emsco.exceptions.SelectionWarning")

RNG = np.random.default_rng(0)
LABELS = RNG.integers(2, size=200)
Y = np.array(["no", "yes"])[LABELS]
X = pd.DataFrame(
    {
        "number": LABELS + RNG.normal(size=200),
        "holes": np.where(RNG.random(200) < 0.1, np.nan, LABELS + RNG.normal(size=200)),
        "text": RNG.choice(["a", "b", "c"], 200),
    }
)
NUMBERS = X[["number", "holes"]].fillna(0.0)
STAGES = StageDesign.from_stages([["number"], ["holes", "text"]])
NAN, INFINITY = {"float": "nan"}, {"float": "inf"}
GUARD = ("training", "guard", "dict", "columns", "dict")


@pytest.fixture(scope="module")
def guarded():
    return CascadeClassifier(design=STAGES, guard=InputGuard()).fit(X, Y)


@pytest.fixture(scope="module")
def search():
    return CascadeSearchCV(threshold=0.75, cv=2, guard=InputGuard(), random_state=0).fit(X, Y)


@pytest.fixture(scope="module")
def logged():
    table = X.assign(answer=Y)
    return CascadeClassifier(design=STAGES, final=LoggedAnswers("answer")).fit(table, Y)


@pytest.fixture(scope="module")
def piped():
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    return CascadeClassifier(pipeline, design=StageDesign([0, 1])).fit(NUMBERS.to_numpy(), Y)


@pytest.fixture(scope="module")
def answered():
    final = LogisticRegression().fit(NUMBERS, Y)
    return CascadeClassifier(design=StageDesign([0, 1]), final=final).fit(NUMBERS, Y)


def forge(model, path, change):
    """Write a model with its manifest and members changed, and every hash right."""
    dump(model, path)
    manifest, members = opened(path.read_bytes())
    change(manifest["model"], members)
    seal(manifest, members, path)
    return path


def put(value, *place):
    """Say how to put a value in a place of the manifest."""

    def change(model, _):
        reduce(lambda holder, key: holder[key], place[:-1], model)[place[-1]] = value

    return change


def put_in_array(value, *place, dtype=None):
    """Say how to change an array that the manifest names: its first value, or its type."""

    def change(model, members):
        name = reduce(lambda holder, key: holder[key], place, model)
        array = np.load(io.BytesIO(members[name]))
        array = array.astype(dtype or array.dtype)
        array.flat[0] = value
        members[name] = npy(array)

    return change


def refused(model, tmp_path, change):
    path = forge(model, tmp_path / "model.emsco", change)
    with pytest.raises(ArtifactError, match=r"model\.emsco cannot be loaded: ") as raised:
        load(path)
    return str(raised.value)


def test_what_is_changed_here_is_loaded_unchanged(
    guarded, search, logged, piped, answered, tmp_path
):
    """Or the other tests here would say nothing."""
    for model in (guarded, search, logged, piped, answered):
        load(forge(model, tmp_path / "model.emsco", lambda *_: None))


@pytest.mark.parametrize("name", ["low", "high"])
@pytest.mark.parametrize("limit", [NAN, INFINITY, "nan", None, True, [1.0]], ids=str)
def test_limits_of_a_guard_that_are_none(name, limit, guarded, tmp_path):
    """NaN would switch it off: no number is below or above it."""
    told = refused(guarded, tmp_path, put(limit, *GUARD, "number", "dict", name))
    assert "guard" in told


@pytest.mark.parametrize(
    "learned",
    [
        {"dict": {"low": 2.0, "high": 1.0}},
        {"dict": {"low": 1.0}},
        {"dict": {"low": 1.0, "high": 2.0, "values": []}},
        {"dict": {"anything": 1}},
        {"dict": {"values": "abc"}},
        {"dict": {"values": [["a"]]}},
        {"dict": {"values": [{"dict": {}}]}},
        {"dict": {"values": [{"tuple": ["a"]}]}},
        {"dict": {"values": [None]}},
        {"dict": {"values": [NAN]}},
        {"dict": {"values": ["a", "a"]}},
        [],
        None,
    ],
    ids=str,
)
def test_what_no_guard_can_have_learned(learned, guarded, tmp_path):
    """Categories that are lists would raise when the first row is decided."""
    assert "guard" in refused(guarded, tmp_path, put(learned, *GUARD, "text"))


@pytest.mark.parametrize(
    ("name", "value"),
    [("margin", -1), ("margin", NAN), ("margin", "1"), ("pool", "text"), ("pool", [1]), ("x", 1)],
)
def test_parameters_that_no_guard_has(name, value, guarded, search, tmp_path):
    refused(guarded, tmp_path, put(value, "training", "guard", "dict", name))
    refused(search, tmp_path, put(value, "guard", "dict", name))


def test_a_guard_that_has_learned_nothing(guarded, tmp_path):
    told = {"dict": {"margin": 0.25, "pool": []}}
    assert "'columns'" in refused(guarded, tmp_path, put(told, "training", "guard"))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("rows", "classes", "labels"), ["yes", "no"]),
        (("rows", "classes", "labels"), [["no"], ["yes"]]),
        (("rows", "classes", "dtype"), "<U9"),
        (("training", "columns", "number", "scale"), 1e-320),
        (("training", "columns", "text", "levels"), ["a", "b", {"tuple": ["c"]}]),
        (("training", "columns", "text", "levels"), ["a", "b", None]),
        (("training", "columns", "text", "levels"), ["a", "b", NAN]),
        (("training", "stages", 0, "iterations"), [-1]),
        (("costs", "sources", 0, "cost"), 1.7e308),
        (("costs", "sources", 0, "latency"), 1.7e308),
        (("threshold",), NAN),
        (("threshold",), 0.3),
    ],
    ids=str,
)
def test_values_that_no_cascade_has(place, value, guarded, tmp_path):
    def change(model, _):
        if value == 1.7e308:  # which only a second one of its kind makes too much
            put(value, "costs", "sources", 1, place[-1])(model, _)
        put(value, *place)(model, _)

    if value == "<U9":
        change = put(
            "<U9999", "rows", "classes", "dtype"
        )  # it could be; it is the next that is not
        load(forge(guarded, tmp_path / "wide.emsco", change))
        labels = {"dtype": "<U9999", "labels": [f"{i:05}" for i in range(20_000)]}
        assert "MB" in refused(guarded, tmp_path, put(labels, "rows", "classes"))
    else:
        refused(guarded, tmp_path, change)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_by_which_nothing_can_be_judged(value, guarded, tmp_path):
    refused(guarded, tmp_path, put_in_array(value, "training", "stages", 1, "weights"))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("measured_on",), "Selected on 200 held-out rows (2 folds)"),
        (("measured_on",), [{"code": 1}]),
        (("n_front",), -1),
        (("n_front",), 10**6),
        (("best",), -1),
        (("best",), True),
        (("chosen",), "nobody"),
        (("rows", "n_splits"), 0),
        (("rows", "n_selected_on"), -5),
        (("candidates", "labels"), ["no", "maybe"]),
        (("candidates", "threshold"), NAN),
        (("parameters", "kept", "max_stages"), -1),
        (("parameters", "kept", "refit"), "never"),
        (("parameters", "kept", "select"), {"dict": {"cheapest": 1}}),
        (("parameters", "kept", "n_jobs"), "all"),
    ],
    ids=str,
)
def test_values_that_no_search_has(place, value, search, tmp_path):
    refused(search, tmp_path, put(value, *place))


@pytest.mark.parametrize(
    ("place", "value", "dtype"),
    [
        (("candidates", "assignment"), 0.5, np.float64),
        (("candidates", "paid", "column"), np.nan, None),
        (("candidates", "paid", "column"), np.inf, None),
        (("candidates", "rows", "column"), np.nan, np.float64),
        (("candidates", "label", "items", "column"), -1, None),
        (("candidates", "class_right", "items", "column"), 10**6, None),
        (("all_sources", "truth"), 0.5, np.float64),
        (("all_sources", "truth"), -1, None),
    ],
    ids=str,
)
def test_counts_that_no_search_has(place, value, dtype, search, tmp_path):
    refused(search, tmp_path, put_in_array(value, *place, dtype=dtype))


def test_a_threshold_that_its_design_cannot_have(search, tmp_path):
    """A candidate that was not chosen may be chosen later."""
    n_candidates = len(search.front_) + 1 + (search.best_candidate_ not in search.front_)
    thresholds = [{"tuple": [0.9, 0.9, 0.9]}] * n_candidates
    assert "threshold" in refused(search, tmp_path, put(thresholds, "candidates", "threshold"))


def test_booleans_that_are_neither(search, tmp_path):
    """A byte of 7 would count as seven rows."""

    def change(model, members):
        name = model["all_sources"]["right"]
        members[name] = members[name][:-1] + b"\x07"

    assert "must hold only true and false" in refused(search, tmp_path, change)


def test_logged_answers_that_no_frame_holds(logged, tmp_path):
    refused(logged, tmp_path, put("array", "training", "container"))
    refused(logged, tmp_path, put("number", "final", "column"))


def change_inside(kind, change_part):
    """Say how to change arrays or the schema of what skops keeps."""

    def change(model, members):
        name = reduce(lambda holder, key: holder[key], kind, model)
        with zipfile.ZipFile(io.BytesIO(members[name])) as archive:
            parts = {part: archive.read(part) for part in archive.namelist()}
        change_part(parts)
        members[name] = b"".join(pack(parts))

    return change


def change_array(attribute, new):
    def change_part(parts):
        """Find the array of an attribute by its place in the schema."""
        found = []

        def look(node):
            if isinstance(node, dict):
                for key, item in node.items():
                    if key == attribute and isinstance(item, dict) and "file" in item:
                        found.append(item["file"])
                    look(item)
            elif isinstance(node, list):
                for item in node:
                    look(item)

        look(json.loads(parts["schema.json"]))
        assert found
        for file in found:
            parts[file] = npy(new(np.load(io.BytesIO(parts[file]))))

    return change_part


@pytest.mark.parametrize(
    ("attribute", "new"),
    [
        ("coef_", lambda a: a * np.nan),
        ("coef_", lambda a: a[:, :0]),
        ("scale_", lambda a: a * 0),
        ("scale_", lambda a: a * 1e-300),
        ("mean_", lambda a: np.concatenate([a, a])),
        ("classes_", lambda a: np.repeat(a[:1], len(a))),
    ],
)
def test_a_stage_that_cannot_answer(attribute, new, piped, tmp_path):
    place = ("training", "stages", 1, "fitted")
    refused(piped, tmp_path, change_inside(place, change_array(attribute, new)))


def test_an_estimator_that_is_no_classifier(piped, tmp_path):
    """It is fitted no more, but scikit-learn is told by it what rows may hold."""

    def change(model, members):
        members[model["training"]["estimator"]] = to_skops(GaussianMixture(), "it")

    assert "a GaussianMixture, is not a classifier" in refused(piped, tmp_path, change)


@pytest.mark.parametrize(
    ("attribute", "new"),
    [("coef_", lambda a: a[:, :1]), ("classes_", lambda a: np.where(a == "yes", "zzz", a))],
)
def test_a_final_model_that_cannot_answer(attribute, new, answered, tmp_path):
    change = change_inside(("final", "skops"), change_array(attribute, new))
    refused(answered, tmp_path, change)
