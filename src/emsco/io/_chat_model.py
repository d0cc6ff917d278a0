"""Chat models in a file: their settings, and never their key.

A file could name any environment variable and any address to send it to. So whoever loads a file
confirms both, as with types that are not emsco's own.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from emsco.chat.chat_model import ChatModel
from emsco.exceptions import ArtifactError, Keyword
from emsco.io._core_values import Data, expect, expect_keys
from emsco.io._json import from_plain, to_plain
from emsco.io._members import MemberReader

_NAMES = tuple(each.name for each in fields(ChatModel))


def chat_to(model: ChatModel) -> Data:
    """Describe a chat model."""
    return {name: to_plain(value, "`final`") for name, value in model.to_data().items()}


def chat_from(reader: MemberReader, data: Any) -> ChatModel:
    """Read a chat model back, if its address may be asked with its key."""
    stored = expect_keys(expect(data, dict), *_NAMES)
    model = ChatModel(**{name: from_plain(value) for name, value in stored.items()})
    name = trusted_name(model)
    if name not in reader.trusted:
        raise ArtifactError(
            f"its final model asks {model.base_url}"
            + ("" if model.api_key_env is None else f" with the key in {model.api_key_env}")
            + "; if that is right, pass " + Keyword("trusted", [name])
        )  # fmt: skip
    return model


def trusted_name(model: ChatModel) -> str:
    """Return how a user confirms a chat model: the variable of its key, and where that is sent."""
    return model.base_url if model.api_key_env is None else f"{model.api_key_env}@{model.base_url}"
