"""A job's file: whatever bit of it changes, it is refused by name, or gives the same labels."""

from __future__ import annotations

import random
import shutil
import sqlite3

import pytest

from emsco.batch import label_answers
from emsco.batch.job_file import JobFile
from emsco.exceptions import BatchError

N = 120
CHEAP = ["yes" if i % 3 else "no" for i in range(N)]
TRUST = [1 - i / 400 for i in range(N)]
TRUTH = ["no" if i % 9 == 0 else label for i, label in enumerate(CHEAP)]


def labelled(job, most=N):
    """Label the rows; the process ends after so many calls."""
    calls = []

    def final(rows):
        if len(calls) >= most:
            raise KeyboardInterrupt
        calls.extend(rows)
        return [TRUTH[i] for i in rows]

    found = label_answers(CHEAP, TRUST, final, agreement=0.9, confidence=0.9, job=job,
                          concurrency=1, rows_per_call=4, questions=2, keys=range(N))  # fmt: skip
    return found, calls


@pytest.fixture(scope="module", params=["begun", "ended"])
def job(request, tmp_path_factory):
    """Give a job, what its labels are in the end, and how many calls are left."""
    folder = tmp_path_factory.mktemp("jobs")
    if request.param == "begun":
        for most in (20, 5):
            with pytest.raises(KeyboardInterrupt):
                labelled(folder / "job", most)
    else:
        labelled(folder / "job")
    shutil.copytree(folder / "job", folder / "copy")
    found, calls = labelled(folder / "copy")
    shutil.rmtree(folder / "copy")
    return folder / "job", found, len(calls)


@pytest.mark.parametrize("n_bits", [400, pytest.param(2_000, marks=pytest.mark.nightly)])
def test_a_changed_bit_is_refused_by_name_or_changes_nothing(job, n_bits, tmp_path):
    """Anywhere in the file: in the secret, in answers, in what was fixed, in SQLite's own words."""
    folder, expected, n_calls = job
    data = (folder / "job.sqlite").read_bytes()
    rng, n_refused = random.Random(n_bits), 0
    for bit in rng.sample(range(8 * len(data)), n_bits):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << (bit % 8)
        copy = tmp_path / "job"
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir()
        (copy / "job.sqlite").write_bytes(changed)
        try:
            found, calls = labelled(copy)
        except BatchError as error:
            n_refused += str(copy) in str(error)
            continue
        assert found.labels == expected.labels, bit
        assert (found.origin == expected.origin).all(), bit
        assert (found.lost, len(calls)) == (expected.lost, n_calls), bit
    assert n_bits / 20 < n_refused < n_bits, "most of a small file is empty"


CHANGES = {
    "answer": "UPDATE answer SET label = '\"no\"' WHERE label = '\"yes\"'",
    "forgotten answer": "DELETE FROM answer WHERE row = (SELECT max(row) FROM answer)",
    "secret": "UPDATE job SET value = zeroblob(32) WHERE name = 'secret'",
    "question": "DELETE FROM question",
    "fixed": "UPDATE fixed SET value = replace(value, '2', '3')",
    "lost": "INSERT INTO lost VALUES ('x', 1, 0)",
    "total": "UPDATE total SET value = value + 1",
    "two totals": "INSERT INTO total SELECT value FROM total",
    "trigger": "DROP TRIGGER answer_insert",
    "table": "ALTER TABLE answer ADD COLUMN more",
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_another_program_changes_without_the_sum_is_refused(job, change, tmp_path):
    shutil.copytree(job[0], tmp_path / "job")
    with sqlite3.connect(tmp_path / "job" / "job.sqlite") as db:
        db.create_function("checksum", -1, lambda *_: 0)
        before = "\n".join(db.iterdump())
        db.execute(CHANGES[change])
        assert "\n".join(db.iterdump()) != before
    db.close()
    with pytest.raises(BatchError, match=r"job is damaged: its (rows|tables) are not as they were"):
        labelled(tmp_path / "job")


def test_what_changes_while_it_is_open_is_refused_before_it_is_read(tmp_path):
    file = JobFile(str(tmp_path), {"secret": b"x"})
    file.verify()
    file._db.create_function("checksum", -1, lambda *_: 0)
    file.write("INSERT INTO flight VALUES (?, ?)", [("q", 1)])
    with pytest.raises(BatchError, match="its rows are not as they were written"):
        file.verify()
    file.close()


def test_a_replaced_row_counts_once(tmp_path):
    file = JobFile(str(tmp_path), {})
    for text in (b"a", b"b", b"a"):
        with file.transaction():
            file.write("INSERT OR REPLACE INTO job VALUES (?, ?)", [("note", text)])
        file.verify()
    file.close()
    JobFile(str(tmp_path), {}).close()
