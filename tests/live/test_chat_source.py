"""A chat model as a live source: each row gets its own label, at the price that was counted."""

from __future__ import annotations

import asyncio

import pytest
from chat_server import ChatServer
from toy_chat import LABELS, PRICES, label_of

from emsco.exceptions import EndpointError, SourcesError
from emsco.live import ChatSource, Sources

SETTINGS = {"model": "toy", "prompt": "Is it? {key}", "labels": list(LABELS), "api_key_env": ""}


@pytest.fixture
def server():
    with ChatServer(label_of).running() as server:
        yield server


def source_of(server, **settings):
    return ChatSource(base_url=server.base_url, **SETTINGS | settings)


def fetch(source, keys, values=None):
    async def ask():
        client = source.open(["verdict"])
        try:
            return await client.fetch(keys, values or {})
        finally:
            await client.close()

    return asyncio.run(ask())


def test_each_row_gets_its_own_label_while_others_are_cancelled(server):
    """In any order, many at the same time. A store lacks keys, a model answers for any."""
    server.delay = 0.01

    async def ask():
        client = source_of(server).open(["verdict"])
        keys = [str(i) for i in range(30)]
        tasks = [asyncio.create_task(client.fetch([key], {})) for key in [*keys, *reversed(keys)]]
        await asyncio.sleep(0.05)
        for task in tasks[::4]:
            task.cancel()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        await client.close()
        return zip([*keys, *reversed(keys)], found, strict=True)

    answered = [(key, one) for key, one in asyncio.run(ask()) if not isinstance(one, BaseException)]
    assert len(answered) >= 45
    for key, one in answered:
        assert one.columns == {"verdict": [LABELS[int(key) % 2]]}


def test_questions_are_made_of_values(server):
    source = source_of(server, prompt="Is {text} spam? {n}", answers=None)
    assert source.needs == {"text", "n"}
    found = fetch(source, ["a", "b"], {"text": ["{n}", "y"], "n": [4, 5]})
    assert found.columns == {"verdict": ["spam", "ham"]}
    asked = [one["body"]["messages"][1]["content"] for one in server.seen]
    assert sorted(asked) == ["Is y spam? 5", "Is {n} spam? 4"]


def test_the_price_is_what_the_endpoint_counted(server, tmp_path):
    source = source_of(server, paid=True, answers=str(tmp_path / "a.sqlite"), **PRICES)
    found = fetch(source, ["1", "2"])
    assert sum(found.prices) == pytest.approx(server.charged(**PRICES), abs=1e-11)
    assert fetch(source, ["1", "2"]).prices == [0, 0]  # kept
    assert fetch(source_of(server), ["1"]).prices is None


def test_an_answer_that_is_no_label_is_an_invalid_value(server):
    server.answer = lambda question: None if question.endswith("2") else label_of(question)
    found = fetch(source_of(server), ["1", "2", "3"])
    assert found.reasons == ["", "invalid value", ""]


def test_a_connection_that_is_lost_is_an_error_of_the_source(server):
    server.share, server.faults = 1.0, ("cut before headers",)
    with pytest.raises(ConnectionError, match="the connection was lost"):
        fetch(source_of(server), ["1"])


def test_an_endpoint_that_ends_is_asked_again_later(server):
    source = source_of(server)

    async def ask():
        client = source.open(["verdict"])
        server.special = lambda _: (404, {}, {})
        with pytest.raises(ConnectionError, match="takes no questions"):
            await client.fetch(["1"], {})
        server.special = None
        try:
            return await client.fetch(["1"], {})
        finally:
            await client.close()

    assert asyncio.run(ask()).columns == {"verdict": ["ham"]}


def test_a_file_describes_it(server, tmp_path, monkeypatch):
    sources = Sources({"model": source_of(server, **PRICES, paid=True, max_spend=5.0)})
    path = tmp_path / "sources.toml"
    path.write_text(sources.to_toml())
    assert Sources.from_toml(path) == sources
    path.write_text(path.read_text().replace("toy", "sk-123").replace('"spam"', '"Ham"'))
    with pytest.raises(SourcesError, match="look alike"):
        Sources.from_toml(path)
    monkeypatch.setenv("CHAT_KEY", "sk-123")
    source = source_of(server, api_key_env="CHAT_KEY")
    assert source.redacted("failed: sk-123") == "failed: ***"


def test_what_makes_no_sense_is_refused(server, monkeypatch):
    monkeypatch.delenv("CHAT_KEY", raising=False)
    with pytest.raises(EndpointError, match="CHAT_KEY is not set"):
        source_of(server, api_key_env="CHAT_KEY").open(["verdict"])
    with pytest.raises(SourcesError, match="one feature"):
        source_of(server).open(["verdict", "trust"])
    with pytest.raises(SourcesError, match="name a column"):
        source_of(server, prompt="Is it?")
    with pytest.raises(SourcesError, match="`time_field`"):
        source_of(server, time_field="at")
