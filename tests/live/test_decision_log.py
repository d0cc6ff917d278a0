"""The log of live decisions: every decision once, and no key, value or secret."""

from __future__ import annotations

import json
import logging
import os

import numpy as np
import pandas as pd
import pytest
from stores import POSTGRES, http_source, redis_source, sql_source

from emsco import CascadeClassifier, Costs, Source, StageDesign
from emsco.exceptions import SourcesError
from emsco.live import CallableSource, LiveCascade, Sources

SECRET = "the-secret-of-the-log"
RNG = np.random.default_rng(5)
LABELS = np.arange(300) % 2
FRAME = pd.DataFrame(
    {"age": LABELS + RNG.normal(size=300), "dns": 3 * LABELS + RNG.normal(size=300)}
)
KEYS = [f"person-{i}@example.org" for i in range(300)]
COSTS = Costs([Source("age", cost=1), Source("dns", cost=4)])


@pytest.fixture(scope="module")
def cascade():
    """Fit a cascade of two stages."""
    design = StageDesign.from_stages([["age"], ["dns"]])
    return CascadeClassifier(design=design, costs=COSTS, threshold=0.8).fit(FRAME, LABELS)


def sources(**others):
    """Fetch from the frame."""

    def column(name):
        values = dict(zip(KEYS, FRAME[name].tolist(), strict=True))
        return CallableSource(function=lambda keys, _: {key: {name: values[key]} for key in keys})

    return Sources({"age": column("age"), "dns": column("dns")} | others)


def lines(folder):
    """Read the log."""
    return [json.loads(line) for path in folder.iterdir() for line in path.read_text().splitlines()]


def test_every_decision_is_a_line(cascade, tmp_path, monkeypatch):
    """With its receipt, under the id that the receipt has; a key is found by its HMAC alone."""
    monkeypatch.setenv("EMSCO_LOG_KEY", SECRET)
    live = LiveCascade(cascade, sources(), log=tmp_path / "log")
    first, second = live.decide_now(KEYS[:50]), live.decide_now(KEYS[:5])
    live.close_now()
    found = lines(tmp_path / "log")
    assert [entry["id"] for entry in found] == [d.receipt.id for d in [*first, *second]]
    assert [entry["accepted"] for entry in found[:50]] == first.accepted.tolist()
    assert found[0]["model"] == first[0].receipt.model
    assert found[3]["receipt"]["not_needed"] == list(first[3].receipt.not_needed)
    assert [entry["key"] for entry in found[:5]] == [entry["key"] for entry in found[50:]]
    assert len({entry["key"] for entry in found}) == 50
    assert "values" not in found[0]
    monkeypatch.setenv("EMSCO_LOG_KEY", "another secret of the log")
    other = LiveCascade(cascade, sources(), log=tmp_path / "other", log_values=True)
    other.decide_now(KEYS[:5])
    other.close_now()
    entries = lines(tmp_path / "other")
    assert {entry["key"] for entry in entries}.isdisjoint(entry["key"] for entry in found)
    assert entries[0]["values"]["age"] == FRAME["age"][0]
    assert ("dns" in entries[0]["values"]) == (entries[0]["exit_stage"] == 1)


def test_no_log_without_its_secret(cascade, tmp_path, monkeypatch):
    """It is refused before anything is decided."""
    monkeypatch.delenv("EMSCO_LOG_KEY", raising=False)
    with pytest.raises(SourcesError, match="EMSCO_LOG_KEY is not set"):
        LiveCascade(cascade, sources(), log=tmp_path)
    monkeypatch.setenv("EMSCO_LOG_KEY", SECRET)
    with pytest.raises(SourcesError, match="must be 'drop' or 'reject', got 'ignore'"):
        LiveCascade(cascade, sources(), log=tmp_path, on_log_failure="ignore")


@pytest.mark.parametrize("on_log_failure", ["drop", "reject"])
def test_a_full_disk_loses_no_line_that_was_written(cascade, tmp_path, monkeypatch, on_log_failure):
    """Decisions go on and are counted, or are rejected; half a line is never left."""
    monkeypatch.setenv("EMSCO_LOG_KEY", SECRET)
    live = LiveCascade(cascade, sources(), log=tmp_path / "log", on_log_failure=on_log_failure)
    live.decide_now(KEYS[:3])
    write, room = os.write, [700]

    def full(file, text):
        if not room[0]:
            raise OSError(28, "No space left on device")
        taken = write(file, bytes(text[: room[0]]))
        room[0] -= taken
        return taken

    monkeypatch.setattr(os, "write", full)
    decided = live.decide_now(KEYS[3:9])
    monkeypatch.setattr(os, "write", write)
    expected = cascade.decide(FRAME[3:9])
    if on_log_failure == "reject":
        assert not decided.accepted.any()
        assert set(decided.reason[expected.accepted]) == {"error: log"}
        np.testing.assert_array_equal(decided.reason[~expected.accepted], "low confidence")
    else:
        np.testing.assert_array_equal(decided.accepted, expected.accepted)
    assert live.log_dropped == 6
    live.decide_now(KEYS[9:12])
    live.close_now()
    assert len(lines(tmp_path / "log")) == 6


def test_a_folder_that_cannot_be_written_never_raises(cascade, tmp_path, monkeypatch):
    """A file stands where the folder should be."""
    monkeypatch.setenv("EMSCO_LOG_KEY", SECRET)
    (tmp_path / "log").write_text("in the way")
    live = LiveCascade(cascade, sources(), log=tmp_path / "log")
    assert len(live.decide_now(KEYS[:5])) == 5
    assert live.log_dropped == 5
    live.close_now()


def test_no_key_value_or_secret_is_shown(cascade, tmp_path, monkeypatch, caplog):
    """In log, logging, reprs and receipts, with stores that work and with stores that do not."""
    monkeypatch.setenv("EMSCO_LOG_KEY", SECRET)
    monkeypatch.setenv("TOKEN", "Bearer of-a-secret-token")
    caplog.set_level(logging.DEBUG)
    table = {key: {"age": 0.5123456789} for key in KEYS[:20]}
    with (
        http_source(table, headers_env={"Authorization": "TOKEN"}) as (http, service),
        redis_source({key: {"dns": 0.5123456789} for key in KEYS[:20]}) as redis,
        sql_source(POSTGRES, {key: {"dns": 0.5123456789} for key in KEYS[:20]}) as sql,
    ):
        shown = []
        service.behave = {KEYS[1]: (500, {}), KEYS[2]: (200, b"<html>")}.get
        for dns in (redis, sql, CallableSource(function=lambda *_: 1 / 0)):
            live = LiveCascade(cascade, {"age": http, "dns": dns}, log=tmp_path / "log")
            decided = live.decide_now(KEYS[:20])
            shown += [live, dns, http, decided, decided[0], *(d.receipt for d in decided)]
            live.close_now()
    text = "".join(map(repr, shown)) + caplog.text
    text += "".join(path.read_text() for path in (tmp_path / "log").iterdir())
    for hidden in (SECRET, "of-a-secret-token", "person-", "5123456789"):
        assert hidden not in text, hidden
    assert "error: dns" in text


def test_the_promise_says_what_holds(cascade):
    """With all sources answering; a ceiling below the full price voids it."""
    live = LiveCascade(cascade, sources())
    assert "every source answers" in live.promise
    assert live.decide_now(KEYS[:1])[0].receipt.promise == live.promise
    live.close_now()
    assert "every source answers" in LiveCascade(cascade, sources(), max_cost=5.0).promise
    cheap = LiveCascade(cascade, sources(), max_cost=4.5).promise
    assert cheap.startswith("No certificate of this cascade holds: `max_cost` is 4.5")
    with pytest.raises(SourcesError, match="`deadline` must be a number above 0"):
        LiveCascade(cascade, sources(), deadline=0)


def test_keys_are_texts_or_whole_numbers(cascade):
    """Others are refused, and not shown."""
    live = LiveCascade(cascade, sources())
    for wrong in (None, 1.5, True, ("a",)):
        with pytest.raises(SourcesError, match="Keys must be strings or integers, got a"):
            live.decide_now([KEYS[0], wrong])
    assert len(live.decide_now(np.array(KEYS[:3]))) == 3
    live.close_now()
