"""A chat model against a server over real sockets: labels, faults, money, and what is kept."""

from __future__ import annotations

import asyncio
import pickle
from contextlib import closing

import numpy as np
import pandas as pd
import pytest
from chat_server import COUNTED, FAULTS, FREE, ChatServer
from sklearn.base import clone
from toy_chat import LABELS, PRICES, label_of, messages, model_of, truth

from emsco.chat.answer_cache import AnswerCache
from emsco.exceptions import ArtifactError, EndpointError, ModelError
from emsco.final import ChatModel


@pytest.fixture
def server():
    with ChatServer(label_of).running() as server:
        yield server


def ask(model, X):
    return asyncio.run(model(X))


def test_rows_get_their_labels_and_are_paid_once(server, tmp_path):
    model = model_of(server, tmp_path)
    assert model.predict(messages(30)).tolist() == truth(30)
    assert model.predict(messages(40)).tolist() == truth(40)
    assert len(server.bill) == 40
    assert model.spending() == (pytest.approx(server.charged(**PRICES), abs=1e-11), 0, 0)


def test_rows_that_are_alike_are_asked_once(server, tmp_path):
    """Also when they are asked at the same time."""
    server.delay = 0.05
    X = pd.concat([messages(3)] * 10)
    assert model_of(server, tmp_path).predict(X).tolist() == truth(3) * 10
    assert len(server.bill) == 3


def test_no_more_questions_at_a_time_than_were_allowed(server, tmp_path):
    server.delay = 0.02
    model_of(server, tmp_path, concurrency=3).predict(messages(30))
    assert server.most_at_once == 3


def test_it_works_inside_a_running_loop(server, tmp_path):
    async def notebook():
        model = model_of(server, tmp_path)
        return model.predict(messages(4)).tolist(), await model(messages(6))

    assert asyncio.run(notebook()) == (truth(4), truth(6))


def test_labels_keep_their_types(server, tmp_path):
    server.answer = lambda question: label_of(question) == "ham"
    found = model_of(server, tmp_path, labels=[True, False]).predict(messages(4))
    assert (found.dtype, found.tolist()) == (np.bool_, [False, True, False, True])
    server.answer = lambda question: 1 if label_of(question) == "ham" else "none"
    found = model_of(server, tmp_path, labels=[1, "none"]).predict(messages(4))
    assert found.tolist() == ["none", 1, "none", 1]


@pytest.mark.parametrize("kind", FAULTS)
def test_each_fault_is_survived(kind, tmp_path):
    """Half of the requests have it: labels are right or missing, and the bill is as was said."""
    with ChatServer(label_of, share=0.5, faults=(kind,), seed=3).running() as server:
        model = model_of(server, tmp_path, timeout=0.7, retries=8)
        found = ask(model, messages(12))
        assert all(label in (None, right) for label, right in zip(found, truth(12), strict=True))
        assert sum(label is None for label in found) < 12
        assert any(charge.kind == kind for charge in server.bill) == (kind not in FREE)
        spending = model.spending()
        assert spending.known == pytest.approx(server.charged(**PRICES, counted=True), abs=1e-10)
        assert spending.n_unknown == sum(one.kind not in COUNTED for one in server.bill)
        assert spending.unknown >= server.charged(**PRICES, counted=False)


def test_all_faults_at_once(tmp_path):
    with ChatServer(label_of, share=0.2).running() as server:
        model = model_of(server, tmp_path, concurrency=16, timeout=2.0, max_spend=1.0)
        found = ask(model, messages(300))
        assert {*zip(found, truth(300), strict=True)} <= {
            ("spam", "spam"), ("ham", "ham"), (None, "spam"), (None, "ham"),
        }  # fmt: skip
        assert sum(label is None for label in found) < 40
        spending = model.spending()
        assert spending.known == pytest.approx(server.charged(**PRICES, counted=True), abs=1e-9)
        assert spending.n_unknown == sum(one.kind not in COUNTED for one in server.bill)
        assert len(server.kinds) > 12


def test_predict_names_the_rows_without_an_answer_and_keeps_the_others(server, tmp_path):
    server.answer = lambda question: None if question.endswith("7") else label_of(question)
    model = model_of(server, tmp_path)
    with pytest.raises(ModelError, match=r"no label for 3 of 30 rows: 7 \(the answer was no label"):
        model.predict(messages(30))
    assert len(server.bill) == 33  # each of the three was asked about once more
    assert [label is None for label in ask(model, messages(30))].index(True) == 7
    assert len(server.bill) == 33
    assert model.predict(messages(7)).tolist() == truth(7)


def test_an_answer_that_is_no_label_is_asked_for_once_more(server, tmp_path):
    """With the answer and the labels, as a person would."""
    server.share, server.faults = 1.0, ("no label",)
    with pytest.raises(ModelError):
        model_of(server, tmp_path).predict(messages(1))
    first, second = (one["body"]["messages"] for one in server.seen)
    assert [one["role"] for one in second] == ["system", "user", "assistant", "user"]
    assert second[:2] == first
    assert '["spam", "ham"]' in second[3]["content"]


def test_a_refusal_is_not_argued_with(server, tmp_path):
    server.share, server.faults = 1.0, ("refused",)
    with pytest.raises(ModelError, match="the model refused to answer"):
        model_of(server, tmp_path).predict(messages(1))
    assert len(server.bill) == 1


@pytest.mark.parametrize("refused", ["response_format", "temperature", "max_tokens"])
def test_what_an_endpoint_refuses_is_learned_once(refused, tmp_path):
    with ChatServer(label_of, refuses=(refused,)).running() as server:
        model = model_of(server, tmp_path, concurrency=1)
        assert model.predict(messages(5)).tolist() == truth(5)
        assert model.predict(messages(9)).tolist() == truth(9)
        assert sum(refused in one["body"] for one in server.seen) == 1
        assert len(server.bill) == 9
        limits = {"max_tokens", "max_completion_tokens"}
        assert all(len(limits & one["body"].keys()) == 1 for one in server.seen)


def test_max_spend_is_kept_and_can_be_raised(server, tmp_path):
    """What was not asked is asked later; what came is not asked again."""
    most = 0.0005
    model = model_of(server, tmp_path, max_spend=most)
    with pytest.raises(EndpointError, match="beyond `max_spend`"):
        model.predict(messages(100))
    n_first = len(server.bill)
    assert 5 < n_first < 100
    assert 0.6 * most < server.charged(**PRICES) <= most
    with pytest.raises(EndpointError, match="beyond `max_spend`"):
        model.predict(messages(100))
    assert server.charged(**PRICES) <= most
    assert model_of(server, tmp_path, max_spend=1).predict(messages(100)).tolist() == truth(100)
    assert len(server.bill) == 100


@pytest.mark.parametrize("kind", ["cut in the answer", "no usage", "500", "slow drip"])
def test_lost_calls_count_as_their_upper_bound(kind, tmp_path):
    """So that the limit holds however many answers are lost."""
    with ChatServer(label_of, share=0.7, faults=(kind,)).running() as server:
        model = model_of(server, tmp_path, max_spend=0.001, timeout=0.3, retries=2)
        with pytest.raises(EndpointError, match=r"beyond `max_spend`|is down"):
            ask(model, messages(200))
        assert server.charged(**PRICES) <= 0.001
        spending = model.spending()
        assert server.charged(**PRICES) <= spending.known + spending.unknown <= 0.001


def test_an_endpoint_that_charges_beyond_its_bound_is_stopped(server, tmp_path):
    """Such as one with a long prompt of its own; `overhead` says how long."""
    charge = server.document

    def dear(*request):
        document = charge(*request)
        document["usage"]["prompt_tokens"] = 5000
        return document

    server.document = dear
    model = model_of(server, tmp_path, max_spend=1.0, concurrency=1)
    with pytest.raises(EndpointError, match="Raise `overhead`"):
        model.predict(messages(9))
    assert len(server.bill) == 1
    assert model.spending().known == pytest.approx((5000 * 0.15 + 17 * 0.6) / 1e6)
    again = model_of(server, tmp_path, max_spend=1.0, overhead=5000)
    assert again.predict(messages(9)).tolist() == truth(9)


def test_an_endpoint_that_is_not_there_is_named(tmp_path):
    with ChatServer(label_of).running() as server:
        pass
    model = model_of(server, tmp_path, retries=1)
    with pytest.raises(EndpointError, match=r"is down: it cannot be reached \(ConnectError\)"):
        model.predict(messages(50))
    assert model.spending() == (0, 0, 0)


def test_an_endpoint_that_goes_down_ends_it_and_loses_nothing(server, tmp_path):
    model = model_of(server, tmp_path, retries=0, concurrency=2)
    model.predict(messages(20))
    server.share, server.faults = 1.0, ("503",)
    with pytest.raises(EndpointError, match="is down: it answered with status 503"):
        ask(model, messages(200))
    server.share = 0.0
    assert ask(model, messages(200)) == truth(200)
    assert len(server.bill) == 200


def test_few_questions_that_fail_have_no_label(server, tmp_path):
    server.share, server.faults = 1.0, ("500",)
    assert ask(model_of(server, tmp_path, retries=1), messages(3)) == [None] * 3
    assert len(server.bill) == 6


def test_a_path_that_is_not_there_is_named(server, tmp_path):
    model = ChatModel(server.base_url + "/v2", "m", "{text}", LABELS, api_key_env=None,
                      answers=tmp_path / "a.sqlite")  # fmt: skip
    with pytest.raises(EndpointError, match="takes no questions: it answered with status 404"):
        model.predict(messages(3))


def test_waiting_is_for_all_questions_and_has_an_end(server, tmp_path):
    """An endpoint that wants hours is not waited for."""
    server.special = lambda number: (429, {}, {"Retry-After": "7200"}) if number == 1 else None
    with pytest.raises(EndpointError, match="asks to wait for 7,200 seconds"):
        model_of(server, tmp_path, concurrency=1).predict(messages(3))


def test_the_trust_comes_from_log_probabilities(server, tmp_path):
    server.trust = lambda question: 0.5 + int(question.rsplit(" ", 1)[1]) / 100
    model = model_of(server, tmp_path, logprobs=True)
    found = model.answers_with_trust(messages(20))
    assert found.labels == truth(20)
    assert found.trust == pytest.approx([0.5 + i / 100 for i in range(20)])
    assert model.answers_with_trust(messages(20)).trust == pytest.approx(found.trust)  # kept
    assert len(server.bill) == 20
    with pytest.raises(ModelError, match="logprobs=True"):
        model_of(server, tmp_path).answers_with_trust(messages(2))
    server.trust = None
    with pytest.raises(ModelError, match="gives no log-probabilities"):
        model_of(server, tmp_path, logprobs=True, answers=None).answers_with_trust(messages(2))


def test_it_is_a_value(tmp_path):
    """Copies, pickles and clones ask the same questions."""
    model = ChatModel(
        "http://127.0.0.1:9/v1/", "m", "{text}", ["a", 1, True], answers=tmp_path / "x"
    )
    assert clone(model) == model == pickle.loads(pickle.dumps(model))
    assert hash(model) == hash(pickle.loads(pickle.dumps(model)))
    assert type(model).__module__ == "emsco.final"
    assert not (tmp_path / "x").exists()
    with pytest.raises(AttributeError):
        model.labels = ()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [({"base_url": "127.0.0.1/v1"}, "must start with https"), ({"base_url": None}, "base_url"),
     ({"base_url": "https://me:secret@x/v1"}, "no user, password"),
     ({"base_url": "https://x/v1?key=secret"}, "no user, password"),
     ({"base_url": "https://x:notaport/v1"}, "must be a URL"),
     ({"base_url": "https://x/v1\n"}, "no spaces"), ({"model": " "}, "`model`"),
     ({"concurrency": 0}, "`concurrency`"), ({"retries": -1}, "`retries`"),
     ({"max_tokens": 0}, "`max_tokens`"), ({"timeout": 0}, "`timeout`"),
     ({"timeout": None}, "`timeout`"), ({"backoff": "x"}, "`backoff`"),
     ({"max_spend": 1}, "needs `price_in`"), ({"max_spend": -1}, "`max_spend`"),
     ({"max_spend": 1, **PRICES, "answers": None}, "needs `answers`"),
     ({"logprobs": 1}, "`logprobs`"), ({"answers": 5}, "`answers`"),
     ({"api_key_env": "sk-secret-123"}, "name of an environment variable"),
     ({"api_key_env": ""}, "name of an environment variable"), ({"price_in": 1}, "both")],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused(wrong, words):
    given = {"base_url": "https://x/v1", "model": "m", "prompt": "{a}", "labels": ["a", "b"]}
    with pytest.raises(ModelError, match=words) as refused:
        ChatModel(**given | wrong)
    assert "secret" not in str(refused.value)


def test_an_answer_that_was_changed_in_the_file_ends_it(server, tmp_path):
    import sqlite3

    model = model_of(server, tmp_path)
    model.predict(messages(3))
    with closing(sqlite3.connect(model.answers)) as db:
        db.execute("UPDATE reply SET content = replace(content, 'spam', 'ham')")
        db.commit()
    with pytest.raises(ArtifactError, match="was changed"):
        model.predict(messages(3))


def test_nothing_is_left_open(server, tmp_path):
    """Files are closed after each use: another process may write at once."""
    model = model_of(server, tmp_path)
    model.predict(messages(3))
    with closing(AnswerCache(model.answers)) as cache:
        assert cache.reserve("a", "b", 1, None) is not None
