"""Live sources as the final model: real stores, asked by key, and how they fail."""

from __future__ import annotations

import numpy as np
import pytest
import redis
from stores import MARIADB, POSTGRES, REDIS, http_source, redis_source, sql_source

from emsco.batch import label_answers, label_batch
from emsco.datasets import make_costly_classification
from emsco.exceptions import BatchError
from emsco.live import CallableSource, KnownSource, RedisSource

N = 300
KEYS = [f"row {i}" for i in range(N)]
TRUTH = ["no" if i % 10 else "yes" for i in range(N)]
TABLE = {key: {"label": label} for key, label in zip(KEYS, TRUTH, strict=True)}
NUMBERS = {key: {"label": float(label == "yes")} for key, label in zip(KEYS, TRUTH, strict=True)}
CHEAP, TRUST = ["no"] * N, [0.97] * N


def labelled(source, cheap=CHEAP, **options):
    """Label the rows of these tests."""
    options = {"agreement": 0.95, "confidence": 0.9, "keys": KEYS} | options
    return label_answers(cheap, TRUST, source, **options)


def check(found, truth=TRUTH):
    """Hold every label that is not cheap to the truth, by key."""
    assert found.index == KEYS
    sent = found.origin != "cheap"
    assert found.n_calls == sent.sum() > 50
    assert [label for label, is_sent in zip(found.labels, sent, strict=True) if is_sent] == [
        label for label, is_sent in zip(truth, sent, strict=True) if is_sent
    ]


@pytest.mark.parametrize("form", ["hash", "json"])
@pytest.mark.parametrize("stored", [False, True])
def test_redis_answers_by_key(form, stored, tmp_path):
    job = tmp_path if stored else None
    with redis_source(TABLE, format=form) as source:
        found = labelled(source, job=job)
        check(found)
        assert set(map(type, found.labels)) == {str}
    if stored:  # the store is gone: all answers are here
        assert labelled(RedisSource(url=REDIS, key="gone:{key}"), job=job).labels == found.labels


@pytest.mark.parametrize("url", [POSTGRES, MARIADB], ids=["postgres", "mariadb"])
def test_a_database_answers_by_key(url):
    with sql_source(url, NUMBERS) as source:
        found = labelled(source, cheap=[0] * N, rows_per_call=40)
    check(found, [int(label == "yes") for label in TRUTH])


def test_text_of_a_store_stands_for_the_labels_of_the_cheap_model():
    """A hash of Redis knows text alone; the classes are numbers, and stay so."""
    table = {key: {"label": int(one["label"])} for key, one in NUMBERS.items()}
    cheap = [1 if i % 40 == 0 else 0 for i in range(N)]
    with redis_source(table) as source:
        found = labelled(source, cheap=cheap)
    check(found, [int(label == "yes") for label in TRUTH])
    assert set(map(type, found.labels)) == {int}
    refused = pytest.raises(BatchError, match="no label of the same type")
    with redis_source(TABLE) as source, refused:
        labelled(source, cheap=cheap)


@pytest.mark.parametrize("store", ["redis", "postgres"])
def test_keys_that_a_store_lacks_have_failed(store):
    """They count as different, at the checks and in the rest."""
    lacking = set(range(0, N, 7))
    kept = {key: one for i, (key, one) in enumerate(NUMBERS.items()) if i not in lacking}
    if store == "redis":
        kept = {key: {"label": int(one["label"])} for key, one in kept.items()}
        context = redis_source(kept)
    else:
        context = sql_source(POSTGRES, kept)
    with context as source:
        found = labelled(source, cheap=[0] * N)
    failed, sent = found.origin == "failed", found.origin != "cheap"
    assert set(np.flatnonzero(failed)) == lacking & set(np.flatnonzero(sent))
    assert failed.any()
    assert {found.labels[i] for i in np.flatnonzero(failed)} == {None}
    assert all(found.labels[i] == (i % 10 == 0) for i in np.flatnonzero(sent & ~failed))
    assert found.promises[0].share >= failed.sum() / N


def test_rows_in_doubt_have_failed():
    """A key that a database has twice has no answer, and is not sent again."""
    with sql_source(POSTGRES, NUMBERS, twice=KEYS[::5]) as source:
        found = labelled(source, cheap=[0] * N)
    failed = np.flatnonzero(found.origin == "failed")
    assert len(failed)
    assert all(i % 5 == 0 for i in failed)


def test_the_feature_that_answers_is_that_of_the_log():
    """Behind a cascade fitted on logged answers, it is their column; otherwise `label`."""
    from emsco import CascadeSearchCV
    from emsco.final import LoggedAnswers

    X, y, costs = make_costly_classification(900, 3, class_sep=2, random_state=0)
    X = X.assign(verdict=np.where(y == 1, "yes", "no"))
    search = CascadeSearchCV(costs=costs, final=LoggedAnswers("verdict"), target="agreement",
                             max_stages=2, random_state=0).fit(X[:600])  # fmt: skip
    batch, keys = X[600:].drop(columns="verdict"), KEYS[: len(X) - 600]
    table = {key: {"verdict": said} for key, said in zip(keys, X["verdict"][600:], strict=True)}
    with redis_source(table) as source:
        found = label_batch(search, batch, source, agreement=0.9, keys=keys)
    sent = found.origin != "cheap"
    assert (np.array(found.labels)[sent] == X["verdict"][600:].to_numpy()[sent]).all()
    assert sent.any()


def test_a_store_that_is_down_is_named_and_fails_no_row(tmp_path):
    """With a job, it is asked again when it is there; without an answer nothing is lost."""
    nowhere = RedisSource(url="redis://127.0.0.1:1/0", key="{key}")
    for job in (None, tmp_path):
        with pytest.raises(BatchError, match=r"answered no row.*did not answer \('error'\)"):
            labelled(nowhere, job=job)
    with redis_source(TABLE) as source:
        check(labelled(source, job=tmp_path))


def test_a_store_that_is_down_in_the_second_round_fails_no_row(tmp_path):
    with redis_source(TABLE) as source:
        lost = redis.Redis.from_url(REDIS)
        counted = []

        def answer(keys, _):
            counted.append(len(keys))
            if len(counted) > 1:
                raise ConnectionError("it went down")
            names = [source.key.format(key=key) for key in keys]
            return {key: {"label": lost.hget(name, "label").decode()}
                    for key, name in zip(keys, names, strict=True)}  # fmt: skip

        with pytest.raises(BatchError, match="did not answer"):
            labelled(CallableSource(function=answer), job=tmp_path)
        found = labelled(source, job=tmp_path)
        lost.close()
    check(found)
    assert not (found.origin == "failed").any()


def test_rows_wait_while_the_circuit_is_open():
    """After five failures a source is called once a second; no other row fails for that."""
    fails = iter([True] * 6)
    with http_source(TABLE, retries=0) as (source, service):
        service.behave = lambda _: (503, {}) if next(fails, False) else None
        found = labelled(source, concurrency=4)
    failed = int((found.origin == "failed").sum())
    assert 5 <= failed <= 6
    sent = found.origin != "cheap"
    assert sent.sum() > failed + 50


@pytest.mark.parametrize(("source", "match"), [
    (RedisSource(url=REDIS, key="{country}:{key}"), "this one uses 'country'"),
    (KnownSource(), "this one is never called"),
], ids=["needs", "known"])  # fmt: skip
def test_a_source_that_cannot_answer_by_key_alone_is_refused(source, match):
    with pytest.raises(BatchError, match=match):
        labelled(source)


def test_a_source_needs_keys():
    with pytest.raises(BatchError, match="give `keys`, one for each row"):
        labelled(RedisSource(url=REDIS, key="{key}"), keys=None)
