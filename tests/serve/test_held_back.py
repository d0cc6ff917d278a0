"""A decision with an id is logged only after its answer is stored."""

from __future__ import annotations

import json

import pytest
from served import QUICK, Store, served


def entries(folder):
    return [
        json.loads(line)
        for path in folder.glob("decisions-*.jsonl")
        for line in path.read_text().splitlines()
    ]


@pytest.fixture(autouse=True)
def secret(monkeypatch):
    monkeypatch.setenv("EMSCO_LOG_KEY", "a secret of the tests")


def test_an_entry_is_written_after_the_answer_was_kept_and_before_it_is_given(tmp_path):
    log = tmp_path / "log"
    with served(tmp_path, Store().sources, log=log) as one:
        keep, seen = one.service.state.answer, []

        async def watched(name, text):
            seen.append(len(entries(log)))
            return await keep(name, text)

        one.service.state.answer = watched
        assert one.decide(key=QUICK, id="order-1").status_code == 200
        assert seen == [0]
        assert [entry["id"] for entry in entries(log)] == ["order-1-0"]
        one.decide(key=QUICK, id="order-1")  # again
        assert len(entries(log)) == 1


def test_what_somebody_else_has_answered_meanwhile_is_not_logged(tmp_path):
    log = tmp_path / "log"
    with served(tmp_path, Store().sources, log=log) as one:
        keep = one.service.state.answer

        async def late(name, text):
            await keep(name, '{"id": "order-2", "model": "other", "decisions": []}')
            return await keep(name, text)

        one.service.state.answer = late
        assert one.decide(key=QUICK, id="order-2").json()["model"] == "other"
        assert entries(log) == []


def test_a_log_that_rejects_what_it_cannot_write_does_not_wait(tmp_path):
    log = tmp_path / "log"
    log.write_text("not a folder")
    with served(tmp_path, Store().sources, log=log, on_log_failure="reject") as one:
        (row,) = one.decide(key=QUICK, id="order-3").json()["decisions"]
        assert (row["accepted"], row["reason"]) == (False, "error: log")


def test_without_an_id_an_entry_is_written_before_the_answer(tmp_path):
    log = tmp_path / "log"
    with served(tmp_path, Store().sources, log=log) as one:
        told = one.decide(key=QUICK).json()
        assert [entry["id"] for entry in entries(log)] == [told["decisions"][0]["id"]]
