"""Reading answers: a label as written, or none; and which labels can be told apart."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emsco.chat.label_reading import LabelSet
from emsco.exceptions import ModelError

WORDS = LabelSet.of(["spam", "ham", "not spam"])


def read(labels, content):
    found = labels.read(content)
    return None if found is None else found.label


@pytest.mark.parametrize(
    "content", ["spam", " spam\n", '"spam"', '{"label": "spam"}', ' {\n"label" : "spam"\n} ']
)
def test_a_label_is_read(content):
    assert read(WORDS, content) == "spam"
    found = WORDS.read(content)
    assert "spam" in content[found.start : found.end]


@pytest.mark.parametrize(
    "content",
    ["", " ", "Spam", "SPAM", "spam.", "spam ham", "spam, not ham", "It is spam", "spa", "spamm",
     "**spam**", "`spam`", "'spam'", "sp\u0430m", "spam\u200b", '{"label": "Spam"}',
     '{"label": "spam", "why": "x"}', '{"label": "spam", "label": "ham"}', '{"label": ["spam"]}',
     '{"Label": "spam"}', '["spam"]', '{"label": "spam"', '{"label": spam}', '{"label": null}',
     "null", "{}", '{"answer": {"label": "spam"}}', "label: spam", "spam\nham", "[" * 5000,
     '{"label": ' * 50, " " * 1000 + "spam"],
)  # fmt: skip
def test_all_else_is_no_label(content):
    """Nothing is guessed, however plain it seems."""
    assert read(WORDS, content) is None


@given(st.text(max_size=60))
def test_text_is_a_label_or_none(content):
    found = read(WORDS, content)
    assert found is None or found == content.strip().strip('"')


def test_labels_keep_their_types():
    numbers = LabelSet.of([0, 1, 2.5])
    assert [read(numbers, text) for text in ("1", '{"label": 0}', "2.5", "1.0")] == [1, 0, 2.5, 1]
    assert [read(numbers, text) for text in ('{"label": "1"}', '"1"', "true", "one", "NaN")] == [
        None
    ] * 5
    flags = LabelSet.of([True, False])
    assert [read(flags, text) for text in ("true", '{"label": false}', "True", "1")] == [
        True, False, None, None,
    ]  # fmt: skip
    texts = LabelSet.of(["0", "1"])
    assert [read(texts, text) for text in ("1", '{"label": "1"}', '{"label": 1}')] == [
        "1",
        "1",
        None,
    ]
    assert type(LabelSet.of(np.array([3, 4])).labels[0]) is int


@pytest.mark.parametrize(
    "labels",
    [["spam", "Spam"], ["yes", " yes"], ["1", 1], [1, 1.0], [True, "true"], ["a", "a"],
     ["café", "cafe\u0301"], ["not spam", "notspam"], ["a", "\uff41"]],
)  # fmt: skip
def test_labels_that_look_alike_are_refused(labels):
    with pytest.raises(ModelError, match=r"look alike|visible text"):
        LabelSet.of(labels)


@pytest.mark.parametrize(
    "labels", ["spam", ["spam"], [], None, ["a", None], ["a", float("nan")], ["a", ["b"]],
               ["a", ""], ["a", "b\nc"], ["a", "b "], [1j, 2j]],
)  # fmt: skip
def test_what_is_no_label_is_refused(labels):
    with pytest.raises(ModelError, match="`labels`"):
        LabelSet.of(labels)


def test_the_schema_names_the_type_where_there_is_one():
    assert WORDS.schema["properties"]["label"] == {"type": "string", "enum": list(WORDS.labels)}
    assert LabelSet.of([0, 1]).schema["properties"]["label"]["type"] == "integer"
    assert LabelSet.of(["a", 1]).schema["properties"]["label"] == {"enum": ["a", 1]}
    assert json.loads(json.dumps(WORDS.schema))["additionalProperties"] is False
