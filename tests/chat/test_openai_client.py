"""The official client of the protocol, against the same server: the same answers."""

from __future__ import annotations

import json

import openai
import pytest
from chat_server import ChatServer
from toy_chat import LABELS, label_of, messages, model_of, truth


def test_the_official_client_gets_the_same_answers(tmp_path):
    """To the very requests that a chat model sends."""
    with ChatServer(label_of, trust=lambda _: 0.75).running() as server:
        ours = model_of(server, tmp_path, logprobs=True).answers_with_trust(messages(20))
        requests = [one["body"] for one in server.seen]
        client = client_of(server)
        theirs = {}
        for request in requests:
            answer = client.chat.completions.create(**request)
            (choice,) = answer.choices
            question = request["messages"][1]["content"]
            theirs[question] = json.loads(choice.message.content)["label"]
            assert (choice.finish_reason, choice.message.refusal) == ("stop", None)
            assert answer.usage.total_tokens > answer.usage.prompt_tokens > 0
            assert choice.logprobs.content[1].logprob == pytest.approx(-0.2876820)
        client.close()
    questions = model_of(server, tmp_path).questions(messages(20))
    assert [theirs[question] for question in questions] == ours.labels == truth(20)
    assert set(ours.labels) == set(LABELS)
    assert ours.trust == pytest.approx([0.75] * 20)


def client_of(server, **options):
    return openai.OpenAI(base_url=server.base_url, api_key="none", max_retries=0, **options)


@pytest.mark.parametrize(
    ("kind", "error"),
    [("429 with seconds", "RateLimitError"), ("500", "InternalServerError"),
     ("503", "InternalServerError"), ("cut before headers", "APIConnectionError"),
     ("cut in the answer", "APIConnectionError")],
)  # fmt: skip
def test_the_official_client_knows_the_faults(kind, error):
    """They are those of the protocol: it has an error for each."""
    asked = [{"role": "system", "content": ""}, {"role": "user", "content": "Is it? 1"}]
    with (
        ChatServer(label_of, share=1.0, faults=(kind,)).running() as server,
        client_of(server) as client,
        pytest.raises(getattr(openai, error)),
    ):
        client.chat.completions.create(messages=asked, model="m", max_tokens=9)
