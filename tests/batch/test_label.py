"""Whole batches: containers, labels of all types, cascades with a final model, kills."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from emsco import CascadeClassifier, CascadeSearchCV, Costs, InputGuard, Source
from emsco._utils.progress import watching
from emsco.batch import label_answers, label_batch, plan_batch
from emsco.datasets import make_costly_classification
from emsco.exceptions import BatchError, EmscoWarning

X, Y, COSTS = make_costly_classification(1600, 3, class_sep=2, random_state=0)
VALUES = np.asarray(X)
NAMES = list(X.columns)
FRAMES = {
    "pandas": lambda rows: pd.DataFrame(VALUES[rows], columns=NAMES),
    "polars": lambda rows: pl.DataFrame(VALUES[rows], schema=NAMES),
    "array": lambda rows: VALUES[rows],
}


@pytest.mark.parametrize("frame", FRAMES)
def test_rows_come_to_the_final_model_in_their_container(frame):
    rows = FRAMES[frame]
    costs = None if frame == "array" else COSTS  # which name columns
    cascade = CascadeClassifier(costs=costs).fit(rows(slice(400)), Y[:400])
    batch, kinds = rows(slice(400, None)), set()

    def final(some):
        kinds.add(type(some))
        return (np.asarray(some)[:, 0] > 0).astype(int).tolist()

    found = label_batch(cascade, batch, final, agreement=0.9)
    truth = (VALUES[400:, 0] > 0).astype(int)
    sent = found.origin != "cheap"
    assert kinds == {type(batch)}
    assert (np.array(found.labels)[sent] == truth[sent]).all()


def test_only_the_stages_before_a_final_model_answer_and_rows_without_an_answer_are_sent():
    final = HistGradientBoostingClassifier(max_iter=20, random_state=0).fit(X[:300], Y[:300])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmscoWarning)
        search = CascadeSearchCV(costs=COSTS, final=final, target="agreement",
                                 max_stages=3, random_state=0).fit(X[300:900])  # fmt: skip
    batch = X[900:].copy()
    found = label_batch(search, batch, final, agreement=0.95)
    truth = final.predict(batch)
    wrong = np.array(found.labels) != truth
    assert found.promises[0].most == int(0.05 * len(batch))
    assert not wrong[found.origin != "cheap"].any()
    assert found.price > 0


@pytest.mark.parametrize("labels", [
    ["yes", "no"], [0, 1], [True, False], [0.5, 1.5], ["", " "], ["1", "1.0"], [-1, -2],
])  # fmt: skip
def test_labels_of_every_type_come_back_as_they_were(labels):
    cheap = [labels[i % 2] for i in range(200)]
    found = label_answers(cheap, [0.99] * 200, lambda rows: [cheap[i] for i in rows],
                          agreement=0.9)  # fmt: skip
    assert found.labels == cheap
    assert {type(label) for label in found.labels} == {type(label) for label in labels}


@pytest.mark.parametrize("nothing", [None, np.nan, pd.NA])
def test_rows_without_a_cheap_answer_or_trust_are_always_sent(nothing):
    cheap = [nothing if i % 10 == 0 else "no" for i in range(300)]
    trust = [np.nan if i % 15 == 1 else 0.99 for i in range(300)]
    found = label_answers(cheap, trust, lambda rows: ["no"] * len(rows), agreement=0.9)
    gone = np.array([i % 10 == 0 or i % 15 == 1 for i in range(300)])
    assert set(found.origin[gone]) == {"asked"}
    assert set(found.labels) == {"no"}


@pytest.mark.parametrize("way", ["label", "known"])
def test_rows_that_a_guard_rejects_have_no_cheap_answer_and_are_always_sent(way):
    """Out of range, missing, or a category never seen; also where they are known beforehand."""
    rows = X.assign(kind=np.where(VALUES[:, 0] > 0, "a", "b"))
    costs = Costs([*(Source(name, cost=COSTS.of([name])) for name in NAMES),
                   Source("kind", cost=0.0)])  # fmt: skip
    cascade = CascadeClassifier(costs=costs, guard=InputGuard()).fit(rows[:600], Y[:600])
    batch = rows[600:].reset_index(drop=True)
    odd = {NAMES[0]: [1e9, -1e9], NAMES[1]: [np.nan], "kind": ["never seen"]}
    bad = []
    for name, values in odd.items():
        for value in values:
            batch.loc[len(bad) * 7, name] = value
            bad.append(len(bad) * 7)
    rejected = np.flatnonzero(~cascade.decide(batch).accepted)
    assert set(bad) <= set(rejected)
    truth, sent = (Y[600:] == 1).astype(int).tolist(), []

    def final(some):
        sent.extend(some.index)
        return [truth[i] for i in some.index]

    known = {bad[0]: 0} if way == "known" else None
    found = label_batch(cascade, batch, final, agreement=0.9, known=known)
    asked = bad[1:] if known else bad
    assert set(asked) <= set(sent)
    assert set(found.origin[asked]) == {"asked"}
    assert [found.cheap[i] for i in bad] == [None] * len(bad)
    assert np.isnan(found.trust[bad]).all()
    assert [found.labels[i] for i in asked] == [truth[i] for i in asked]
    assert (found.origin[bad[0]] == "known") is (way == "known")
    assert (found.origin == "cheap").sum() > 200, "others keep their cheap labels"


def test_a_batch_that_is_known_as_a_whole_needs_no_call():
    found = label_answers(["a"] * 50, [0.9] * 50, pytest.fail, agreement=0.9, known=["b"] * 50)
    assert found.n_calls == 0
    assert found.labels == ["b"] * 50


def test_a_batch_too_small_says_from_how_many_rows_on_it_saves():
    with pytest.raises(BatchError, match="It saves calls from 100 rows on"):
        label_answers(["a"] * 99, [0.9] * 99, pytest.fail, agreement=0.99)


def test_plans_know_the_price_and_refuse_what_is_no_share():
    plan = plan_batch(trust=np.linspace(1, 0.8, 5000), price=2.0, n_log=500)
    calls = [row["calls"] for row in plan.rows]
    assert all(row["price"] == 2 * row["calls"] for row in plan.rows)
    assert calls[0] < calls[2] < calls[4]
    without = [row["calls"] for row in plan_batch(trust=np.linspace(1, 0.8, 5000)).rows]
    assert all(own <= other for own, other in zip(calls, without, strict=True))
    with pytest.raises(BatchError, match="must be between 0 and 1"):
        plan_batch(trust=[2.0, 3.0])


def test_a_cold_start_keeps_its_promise_and_goes_on_where_it_was(tmp_path):
    truth = (VALUES[:, 0] > 0).astype(int)
    calls = []

    def final(rows):
        calls.append(len(rows))
        if len(calls) in (10, 22):  # in the first part, and after it
            raise KeyboardInterrupt
        return [int(row[0] > 0) for row in np.asarray(rows)]

    options = {"costs": COSTS, "agreement": 0.97, "job": tmp_path, "rows_per_call": 20,
               "concurrency": 1}  # fmt: skip
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            label_batch(None, X, final, **options)
    found = label_batch(None, X, final, **options)
    assert sum(calls) == found.n_calls + found.lost
    assert 20 < found.lost <= 40
    sent = found.origin != "cheap"
    assert (np.array(found.labels)[sent] == truth[sent]).all()
    assert found.promises[0].most == 48
    assert found.assumptions == ()
    assert label_batch(None, X, pytest.fail, **options).labels == found.labels


def test_rows_of_a_first_part_without_an_answer_count_against_the_promise():
    """They fit nothing, are not sent again, and as held-out rows they are disagreements."""
    sent = []

    def final(rows):
        places = rows.index.tolist()
        sent.extend(places)
        return [None if i % 8 == 0 else int(VALUES[i, 0] > 0) for i in places]

    found = label_batch(None, X, final, costs=COSTS, agreement=0.97)
    assert len(sent) == len(set(sent)) == found.n_calls
    failed = found.origin == "failed"
    assert set(np.flatnonzero(failed)) == {i for i in sent if i % 8 == 0}
    assert found.calls["first part"] == 400
    assert found.stop < 1200, "of the held-out rows, about 25 have failed"
    assert found.promises[0].share >= failed.sum() / len(X)


def test_rounds_are_counted_one_by_one_and_the_same_after_every_interruption(tmp_path):
    """A promise by class whose cheap labels are mostly wrong needs many."""
    cheap = ["yes" if i % 2 == 0 else "no" for i in range(2000)]
    truth = ["yes" if i % 20 == 0 else "no" for i in range(2000)]
    rng = random.Random(0)

    def label(job, ends_after):
        n_calls, rounds = 0, []

        def final(rows):
            nonlocal n_calls
            n_calls += 1
            if n_calls > ends_after:
                raise KeyboardInterrupt
            return [truth[i] for i in rows]

        with watching(lambda what, _: rounds.append(what.split(":")[0])):
            found = label_answers(cheap, np.linspace(1, 0.9, 2000), final, agreement=None,
                                  max_missed={"yes": 0.3}, job=job, rows_per_call=25,
                                  concurrency=1)  # fmt: skip
        return found, list(dict.fromkeys(rounds[:-1]))

    with pytest.raises(KeyboardInterrupt):
        label(tmp_path / "job", 1)
    shutil.copytree(tmp_path / "job", tmp_path / "whole")
    whole, rounds = label(tmp_path / "whole", 10_000)
    assert whole.rounds == len(rounds) > 5
    assert [f"final model, {name}" for name, n in whole.calls.items() if n] == rounds
    assert whole.n_calls == (whole.origin != "cheap").sum()
    while True:
        try:
            found, _ = label(tmp_path / "job", rng.randrange(1, 12))
            break
        except KeyboardInterrupt:
            continue
    assert found.calls == whole.calls
    assert (found.origin == whole.origin).all()
    assert found.lost > whole.lost


PROGRAM = """
import json, sys, time
import pandas as pd
from emsco import CascadeClassifier
from emsco.batch import label_answers, label_batch
way, job, calls = sys.argv[1:]
X = pd.DataFrame({"a": [i % 7 for i in range(400)], "b": [i % 11 for i in range(400)]})
truth = ["b" if i % 5 == 0 else "a" for i in range(400)]
def final(rows):
    rows = rows if way == "label_answers" else rows.index.tolist()
    with open(calls, "a") as file:
        file.write(json.dumps(rows) + "\\n")
    time.sleep(0.002)
    return [truth[i] for i in rows]
options = {"agreement": 0.9, "job": job, "concurrency": 4}
if way == "label_answers":
    cheap = ["a" if i % 3 else "b" for i in range(400)]
    found = label_answers(cheap, [0.9] * 400, final, **options)
else:
    cascade = CascadeClassifier().fit(X[:100], ["b" if a < 2 else "a" for a in X["a"][:100]])
    found = label_batch(cascade, X, final, **options)
print(json.dumps([found.labels, found.lost, found.n_calls]))
"""


def killed(tmp_path, way, kills, seed):
    """Kill a process at random moments, then let it end; return what it says, and its calls."""
    rng, calls = random.Random(seed), tmp_path / "calls"
    command = [sys.executable, "-c", PROGRAM, way, str(tmp_path / "job"), str(calls)]
    for _ in range(kills):
        before = len(calls.read_text().splitlines()) if calls.exists() else 0
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        wanted = before + rng.randrange(1, 25)
        while process.poll() is None:
            if calls.exists() and len(calls.read_text().splitlines()) >= wanted:
                process.send_signal(signal.SIGKILL)
            time.sleep(0.001)
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    rows = [row for line in Path(calls).read_text().splitlines() for row in json.loads(line)]
    return (*json.loads(done.stdout), rows)


@pytest.mark.parametrize(("way", "kills"), [
    ("label_batch", 3),
    pytest.param("label_batch", 20, marks=pytest.mark.nightly),
    pytest.param("label_answers", 20, marks=pytest.mark.nightly),
])  # fmt: skip
def test_a_killed_process_pays_only_for_calls_in_flight_again(tmp_path, way, kills):
    labels, lost, n_calls, rows = killed(tmp_path, way, kills, seed=kills)
    again = len(rows) - len(set(rows))
    assert again <= lost <= 4 * kills
    assert len(set(rows)) == n_calls
    assert all(labels[i] == ("b" if i % 5 == 0 else "a") for i in rows)
    assert max(rows.count(row) for row in set(rows)) <= 1 + kills
