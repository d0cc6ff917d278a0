"""The key: from the environment alone, to the endpoint alone, and in nothing that is kept."""

from __future__ import annotations

import logging
import pickle
import traceback

import pytest
from chat_server import ChatServer
from toy_chat import label_of, messages, model_of, truth

from emsco.exceptions import EmscoError, EndpointError

KEY = "sk-proj-Zm9vYmFyYmF6"
VARIABLE = "EMSCO_TEST_CHAT_KEY"


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv(VARIABLE, KEY)
    with ChatServer(label_of, key=KEY).running() as server:
        yield server


def everything(error):
    """Write all that a traceback can show, with what caused the error."""
    return "".join(traceback.format_exception(error))


def test_the_key_goes_to_the_endpoint(server, tmp_path):
    assert model_of(server, tmp_path, api_key_env=VARIABLE).predict(messages(4)).tolist() == truth(
        4
    )


def test_the_key_is_in_nothing_that_is_kept(server, tmp_path, caplog):
    """Neither in logs of any library at any level, nor in files, pickles or texts."""
    caplog.set_level(logging.DEBUG)
    model = model_of(server, tmp_path, api_key_env=VARIABLE)
    model.predict(messages(4))
    server.refuses = ("temperature",)
    model_of(server, tmp_path, api_key_env=VARIABLE, answers=tmp_path / "b").predict(messages(4))
    logged = "".join(f"{record.getMessage()}{record.__dict__}" for record in caplog.records)
    assert "127.0.0.1" in logged
    assert KEY not in logged
    for path in tmp_path.iterdir():
        assert KEY.encode() not in path.read_bytes()
    assert KEY not in repr(model) + str(model.to_data())
    assert KEY.encode() not in pickle.dumps(model)


def test_an_endpoint_that_says_the_key_is_not_repeated(server, tmp_path, monkeypatch):
    """It quotes the key that it got."""
    server.key = "another"
    monkeypatch.setenv(VARIABLE, KEY)
    with pytest.raises(EndpointError, match="Incorrect API key provided: Bearer") as refused:
        model_of(server, tmp_path, api_key_env=VARIABLE).predict(messages(2))
    assert KEY not in everything(refused.value)
    assert len(server.seen) <= 8  # it is not tried again


@pytest.mark.parametrize("key", [f"{KEY}\n", f"{KEY}\r\nX-Evil: 1", f"{KEY} {KEY}", f"{KEY}é", ""])
def test_a_key_that_cannot_be_sent_is_refused_unseen(server, tmp_path, monkeypatch, key):
    """A line break would end the header, and begin another one."""
    monkeypatch.setenv(VARIABLE, key)
    with pytest.raises(EmscoError, match=VARIABLE) as refused:
        model_of(server, tmp_path, api_key_env=VARIABLE).predict(messages(2))
    assert KEY not in everything(refused.value)
    assert not server.seen


def test_a_missing_key_is_named_by_its_variable(server, tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(EndpointError, match=f"variable {VARIABLE} is not set"):
        model_of(server, tmp_path, api_key_env=VARIABLE).predict(messages(2))


def test_redirects_are_not_followed_with_the_key(server, tmp_path):
    """Not even on the same host: who answers there is not whom the key is for."""
    with ChatServer(label_of).running() as elsewhere:
        there = {"Location": elsewhere.base_url + "/chat/completions"}
        server.special = lambda _: (302, {}, there)
        with pytest.raises(EndpointError, match="redirects to another address"):
            model_of(server, tmp_path, api_key_env=VARIABLE).predict(messages(2))
        assert not elsewhere.seen


def test_a_model_without_a_key_sends_none(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with ChatServer(label_of).running() as server:
        model_of(server, tmp_path).predict(messages(2))
        assert all("authorization" not in one["headers"] for one in server.seen)
