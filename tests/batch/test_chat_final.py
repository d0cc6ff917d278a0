"""A chat model as the final model of a batch: few questions, one price, and a promise."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from chat_server import ChatServer
from toy_chat import model_of

from emsco.batch import label_answers, label_batch
from emsco.batch.answers_store import JobStore
from emsco.cascade import CascadeClassifier
from emsco.exceptions import BatchError, EndpointError

N_ROWS = 600


def table():
    """Make rows of numbers, of which the sign decides, and a text."""
    rng = np.random.default_rng(0)
    score = rng.normal(size=N_ROWS)
    frame = pd.DataFrame(
        {"score": score.round(3), "text": [f"row {i}: {x:.3f}" for i, x in enumerate(score)]}
    )
    return frame, ["spam" if x > 0 else "ham" for x in frame["score"]]


def by_sign(question):
    return "spam" if float(question.rsplit(" ", 1)[1]) > 0 else "ham"


@pytest.fixture
def server():
    with ChatServer(by_sign).running() as server:
        yield server


def cheap(X, truth):
    """Give cheap answers that are wrong where they are not trusted."""
    distance = X["score"].abs().to_numpy()
    flipped = np.where(distance < 0.05, "ham", truth)
    return flipped.tolist(), np.minimum(1.0, 0.5 + distance)


def test_a_batch_is_labelled_by_few_questions(server, tmp_path):
    X, truth = table()
    fitted = CascadeClassifier(threshold=0.9).fit(X[["score"]][:200], truth[:200])
    rest, right = X[200:], truth[200:]
    final = model_of(server, tmp_path)
    found = label_batch(fitted, rest, final, agreement=0.9, job=tmp_path / "job")
    assert np.mean([a == b for a, b in zip(found.labels, right, strict=True)]) >= 0.9
    assert len(server.bill) == sum(found.calls.values()) < len(rest)
    assert final.spending().n_unknown == 0


def test_two_models_are_a_cascade(server, tmp_path):
    """The small one with its log-probabilities, the large one for the rows that it doubts."""
    X, truth = table()
    answers, trust = cheap(X, truth)
    by_row = dict(zip(X["text"], zip(answers, trust, strict=True), strict=True))

    def weak(question):
        return by_row[question.removeprefix("Is this spam? ")]

    with ChatServer(lambda q: weak(q)[0], trust=lambda q: weak(q)[1]).running() as cheaper:
        small = model_of(cheaper, tmp_path, logprobs=True)
        large = model_of(server, tmp_path)
        found = label_answers(*small.answers_with_trust(X), large.on(X), agreement=0.95)
    assert np.mean([a == b for a, b in zip(found.labels, truth, strict=True)]) >= 0.95
    assert len(server.bill) == sum(found.calls.values()) < 0.9 * N_ROWS


def test_no_money_ends_a_job_that_goes_on_with_more(server, tmp_path):
    """No row is recorded as failed that was never asked."""
    X, truth = table()
    given = {"agreement": 0.95, "job": tmp_path / "job"}
    with pytest.raises(EndpointError, match="beyond `max_spend`"):
        label_answers(*cheap(X, truth), model_of(server, tmp_path, max_spend=0.0005).on(X), **given)
    n_first = len(server.bill)
    found = label_answers(*cheap(X, truth), model_of(server, tmp_path, max_spend=1).on(X), **given)
    assert "failed" not in found.origin
    assert n_first < len(server.bill) == sum(found.calls.values())


def test_a_row_without_a_label_is_told(server, tmp_path):
    X, truth = table()
    answers, trust = cheap(X, truth)
    server.answer = lambda question: None if "row 7:" in question else by_sign(question)
    answers[7], trust[7] = None, np.nan  # so that it is sent
    found = label_answers(answers, trust, model_of(server, tmp_path).on(X), agreement=0.95)
    assert (found.labels[7], found.origin[7]) == (None, "failed")
    assert (found.origin == "failed").sum() == 1


def test_a_final_model_that_ends_is_not_a_row_that_failed(tmp_path):
    """An endpoint that is down leaves the job as it was."""
    X, truth = table()
    with ChatServer(by_sign).running() as server:
        pass
    model = model_of(server, tmp_path, retries=0)
    with pytest.raises(EndpointError, match="is down"):
        label_answers(*cheap(X, truth), model.on(X), agreement=0.9, job=tmp_path / "job")
    store = JobStore(tmp_path / "job")
    assert not store.answers()
    store.close()


def test_what_is_neither_a_function_nor_a_model_is_still_refused():
    with pytest.raises(BatchError, match="a model with `predict` or a live source"):
        label_answers(["a", "b"], [0.5, 0.6], 5)
