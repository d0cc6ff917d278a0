"""`emsco certify`: what was chosen stands beside what is certified, and is replaced aloud."""

from __future__ import annotations

import json
import re
import shutil

import pytest
from commands import call

from emsco import dump, load
from emsco.certify import Targets


@pytest.fixture
def run(folder, tmp_path):
    return shutil.copytree(folder / "run", tmp_path / "run")


def choose(run, **bounds):
    """Choose anew in a run."""
    search = load(run / "search.emsco").choose(**bounds)
    dump(search, run / "search.emsco")
    return search


def certify(run, folder, *options):
    return call("certify", run, folder / "fresh.csv", "--label", "state", *options)


def test_what_was_chosen_is_taken_where_it_is_certified(run, folder, tmp_path):
    search = choose(run, min_coverage=0.8, by="accuracy")
    out = tmp_path / "model.emsco"
    called = certify(run, folder, "--accuracy", 0.8, "--out", out)
    assert called.code == 0, called.err
    assert f"Chosen: {search.best_candidate_.design} at threshold" in called.out
    assert "It is certified; on the calibration rows:" in called.out
    assert "It replaces the chosen candidate" not in called.out
    assert load(out).stages_ == search.best_candidate_.design.stages
    assert load(out).certificate_.chosen.tested


def test_a_choice_that_is_replaced_is_named_with_both_coverages(run, folder):
    search = choose(run, min_coverage=0.8, by="coverage")
    chosen = search.best_candidate_
    assert not Targets(accuracy=0.95).met_by(chosen.evaluation)
    called = certify(run, folder, "--accuracy", 0.95)
    assert called.code == 0, called.err
    assert "It was not tested: " in called.out
    told = re.search(
        r"It replaces the chosen candidate: .* accepts ([\d.]+)% of the calibration rows; "
        r".*, the chosen one, accepts ([\d.]+)% of the rows it was selected on",
        called.out,
    )
    assert float(told[2]) == pytest.approx(100 * chosen.evaluation.coverage, abs=0.06)
    assert float(told[1]) >= 80, "the floor that the choice was asked for"
    told = "Candidates were left out unless their selected figures show: coverage >= 0.8."
    assert told in called.out


def test_the_cheapest_is_taken_where_it_is_asked_for(run, folder):
    choose(run, min_coverage=0.8, by="accuracy")
    called = certify(run, folder, "--accuracy", 0.8, "--take", "cost", "--json")
    data = json.loads(called.out)
    assert data["choice"]["certified"]
    assert data["replaces_choice"]
    assert data["chosen"]["cost"] <= data["choice"]["cost"]
    assert data["fresh"]["coverage"] >= 0.8


def test_only_bounds_asked_for_are_told(run, folder):
    called = certify(
        run, folder, "--max-rejected", "sick=0.6", "--min-precision", "sick=0.7", "--json"
    )
    assert called.code == 0, called.err
    data = json.loads(called.out)
    assert data["bounds"].keys() == {"rejected", "precision"}
    assert data["bounds"]["rejected"]["sick"] < 0.6
    assert data["bounds"]["precision"]["sick"] > 0.7
    assert "rejects more than 60% of class 'sick'" in data["sentence"]
    assert data["filters"] == ["coverage >= 0.5 (the default; min_coverage=0 removes it)"]
    again = certify(run, folder, "--max-rejected", "sick=0.6", "--min-precision", "sick=0.7").out
    assert "it rejects at most " in again
    assert "(the default; --min-coverage 0 removes it)" in again
    assert "costs at most" not in again
    assert "under another label" not in again


def test_shares_of_labels_that_are_none_are_refused_by_the_flag(run, folder):
    refused = certify(run, folder, "--max-rejected", "sik=0.6")
    assert refused.code == 2
    assert "--max-rejected names 'sik'" in refused.err
    assert "did you mean 'sick'?" in refused.err
    assert certify(run, folder, "--min-precision", "sick").code == 2


def test_another_choice_on_the_same_rows_is_refused(run, folder):
    choose(run, by="accuracy")
    assert certify(run, folder, "--accuracy", 0.8).code == 0
    assert certify(run, folder, "--accuracy", 0.8).code == 0, "the same question is free"
    choose(run, by="coverage")
    refused = certify(run, folder, "--accuracy", 0.8)
    assert refused.code == 2
    assert "already used for a certificate" in refused.err


def test_one_model_has_nothing_beside_it(run, folder):
    called = certify(run / "model.emsco", folder, "--accuracy", 0.8)
    assert called.code == 0
    assert "Chosen: " not in called.out
    assert "Left out" not in called.out
