"""A job folder: one secret, its questions, its answers; one process at a time."""

from __future__ import annotations

import json
import resource
import sqlite3
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from emsco.batch import label_answers
from emsco.batch.answers_store import Inquiry, JobStore, MemoryStore
from emsco.batch.row_marks import RowMarks
from emsco.exceptions import BatchError

N = 400
CHEAP, TRUST = [i % 2 for i in range(N)], [1 - i / 4000 for i in range(N)]
KEYS = [f"row {i}" for i in range(N)]


def marks(keys):
    """Return the marks of rows with these keys."""
    return RowMarks.of(len(keys), list(keys), None)


def inquiry(name, keys, level=0.01, allowed=0.01):
    """Return a question about these rows."""
    return Inquiry(name, level, allowed, marks(keys))


def right(rows):
    """Answer as the cheap model does."""
    return [CHEAP[i] for i in rows]


def test_the_same_question_has_the_same_labels_and_pays_for_nothing_again(tmp_path):
    calls = []

    def final(rows):
        calls.extend(rows)
        return right(rows)

    first = label_answers(CHEAP, TRUST, final, agreement=0.95, job=tmp_path)
    n_calls = len(calls)
    again = label_answers(CHEAP, TRUST, final, agreement=0.95, job=tmp_path)
    assert n_calls == len(calls) == first.n_calls == len(set(calls))
    assert (first.origin == again.origin).all()
    assert first.labels == again.labels


@pytest.mark.parametrize("change", ["answer", "trust", "agreement", "known"])
def test_another_question_about_the_rows_is_refused(tmp_path, change):
    label_answers(CHEAP, TRUST, right, agreement=0.95, job=tmp_path, keys=KEYS)
    other = {"answers": CHEAP, "trust": TRUST, "agreement": 0.95, "keys": KEYS}
    other |= {
        "answer": {"answers": [1 - CHEAP[0], *CHEAP[1:]]},
        "trust": {"trust": [0.2, *TRUST[1:]]},
        "agreement": {"agreement": 0.94},
        "known": {"known": {3: 1}},
    }[change]
    with pytest.raises(BatchError, match="has a question about these rows already"):
        label_answers(final=right, job=tmp_path, **other)
    other["keys"] = [f"other {i}" for i in range(N)]
    label_answers(final=right, job=tmp_path, **other)


def begin(store, question):
    """Ask a question, and fix what decides: from then on it counts."""
    store.open(question)
    store.fixed("terms", lambda: "fixed")


def test_one_key_is_enough_to_be_asked_again(tmp_path):
    store = JobStore(tmp_path)
    begin(store, inquiry("a", ["x", "y"]))
    with pytest.raises(BatchError, match=r"uses 0\.01 of the 0\.01"):
        begin(store, inquiry("b", ["y", "z"]))
    begin(store, inquiry("c", ["z", "w"]))


def test_questions_that_were_declared_share_what_the_first_allowed(tmp_path):
    """A later one with less confidence does not add to it."""
    store = JobStore(tmp_path)
    begin(store, inquiry("a", "xy", 0.005, 0.01))
    with pytest.raises(BatchError):
        begin(store, inquiry("b", "xy", 0.05, 0.1))
    begin(store, inquiry("c", "xy", 0.005, 0.1))
    begin(store, inquiry("a", "xy", 0.005, 0.01))
    with pytest.raises(BatchError):
        begin(store, inquiry("d", "xy", 0.001, 0.01))


def test_rows_are_recognised_by_value_and_with_another_column(tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 3)), columns=["a", "b", "c"])
    store = JobStore(tmp_path)

    def of(frame):
        return RowMarks.of(len(frame), None, {name: frame[name].to_numpy() for name in frame})

    begin(store, Inquiry("a", 0.01, 0.01, of(X)))
    changed = X.copy()
    changed.iloc[0, 0] = 5.0
    for other in (changed, X.iloc[::-1], X[["c", "a", "b"]], X.assign(d=1.0), X.iloc[:200]):
        with pytest.raises(BatchError, match="about these rows already"):
            begin(store, Inquiry(f"{len(other)}", 0.01, 0.01, of(other)))
    fresh = pd.DataFrame(rng.normal(size=(300, 3)), columns=["a", "b", "c"])
    begin(store, Inquiry("fresh", 0.01, 0.01, of(fresh)))


def test_one_log_does_not_serve_two_batches(tmp_path):
    log = ([1] * 50, [0.9] * 50, [1] * 50, [f"log {i}" for i in range(50)])
    options = {"agreement": 0.95, "job": tmp_path, "log": log}
    label_answers(CHEAP, TRUST, right, keys=KEYS, **options)
    with pytest.raises(BatchError, match="about these rows already"):
        label_answers(CHEAP, TRUST, right, keys=[f"new {i}" for i in range(N)], **options)


def test_the_first_answer_stays_and_calls_in_flight_are_counted(tmp_path):
    store = JobStore(tmp_path)
    store.open(inquiry("a", "xyz"))
    store.begin([0, 1, 2])
    store.record([(0, "first"), (1, None)])
    store.record([(0, "second"), (1, "late")])
    store.close()
    store = JobStore(tmp_path)
    store.open(inquiry("a", "xyz"))
    assert store.answers() == {0: "first", 1: None}
    assert store.n_lost == 1
    store.begin([2])
    store.end([2])
    store.close()
    store = JobStore(tmp_path)
    store.open(inquiry("a", "xyz"))
    assert store.n_lost == 1


def test_what_was_fixed_stays(tmp_path):
    store = JobStore(tmp_path)
    store.open(inquiry("a", "xy"))
    assert [store.fixed("terms", lambda made=made: made) for made in "pq"] == ["p", "p"]
    assert len(store.secret) == 32
    store.close()
    again = JobStore(tmp_path)
    again.open(inquiry("a", "xy"))
    assert again.fixed("terms", lambda: "r") == "p"
    assert again.secret == store._secret


def test_another_process_waits(tmp_path):
    JobStore(tmp_path).open(inquiry("a", "xy"))
    code = ("import sys; from emsco.batch.answers_store import JobStore; "
            f"JobStore({str(tmp_path)!r})")  # fmt: skip
    holder = JobStore(tmp_path / "held")
    held = code.replace(repr(str(tmp_path)), repr(str(tmp_path / "held")))
    done = subprocess.run([sys.executable, "-c", held], capture_output=True, text=True)
    assert "Another process works on the job" in done.stderr
    holder.close()
    assert subprocess.run([sys.executable, "-c", held], check=False).returncode == 0


@pytest.mark.parametrize("damage", ["text", "cut", "table", "format"])
def test_a_damaged_job_is_named(tmp_path, damage):
    store = JobStore(tmp_path)
    store.open(inquiry("a", "xy"))
    store.close()
    path = tmp_path / "job.sqlite"
    if damage == "text":
        path.write_bytes(b"no database" * 1000)
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:5000])
    else:
        with sqlite3.connect(path) as db:
            db.create_function("checksum", -1, lambda *_: 0)
            db.execute("DROP TABLE answer" if damage == "table" else "DELETE FROM job")
        db.close()

    def go():
        opened = JobStore(tmp_path)
        opened.open(inquiry("a", "xy"))
        opened.answers()

    with pytest.raises(BatchError, match=r"is damaged|cannot be written|is not a job"):
        go()


def test_a_full_disk_is_named_and_loses_no_answer(tmp_path):
    store = JobStore(tmp_path)
    store.open(inquiry("a", "xy"))
    store.record([(0, "yes")])
    size = max(path.stat().st_size for path in tmp_path.iterdir())
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        with pytest.raises(BatchError, match="cannot be written"):
            store.record([(row, "x" * 1000) for row in range(1, 2000)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert store.answers() == {0: "yes"}
    store.record([(1, "no")])
    assert store.answers() == {0: "yes", 1: "no"}


def test_the_secret_is_private(tmp_path):
    JobStore(tmp_path / "job").close()
    assert (tmp_path / "job").stat().st_mode & 0o077 == 0
    assert (tmp_path / "job" / "job.sqlite").stat().st_mode & 0o077 == 0
    assert "secret" not in repr(MemoryStore())
    assert json.dumps(repr(MemoryStore())).count("x") == 0


def test_a_question_that_was_refused_before_anything_was_fixed_may_be_asked_otherwise(tmp_path):
    store = JobStore(tmp_path)
    store.open(inquiry("a", "xy"))
    begin(store, inquiry("b", "xy"))
    with pytest.raises(BatchError, match="about these rows already"):
        store.open(inquiry("c", "xy"))
