"""`savings`: a log and a model, or what it answered, and what stages before it would have saved."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import skops.io
from commands import call, patients, write_csv
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from emsco import CascadeSearchCV, Costs, Source, dump, load
from emsco.cli._labelled_frame import read_features
from emsco.cli._table_file import open_rows
from emsco.final import LoggedAnswers

COSTS_OF = Costs(
    [
        Source("form", features=("age", "smoker", "town"), cost=1),
        Source("visits", cost=2),
        Source("marker", cost=12),
        Source("scan", cost=100),
    ]
)
NAMES = ["visits", "marker", "scan", "age", "smoker", "town"]  # not in the order of the file


@pytest.fixture(scope="module")
def model(folder, tmp_path_factory):
    """Make a model that knows text and numbers, and is kept by skops."""
    X = read_features(open_rows(folder / "train.csv"), NAMES)
    encoded = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["town"]), remainder=SimpleImputer()
    )
    fitted = make_pipeline(encoded, LogisticRegression(max_iter=1000))
    fitted.fit(X, patients(600, 0)["state"].to_numpy())
    path = tmp_path_factory.mktemp("savings") / "model.skops"
    skops.io.dump(fitted, path)
    return path, fitted


@pytest.fixture(scope="module")
def trust(model):
    """Name the types that skops asks for: each version of scikit-learn has others."""
    types = skops.io.get_untrusted_types(file=model[0])
    assert types
    return [word for name in types for word in ("--trust", name)]


@pytest.fixture(scope="module")
def logged(folder, model):
    """Make a log that has the model's answers beside the rows."""
    _, fitted = model
    answers = fitted.predict(read_features(open_rows(folder / "fresh.csv"), NAMES))
    path = folder / "logged.csv"
    return write_csv(patients(2000, 1).assign(verdict=answers), path), answers


def few_rows(log, tmp_path):
    path = tmp_path / "few.csv"
    path.write_text("\n".join(log.read_text().splitlines()[:401]) + "\n")
    return path


def ask(folder, log, *arguments, code=0):
    called = call("savings", log, "--costs", folder / "costs.toml", "--quiet", *arguments)
    assert called.code == code, called.err
    return called


def test_a_model_or_its_answers_give_the_same_savings(folder, model, trust, logged):
    log, _ = logged
    asked = ("--stages", "logistic", "--agreement", 0.9, "--max-stages", 2, "--json")
    by_model = json.loads(ask(folder, log, "--model", model[0], *trust, *asked).out)
    by_answers = json.loads(ask(folder, log, "--answers", "verdict", *asked).out)
    (saving,), (same,) = by_model["savings"], by_answers["savings"]
    assert saving["certified"]
    assert saving["cost"] < 0.9 * by_model["total_cost"]
    assert (by_model["rows_searched"], by_model["rows_certified_on"]) == (1000, 1000)
    assert (saving["changed"], saving["cost"]) == (same["changed"], same["cost"])


def test_the_ladder_or_the_front_is_asked_for_and_told(folder, logged, tmp_path):
    log, _ = logged
    asked = ("--answers", "verdict", "--stages", "logistic", "--agreement", 0.9, "--json")
    for way in ("ladder", "front"):
        model = tmp_path / f"{way}.emsco"
        told = ask(folder, log, *asked, "--way", way, "--out", model).out
        (saving,) = json.loads(told)["savings"]
        assert (saving["by"], saving["certified"]) == (way, True)
        assert load(model).certificate_.way == way
    refused = call("certify", model, log, "--agreement", 0.9, "--way", "ladder")
    assert refused.code == 2
    assert "`--way ladder` needs a search" in refused.err


def test_stages_may_be_boosted_trees(folder, logged, tmp_path):
    """Trees take text and empty cells too."""
    asked = ("--agreement", 0.8, "--max-stages", 2, "--n-jobs", 1, "--json")
    told = json.loads(
        ask(folder, few_rows(logged[0], tmp_path), "--answers", "verdict", *asked).out
    )
    (saving,) = told["savings"]
    assert saving["certified"]
    assert saving["cost"] < 0.9 * told["total_cost"]


def test_what_is_written_decides_as_was_told(folder, logged, tmp_path):
    log, answers = logged
    called = ask(
        folder, log, "--answers", "verdict", "--stages", "logistic", "--agreement", 0.9,
        "--agreement", 0.95, "--out", tmp_path / "m.emsco", "--changed", tmp_path / "changed.csv",
    )  # fmt: skip
    assert "Your model costs 115 EUR per row for all 4 sources" in called.out
    assert "at least 90%" in called.out
    assert "| your model;" in called.out
    changed = pd.read_csv(tmp_path / "changed.csv")
    np.testing.assert_array_equal(changed.before, answers[changed.row])
    assert (changed.before != changed.after).all()
    decided = call("decide", tmp_path / "m.emsco", log)
    (tmp_path / "decided.csv").write_text(decided.out)
    decisions = pd.read_csv(tmp_path / "decided.csv")
    assert decisions.accepted.all()
    differ = decisions.row[decisions.label.to_numpy() != answers]
    assert set(changed.row) <= set(differ)
    assert len(differ) <= 0.05 * len(answers)


def test_agreement_is_certified_without_labels(folder, logged, tmp_path):
    write_csv(patients(2000, 2).assign(verdict="well"), tmp_path / "other.csv")
    log, _ = logged
    model = tmp_path / "m.emsco"
    ask(
        folder, log, "--answers", "verdict", "--stages", "logistic", "--agreement", 0.9,
        "--max-stages", 2, "--out", model,
    )  # fmt: skip
    refused = call("certify", model, log, "--agreement", 0.9)
    assert refused.code == 2
    assert "emsco: " in refused.err, "these rows are known to it"
    none = call("certify", model, tmp_path / "other.csv", "--agreement", 0.9)
    assert none.code == 1
    assert "Not certified" in none.out
    assert call("certify", model, log, "--accuracy", 0.9).code == 2


@pytest.mark.parametrize("final", ["model", "answers"])
def test_a_search_for_agreement_takes_no_label(folder, model, trust, final, tmp_path):
    """Neither to show nor to report nor to certify; the column of logged answers is no label."""
    run, fresh = tmp_path / "run.emsco", tmp_path / "fresh.csv"
    rows, (_, fitted) = read_features(open_rows(folder / "train.csv"), NAMES), model
    answers = fitted.predict(rows)
    asked = {"target": "agreement", "threshold": 0.8, "max_stages": 2, "costs": COSTS_OF}
    if final == "model":
        search, trusted = CascadeSearchCV(final=fitted, **asked).fit(rows), trust
    else:
        search = CascadeSearchCV(final=LoggedAnswers("verdict"), **asked)
        search, trusted = search.fit(rows.assign(verdict=answers)), ()
    for candidate in [*search.front_, search.all_sources_]:
        search.cascade(candidate)  # so that the file keeps its stages
    dump(search, run)
    unseen = patients(1500, 3)
    fresh = write_csv(unseen, fresh)
    unseen["verdict"] = fitted.predict(read_features(open_rows(fresh), NAMES))
    write_csv(unseen, fresh)
    shown = json.loads(call("show", run, "--fresh", fresh, "--json", *trusted).out)
    expected = search.score_front(
        read_features(open_rows(fresh), NAMES).assign(verdict=unseen["verdict"])
    )
    told = [candidate["fresh"]["accuracy"] for candidate in shown["candidates"]]
    assert told == [scored.fresh.accuracy for scored in expected]
    page = tmp_path / "report.html"
    written = call("report", run, "--out", page, "--fresh", fresh, *trusted)
    assert written.code == 0, written.err
    assert '"fresh_rows":1500' in page.read_text()
    for command in (
        ("show", run, "--fresh", fresh),
        ("report", run, "--out", tmp_path / "none.html", "--fresh", fresh),
        ("certify", run, fresh, "--agreement", 0.9),
        ("certify", run, fresh, "--accuracy", 0.9),
    ):
        refused = call(*command, "--label", "state", *trusted)
        assert refused.code == 2
        assert "takes no --label" in refused.err
    without = call("certify", run, fresh, "--accuracy", 0.9, *trusted)
    assert without.code == 2
    assert "certify --agreement" in without.err
    assert call("certify", run, fresh, "--agreement", 0.9, *trusted).code == 0
    alone = call("show", run, "--label", "state", *trusted)
    assert alone.code == 2


def test_a_model_is_trusted_by_name(folder, model, trust, logged):
    refused = ask(folder, logged[0], "--model", model[0], code=2)
    assert "pass `--trust " in refused.err
    assert all(name in refused.err for name in trust[1::2])


def test_too_few_rows_are_told_with_how_many_would_do(folder, logged, tmp_path):
    few = few_rows(logged[0], tmp_path)
    called = ask(folder, few, "--answers", "verdict", "--stages", "logistic", "--agreement", 0.999)
    assert "Not certified" in called.out
    assert "too few" in called.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Give either --model, a file, or --answers"),
        (("--model", "none.skops"), "none.skops cannot be read"),
        (("--answers", "verdit"), "has no column 'verdit'; did you mean 'verdict'?"),
        (("--answers", "age"), "has a price for 'age', which is the label"),
    ],
)
def test_what_cannot_be_is_one_message(folder, logged, arguments, message):
    called = ask(folder, logged[0], *arguments, code=2)
    assert message in called.err
    assert "Traceback" not in called.err


def test_a_model_and_prices_must_name_the_same_columns(model, trust, logged, tmp_path):
    costs = tmp_path / "costs.toml"
    costs.write_text("[sources]\nage = 1\nmarker = 5\n")
    called = call("savings", logged[0], "--costs", costs, "--model", model[0], *trust, "--quiet")
    assert called.code == 2
    assert "must name the same columns" in called.err
    assert "'scan'" in called.err
