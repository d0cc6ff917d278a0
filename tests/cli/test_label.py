"""`label`: rows go out in files, answers come back in files, and the promise is kept."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
import skops.io
from commands import COSTS, call, patients, write_csv
from sklearn.linear_model import LogisticRegression

from emsco._utils.progress import watching
from emsco.batch import BatchLabels, batch_labels
from emsco.batch.answers_store import JobStore
from emsco.cli import _label_job

pytestmark = pytest.mark.usefixtures("rows")

EMSCO = [sys.executable, "-m", "emsco"]
N_ROWS = 1000
MANY = ("--rows-per-call", 50)
OWN = ("--answers", "cheap", "--trust", "trust", "--agreement", 0.9)
FINAL = """
import asyncio, csv, os
from pathlib import Path

truth = {one["id"]: one["truth"] for one in csv.DictReader(Path("truth.csv").open())}
known = list(truth.values())  # by row

def answer(rows):
    labels = [known[row] for row in rows.index]
    with open("calls.txt", "a") as file:
        file.write("".join(f"{row}\\n" for row in rows.index))
    return labels

async def later(rows):
    await asyncio.sleep(0)
    return answer(rows)

def failing(rows):
    return [None if row % 2 else known[row] for row in rows.index]

def sloppy(rows):
    return [f"{known[row]} " for row in rows.index]

def by_row(rows):
    return dict(zip(rows.index, answer(rows)))

def nothing(rows):
    return "Yes"

number = 3
"""


def table(seed=0, n_rows=N_ROWS):
    """Make rows with cheap answers that are wrong where they are not trusted."""
    rng = np.random.default_rng(seed)
    trust = 1 - rng.random(n_rows) ** 2 / 2
    truth = np.where(rng.random(n_rows) < 0.3, "Yes", "No")
    wrong = rng.random(n_rows) > trust
    cheap = np.where(wrong, np.where(truth == "Yes", "No", "Yes"), truth)
    frame = pd.DataFrame({"id": [f"{row:05}" for row in range(n_rows)]})
    frame["text"] = [f'a "page", {row}' for row in range(n_rows)]
    frame["size"] = rng.integers(0, 100, n_rows)
    return frame.assign(cheap=cheap, trust=trust.round(6)), truth


@pytest.fixture
def rows(tmp_path, monkeypatch):
    """Give a folder with rows, their truth and final models, in which commands are run."""
    frame, truth = table()
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame[["id"]].assign(truth=truth).to_csv(tmp_path / "truth.csv", index=False)
    name = f"final_{tmp_path.name}".replace("-", "_")  # each its own: modules are imported once
    (tmp_path / f"{name}.py").write_text(FINAL)
    (tmp_path / "final.py").write_text(FINAL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


@pytest.fixture
def module(rows):
    """Give the name of the module of final models."""
    return next(rows.glob("final_*.py")).stem


def truth_of(folder=Path()):
    return dict(pd.read_csv(folder / "truth.csv", dtype=str).itertuples(index=False))


def read(path):
    return pd.read_csv(path, dtype=str, keep_default_na=False)


def answer(number, job="job", key="id", **changed):
    """Answer a file of rows as the truth is; `changed` are other labels, by key."""
    ask, truth = read(Path(job) / f"ask-{number}.csv"), truth_of()
    if key == "row":
        truth = dict(enumerate(truth.values()))
        labels = [truth[int(row)] for row in ask["row"]]
    else:
        labels = [changed.get(key, truth[key]) for key in ask["id"]]
    ask[[key]].assign(label=labels).to_csv(Path(job) / f"answers-{number}.csv", index=False)
    return ask


def done(*arguments):
    called = call("label", *arguments)
    assert called.code == 0, called.err
    return called


def refused(called, *parts):
    assert called.code == 2, called
    for part in parts:
        assert part in called.err, called.err
    assert "Traceback" not in called.err


def begun(*more, job="job"):
    return done("begin", "rows.csv", *OWN, "--key", "id", "--out", job, *more)


def finished():
    """Answer every file until there are labels; give how many files that took."""
    while not Path("job/labels.csv").exists():
        number = len(list(Path("job").glob("ask-*.csv")))
        answer(number)
        done("next", "job")
    return number


def wrong(labels, truth):
    """Count labels that are not the truth; those of the final model are."""
    right = labels["label"] == labels["id"].map(truth)
    assert right[labels["origin"] != "cheap"].all()
    return int((~right).sum())


def test_the_whole_way_with_a_process_for_each_command():
    """What is sent shows neither cheap answer nor trust, in random order, and nothing twice."""

    def run(*arguments):
        command = [*EMSCO, "label", *map(str, arguments)]
        return subprocess.run(command, check=True, capture_output=True, text=True)

    begin = run("begin", "rows.csv", *OWN, "--key", "id", "--price", 0.5, "--out", "job")
    first = answer(1)
    assert f"{len(first)} of 1,000 rows to be answered for {len(first) / 2:g}" in begin.stderr
    run("next", "job")
    second = answer(2)
    last = run("next", "job")
    for ask in (first, second):
        assert ask.columns.tolist() == ["id", "text", "size", "row_code", "label (No / Yes)"]
        assert ask["id"].tolist() != sorted(ask["id"])
    sent = [*first["id"], *second["id"]]
    assert len(set(sent)) == len(sent) < N_ROWS
    given = read("rows.csv").set_index("id")
    assert (given.loc[sent, "text"] == [*first["text"], *second["text"]]).all()
    labels = read("job/labels.csv")
    assert labels.columns.tolist() == ["id", "label", "origin", "cheap", "trust"]
    assert labels["id"].tolist() == given.index.tolist()
    assert labels["cheap"].tolist() == given["cheap"].tolist()
    assert labels["trust"].astype(float).tolist() == given["trust"].astype(float).tolist()
    assert set(labels["id"][labels["origin"] == "checked"]) == set(first["id"])
    assert set(labels["id"][labels["origin"] == "asked"]) == set(second["id"])
    assert wrong(labels, truth_of()) <= 150
    evidence = BatchLabels.load("job/evidence.json")
    assert str(evidence) == last.stdout.rstrip("\n")
    assert (evidence.labels, evidence.index) == (labels["label"].tolist(), labels["id"].tolist())
    assert evidence.calls == {"checks": len(first), "rest": len(second)}
    before = {path.name: path.read_bytes() for path in Path("job").glob("*.[cj]s*")}
    assert run("next", "job").stdout == last.stdout
    assert {name: Path("job", name).read_bytes() for name in before} == before


def test_rows_without_a_key_are_numbered():
    done("begin", "rows.csv", *OWN, "--out", "job")
    ask = answer(1, key="row")
    given = read("rows.csv")
    assert (given["id"][ask["row"].astype(int)].to_numpy() == ask["id"].to_numpy()).all()
    done("next", "job")
    answer(2, key="row")
    done("next", "job")
    labels = read("job/labels.csv")
    assert labels["row"].tolist() == [str(row) for row in range(N_ROWS)]
    assert wrong(labels.assign(id=given["id"]), truth_of()) <= 150


def test_a_cascade_answers_cheaply_with_labels_of_its_own_type(folder):
    """From Parquet; the model has text, and its columns alone decide."""
    frame = patients(1500, 5)
    truth = frame.pop("state")
    frame.to_parquet("rows.parquet", row_group_size=400)
    frame[["id"]].assign(truth=truth).to_csv("truth.csv", index=False)
    done("begin", "rows.parquet", "--model", folder / "run", "--agreement", 0.9, "--key", "id",
         "--out", "job")  # fmt: skip
    assert answer(1).columns.tolist() == [*frame.columns, "row_code", "label (sick / well)"]
    finished()
    labels = read("job/labels.csv")
    assert set(labels["label"]) == {"sick", "well"}
    assert wrong(labels, truth_of()) <= 225
    decided = call("decide", folder / "run", "rows.parquet", "--keep", "id").out
    Path("decided.csv").write_text(decided)
    both = read("decided.csv").merge(labels, on="id", suffixes=("", "_cheap"))
    accepted = both[both["accepted"] == "true"]
    assert (accepted["label"] == accepted["cheap"]).all()


def test_numbers_are_read_as_the_labels_of_the_model():
    """The classes 0 and 1 are written 0 and 1; 1.0 is neither."""
    from emsco import CascadeClassifier, dump

    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(1500, 2)), columns=["a", "b"])
    y = (frame["a"] + frame["b"] / 3 > 0).to_numpy().astype(int)
    dump(CascadeClassifier().fit(frame[["a"]][:500], y[:500]), "model.emsco")
    frame[500:].assign(id=np.arange(500, 1500)).to_csv("rows.csv", index=False)
    pd.DataFrame({"id": np.arange(500, 1500), "truth": y[500:]}).to_csv("truth.csv", index=False)
    done("begin", "rows.csv", "--model", "model.emsco", "--agreement", 0.9, "--key", "id",
         "--max-missed", "1=0.5", "--out", "job")  # fmt: skip
    ask = answer(1)
    key = ask["id"][0]
    answer(1, **{key: "1.0"})
    refused(call("label", "next", "job"), "unknown label '1.0' in line 2")
    finished()
    evidence = BatchLabels.load("job/evidence.json")
    assert set(evidence.labels) == {0, 1}
    assert len(evidence.promises) == 2


def test_a_log_saves_checks_and_known_rows_are_not_sent():
    log, truth = table(seed=7, n_rows=600)
    log["id"] = [f"log-{i}" for i in range(600)]
    log.assign(label=truth).to_csv("log.csv", index=False)
    own = read("rows.csv")
    known = [label if i % 4 == 0 else "" for i, label in enumerate(truth_of().values())]
    own.assign(seen=known).to_csv("rows.csv", index=False)
    begun("--log", "log.csv", "--known", "seen")
    finished()
    for ask in map(read, Path("job").glob("ask-*.csv")):
        assert "seen" not in ask.columns
        assert not set(ask["id"]) & set(own["id"][::4])
    labels = read("job/labels.csv")
    assert (labels["origin"][::4] == "known").all()
    assert wrong(labels, truth_of()) <= 150
    assert "This rests on" in BatchLabels.load("job/evidence.json").sentence


def test_a_promise_by_class_may_need_a_third_file(monkeypatch):
    """Further files are written until the promise follows from what was seen."""
    monkeypatch.setattr("secrets.token_bytes", lambda n: b"5" * n)  # the coins decide how many
    frame, _ = table()
    frame["cheap"] = "No"  # nothing is ever labelled Yes cheaply
    frame.to_csv("rows.csv", index=False)
    begun("--agreement", 0.6, "--max-missed", "No=0.5", "--new-label", "Yes")
    assert finished() >= 2
    assert len(BatchLabels.load("job/evidence.json").promises) == 2


@pytest.mark.nightly
def test_nothing_is_known_at_first():
    """A first part is sent, a cascade is searched on it, and the walk is over the rest."""
    frame = patients(3000, 5)
    truth = frame.pop("state")
    write_csv(frame, Path("rows.csv"))
    Path("costs.toml").write_text(COSTS)
    frame[["id"]].assign(truth=truth).to_csv("truth.csv", index=False)
    cold = ("begin", "rows.csv", "--costs", "costs.toml", "--agreement", 0.9, "--key", "id",
            "--out", "job")  # fmt: skip
    refused(call("label", *cold), "no label is known", "--labels, at least two")
    assert not Path("job").exists()
    done(*cold, "--new-label", "sick", "--new-label", "well")
    first = answer(1)
    assert len(first) == 500
    finished()
    labels = read("job/labels.csv")
    assert wrong(labels, truth_of()) <= 450
    assert (labels["origin"] == "cheap").sum() > 300
    evidence = BatchLabels.load("job/evidence.json")
    assert list(evidence.calls)[:2] == ["first part", "checks"]
    assert evidence.assumptions == ()


def test_a_column_of_text_is_enough():
    """Its words are searched on; other columns are left out, and there is no file of prices."""
    rng = np.random.default_rng(0)
    truth = np.where(rng.random(1500) < 0.4, "spam", "ham")
    own = np.where(truth == "spam", "win a prize", "see you at noon")
    rest = [" ".join(f"w{word}" for word in rng.integers(500, size=5)) for _ in truth]
    body = [f"{a} {b}" if rng.random() < 0.9 else b for a, b in zip(own, rest, strict=True)]
    frame = pd.DataFrame({"id": [f"m{row}" for row in range(1500)], "body": body, "size": 1})
    frame.to_csv("rows.csv", index=False)
    frame[["id"]].assign(truth=truth).to_csv("truth.csv", index=False)
    text = ("begin", "rows.csv", "--text", "body", "--agreement", 0.9, "--key", "id")
    refused(call("label", *text), "no label is known", "--labels, at least two")
    refused(call("label", *text, "--labels", "ham,"), "a label without a name")
    refused(call("label", *text, "--text", "bodie", "--labels", "a,b"), "did you mean 'body'")
    refused(call("label", *text, "--costs", "costs.toml"), "got --costs and --text")
    begun = done(*text, "--labels", "ham, spam")
    assert "not used, because --text does not name them: 'size'" in begun.err
    answer(1)
    finished()
    labels = read("job/labels.csv")
    assert wrong(labels, truth_of()) <= 150
    assert (labels["origin"] == "cheap").sum() > 500


# Answers -----------------------------------------------------------------------------------------


def spoil(change):
    """Change the rows of a whole file of answers, as lists of cells."""
    answer(1)
    path = Path("job/answers-1.csv")
    path.write_text("\n".join(change(path.read_text().splitlines())) + "\n")


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        (lambda lines: lines[:4] + lines[5:], ["no answer to row '"]),
        (lambda lines: lines[:1] + lines[20:], [" and 14 more"]),
        (lambda lines: [*lines, lines[3]], ["more than one answer to row '", "(lines 4, "]),
        (lambda lines: [*lines, "x,Yes"], ["row 'x' in line ", "which was not sent"]),
        (
            lambda lines: [*lines[:5], lines[5].split(",")[0] + ",", *lines[6:]],
            ["no label in line 6"],
        ),
        (lambda lines: [*lines[:5], "", f"{lines[5]} ", *lines[6:]], ["in line 7", "did you mean"]),
        (
            lambda lines: [*lines[:5], lines[5].split(",")[0] + ",yes", *lines[6:]],
            ["unknown label 'yes'; did you mean 'Yes' in line 6", "--new-label", "--failed"],
        ),
        (lambda lines: ["id,answer", *lines[1:]], ["has no column 'label'"]),
        (lambda lines: ["id,label,label", *[f"{one},No" for one in lines[1:]]], ["more than one"]),
        (lambda lines: lines[:1], ["no answer to row"]),
        (lambda lines: [*lines[:3], '"' + lines[3], *lines[4:]], ["line 4", "close the quote"]),
    ],
)  # fmt: skip
def test_a_file_of_answers_is_refused_by_row(change, parts):
    """Nothing is recorded, and a good file is accepted afterwards."""
    begun()
    spoil(change)
    before = sorted(path.name for path in Path("job").iterdir())
    refused(call("label", "next", "job"), "answers-1.csv", *parts)
    assert sorted(path.name for path in Path("job").iterdir()) == before
    answer(1)
    done("next", "job")
    assert Path("job/ask-2.csv").exists()


def test_a_new_label_must_be_declared_and_is_known_from_then_on():
    begun()
    first = answer(1)
    answer(1, **{first["id"][0]: "Perhaps", first["id"][1]: "Perhaps"})
    refused(call("label", "next", "job"), "unknown label 'Perhaps'", "in line 2")
    done("next", "job", "--new-label", "Perhaps")
    second = answer(2)
    answer(2, **{second["id"][0]: "Perhaps"})
    done("next", "job")
    labels = read("job/labels.csv").set_index("id")["label"]
    assert sorted(labels.index[labels == "Perhaps"]) == sorted([*first["id"][:2], second["id"][0]])


def test_rows_without_an_answer_are_declared_by_a_word():
    begun()
    first = answer(1)
    answer(1, **{first["id"][0]: "none"})
    refused(call("label", "next", "job"), "unknown label 'none'", "--failed")
    refused(call("label", "next", "job", "--failed", "Yes"), "--failed 'Yes' is a label")
    done("next", "job", "--failed", "none")
    answer(2)
    done("next", "job")
    labels = read("job/labels.csv").set_index("id")
    assert labels.loc[first["id"][0], ["label", "origin"]].tolist() == ["", "failed"]
    assert (labels["origin"] == "failed").sum() == 1


def test_labels_that_look_alike_are_refused_before_anything_is_sent():
    frame = read("rows.csv")
    frame.loc[3, "cheap"] += " "
    frame.to_csv("rows.csv", index=False)
    called = call("label", "begin", "rows.csv", *OWN, "--out", "job")
    refused(called, "differ only in spaces or capitals", "Write each label in one way")
    assert not Path("job").exists()
    done("begin", "rows.csv", *OWN, "--out", "job", "--new-label", frame.loc[3, "cheap"])


# Refusals ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (["rows.csv"], "Give one of --model, a cheap model, --answers"),
        (["rows.csv", *OWN, "--costs", "c.toml"], "got --answers and --costs"),
        (["rows.csv", "--answers", "cheap"], "--answers needs --trust"),
        (["none.csv", *OWN], "There is no file none.csv"),
        (["rows.csv", *OWN, "--agreement", 0.9999], "It saves calls from 10,000 rows on"),
        (["rows.csv", *OWN, "--agreement", 1.5], "between 0 and 1"),
        (["rows.csv", *OWN, "--max-missed", "yes=0.1"], "--max-missed names 'yes'"),
        (["rows.csv", *OWN, "--key", "nothing"], "has no column 'nothing'"),
        (["rows.csv", *OWN, "--key", "cheap"], "--key cheap: another column"),
        (["rows.csv", *OWN, "--known", "text"], "in 'text' the unknown label"),
        (["rows.csv", *OWN, "--key", "size"], "have the same key"),
        (["rows.csv", *OWN, "--label", "text"], "give another name by --label"),
        (["rows.csv", "--answers", "cheap", "--trust", "text"], "must hold numbers"),
        (["rows.csv", *OWN, "--final", "final"], "--final takes a .skops or .onnx file"),
        (["rows.csv", *OWN, "--final", "final:none"], "has no function 'none'"),
        (["rows.csv", *OWN, "--final", "nowhere:f"], "cannot be imported"),
        (["rows.csv", *OWN, "--final", "final:number"], "must be a function"),
        (["rows.csv", "--model", "none.emsco"], "none.emsco cannot be read"),
    ],
)  # fmt: skip
def test_what_cannot_be_begun_is_one_message(options, part):
    """It may be begun otherwise in the same folder."""
    refused(call("label", "begin", *options, "--out", "job"), part)
    begun()


def test_columns_that_are_to_be_added_must_be_free():
    frame = read("rows.csv")
    frame.assign(row="x").to_csv("rows.csv", index=False)
    called = call("label", "begin", "rows.csv", *OWN, "--out", "job")
    refused(called, "has a column 'row'", "name it by --key")
    frame.assign(label="x").to_csv("rows.csv", index=False)
    refused(call("label", "begin", "rows.csv", *OWN), "has a column 'label'", "--label")


OTHER = {
    "--agreement": 0.8, "--confidence": 0.9, "--key": None, "--price": 2, "--questions": 2,
    "--label": "said", "--max-missed": "Yes=0.2", "--min-precision": "Yes=0.5",
}  # fmt: skip


@pytest.mark.parametrize("flag", OTHER)
def test_another_begin_is_refused_by_name(flag):
    begun()
    options = {"--answers": "cheap", "--trust": "trust", "--agreement": 0.9, "--key": "id"}
    options |= {flag: OTHER[flag]}
    words = [word for name, value in options.items() if value is not None for word in (name, value)]
    called = call("label", "begin", "rows.csv", *words, "--out", "job")
    refused(called, f"job was begun with {flag} ", "begin another job with --out")
    begun()


def test_what_has_changed_since_is_refused_by_name(folder):
    """Rows with their answers and trust, the model, the log."""
    shutil.copy(folder / "run" / "model.emsco", "model.emsco")
    fresh = patients(1500, 5).drop(columns="state")
    write_csv(fresh, Path("patients.csv"))
    model = ("begin", "patients.csv", "--model", "model.emsco", "--agreement", 0.9, "--out", "two")
    done(*model)
    begun()
    with Path("model.emsco").open("ab") as file:
        file.write(b" ")
    for command in (("next", "two"), model):
        refused(call("label", *command), "model.emsco has changed since two was begun")
    Path("model.emsco").unlink()
    refused(call("label", "next", "two"), "model.emsco cannot be read")
    frame = read("rows.csv")
    frame.loc[0, "trust"] = "0.1"
    frame.to_csv("rows.csv", index=False)
    refused(call("label", "next", "job"), "rows.csv has changed since job was begun")


def test_a_folder_that_is_no_job_and_answers_that_are_not_there():
    refused(call("label", "next", "nowhere"), "nowhere is not the folder of a job")
    assert not Path("nowhere").exists()
    begun()
    called = done("next", "job")
    assert "Waiting: job/ask-1.csv, with " in called.err
    assert "Put the answers into job/answers-1.csv, with the columns id and label" in called.err
    Path("job/job.sqlite").write_bytes(b"nothing" * 1000)
    refused(call("label", "next", "job"), "job is damaged")


def test_files_of_another_job_are_not_taken_for_its_own():
    """Of one whose database was deleted: its rows were drawn otherwise."""
    begun()
    Path("job/job.sqlite").unlink()
    called = call("label", "begin", "rows.csv", *OWN, "--key", "id", "--out", "job")
    refused(called, "job/ask-1.csv is there, but not of this job")
    shutil.rmtree("job")
    begun()
    answer(1)
    Path("job/answers-2.csv").write_text("id,label\n")
    refused(call("label", "next", "job"), "job/answers-2.csv is there already", "move it away")
    Path("job/answers-2.csv").unlink()
    done("next", "job")
    answer(2)
    done("next", "job")


def test_a_file_that_somebody_works_on_is_not_written_again():
    begun()
    Path("job/ask-1.csv").write_text("mine")
    begun()
    assert Path("job/ask-1.csv").read_text() == "mine"
    Path("job/ask-1.csv").unlink()
    begun()
    answer(1)
    done("next", "job")


def test_a_job_may_be_moved_with_its_rows():
    begun()
    answer(1)
    Path("elsewhere").mkdir()
    for name in ("job", "rows.csv"):
        shutil.move(name, f"elsewhere/{name}")
    done("next", "elsewhere/job")
    assert Path("elsewhere/job/ask-2.csv").exists()


def test_one_process_works_on_a_job():
    begun()
    answer(1)
    store = JobStore("job")
    try:
        refused(call("label", "next", "job"), "Another process works on the job job")
    finally:
        store.close()
    done("next", "job")


# In one go ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", ["answer", "later", "by_row"])
def test_a_function_is_called_and_progress_tells_calls_and_money(module, function):
    heard = []
    with watching(lambda what, done: heard.append((what, done))):
        called = begun("--final", f"{module}:{function}", "--price", 0.5)
    labels = read("job/labels.csv")
    assert wrong(labels, truth_of()) <= 150
    sent = Path("calls.txt").read_text().split()
    assert len(set(sent)) == len(sent) == (labels["origin"] != "cheap").sum()
    n_checks = int((labels["origin"] == "checked").sum())
    told = [what for what, _ in heard if what.startswith("final model, checks: ")]
    assert told[0] == f"final model, checks: 0 of {n_checks} rows, 0 of {n_checks / 2:g} paid"
    assert told[-1].startswith(f"final model, checks: {n_checks} of {n_checks} rows, ")
    assert f"paid                {len(sent) / 2:g}" in called.out
    again = begun("--final", f"{module}:{function}", "--price", 0.5)
    assert again.out == called.out
    assert len(Path("calls.txt").read_text().split()) == len(sent), "nothing is paid again"
    refused(call("label", "next", "job"), "repeat `emsco label begin` to go on")


def test_a_model_in_a_file_is_called(folder):
    frame = patients(1500, 5).drop(columns="state")
    known = patients(600, 0)
    fitted = LogisticRegression().fit(known[["scan"]], known["state"].to_numpy(dtype=str))
    skops.io.dump(fitted, "final.skops")
    write_csv(frame, Path("rows.csv"))
    done("begin", "rows.csv", "--model", folder / "run", "--agreement", 0.9, "--final",
         "final.skops", "--out", "job")  # fmt: skip
    labels = read("job/labels.csv")
    said = fitted.predict(frame[["scan"]])
    is_sent = (labels["origin"] != "cheap").to_numpy()
    assert (labels["label"][is_sent] == said[is_sent]).all()
    assert (labels["label"] != said).sum() <= 225


def test_types_of_a_model_are_trusted_by_an_option_of_another_name():
    """Here, --trust is a column."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    frame, truth = table()
    skops.io.dump(HistGradientBoostingClassifier(max_iter=3).fit(frame[["size"]], truth), "f.skops")
    called = call("label", "begin", "rows.csv", *OWN, "--final", "f.skops", "--out", "job")
    refused(called, "pass `--trust-type ")
    types = skops.io.get_untrusted_types(file="f.skops")
    words = [word for name in types for word in ("--trust-type", name)]
    done("begin", "rows.csv", *OWN, "--final", "f.skops", *words, "--out", "job2")


def test_what_a_function_cannot_answer_is_refused_or_failed(module):
    """An unknown label ends the command, and is answered again after it was declared."""
    sloppy = ("begin", "rows.csv", *OWN, "--final", f"{module}:sloppy", *MANY, "--out", "job")
    refused(
        call("label", *sloppy), "The final model answered with an unknown label", "did you mean"
    )
    done(*sloppy, "--new-label", "Yes ", "--new-label", "No ")
    nothing = ("begin", "rows.csv", *OWN, "--final", f"{module}:nothing", *MANY, "--out", "none")
    refused(call("label", *nothing), "must return a label for each row")
    called = done("begin", "rows.csv", *OWN, "--final", f"{module}:failing", *MANY,
                  "--out", "failing")  # fmt: skip
    labels = read("failing/labels.csv")
    failed = labels["origin"] == "failed"
    assert f"{int(failed.sum()):,} rows have no label" in called.out
    assert (labels["label"][failed] == "").all()


# Kills -------------------------------------------------------------------------------------------


def killed(command, after):
    """Kill a command after so many seconds; give whether it was still running."""
    process = subprocess.Popen(
        [*EMSCO, "label", *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    time.sleep(after)
    was_running = process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return was_running


def how_long(command, job):
    """Measure a command on a copy of the job."""
    shutil.copytree(job, "copy") if Path(job).exists() else None
    start = time.monotonic()
    words = ["copy" if word == job else word for word in map(str, command)]
    subprocess.run([*EMSCO, "label", *words], check=True, capture_output=True)
    shutil.rmtree("copy")
    return time.monotonic() - start


class Ended(BaseException):
    """What stands for the end of a process."""


STEPS = {
    "open": JobStore, "fixed": JobStore, "set_note": JobStore, "record": JobStore,
    "_write": _label_job, "write_whole": batch_labels,
}  # fmt: skip


def ended_at(monkeypatch, step, *, before, command):
    """Run a command that ends before or after one of its steps; give whether it had that many."""
    count = 0

    def ending(real):
        def run(*args, **kwargs):
            nonlocal count
            count += 1
            if count == step and before:
                raise Ended
            found = real(*args, **kwargs)
            if count == step:
                raise Ended
            return found

        return run

    with monkeypatch.context() as patch:
        for name, place in STEPS.items():
            patch.setattr(place, name, ending(getattr(place, name)))
        try:
            done(*command)
        except Ended:
            return True
    return False


@pytest.mark.parametrize("before", [True, False])
def test_a_command_that_ends_at_any_step_is_repeated(monkeypatch, before):
    """Before or after each time that it writes something; the labels are the same."""
    begin = ("begin", "rows.csv", *OWN, "--key", "id", "--out", "job")
    n_steps = 0
    for command, number in ((begin, 0), (("next", "job"), 1), (("next", "job"), 2)):
        if number:
            answer(number)
        if number == 1:
            shutil.copytree("job", "unharmed")
        step = 1
        while ended_at(monkeypatch, step, before=before, command=command):
            step += 1
        n_steps += step - 1
        done(*command)
    assert n_steps >= 10
    assert_unharmed()


def assert_unharmed():
    """Compare a job with one in which nothing was killed."""
    done("next", "unharmed")
    answer(2, "unharmed")
    done("next", "unharmed")
    for name in ("ask-1.csv", "ask-2.csv", "labels.csv", "evidence.json"):
        assert Path("job", name).read_bytes() == Path("unharmed", name).read_bytes(), name
    assert not [path for path in Path("job").iterdir() if path.name.startswith(".")], "drafts"


@pytest.mark.nightly
def test_killed_commands_are_repeated():
    """Each at random moments, mostly late, where files are written; the labels are the same."""
    n_kills, rng = 20, random.Random(0)
    begin = ("begin", "rows.csv", *OWN, "--key", "id", "--out", "job")
    n_killed = 0
    for command, number in ((begin, 0), (("next", "job"), 1), (("next", "job"), 2)):
        if number:
            answer(number)
        if number == 1:
            shutil.copytree("job", "unharmed")
        seconds = how_long(command, "job")
        for _ in range(n_kills):
            n_killed += killed(command, seconds * rng.triangular(0, 1, 0.9))
        done(*command)
    assert n_killed >= n_kills, "too few were killed while they ran"
    assert_unharmed()


@pytest.mark.nightly
def test_a_killed_command_pays_for_no_answer_again():
    """With --final: what had come is not asked again, what was in flight is counted."""
    rng, concurrency = random.Random(0), 4
    begin = ("begin", "rows.csv", *OWN, "--final", "final:answer", "--concurrency", concurrency,
             "--out", "job")  # fmt: skip
    seconds = how_long(begin, "job")
    os.remove("calls.txt")
    n_killed = sum(killed(begin, seconds * rng.uniform(0.3, 1)) for _ in range(20))
    done(*begin)
    sent = Path("calls.txt").read_text().split()
    evidence = json.loads(Path("job/evidence.json").read_text())["batch"]
    again = len(sent) - len(set(sent))
    assert again <= evidence["lost"] <= concurrency * n_killed
    assert len(set(sent)) == sum(evidence["calls"].values())


# What the library promises to commands between which people answer -------------------------------


def test_cells_that_csv_cannot_show_are_refused():
    frame, _ = table(n_rows=200)
    columns = {name: pa.array(frame[name]) for name in frame}
    columns["vector"] = pa.array([[1.0, 2.0]] * 200)
    pa.parquet.write_table(pa.table(columns), "rows.parquet")
    called = call("label", "begin", "rows.parquet", *OWN, "--out", "job")
    refused(called, "Column 'vector' holds list<", "which CSV cannot show")
    columns["vector"] = pa.array(["x, y", None] * 100).dictionary_encode()
    pa.parquet.write_table(pa.table(columns), "rows.parquet")
    done("begin", "rows.parquet", *OWN, "--out", "job")
    assert set(read("job/ask-1.csv")["vector"]) == {"x, y", ""}


def test_cells_with_line_breaks_come_back():
    frame = read("rows.csv")
    frame["text"] = "first\nsecond"
    frame.to_csv("rows.csv", index=False)
    refused(call("label", "begin", "rows.csv", *OWN, "--out", "job"), "--newlines-in-cells")
    begun("--newlines-in-cells")
    ask = answer(1)
    assert set(ask["text"]) == {"first\nsecond"}
    labels = read("job/answers-1.csv")
    ask.assign(label=labels["label"]).to_csv("job/answers-1.csv", index=False)
    broken = ask.assign(label=labels["label"])
    broken.loc[1, "label"] = "yes"
    broken.to_csv("job/answers-1.csv", index=False)
    refused(call("label", "next", "job"), "in line 4")
    ask.assign(label=labels["label"]).to_csv("job/answers-1.csv", index=False)
    done("next", "job")
