"""`emsco search` with groups, weights of rows and labels, and estimators other than the default."""

from __future__ import annotations

import json
import sys

import numpy as np
import pandas as pd
import pytest
from commands import call
from sklearn.model_selection import StratifiedGroupKFold

from emsco import CascadeSearchCV, InputGuard, load

FEATURES = ("level", "test", "town")
TRUSTED = (
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.tree._tree.Tree",
)
LEARNER = """
from sklearn.naive_bayes import GaussianNB


class Bayes(GaussianNB):
    pass


class Needy(GaussianNB):
    def __init__(self, what):
        self.what = what
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write rows of patients who come four times, with a weight, and prices for their values."""
    folder = tmp_path_factory.mktemp("options")
    rng = np.random.default_rng(0)
    sick = rng.random(150) < 0.4
    person = np.repeat(np.arange(150), 4)
    level = np.repeat(rng.normal(size=150), 4)  # tells who it is
    y = sick[person]
    rows = pd.DataFrame(
        {
            "person": [f"p{number:03}" for number in person],
            "count": rng.integers(1, 4, len(y)),
            "level": level,
            "test": y + rng.normal(size=len(y)),
            "town": np.where(rng.random(len(y)) < 0.5, "Basel", "Chur"),
            "state": np.where(y, "sick", "well"),
        }
    )
    rows.to_csv(folder / "rows.csv", index=False)
    (folder / "costs.toml").write_text("[sources]\nlevel = 1\ntest = 5\ntown = 0\n")
    return folder


def search(folder, out, *more):
    return call(
        "search", folder / "rows.csv", "--label", "state", "--costs", folder / "costs.toml",
        "--cv", 3, "--max-stages", 2, "--quiet", "--force", "--out", out, *more,
    )  # fmt: skip


def searched_in_python(folder, *, groups=None, sample_weight=None, stake=None, **parameters):
    """Search as the command line does; columns are named as its options name them."""
    rows = pd.read_csv(folder / "rows.csv")
    columns = {"groups": groups, "sample_weight": sample_weight, "stake": stake}
    more = {name: rows[column] for name, column in columns.items() if column is not None}
    return CascadeSearchCV(
        costs=folder / "costs.toml",
        cv=3 if groups is None else StratifiedGroupKFold(3),
        max_stages=2,
        guard=InputGuard(pool="auto"),
        random_state=0,
        **parameters,
    ).fit(rows[list(FEATURES)], rows.state, **more)


@pytest.fixture(scope="module")
def plain(folder):
    """Search without any of the options."""
    return searched_in_python(folder)


@pytest.mark.parametrize(
    ("options", "parameters"),
    [
        (("--groups", "person"), {"groups": "person"}),
        (("--sample-weight", "count"), {"sample_weight": "count"}),
        (
            ("--stake", "count", "--sample-weight", "count"),
            {"stake": "count", "sample_weight": "count"},
        ),
        (
            ("--label-weights", "sick=4", "--label-weights=well=1"),
            {"label_weights": {"sick": 4, "well": 1}},
        ),
        (("--label-weights", "balanced"), {"label_weights": "balanced"}),
        (
            ("--groups", "person", "--sample-weight", "count", "--label-weights", "balanced"),
            {"groups": "person", "sample_weight": "count", "label_weights": "balanced"},
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_an_option_reaches_the_search(folder, plain, tmp_path, options, parameters):
    """The front, the choice and every probability are those of the same search in Python."""
    called = search(folder, tmp_path / "run", *options)
    assert called.code == 0, called.err
    found = load(tmp_path / "run" / "search.emsco")
    expected = searched_in_python(folder, **parameters)
    assert list(found.front_) == list(expected.front_)
    assert list(found.front_) != list(plain.front_), "it changes what is found"
    assert found.best_candidate_ == expected.best_candidate_
    X = pd.read_csv(folder / "rows.csv")[list(FEATURES)]
    decided = load(tmp_path / "run" / "model.emsco").decide(X)
    known = expected.best_cascade_.decide(X)
    assert np.array_equal(decided.label, known.label)
    assert np.array_equal(decided.confidence, known.confidence)
    assert np.array_equal(decided.share, known.share)
    # A column of groups or weights is no feature, and nobody is told that it is not used.
    assert found.costs_.names == FEATURES
    unused = called.err.partition("not used")[2].partition("\n")[0]
    for column in ("person", "count"):
        assert (f"'{column}'" in unused) == (column not in options)


def test_fresh_rows_of_a_search_by_stake_need_their_stakes(folder, tmp_path):
    """They are shares of the same thing; and a stake that is missing is refused by row."""
    run = tmp_path / "run"
    called = search(folder, run, "--stake", "count")
    assert called.code == 0, called.err
    fresh = ("--fresh", folder / "rows.csv", "--label", "state")
    shown = call("show", run, *fresh, "--stake", "count")
    assert shown.code == 0, shown.err
    assert "of the stake" in shown.out
    refused = call("show", run, *fresh)
    assert refused.code == 2
    assert "stake" in refused.err
    page = tmp_path / "page.html"
    called = call("report", run, "--out", page, *fresh, "--stake", "count")
    assert called.code == 0, called.err
    rows = pd.read_csv(folder / "rows.csv", dtype=object)
    rows.loc[7, "count"] = ""
    (tmp_path / "costs.toml").write_text((folder / "costs.toml").read_text())
    rows.to_csv(tmp_path / "rows.csv", index=False)
    called = search(tmp_path, tmp_path / "other", "--stake", "count")
    assert called.code == 2
    assert "Row 7 has no stake" in called.err


def test_folds_are_made_of_whole_groups(tmp_path):
    """Forests know persons by their levels, unless all of their rows are held out together."""
    rng = np.random.default_rng(1)
    rows = pd.DataFrame(
        {"person": [f"p{number:02}" for number in range(60)], "level": rng.normal(size=60)}
    )
    rows["state"] = np.where(rng.random(60) < 0.5, "sick", "well")  # which nothing tells
    rows = rows.loc[rows.index.repeat(10)].sample(frac=1, random_state=0)  # in any order
    rows.to_csv(tmp_path / "rows.csv", index=False)
    (tmp_path / "costs.toml").write_text("[sources]\nlevel = 1\n")
    known = []
    for more in ((), ("--groups", "person")):
        called = search(tmp_path, tmp_path / "run", "--estimator", "forest", *more)
        assert called.code == 0, called.err
        found = load(tmp_path / "run" / "search.emsco", trusted=TRUSTED)
        known.append(found.all_sources_.evaluation.accuracy)
    assert known[0] > 0.8
    assert known[1] < 0.6


def test_both_learners_are_searched_and_every_candidate_says_which(folder, tmp_path):
    called = search(folder, tmp_path / "run", "--estimator", "auto", "--json")
    assert called.code == 0, called.err
    found = json.loads(called.out)
    assert found["chosen"]["estimator"] in ("logistic", "boosted")
    assert found["boosted_trees"] is None, "they are in the search itself"
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"search.emsco", "model.emsco"}
    trust = [word for named in TRUSTED for word in ("--trust", named)]
    table = call("show", tmp_path / "run", *trust)
    assert table.code == 0, table.err
    assert " by boosted" in table.out
    assert " by logistic" in table.out


def test_all_sources_by_boosted_trees_are_in_the_data(folder, tmp_path):
    called = search(folder, tmp_path / "run", "--json")
    assert called.code == 0, called.err
    figures = json.loads(called.out)["boosted_trees"]
    assert 0.5 < figures["accuracy"] <= 1
    assert figures["coverage"] == 1


@pytest.mark.parametrize("name", ["boosted", "forest"])
def test_trees_take_text_and_their_files_are_loaded(folder, tmp_path, name):
    called = search(folder, tmp_path / "run", "--estimator", name)
    assert called.code == 0, called.err
    trust = [word for named in TRUSTED for word in ("--trust", named)]
    decided = call("decide", tmp_path / "run", folder / "rows.csv", *trust)
    assert decided.code == 0, decided.err
    assert len(decided.out.splitlines()) == 601


def test_a_class_of_ones_own_is_imported(folder, tmp_path, monkeypatch):
    (tmp_path / "learner_of_mine.py").write_text(LEARNER)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "costs.toml").write_text("[sources]\nlevel = 1\ntest = 5\n")
    command = (
        "search", folder / "rows.csv", "--label", "state", "--costs", tmp_path / "costs.toml",
        "--cv", 3, "--quiet", "--force", "--out", tmp_path / "run", "--estimator",
    )  # fmt: skip
    called = call(*command, "learner_of_mine:Bayes")
    assert called.code == 0, called.err
    named = "learner_of_mine.Bayes"
    assert load(tmp_path / "run" / "model.emsco", trusted=[named]).stages_
    for name, message in (
        ("learner_of_mine:Base", "has no class 'Base'"),
        ("learner_of_mine:Needy", "must be a class that needs no arguments"),
        ("learner_of_nobody:Base", "is its folder in PYTHONPATH?"),
        ("bosted", "takes logistic, boosted, auto, forest or module:Class; got 'bosted'"),
    ):
        called = call(*command, name)
        assert called.code == 2
        assert message in " ".join(called.err.replace("│", " ").split())
    sys.modules.pop("learner_of_mine")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--groups", "persn"), "did you mean 'person'?"),
        (("--groups", "level"), "has a price for 'level', which holds groups or weights"),
        (("--sample-weight", "person"), "in 'person', row 0 is 'p000'"),
        (("--label-weights", "sik=4", "--label-weights", "well=1"), "'sik'"),
        (("--label-weights", "sick"), "takes LABEL=WEIGHT, such as sick=20; got 'sick'"),
    ],
)
def test_wrong_columns_and_labels_are_refused_by_name(folder, tmp_path, more, message):
    called = search(folder, tmp_path / "run", *more)
    assert called.code == 2
    assert message in " ".join(called.err.replace("│", " ").split())
