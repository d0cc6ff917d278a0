"""Write the few kinds of TOML values that costs and sources have; Python can only read TOML."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def toml_value(value: object) -> str:
    """Write text, a number, a boolean, a tuple or a mapping."""
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + "".join(_character(c) for c in escaped) + '"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{toml_key(k)} = {toml_value(v)}" for k, v in value.items()) + " }"
    if isinstance(value, tuple):
        return "[" + ", ".join(toml_value(item) for item in value) + "]"
    return repr(value)


def _character(character: str) -> str:
    control = ord(character) < 0x20 or ord(character) == 0x7F
    return f"\\u{ord(character):04x}" if control else character


def toml_key(name: str) -> str:
    """Write a key, without quotes if TOML allows it."""
    return name if _BARE_KEY.fullmatch(name) else toml_value(name)


def fields_beside(value: Any, plain: Any) -> dict[str, Any]:
    """Return the fields in which a value differs from one with the defaults."""
    return {
        field.name: getattr(value, field.name)
        for field in fields(value)
        if getattr(value, field.name) != getattr(plain, field.name)
    }
