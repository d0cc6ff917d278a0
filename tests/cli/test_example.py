"""`emsco example` writes what the README goes on with, and never over what is there."""

from __future__ import annotations

import pandas
import pytest
from commands import call

from emsco import Costs
from emsco.datasets import load_cleveland

FILES = {
    "cleveland": {"heart.csv", "heart-costs.toml"},
    "label": {"pages.csv", "past.csv", "model.emsco", "final.py"},
    "loans": {"loans.csv", "loans-fresh.csv", "loans-costs.toml"},
    "savings": {"log.csv", "model.skops", "log-costs.toml"},
}


@pytest.mark.parametrize("name", FILES)
def test_files_are_written_once_and_over_others_only_by_force(name, tmp_path):
    called = call("example", name, "--out", tmp_path)
    assert called.code == 0, called.err
    assert {path.name for path in tmp_path.iterdir()} == FILES[name]
    again = call("example", name, "--out", tmp_path)
    assert again.code == 2
    assert "already exists; choose another name, or use --force" in again.err
    assert call("example", name, "--out", tmp_path, "--force").code == 0


def test_rows_and_prices_are_those_of_the_loader(tmp_path):
    call("example", "cleveland", "--out", tmp_path)
    X, y, costs = load_cleveland()
    written = pandas.read_csv(tmp_path / "heart.csv")
    assert written.disease.tolist() == y.tolist()
    assert written.drop(columns="disease").equals(X)
    assert Costs.from_toml(tmp_path / "heart-costs.toml") == costs


def test_an_unknown_name_and_a_folder_that_is_not_there_are_answered(tmp_path):
    called = call("example", "clevland", "--out", tmp_path)
    assert called.code == 2
    assert "The examples are cleveland, label, loans, savings" in called.err
    assert "did you mean 'cleveland'?" in called.err
    called = call("example", "cleveland", "--out", tmp_path / "none")
    assert called.code == 2
    assert "No such file or directory" in called.err
