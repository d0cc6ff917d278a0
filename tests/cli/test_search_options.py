"""`emsco search` with groups, weights and other estimators than the default."""

from __future__ import annotations

import json
import sys

import numpy as np
import pandas as pd
import pytest
from commands import call

from emsco import CascadeSearchCV, load

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


def test_rows_of_a_group_are_in_one_fold_and_groups_are_no_feature(folder, tmp_path):
    called = search(folder, tmp_path / "run", "--groups", "person", "--estimator", "forest")
    assert called.code == 0, called.err
    assert "not used" in called.err
    assert "'person'" not in called.err.partition("not used")[2].partition("\n")[0]
    grouped = load(tmp_path / "run" / "search.emsco", trusted=TRUSTED)
    assert grouped.costs_.names == ("level", "test", "town")
    called = search(folder, tmp_path / "alone", "--estimator", "forest")
    alone = load(tmp_path / "alone" / "search.emsco", trusted=TRUSTED)
    # A forest knows persons by their level, unless all of their rows are held out together.
    known = [one.all_sources_.evaluation.accuracy for one in (alone, grouped)]
    assert known[0] > known[1] + 0.1


def test_weights_are_used_in_fits(folder, tmp_path):
    called = search(folder, tmp_path / "run", "--sample-weight", "count")
    assert called.code == 0, called.err
    rows = pd.read_csv(folder / "rows.csv")
    X, y = rows[["level", "test", "town"]], rows.state
    cascade = load(tmp_path / "run" / "model.emsco")
    weighted = CascadeSearchCV(
        costs={"level": 1, "test": 5, "town": 0}, cv=3, max_stages=2, random_state=0
    ).fit(X, y, sample_weight=rows["count"].to_numpy(float))
    weighted.choose(next(c for c in weighted.front_ if c.design == cascade.design_))
    expected = weighted.best_cascade_.decide(X)
    assert np.allclose(cascade.decide(X).confidence, expected.confidence)


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
    ],
)
def test_wrong_columns_are_refused_by_name(folder, tmp_path, more, message):
    called = search(folder, tmp_path / "run", *more)
    assert called.code == 2
    assert message in called.err
