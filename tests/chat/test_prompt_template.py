"""Prompts: columns in braces are filled in, and everything else stays as it is written."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emsco.chat.prompt_template import PromptTemplate, text_of_value
from emsco.exceptions import ColumnsError, ModelError
from emsco.final import ChatModel


def filled(prompt, **row):
    return PromptTemplate.parse(prompt).fill(row)


def test_json_in_a_prompt_is_text():
    prompt = 'Answer {"label": "spam"} or {} for {text}; {{text}} is {"a": {"b": 1}}'
    assert (
        filled(prompt, text="x") == 'Answer {"label": "spam"} or {} for x; {x} is {"a": {"b": 1}}'
    )


@given(st.text(), st.text())
def test_a_value_is_never_a_template(one, other):
    """Whatever is in it: braces, names of columns, formats."""
    found = filled("<{a}|{b}>", a=one, b=other)
    shown = [text_of_value(value) for value in (one, other)]
    assert found == f"<{shown[0]}|{shown[1]}>"
    assert filled("{a}", a="{a} {b.__class__} {0!r} %s $a") == "{a} {b.__class__} {0!r} %s $a"


@pytest.mark.parametrize("value", [None, float("nan"), np.nan, pd.NA, pd.NaT, np.ma.masked])
def test_missing_values_are_empty(value):
    assert filled("a{x}b", x=value) == "ab"


@pytest.mark.parametrize(
    ("value", "text"),
    [(3, "3"), (3.5, "3.5"), (np.float32(0.5), "0.5"), (np.int8(7), "7"), (True, "True"),
     (b"caf\xc3\xa9", "café"), ("\ud83d", "\ufffd"), ("😀", "😀"), ("a\nb", "a\nb")],
)  # fmt: skip
def test_values_are_written_as_python_does(value, text):
    assert text_of_value(value) == text


def test_a_prompt_that_asks_the_same_of_every_row_is_refused():
    with pytest.raises(ModelError, match="name a column in braces"):
        PromptTemplate.parse("Is this spam?")
    with pytest.raises(ModelError, match="must be text"):
        PromptTemplate.parse(None)


def model(prompt):
    return ChatModel("http://127.0.0.1:1/v1", "m", prompt, ["a", "b"])


def test_an_unknown_column_is_named_with_the_nearest():
    with pytest.raises(ColumnsError, match=r"no column 'Body'; did you mean 'body'\?"):
        model("{Body}").questions(pd.DataFrame({"body": ["x"]}))


def test_every_container_asks_the_same():
    """Text of pandas and polars, categories, and a matrix, whose columns have numbers."""
    frame = pd.DataFrame({"body": ["x", None], "n": [1, 2]})
    asked = ["1: x", "2: "]
    assert model("{n}: {body}").questions(frame) == asked
    assert model("{n}: {body}").questions(frame.astype({"body": "category"})) == asked
    assert model("{n}: {body}").questions(pl.from_pandas(frame)) == asked
    assert model("{x0}").questions(np.array([[1.5], [2.0]])) == ["1.5", "2.0"]
    assert model("{a b}{a b}").questions(pd.DataFrame({"a b": ["x"]})) == ["xx"]
