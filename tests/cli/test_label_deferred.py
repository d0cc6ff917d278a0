"""`label --chat --deferred`: batch files go to a provider, and its results come back in files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from batch_provider import run_batch
from chat_server import ChatServer
from commands import call

from emsco.chat.chat_file import read_chat_file

SETTINGS = """\
base_url = "https://provider.example/v1"
model = "toy"
prompt = "Is this a complaint? {text}"
labels = ["Yes", "No"]
price_in = 0.15
price_out = 0.6
max_spend = 5
"""
OWN = ("--answers", "cheap", "--trust", "trust", "--agreement", 0.95, "--key", "id")


def table(n_rows):
    rng = np.random.default_rng(1)
    trust = (1 - rng.random(n_rows) ** 2 / 2).round(6)
    truth = np.where(rng.random(n_rows) < 0.3, "Yes", "No")
    cheap = np.where(rng.random(n_rows) < trust, truth, np.where(truth == "Yes", "No", "Yes"))
    frame = pd.DataFrame({"id": [f"{row:05}" for row in range(n_rows)]})
    frame["text"] = [f"Nothing, {row}, works" for row in range(n_rows)]
    return frame.assign(cheap=cheap, trust=trust), truth


@pytest.fixture
def provider(tmp_path, monkeypatch):
    """Give what answers, beside a folder with rows and the file of a chat model."""
    monkeypatch.chdir(tmp_path)
    return prepare(400)


def prepare(n_rows):
    frame, truth = table(n_rows)
    frame.to_csv("rows.csv", index=False)
    Path("chat.toml").write_text(SETTINGS)
    known = dict(zip(frame["text"], truth, strict=True))
    return ChatServer(lambda q: known[q.removeprefix("Is this a complaint? ")])


def begin(*more, code=0):
    found = call("label", "begin", "rows.csv", *OWN, "--chat", "chat.toml", "--deferred", *more)
    assert found.code == code, found.err
    return found


def next_(code=0):
    found = call("label", "next", "job")
    assert found.code == code, found.err
    return found


def files(number):
    return Path(f"job/ask-{number}.jsonl"), Path(f"job/answers-{number}.jsonl")


def go_on(provider, *, share=0.0, most=30):
    """Let the provider work until the labels are there; return how many files and errors."""
    errors = {}
    for number in range(1, most):
        if Path("job/labels.csv").exists():
            return number - 1, errors
        for kind, n in run_batch(provider, *files(number), share=share, seed=number).items():
            errors[kind] = errors.get(kind, 0) + n
        next_()
    raise AssertionError("It has no end.")


def check(provider, n_rows, errors):
    """Check labels, the promise, and the money."""
    _, truth = table(n_rows)
    labels = pd.read_csv("job/labels.csv", dtype=str, keep_default_na=False)
    assert (labels["label"] == truth).mean() >= 0.95
    sent = labels["origin"].isin(["checked", "asked"])
    assert (labels["label"] == truth)[sent].all()
    assert (labels["origin"] == "failed").sum() == errors.get("400", 0)
    assert len(provider.bill) == sent.sum() < n_rows
    spending = read_chat_file("chat.toml").spending()
    assert spending.known == pytest.approx(provider.charged(0.15, 0.6), abs=1e-9)
    # What had no line, and answers without a body, may have been charged.
    assert spending.n_unknown == sum(errors.get(kind, 0) for kind in ("500", "missing", "no body"))


@pytest.mark.parametrize(
    ("n_rows", "share"),
    [(400, 0.1), pytest.param(5_000, 0.03, marks=pytest.mark.nightly)],
)
def test_failed_requests_are_made_again_until_the_promise_holds(
    n_rows, share, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    provider = prepare(n_rows)
    assert "ask-1.jsonl" in begin().err
    n_files, errors = go_on(provider, share=share)
    assert n_files > 2
    assert len(errors) >= 3
    check(provider, n_rows, errors)


def test_without_errors_there_is_a_file_a_round(provider):
    begin()
    assert go_on(provider)[0] <= 3
    check(provider, 400, {})


def test_waiting_writes_nothing(provider):
    begin()
    before = files(1)[0].read_bytes()
    for again in (begin, next_):
        assert "Waiting" in again().err
    assert files(1)[0].read_bytes() == before
    assert sorted(path.name for path in Path("job").iterdir()) == ["ask-1.jsonl", "job.sqlite"]
    run_batch(provider, *files(1))
    next_()
    assert begin().err  # the first command may be repeated at any time


@pytest.mark.parametrize(
    ("spoil", "words"),
    [(lambda lines: [*lines[:-1], lines[-1][:50]], "is not JSON"),
     (lambda lines: [*lines, lines[0]], "is the second one for its request"),
     (lambda lines: [lines[0].replace('"custom_id": "', '"custom_id": "0'), *lines[1:]],
      "line 1 is for a request that was not made"),
     (lambda lines: ["[]", *lines], "line 1 is not JSON")],
)  # fmt: skip
def test_a_result_that_is_not_of_this_batch_is_refused_whole(provider, spoil, words):
    begin()
    run_batch(provider, *files(1))
    lines = files(1)[1].read_text().splitlines()
    files(1)[1].write_text("\n".join(spoil(lines)))
    found = next_(code=2)
    assert words in found.err
    assert read_chat_file("chat.toml").spending().known == 0
    files(1)[1].write_text("\n".join(lines))
    next_()
    assert read_chat_file("chat.toml").spending().known > 0


def test_no_file_may_cost_more_than_is_allowed(provider):
    Path("chat.toml").write_text(SETTINGS.replace("max_spend = 5", "max_spend = 0.0001"))
    assert "beyond `max_spend`" in begin(code=2).err
    assert not files(1)[0].exists()
    assert not provider.bill
    Path("chat.toml").write_text(SETTINGS)
    begin()
    assert files(1)[0].exists()


@pytest.mark.usefixtures("provider")
def test_an_option_that_the_provider_refuses_is_left_out_of_the_next_file():
    begin()
    requests = [json.loads(line) for line in files(1)[0].read_text().splitlines()]
    error = {"error": {"message": "response_format is not supported", "param": "response_format"}}
    files(1)[1].write_text("\n".join(
        json.dumps({"custom_id": one["custom_id"], "error": None,
                    "response": {"status_code": 400, "body": error}})
        for one in requests
    ))  # fmt: skip
    assert "to be asked again" in next_().err
    again = [json.loads(line)["body"] for line in files(2)[0].read_text().splitlines()]
    assert len(again) == len(requests)
    assert not any("response_format" in body for body in again)


@pytest.mark.usefixtures("provider")
def test_deferred_needs_a_chat_model():
    found = call("label", "begin", "rows.csv", *OWN, "--deferred")
    assert "--deferred needs --chat" in found.err
