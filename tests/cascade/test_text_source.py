"""A source of long text is decided alike by every driver, and refused where it cannot be."""

from __future__ import annotations

import io
import pickle
import zipfile

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from emsco import (
    CascadeClassifier,
    CascadeSearchCV,
    Costs,
    InputGuard,
    MaskedClassifier,
    Source,
    StageDesign,
    dump,
    evaluate,
    load,
)
from emsco.arrow import decide_batches
from emsco.cascade.fingerprint import fingerprint
from emsco.exceptions import ArtifactError, ColumnsError, CostsError, SearchError, ValuesError
from tests.soak.forgeries import npy, opened, seal

COSTS = Costs([Source("body", kind="text", cost=1), Source("calls", cost=5)])
DESIGN = StageDesign.from_stages([["body"], ["calls"]], COSTS.names)
WORDS = {
    "no": ["thanks", "the", "meeting", "is", "moved", "to", "noon", "see", "you", "there"],
    "yes": ["win", "a", "free", "prize", "now", "call", "this", "number", "to", "claim"],
    "ask": ["how", "do", "I", "reset", "my", "password", "please", "help", "me"],
}
ODD = ["", None, "   ", "你好 😀", "nul \0 byte", "7", "x" * 100_000, "ΟΔΟΣ"]


def messages(n_rows=400, labels=("no", "yes"), seed=0, clear=0.5):
    """Make messages of a label's words and others, and a number that says a little, too."""
    rng = np.random.default_rng(seed)
    every = [word for words in WORDS.values() for word in words]
    y = np.array(labels)[rng.integers(len(labels), size=n_rows)]
    body = [
        " ".join(
            rng.choice(WORDS[label]) if rng.random() < clear else rng.choice(every)
            for _ in range(rng.integers(2, 8))
        )
        for label in y
    ]
    calls = (y == labels[1]) + rng.normal(size=n_rows)
    X = pd.DataFrame({"body": np.array(body, dtype=object), "calls": calls})
    X.loc[::25, "body"] = None
    return X, y


def cascade_on(X, y, **params):
    return CascadeClassifier(**{"costs": COSTS, "design": DESIGN, "threshold": 0.95} | params).fit(
        X, y
    )


@pytest.fixture(scope="module", params=[("no", "yes"), ("no", "yes", "ask")], ids=["2", "3"])
def fitted(request):
    return cascade_on(*messages(labels=request.param))


@pytest.fixture(scope="module")
def fresh():
    X, _ = messages(60, seed=1)
    X["body"] = np.array([*ODD, *X["body"][len(ODD) :]], dtype=object)
    return X


def as_texts(X):
    return [body if isinstance(body, str) else None for body in X["body"]]


def assert_alike(found, expected):
    for name in ("label", "accepted", "exit_stage", "confidence", "cost"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name


def test_every_container_and_order_gives_the_same_decisions(fitted, fresh):
    expected = fitted.decide(fresh)
    assert {0, 1} == set(expected.exit_stage.tolist())
    texts = as_texts(fresh)
    containers = [
        fresh.astype({"body": "string"}),
        fresh.astype({"body": "category"}),
        pl.DataFrame({"body": texts, "calls": fresh["calls"].to_numpy()}),
        pl.DataFrame(
            {
                "body": pl.Series(texts, dtype=pl.Categorical),
                "calls": fresh["calls"].to_numpy(),
            }
        ),
    ]
    for X in containers:
        assert_alike(fitted.decide(X), expected)
    order = np.random.default_rng(0).permutation(len(fresh))
    shuffled = fitted.decide(fresh.iloc[order])
    assert np.array_equal(shuffled.confidence, expected.confidence[order])
    assert np.array_equal(fitted.predict(fresh), expected.label)


@pytest.mark.parametrize("guard", [None, InputGuard()], ids=["bare", "guarded"])
def test_one_row_is_decided_as_among_others(guard, fresh):
    cascade = cascade_on(*messages(labels=("no", "yes", "ask")), guard=guard)
    expected = cascade.decide(fresh)
    for row in range(len(fresh)):
        one = cascade.decide_one(fresh.iloc[row].to_dict())
        assert one.confidence == expected.confidence[row]
        assert (one.label, one.exit_stage) == (expected.label[row], expected.exit_stage[row])
        judged = cascade.decider_.one_row.judge(fresh.iloc[row].to_dict(), strictly=True)
        assert judged is None or judged.confidence == expected.confidence[row]
    assert cascade.decider_.one_row.judge({"body": "win", "calls": 1.0}) is not None


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())]
)
def test_arrow_batches_are_decided_alike(fitted, fresh, kind):
    expected = fitted.decide(fresh)
    table = pa.table({"calls": fresh["calls"].to_numpy()}).append_column(
        "body", pa.array(as_texts(fresh), pa.string()).cast(kind)
    )
    decided = pa.Table.from_batches(decide_batches(fitted, table.to_batches(max_chunksize=7)))
    assert decided.column("confidence").to_pylist() == expected.confidence.tolist()
    assert decided.column("label").to_pylist() == expected.label.tolist()


def test_a_file_holds_data_only_and_decides_alike(fitted, fresh, tmp_path):
    path = tmp_path / "model.emsco"
    dump(fitted, path)
    names = [member.filename for member in zipfile.ZipFile(path).infolist()]
    assert all(name == "manifest.json" or name.endswith(".npy") for name in names)
    again = load(path)
    assert_alike(again.decide(fresh), fitted.decide(fresh))
    assert fingerprint(again) == fingerprint(fitted)
    assert again.costs_.sources[0].kind == "text"
    dump(again, tmp_path / "again.emsco")
    assert (tmp_path / "again.emsco").stat().st_size == path.stat().st_size
    pickled = pickle.loads(pickle.dumps(fitted))
    assert_alike(pickled.decide(fresh), fitted.decide(fresh))


@pytest.mark.parametrize(
    ("name", "forge", "message"),
    [
        ("buckets", lambda a: a[::-1], "must be sorted"),
        ("buckets", lambda a: np.r_[a[:-1], np.int32(2**30)], "from 0 to"),
        ("buckets", lambda a: np.r_[np.int32(-1), a[1:]], "from 0 to"),
        ("buckets", lambda a: a.astype(np.int64), "another type of number"),
        ("buckets", lambda a: a[1:], "must have the shape"),
        ("weights", lambda a: np.where(a == a[0, 0], np.float32(np.nan), a), "finite"),
        ("weights", lambda a: a.astype(np.float64), "another type of number"),
        ("scale", lambda a: 0 * a, "above 0"),
        ("centre", lambda a: a + np.inf, "finite"),
        ("intercepts", lambda a: np.r_[a, a], "must have the shape"),
    ],
)
def test_forged_weights_are_refused(tmp_path, name, forge, message):
    path = tmp_path / "model.emsco"
    dump(cascade_on(*messages(100)), path)
    manifest, members = opened(path.read_bytes())
    member = manifest["model"]["training"]["columns"]["body"][name]
    array = np.lib.format.read_array(io.BytesIO(members[member]))
    members[member] = npy(np.ascontiguousarray(forge(array)))
    seal(manifest, members, path)
    with pytest.raises(ArtifactError, match=message):
        load(path)


def test_text_hashed_otherwise_is_refused(tmp_path):
    path = tmp_path / "model.emsco"
    dump(cascade_on(*messages(100)), path)
    manifest, members = opened(path.read_bytes())
    manifest["model"]["training"]["columns"]["body"]["hashing"] = "0" * 16
    seal(manifest, members, path)
    with pytest.raises(ArtifactError, match="hashed in another way"):
        load(path)


def test_factors_add_up_and_name_the_text(fitted, fresh):
    decisions = fitted.decide(fresh, factors=True)
    for decision in decisions[:10]:
        factors = decision.factors
        named = dict(factors.features)
        assert "body" in named
        assert "mean score of every text" in factors.reference
        if len(fitted.classes_) == 2:
            odds = np.log(decision.confidence / (1 - decision.confidence))
            assert factors.score == pytest.approx(odds)


def test_a_guard_lets_text_pass_and_refuses_what_is_none(fresh):
    cascade = cascade_on(*messages(), guard=InputGuard())
    assert set(cascade.guard_.learned_) == {"calls"}
    decisions = cascade.decide(fresh)
    assert set(decisions.reason.tolist()) <= {"", "low confidence"}
    bad = fresh[:3].assign(body=[b"bytes", "half \ud800", ["a list"]])
    assert cascade.decide(bad).reason.tolist() == ["invalid value: body"] * 3
    one = cascade.decide_one({"body": b"bytes", "calls": 0.0})
    assert one.reason == "invalid value: body"


def test_text_alone_is_guarded_and_read_from_an_array(tmp_path):
    X, y = messages()
    whole = np.array(as_texts(X), dtype=object)[:, None]
    costs = Costs([Source("x0", kind="text", cost=1)])
    cascade = CascadeClassifier(costs=costs, guard=InputGuard()).fit(whole, y)
    dump(cascade, tmp_path / "model.emsco")
    again = load(tmp_path / "model.emsco")
    assert_alike(again.decide(whole), cascade.decide(whole))
    assert set(cascade.decide(whole[:9]).reason.tolist()) <= {"", "low confidence"}


def test_values_that_are_no_text_are_refused_by_name(fresh):
    X, y = messages()
    bad = fresh[:3].assign(body=["fine", b"bytes", "fine"])
    with pytest.raises(ValuesError, match="'body'") as error:
        cascade_on(X, y).decide(bad)
    assert error.value.row == 1
    body = as_texts(X)
    body[3] = "half \ud800"
    X = pd.DataFrame({"body": pd.Series(body, dtype=object), "calls": X["calls"]})
    with pytest.raises(ValuesError, match=r"declared to hold long text.*row 3"):
        cascade_on(X, y)


def test_a_missing_text_is_refused_if_training_had_none(fresh):
    X, y = messages()
    whole = X["body"].notna()
    cascade = cascade_on(X[whole], y[whole])
    with pytest.raises(ValuesError, match="is missing"):
        cascade.decide(fresh)


def test_other_estimators_get_the_text_as_given(fresh):
    """A user's pipeline takes care of it; the guard still lets it pass."""
    X, y = messages()
    X, fresh = X.fillna("none"), fresh.fillna("none")
    words = make_column_transformer(
        (HashingVectorizer(n_features=2**10), "body"), remainder="passthrough"
    )
    own = make_pipeline(words, LogisticRegression(C=10))
    one = StageDesign.from_stages([["body", "calls"]], COSTS.names)
    cascade = cascade_on(X, y, estimator=own, design=one, guard=InputGuard(), threshold=0.6)
    assert set(cascade.decide(fresh[8:]).reason.tolist()) <= {"", "low confidence"}
    assert (cascade.predict(X) == y).mean() > 0.8


def test_masked_models_and_boosted_trees_refuse_text():
    X, y = messages()
    with pytest.raises(ColumnsError, match="MaskedClassifier takes numbers, and 'body'"):
        cascade_on(X, y, estimator=MaskedClassifier())
    with pytest.raises(SearchError, match=r"Boosted trees cannot take long text, such as .*'body'"):
        CascadeSearchCV("auto", costs=COSTS).fit(X, y)


def test_data_sets_refuse_text(tmp_path):
    X, y = messages()
    pa.parquet.write_table(pa.Table.from_pandas(X.assign(y=y)), tmp_path / "rows.parquet")
    dataset = pa.dataset.dataset(tmp_path / "rows.parquet")
    with pytest.raises(ColumnsError, match="long text of 'body' is fitted to all rows at once"):
        CascadeClassifier(costs=COSTS).fit(dataset, "y")
    with pytest.raises(ColumnsError, match="long text of 'body' is fitted to all rows at once"):
        CascadeSearchCV(costs=COSTS).fit(dataset, "y")


def test_a_final_model_gets_the_text_as_given(fresh):
    class Final:
        classes_ = np.array(["no", "yes"])

        def predict(self, X):
            assert isinstance(X["body"].iloc[0], str)
            return np.where(X["body"].str.contains("win|prize|free"), "yes", "no")

    X, y = messages()
    X, fresh = X.fillna("no text"), fresh[2:].fillna("no text")
    cascade = cascade_on(X, y, final=Final(), threshold=(0.99, 0.6))
    decisions = cascade.decide(fresh)
    assert decisions.accepted.all()
    last = decisions.exit_stage == 1
    assert last.any()
    assert (decisions.label[last] == Final().predict(fresh[last])).all()


def test_several_features_and_exceptions():
    X, y = messages()
    X["subject"] = X["body"].str.upper()
    ticket = Source("ticket", features=["subject", "body", "calls"], cost=2, kind="text",
                    type={"calls": "number"})  # fmt: skip
    costs = Costs([ticket])
    assert dict(costs.types) == {"subject": "long text", "body": "long text", "calls": "number"}
    cascade = CascadeClassifier(costs=costs).fit(X, y)
    assert (cascade.predict(X) == y).mean() > 0.85
    with pytest.raises(CostsError, match="leave `kind` or `type` out"):
        Source("ticket", cost=1, kind="text", type="text")


def test_costs_with_text_survive_a_file(tmp_path):
    costs = Costs([Source("body", kind="text", cost=1, latency=0.1), Source("calls", cost=5)])
    costs.to_toml(tmp_path / "costs.toml")
    assert 'kind = "text"' in (tmp_path / "costs.toml").read_text()
    assert Costs.from_toml(tmp_path / "costs.toml") == costs


def test_weights_of_rows_count():
    X, y = messages(200)
    weight = np.where(np.arange(len(y)) < 120, 1.0, 0.0)
    weighted = CascadeClassifier(costs=COSTS).fit(X, y, sample_weight=weight)
    flipped = np.where(weight > 0, y, np.where(y == "no", "yes", "no"))
    other = CascadeClassifier(costs=COSTS).fit(X, flipped, sample_weight=weight)
    model, same = (one.decider_.readers["body"].encoding for one in (weighted, other))
    assert np.array_equal(model.buckets, same.buckets)
    assert np.array_equal(model.weights, same.weights)
    assert len(model.buckets) < len(cascade_on(X, y).decider_.readers["body"].encoding.buckets)


def test_evaluations_are_counted_as_for_any_source():
    X, y = messages(600)
    evaluation = evaluate(cascade_on(X[:400], y[:400]).decide(X[400:]), y[400:])
    assert evaluation.accuracy > 0.9
    assert evaluation.coverage > 0.3
