"""`emsco certify` on rows that were known, looked at, or asked of before."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pandas as pd
import pytest
from commands import call, patients, write_csv

from emsco import CascadeClassifier, Costs, StageDesign, dump, load


def test_several_questions_are_asked_at_once(folder, tmp_path):
    """Each has a part of the error; the first that is certified is written."""
    run = shutil.copytree(folder / "run", tmp_path / "run")
    arguments = ("certify", run, folder / "fresh.csv", "--label", "state", "--json", "--accuracy")
    called = call(*arguments, 0.99999, "--accuracy", 0.9, "--out", tmp_path / "model.emsco")
    assert called.code == 1, "one of them is not certified"
    none, one = json.loads(called.out)["certificates"]
    assert (none["certified"], one["certified"]) == (False, True)
    assert "is at most 0.5%" in one["sentence"]
    assert one["sentence"] in call("show", tmp_path / "model.emsco").out
    assert call(*arguments, 0.9).code == 2


def leaving_out(folder, tmp_path):
    """Fit a model that leaves sources unused; give its file and the rows it was fitted on."""
    costs = Costs.from_toml(folder / "costs.toml")
    rows = pd.read_csv(folder / "train.csv")
    design = StageDesign.from_stages([["form"], ["scan"]], costs.names)
    cascade = CascadeClassifier(design=design, costs=costs)
    dump(cascade.fit(rows.drop(columns=["id", "state"]), rows["state"]), tmp_path / "model.emsco")
    return tmp_path / "model.emsco", rows


@pytest.mark.parametrize("dropped", [["id"], ["id", "marker"], ["id", "marker", "visits"]])
def test_training_rows_are_refused_for_a_model_that_leaves_columns_unused(
    folder, tmp_path, dropped
):
    """Nothing was compared where the design left a column out."""
    model, rows = leaving_out(folder, tmp_path)
    path = write_csv(rows.drop(columns=dropped), tmp_path / "rows.csv")
    refused = call("certify", model, path, "--label", "state", "--accuracy", 0.7)
    assert refused.code == 2
    assert "equal a row that the model was fitted on" in refused.err


def test_what_cannot_be_recognised_is_said_in_the_sentence(folder, tmp_path):
    """A model written without hashes of rows knows none of them."""
    model, rows = leaving_out(folder, tmp_path)
    dump(load(model), tmp_path / "bare.emsco", rows=False)
    path = write_csv(rows, tmp_path / "rows.csv")
    asked = ("--label", "state", "--accuracy", 0.7)
    certified = call("certify", tmp_path / "bare.emsco", path, *asked)
    assert certified.code == 0
    assert "It is not known whether the model was fitted on these rows" in certified.out


@pytest.mark.parametrize(
    ("first", "second"),
    [("run", "run/model.emsco"), ("run/model.emsco", "run"), ("run/search.emsco", "run")],
)
def test_a_run_and_its_model_share_what_was_asked(folder, tmp_path, first, second):
    shutil.copytree(folder / "run", tmp_path / "run")
    arguments = (folder / "fresh.csv", "--label", "state", "--accuracy")
    assert call("certify", tmp_path / first, *arguments, 0.99999).code == 1
    assert call("certify", tmp_path / second, *arguments, 0.8).code == 2
    assert (tmp_path / "run/ledger.jsonl").exists()
    assert not (tmp_path / "run/model.emsco.ledger").exists()


def test_a_model_by_itself_has_a_ledger_beside_it(folder, tmp_path):
    model = shutil.copy(folder / "run/model.emsco", tmp_path / "mine.emsco")
    arguments = ("certify", model, folder / "fresh.csv", "--label", "state", "--accuracy")
    assert call(*arguments, 0.99999).code == 1
    assert call(*arguments, 0.8).code == 2
    assert (tmp_path / "mine.emsco.ledger").exists()


def test_a_certified_model_refuses_the_rows_it_was_chosen_on(folder, tmp_path):
    """Its bounds would be those of a cascade that nobody had chosen among others."""
    run = shutil.copytree(folder / "run", tmp_path / "run")
    arguments = (folder / "fresh.csv", "--label", "state", "--accuracy", 0.9)
    out = tmp_path / "certified.emsco"
    assert call("certify", run, *arguments, "--out", out).code == 0
    assert call("certify", out, *arguments).code == 2


def test_a_model_selected_after_a_question_knows_it(folder, tmp_path):
    run = shutil.copytree(folder / "run", tmp_path / "run")
    arguments = (folder / "fresh.csv", "--label", "state", "--accuracy")
    assert call("certify", run, *arguments, 0.99999).code == 1
    call("select", run, "--by", "accuracy", "--out", tmp_path / "selected.emsco")
    assert call("certify", tmp_path / "selected.emsco", *arguments, 0.8).code == 2


def test_a_ledger_beside_the_rows_is_for_every_model(folder, tmp_path):
    """Models selected to other files, and one fitted on other rows, have none of their own."""
    run = shutil.copytree(folder / "run", tmp_path / "run")
    rows = shutil.copy(folder / "fresh.csv", tmp_path / "cal.csv")
    for name in ("accuracy", "coverage", "cost", "other"):
        (tmp_path / name).mkdir()
    for by in ("accuracy", "coverage", "cost"):
        called = call("select", run, "--by", by, "--out", tmp_path / by / "model.emsco")
        assert called.code == 0, called.err
    other = patients(500, 5)
    cascade = CascadeClassifier().fit(other[["marker", "scan", "visits", "age"]], other["state"])
    dump(cascade, tmp_path / "other/model.emsco")
    arguments = ("--label", "state", "--accuracy")
    assert call("certify", run, rows, *arguments, 0.99999).code == 1
    assert (tmp_path / "cal.csv.ledger").exists()
    for model in ("accuracy", "coverage", "cost", "other"):
        refused = call("certify", tmp_path / model / "model.emsco", rows, *arguments, 0.7)
        assert refused.code == 2, model
        assert "already used for a certificate" in refused.err
    changed = pd.read_csv(rows, dtype={"id": str})[1:].drop(columns="town").assign(noise=1.5)
    write_csv(changed, tmp_path / "changed.csv")
    model = tmp_path / "other/model.emsco"
    assert call("certify", model, tmp_path / "changed.csv", *arguments, 0.7).code == 2
    write_csv(patients(2000, 7), tmp_path / "new.csv")
    assert call("certify", model, tmp_path / "new.csv", *arguments, 0.7).code == 0


def test_rows_that_another_model_was_shown_are_known_beside_them(folder, tmp_path):
    run = shutil.copytree(folder / "run", tmp_path / "run")
    rows = shutil.copy(folder / "fresh.csv", tmp_path / "cal.csv")
    assert call("show", run, "--fresh", rows, "--label", "state").code == 0
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    shutil.copy(run / "model.emsco", moved)
    arguments = ("--label", "state", "--accuracy", 0.7, "--json")
    looked = json.loads(call("certify", moved / "model.emsco", rows, *arguments).out)
    assert looked["tried"] == len(load(run / "search.emsco").front_)


@pytest.mark.parametrize("command", ["show", "report"])
def test_rows_that_have_shown_the_front_count_all_of_it(folder, tmp_path, command):
    """A model certified on rows that were looked at counts as chosen among all that was shown."""
    run = shutil.copytree(folder / "run", tmp_path / "run")
    fresh = ("--fresh", folder / "fresh.csv", "--label", "state")
    out = () if command == "show" else ("--out", tmp_path / "report.html")
    assert call(command, run, *fresh, *out).code == 0
    n_front = len(load(run / "search.emsco").front_)
    arguments = (folder / "fresh.csv", "--label", "state", "--accuracy", 0.7, "--json")
    looked = json.loads(call("certify", run / "model.emsco", *arguments).out)
    assert looked["tried"] == n_front
    (run / "ledger.jsonl").unlink()
    (folder / "fresh.csv.ledger").unlink()
    unseen = json.loads(call("certify", run / "model.emsco", *arguments).out)
    assert unseen["tried"] == 1
    assert looked["bounds"]["accuracy"] < unseen["bounds"]["accuracy"]


def test_two_processes_cannot_both_ask(folder, tmp_path):
    """What is asked is written before it is answered, under a lock."""
    run = shutil.copytree(folder / "run", tmp_path / "run")
    command = [sys.executable, "-m", "emsco", "certify", str(run), str(folder / "fresh.csv")]
    asked = [
        subprocess.Popen([*command, "--label", "state", "--accuracy", accuracy])
        for accuracy in ("0.8", "0.81", "0.82")
    ]
    codes = sorted(process.wait(120) for process in asked)
    assert codes == [0, 2, 2]


def test_keys_that_repeat_are_refused(folder, tmp_path):
    run = shutil.copytree(folder / "run", tmp_path / "run")
    rows = pd.concat([patients(1000, 9)] * 2)
    path = write_csv(rows, tmp_path / "twice.csv")
    arguments = ("certify", run, path, "--label", "state", "--accuracy", 0.8)
    refused = call(*arguments, "--keys", "id")
    assert refused.code == 2
    assert "1,000 of 2,000 calibration rows repeat the key" in refused.err
    assert "--groups" in refused.err
    refused = call(*arguments)
    assert "repeat another, value by value" in refused.err
    assert "--allow 'repeated rows=why'" in refused.err
    unclear = call(*arguments, "--allow", "repeated rows")
    assert unclear.code == 2
    assert "--allow takes NAME=WHY" in unclear.err
    answered = call(*arguments, "--allow", "repeated rows=two sensors each")
    assert answered.code in (0, 1), answered.err
    if answered.code == 0:
        assert "This was allowed, because: two sensors each." in " ".join(answered.out.split())


def test_a_ledger_of_another_program_beside_the_rows_is_left_alone(folder, tmp_path):
    run = shutil.copytree(folder / "run", tmp_path / "run")
    rows = write_csv(patients(1000, 21), tmp_path / "rows.csv")
    (tmp_path / "books.ledger").write_text("2026-01-05 * Coffee\n  Expenses  4.00 EUR\n")
    arguments = ("certify", run, rows, "--label", "state", "--accuracy", 0.8)
    assert call(*arguments).code in (0, 1)
    damaged = (tmp_path / "rows.csv.ledger").read_text().replace('"share"', '"chare"')
    (tmp_path / "other.csv.ledger").write_text(damaged)
    refused = call(*arguments)
    assert refused.code == 2
    assert "is damaged" in refused.err
