"""Held-out rows: conditions that can be checked are, the others are named."""

from __future__ import annotations

import numpy as np
import pytest

from emsco import CascadeClassifier
from emsco.batch import label_answers, label_batch
from emsco.batch.log_rows import LIKE, LIKE_UNKNOWN, NOT_FITTED, NOT_SHARED
from emsco.datasets import make_costly_classification
from emsco.exceptions import BatchError

N, M = 600, 300
CHEAP, TRUST = [i % 2 for i in range(N)], np.linspace(1, 0.8, N)
LOG = [i % 2 for i in range(M)], np.linspace(1, 0.8, M), [i % 2 for i in range(M)]
KEYS, LOG_KEYS = [f"row {i}" for i in range(N)], [f"log {i}" for i in range(M)]


def right(rows):
    """Answer as the cheap model does."""
    return [CHEAP[i] for i in rows]


def labelled(log, **options):
    """Label the rows of these tests."""
    return label_answers(CHEAP, TRUST, right, agreement=0.95, confidence=0.9, log=log, **options)


def test_held_out_rows_save_calls_and_what_they_rest_on_is_said():
    found = labelled(LOG)
    assert (
        found.n_calls < label_answers(CHEAP, TRUST, right, agreement=0.95, confidence=0.9).n_calls
    )
    assert found.assumptions == (LIKE, NOT_SHARED, NOT_FITTED)
    assert found.sentence.endswith("could not be checked.")
    found = labelled((*LOG, LOG_KEYS), keys=KEYS, known={0: 1})
    assert found.assumptions == (LIKE, LIKE_UNKNOWN, NOT_FITTED)


def test_a_key_in_both_leaves_the_walk():
    keys = [*KEYS[:20], *LOG_KEYS[20:]]
    sent = []

    def final(rows):
        sent.extend(rows)
        return [1 - CHEAP[i] for i in rows]  # all are wrong, so that all others are sent

    found = label_answers(CHEAP, TRUST, final, agreement=0.95, log=(*LOG, keys), keys=KEYS)
    assert set(np.flatnonzero(found.origin == "known")) == set(range(20))
    assert found.labels[:20] == LOG[2][:20]
    assert not set(sent) & set(range(20))


def test_the_same_rows_without_keys_are_refused():
    X, y, costs = make_costly_classification(900, 3, random_state=0)
    cascade = CascadeClassifier(costs=costs).fit(X[:300], y[:300])
    with pytest.raises(BatchError, match="have rows in common"):
        label_batch(cascade, X[300:], lambda rows: [0] * len(rows), log=(X[300:600], y[300:600]))


def test_rows_that_fitted_the_cascade_are_refused():
    X, y, costs = make_costly_classification(1500, 3, random_state=0)
    cascade = CascadeClassifier(costs=costs).fit(X[:300], y[:300])
    answers = dict(zip(map(bytes, X.to_numpy()) if hasattr(X, "to_numpy") else map(bytes, X), y,
                       strict=True))  # fmt: skip

    def final(rows):
        values = rows.to_numpy() if hasattr(rows, "to_numpy") else rows
        return [answers[bytes(row)] for row in values]

    with pytest.raises(BatchError, match="were used to fit the cascade"):
        label_batch(cascade, X[600:], final, agreement=0.9, log=(X[:300], y[:300]))
    found = label_batch(cascade, X[600:], final, agreement=0.9, log=(X[300:600], y[300:600]))
    assert found.assumptions == (LIKE,)


@pytest.mark.parametrize(("log", "match"), [
    (LOG[:2], "must be"),
    ((*LOG[:2], [None, *LOG[2][1:]]), "has no answer for 1 of 300 rows"),
    (([], [], []), "has no rows"),
    ((*LOG[:2], LOG[2][1:]), "must have one for each of 300 rows"),
    ((*LOG, ["same"] * M), "must be unique"),
], ids=["two", "hole", "empty", "short", "keys"])  # fmt: skip
def test_a_log_that_is_not_whole_is_refused(log, match):
    with pytest.raises(BatchError, match=match):
        labelled(log)


def test_of_an_earlier_batch_only_its_checks_are_held_out():
    """The rows that were sent in the second round are the hard ones."""
    truth = [1 - label if i > 200 else label for i, label in enumerate(CHEAP)]
    earlier = label_answers(CHEAP, TRUST, lambda rows: [truth[i] for i in rows], agreement=0.95)
    assert (earlier.origin == "asked").any()
    found = labelled((CHEAP, TRUST, earlier))
    again = labelled(
        (*([values[i] for i in np.flatnonzero(earlier.origin == "checked")]
           for values in (CHEAP, TRUST, earlier.labels)),)
    )  # fmt: skip
    assert found.rate == again.rate


def test_an_earlier_batch_whose_checks_failed_is_no_log():
    earlier = label_answers(
        CHEAP, TRUST, lambda rows: [None if i % 5 == 0 else CHEAP[i] for i in rows], agreement=0.9
    )
    with pytest.raises(BatchError, match="Checks that failed"):
        labelled((CHEAP, TRUST, earlier))
