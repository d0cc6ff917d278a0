"""Bodies of requests and answers: whatever comes, it is a label, no label, or nothing."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emsco.chat.chat_protocol import (
    ChatReply,
    ChatRequest,
    encode,
    error_text,
    label_of,
    read_document,
    read_reply,
    read_usage,
    refused_option,
)
from emsco.chat.label_reading import LabelSet

LABELS = LabelSet.of(["spam", "ham"])
REQUEST = ChatRequest.of("m", LABELS, 40, True, "Is this spam? é")


def document(content="spam", finish="stop", **more):
    message = {"role": "assistant", "content": content} | more.pop("message", {})
    return {"choices": [{"message": message, "finish_reason": finish} | more]}


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["choices", "message", "content", "usage", "logprobs", "finish_reason",
                         "refusal", "prompt_tokens", "completion_tokens", "error", "token"]),
        inner, max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(anything)
def test_any_document_is_read(found):
    """Nothing raises, and only a label as written is one."""
    reply = read_reply(found, LABELS)
    assert label_of(reply, LABELS) in ("spam", "ham", None)
    assert read_usage(found) is None or min(read_usage(found)) >= 0
    assert isinstance(error_text(found), str)
    assert refused_option(400, found, REQUEST.body()) is None


@given(st.binary(max_size=50))
def test_any_bytes_are_read(content):
    read_document(content)


def test_a_nested_bomb_is_no_document():
    assert read_document(b"[" * 100_000) is None


@pytest.mark.parametrize(
    "found",
    [document(finish="length"), document(finish="content_filter"), document(finish="SAFETY"),
     document(finish="tool_calls"), document(finish=None), document(None), document(["spam"]),
     document(message={"refusal": "no"}), {"choices": []}, {"choices": None}, [], None,
     {"choices": document()["choices"] * 2}, document("spam ham"), {"choices": ["spam"]}],
)  # fmt: skip
def test_what_is_cut_off_refused_or_odd_is_no_label(found):
    """Also where the text itself would be one."""
    assert label_of(read_reply(found, LABELS), LABELS) is None


def test_an_answer_is_a_label():
    assert label_of(read_reply(document(), LABELS), LABELS) == "spam"
    assert read_reply(document(message={"refusal": ""}), LABELS) == ChatReply("spam", "stop", None)


@pytest.mark.parametrize(
    ("usage", "found"),
    [({"prompt_tokens": 5, "completion_tokens": 2}, (5, 2)),
     ({"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 17}, (5, 12)),
     ({"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 1}, (5, 2)),
     ({"prompt_tokens": -5, "completion_tokens": 2}, None),
     ({"prompt_tokens": 5.0, "completion_tokens": 2}, None),
     ({"prompt_tokens": True, "completion_tokens": 2}, None),
     ({"prompt_tokens": 10**30, "completion_tokens": 2}, None),
     ({"prompt_tokens": 5}, None), (None, None), ([], None)],
)  # fmt: skip
def test_usage_is_counted_or_not_known(usage, found):
    """Thoughts that are only in the total are paid for as well."""
    assert read_usage({"usage": usage}) == found


def test_the_same_question_is_the_same_bytes():
    again = ChatRequest.of("m", LABELS, 40, True, "Is this spam? é")
    assert encode(REQUEST.body()) == encode(again.body())
    assert "é".encode() in encode(REQUEST.body())
    assert encode(REQUEST.body()) != encode(REQUEST.again(None).body())


def test_what_an_endpoint_refuses_is_left_out():
    body = REQUEST.body(("response_format", "logprobs", "temperature", "max_tokens"))
    assert set(body) == {"model", "messages", "max_completion_tokens"}
    assert set(REQUEST.body()) == {"model", "messages", "max_tokens", "temperature", "logprobs",
                                   "response_format"}  # fmt: skip


@pytest.mark.parametrize(
    ("status", "error", "option"),
    [(400, {"message": "x", "param": "temperature"}, "temperature"),
     (400, {"message": "This response_format type is unavailable now"}, "response_format"),
     (403, {"message": "You are not allowed to request logprobs from this model."}, "logprobs"),
     (400, {"message": "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
            "'max_completion_tokens' instead.", "param": "max_tokens"}, "max_tokens"),
     (400, {"message": "maximum context length is 4097 tokens, reduce max_tokens"}, None),
     (400, {"message": "Do not ask for the temperature", "param": "messages"}, None),
     (401, {"message": "temperature"}, None), (500, {"message": "temperature"}, None),
     (400, "response_format is unknown", "response_format")],
)  # fmt: skip
def test_refused_options_are_named_by_the_endpoint(status, error, option):
    assert refused_option(status, {"error": error}, REQUEST.body()) == option


def tokens(*parts):
    return {"content": [{"token": text, "logprob": logprob} for text, logprob in parts]}


def trust(content, *parts):
    return read_reply(document(content, logprobs=tokens(*parts)), LABELS).trust


def test_the_trust_is_the_probability_of_the_label_alone():
    """Not of the JSON around it, which the model may have been forced to write."""
    found = trust('{"label": "spam"}', ('{"label', -7), ('": "', -3), ("sp", -0.5), ("am", -0.25),
                  ('"}', -9), ("<end>", -2))  # fmt: skip
    assert found == pytest.approx(math.exp(-0.75))
    assert trust(" ham", (" ham", -0.1)) == pytest.approx(math.exp(-0.1))


@pytest.mark.parametrize(
    "parts",
    [[("spa", -1)], [("spam", None)], [("spam", 2.0)], [("spam", True)], [("ham", -1)],
     [("spam", float("nan"))], [(5, -1)]],
)  # fmt: skip
def test_a_trust_that_is_not_of_this_answer_is_none(parts):
    assert trust("spam", *parts) is None


def test_tokens_may_be_parts_of_letters():
    """Then they are told by their bytes."""
    labels = LabelSet.of(["é", "e"])
    parts = [
        {"token": "?", "bytes": [0xC3], "logprob": -1},
        {"token": "?", "bytes": [0xA9], "logprob": -2},
    ]
    reply = read_reply(json.loads(json.dumps(document("é", logprobs={"content": parts}))), labels)
    assert reply.trust == pytest.approx(math.exp(-3))
