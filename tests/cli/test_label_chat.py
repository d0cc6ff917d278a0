"""`label begin --chat`: a chat model is asked at once, and the labels are written."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from chat_server import ChatServer
from commands import call

N_ROWS = 500
SETTINGS = """\
base_url = "{url}"
model = "toy"
prompt = "Is this a complaint? {{text}}"
labels = ["Yes", "No"]
api_key_env = ""
price_in = 0.15
price_out = 0.6
max_spend = {most}
"""
OWN = ("--answers", "cheap", "--trust", "trust", "--agreement", 0.95, "--key", "id")


def table():
    rng = np.random.default_rng(1)
    trust = (1 - rng.random(N_ROWS) ** 3 / 2).round(6)
    truth = np.where(rng.random(N_ROWS) < 0.3, "Yes", "No")
    cheap = np.where(rng.random(N_ROWS) < trust, truth, np.where(truth == "Yes", "No", "Yes"))
    frame = pd.DataFrame({"id": [f"{row:05}" for row in range(N_ROWS)]})
    frame["text"] = [f"Nothing, {row}, works" for row in range(N_ROWS)]
    return frame.assign(cheap=cheap, trust=trust), truth


@pytest.fixture
def server(tmp_path, monkeypatch):
    """Give a server, beside a folder with rows and the file of a chat model."""
    monkeypatch.chdir(tmp_path)
    frame, truth = table()
    frame.to_csv("rows.csv", index=False)
    known = dict(zip(frame["text"], truth, strict=True))
    with ChatServer(lambda q: known.get(q.removeprefix("Is this a complaint? "))).running() as it:
        describe(it)
        yield it


def describe(server, most=1.0, **changed):
    text = SETTINGS.format(url=server.base_url, most=most)
    for name, value in changed.items():
        text = "".join(
            f"{name} = {json.dumps(value)}\n" if line.startswith(f"{name} =") else line
            for line in text.splitlines(keepends=True)
        )
    Path("chat.toml").write_text(text)


def begin(*more, code=0):
    found = call("label", "begin", "rows.csv", *OWN, "--chat", "chat.toml", *more)
    assert found.code == code, found.err
    return found


def test_labels_are_written_at_once(server):
    found = begin()
    labels = pd.read_csv("job/labels.csv", dtype=str)
    assert (labels["label"] == table()[1]).mean() >= 0.95
    assert len(server.bill) < N_ROWS
    spent = server.charged(0.15, 0.6)
    assert f"toy has cost {spent:.4g}." in found.err
    assert Path("answers.sqlite").exists()
    n_asked = len(server.bill)
    begin()  # once more: nothing is asked
    assert len(server.bill) == n_asked


def test_a_limit_ends_it_and_can_be_raised(server):
    """Prices and limits in the file may change; what decides the answers may not."""
    describe(server, most=0.001)
    found = begin(code=2)
    assert "beyond `max_spend`" in found.err
    assert not Path("job/labels.csv").exists()
    describe(server, most=1.0)
    begin()
    assert pd.read_csv("job/labels.csv", dtype=str)["origin"].ne("failed").all()
    describe(server, prompt="Is it? {text}")
    assert "chat.toml has changed since job was begun" in begin(code=2).err


def test_the_model_sees_no_cheap_answer(server):
    describe(server, prompt="{text} {cheap}")
    assert "the rows have no column 'cheap'" in begin(code=2).err
    assert not server.seen


@pytest.mark.parametrize(
    ("changed", "words"),
    [({"labels": ["Yes", "yes"]}, "chat.toml: `labels` has 'Yes' and 'yes'"),
     ({"model": ""}, "chat.toml: `model` must be"), ({"price_in": -1}, "chat.toml: `price_in`")],
)  # fmt: skip
def test_a_file_that_makes_no_sense_is_named(server, changed, words):
    describe(server, **changed)
    assert words in begin(code=2).err


@pytest.mark.parametrize(
    ("text", "words"),
    [("api_key = 'sk-123'", "must not contain `api_key`"), ("model = [sk-123", "not valid TOML"),
     ("modell = 'sk-123'", "did you mean 'model'?"), ("model = 'sk-123'", "must have `base_url`")],
)  # fmt: skip
@pytest.mark.usefixtures("server")
def test_a_key_in_the_file_is_not_shown(text, words):
    Path("chat.toml").write_text(text)
    found = begin(code=2)
    assert words in found.err
    assert "sk-123" not in found.err + found.out


@pytest.mark.usefixtures("server")
def test_one_final_model_is_enough():
    assert "Give one of --final and --chat" in begin("--final", "m:f", code=2).err
    begin()
    assert "calls its final model" in call("label", "next", "job").err


def test_savings_of_a_chat_model_are_told(server):
    """Its answers to the rows of a log are all that is needed."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"easy": rng.normal(size=300), "hard": rng.normal(size=300)}).round(2)
    frame.to_csv("log.csv", index=False)
    Path("costs.toml").write_text("[sources]\neasy = 1\nhard = 50\n")
    server.answer = lambda question: "Yes" if float(question.split()[-2]) > 0 else "No"
    describe(server, prompt="Is it? {easy} {hard}")
    savings = ("savings", "log.csv", "--costs", "costs.toml", "--stages", "logistic")
    found = call(*savings, "--chat", "chat.toml", "--agreement", 0.9, "--n-jobs", 1)
    assert found.code == 0, found.err
    assert "at least 90%" in found.out
    assert len(server.bill) <= 300
    describe(server, prompt="Is it? {text}")
    assert "no column 'text'" in call(*savings, "--chat", "chat.toml").err
