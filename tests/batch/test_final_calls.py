"""Functions, models and live sources as the final model, and how they fail."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest

from emsco.batch import label_answers
from emsco.exceptions import BatchError

N = 300
CHEAP, TRUST = ["no"] * N, [0.97] * N
TRUTH = ["no" if i % 10 else "yes" for i in range(N)]


def labelled(final, **options):
    """Label the rows of these tests."""
    return label_answers(CHEAP, TRUST, final, agreement=0.95, confidence=0.9, **options)


def check(found):
    """Hold every label that is not cheap to the truth."""
    sent = found.origin != "cheap"
    assert [label for label, is_sent in zip(found.labels, sent, strict=True) if is_sent] == [
        label for label, is_sent in zip(TRUTH, sent, strict=True) if is_sent
    ]
    assert found.n_calls == sent.sum()


async def later(rows):
    """Answer a little later."""
    await asyncio.sleep(0.001)
    return [TRUTH[i] for i in rows]


class Later:
    """An object whose call is async."""

    async def __call__(self, rows):
        """Answer a little later."""
        return await later(rows)


@pytest.mark.parametrize("final", [
    lambda rows: [TRUTH[i] for i in rows],
    lambda rows: np.array(TRUTH)[rows],
    lambda rows: pd.Series(TRUTH).iloc[rows],
    lambda rows: tuple(TRUTH[i] for i in rows),
    lambda rows: {i: TRUTH[i] for i in reversed(rows)},
    lambda rows: {np.int64(i): np.str_(TRUTH[i]) for i in rows},
    later,
    Later(),
], ids=["list", "array", "series", "tuple", "mapping", "numpy", "async", "object"])  # fmt: skip
@pytest.mark.parametrize("stored", [False, True])
def test_whatever_returns_labels_may_be_the_final_model(final, stored, tmp_path):
    check(labelled(final, job=tmp_path if stored else None, rows_per_call=20))


def test_it_runs_inside_an_event_loop():
    async def notebook():
        return labelled(later)

    check(asyncio.run(notebook()))


@pytest.mark.parametrize("is_async", [False, True])
def test_no_more_calls_run_at_a_time_than_allowed(is_async):
    running, most, lock = 0, 0, threading.Lock()

    @contextmanager
    def counted():
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        yield
        with lock:
            running -= 1

    def sync(rows):
        with counted():
            time.sleep(0.002)
            return [TRUTH[i] for i in rows]

    async def other(rows):
        with counted():
            return await later(rows)

    check(labelled(other if is_async else sync, concurrency=3, rows_per_call=5))
    assert most == 3


@pytest.mark.parametrize(("answer", "match"), [
    ("yes", "must return a label for each row, or None, got a str"),
    (None, "got a NoneType"),
    (["yes"], "it returned 1"),
    ((label for label in TRUTH), "got a generator"),
    ({-1: "yes"}, "answered for row -1, which it was not sent"),
], ids=["text", "none", "few", "generator", "other row"])  # fmt: skip
def test_what_is_no_answer_is_named(answer, match):
    with pytest.raises(BatchError, match=match):
        labelled(lambda _: answer)


@pytest.mark.parametrize("label", [["yes"], {"a": 1}, object(), pd.Timestamp(0), b"yes"])
@pytest.mark.parametrize("stored", [False, True])
def test_a_label_of_another_type_is_refused_before_it_is_recorded(label, stored, tmp_path):
    job = tmp_path if stored else None
    with pytest.raises(BatchError, match="A label must be text, a number or a boolean"):
        labelled(lambda rows: [label] * len(rows), job=job)
    check(labelled(lambda rows: [TRUTH[i] for i in rows], job=job))


def test_labels_that_only_look_alike_are_refused_and_the_job_goes_on(tmp_path):
    options = {"agreement": 0.9, "confidence": 0.9, "job": tmp_path}
    with pytest.raises(BatchError, match="The label '1' is a str, and 1 a int"):
        label_answers([1] * N, TRUST, lambda rows: ["1"] * len(rows), **options)
    found = label_answers([1] * N, TRUST, lambda rows: [np.int64(1)] * len(rows), **options)
    assert set(found.labels) == {1}


@pytest.mark.parametrize("nothing", [None, np.nan, pd.NA, pd.NaT])
def test_a_row_without_an_answer_has_failed(nothing):
    found = labelled(lambda rows: [nothing if i % 7 == 0 else TRUTH[i] for i in rows])
    failed = found.origin == "failed"
    assert failed.any()
    assert all(i % 7 == 0 for i in np.flatnonzero(failed))
    assert {found.labels[i] for i in np.flatnonzero(failed)} == {None}
    assert f"{failed.sum():,} rows have no label" in str(found)


def test_a_call_that_raises_fails_its_rows_alone():
    def final(rows):
        if 7 in rows or 77 in rows:
            raise RuntimeError("a bad document")
        return ["yes"] * len(rows)

    found = labelled(final, rows_per_call=1)
    failed, sent = found.origin == "failed", found.origin != "cheap"
    assert set(np.flatnonzero(failed)) == {7, 77} & set(np.flatnonzero(sent))
    assert {found.labels[i] for i in np.flatnonzero(sent & ~failed)} == {"yes"}


def test_a_final_model_that_never_answers_is_reported_with_its_error():
    def final(_):
        raise RuntimeError("no such host")

    with pytest.raises(BatchError, match=r"answered no row.*RuntimeError: no such host"):
        labelled(final)


def short_of_money(most):
    """Return a final model that answers so many calls, and the rows it was asked for."""
    asked = []

    def final(rows):
        asked.extend(rows)
        if len(asked) > most:
            raise RuntimeError("insufficient funds")
        return ["yes" for _ in rows]

    return final, asked


def test_money_that_ends_in_the_middle_breaks_no_promise():
    """Rows that it no longer answers have no label, and count as different."""
    final, asked = short_of_money(30)
    found = labelled(final, rows_per_call=1)
    assert len(asked) == len(set(asked)) == found.n_calls > 200  # failed checks stop the walk
    assert (found.origin == "failed").sum() == len(asked) - 30
    assert found.promises[0].share >= (len(asked) - 30) / N
    assert "They count as different." in str(found)


def test_with_a_job_the_rest_can_be_sent_when_there_is_money_again(tmp_path):
    final, asked = short_of_money(30)
    with pytest.raises(BatchError, match=r"answered no row.*insufficient funds"):
        labelled(final, job=tmp_path)
    before = set(asked[:30])
    final, asked = short_of_money(N)
    found = labelled(final, job=tmp_path)
    assert not before & set(asked)
    failed = set(np.flatnonzero(found.origin == "failed").tolist())
    assert failed
    assert not failed & (before | set(asked))  # checks without an answer stay so


def test_few_rows_that_fail_in_a_round_of_their_own_do_not_block_a_job(tmp_path):
    seen = []

    def final(rows):
        seen.extend(rows)
        if rows[0] == 0:
            raise RuntimeError("a bad document")
        return ["no" if rows[0] < 250 else "yes"]

    found = labelled(final, job=tmp_path)
    assert len(seen) == len(set(seen)) == found.n_calls


@pytest.mark.parametrize(("name", "value"), [("concurrency", 0), ("rows_per_call", 1.5)])
def test_numbers_of_calls_are_checked(name, value):
    with pytest.raises(BatchError, match=f"`{name}` must be a whole number from 1 on"):
        labelled(later, **{name: value})


def test_a_final_model_must_be_callable():
    with pytest.raises(BatchError, match="must be a function of rows"):
        labelled(3)
