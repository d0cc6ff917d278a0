"""A chat model in a TOML file: its settings by name, and never its key."""

from __future__ import annotations

import os
import tomllib
from dataclasses import MISSING, fields
from pathlib import Path

from emsco.chat.chat_model import ChatModel
from emsco.exceptions import ModelError, nearest, refuse_unknown_keys

_KEYS = {"api_key", "key", "token", "secret", "password", "authorization"}


def read_chat_file(path: str | os.PathLike[str]) -> ChatModel:
    """Read a chat model from a file, whose keys are the parameters of `ChatModel`.

    The path of `answers` is relative to the folder of the file.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            values = tomllib.load(file)
    except OSError as error:
        beside = [known.name for known in path.parent.glob("*.toml")]
        raise ModelError(
            f"{path} cannot be read: {error.strerror}{nearest(path.name, beside)}"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        # Without what was found there: it may be a key.
        raise ModelError(f"{path} is not valid TOML.") from None
    for name in values:
        if name.casefold() in _KEYS:
            raise ModelError(
                f"{path} must not contain `{name}`: put the key into an environment variable, and "
                "the name of that into `api_key_env`."
            )
    known = {each.name: each for each in fields(ChatModel)}
    refuse_unknown_keys(values, list(known), str(path), ModelError)
    for name, each in known.items():
        if each.default is MISSING and name not in values:
            raise ModelError(f"{path} must have `{name}`.")
    if values.get("api_key_env") == "":  # TOML has no null
        values["api_key_env"] = None
    answers = values.get("answers", known["answers"].default)
    if isinstance(answers, str):
        values["answers"] = str(path.parent / answers)
    try:
        return ChatModel(**values)
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from error
