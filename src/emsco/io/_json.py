"""JSON whose size is checked before it is parsed, with plain values that keep their types.

Numbers, text, booleans and None are written as JSON has them. What JSON lacks (an infinity, a numpy
scalar, a tuple, a mapping) is an object with one key that names its type.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from math import isfinite
from typing import Any, NoReturn

import numpy as np

from emsco.exceptions import ArtifactError

# Parsed JSON takes more memory than its text: these bounds keep it under 100 MB.
MOST_BYTES = 8 * 2**20
MOST_VALUES = 300_000
MOST_DEPTH = 64

# Possessive, so that it never backtracks, not even in a text without an end.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{},]', re.DOTALL)

_NUMPY = {
    kind.__name__.rstrip("_"): kind
    for kind in (
        np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64,
        np.float16, np.float32, np.float64, np.str_,
    )
}  # fmt: skip


def parse(
    data: bytes,
    *,
    most_bytes: int = MOST_BYTES,
    most_values: int = MOST_VALUES,
    most_depth: int = MOST_DEPTH,
) -> Any:
    """Parse JSON that is not too large or too deep, and has no repeated key and no NaN."""
    if len(data) > most_bytes or not data.isascii():
        raise ArtifactError(f"its JSON must be ASCII and at most {most_bytes:,} bytes")
    _look_over(data, most_values, most_depth)
    try:
        return json.loads(
            data,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            object_pairs_hook=_without_twins,
        )
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"its JSON is not valid: {error}") from error


def _look_over(data: bytes, most_values: int, most_depth: int) -> None:
    """Count values and depth without storing anything; text is skipped."""
    values = texts = depth = 0
    for token in _TOKEN.finditer(data):
        first = data[token.start() : token.start() + 1]
        if first == b'"':
            texts += 1
        elif first == b",":
            values += 1
        elif first in b"[{":
            values += 1
            depth += 1
        else:
            depth -= 1
        if depth > most_depth:
            raise ArtifactError(f"its JSON is nested more than {most_depth} deep")
        if values > most_values or texts > 2 * most_values + 1:
            raise ArtifactError(f"its JSON holds more than {most_values:,} values")


def write(value: Any, *, indent: int | None = None) -> bytes:
    """Write the JSON that `parse` reads; floats as the shortest text that restores them exactly."""
    separators = (",", ":") if indent is None else (",", ": ")
    try:
        text = json.dumps(value, allow_nan=False, indent=indent, separators=separators)
    except (TypeError, ValueError) as error:
        raise ArtifactError(f"it cannot be written as JSON: {error}") from error
    return text.encode("ascii")


def to_plain(value: Any, what: str = "it") -> Any:
    """Turn a plain value into JSON; `what` names it in error messages."""
    if isinstance(value, np.generic):
        name = type(value).__name__.rstrip("_")
        if name in _NUMPY and type(value) is _NUMPY[name]:
            # item() would drop NULs at the end of a text.
            bare = "".join(value) if isinstance(value, np.str_) else value.item()
            return {name: to_plain(bare, what)}
    elif value is None or type(value) in (bool, int, str):
        return value
    elif type(value) is float:
        return value if isfinite(value) else {"float": repr(value)}
    elif type(value) is list:
        return [to_plain(item, what) for item in value]
    elif type(value) is tuple:
        return {"tuple": [to_plain(item, what) for item in value]}
    elif isinstance(value, Mapping):
        if all(type(key) is str for key in value):
            return {"dict": {key: to_plain(item, what) for key, item in value.items()}}
        pairs = [[to_plain(key, what), to_plain(item, what)] for key, item in value.items()]
        return {"map": pairs}
    raise ArtifactError(
        f"{what} holds a {type(value).__module__}.{type(value).__qualname__}; only numbers, "
        "text and booleans can be saved"
    )


def from_plain(data: Any) -> Any:
    """Turn JSON back into the value that it represents."""
    if isinstance(data, list):
        return [from_plain(item) for item in data]
    if not isinstance(data, dict):
        return data
    if len(data) == 1:
        ((kind, content),) = data.items()
        if kind == "tuple" and isinstance(content, list):
            return tuple(from_plain(item) for item in content)
        if kind == "dict" and isinstance(content, dict):
            return {key: from_plain(item) for key, item in content.items()}
        if kind == "map" and isinstance(content, list):
            return {from_plain(key): from_plain(item) for key, item in content}
        if kind == "float" and content in ("inf", "-inf", "nan"):
            return float(content)
        if kind in _NUMPY:
            return _numpy_scalar(kind, from_plain(content))
    raise ArtifactError(f"its JSON holds {json.dumps(data)[:80]} where a value is expected")


def _numpy_scalar(kind: str, value: Any) -> Any:
    scalar = _NUMPY[kind](value)
    if type(value) not in (bool, int, float, str) or type(scalar.item()) is not type(value):
        raise ArtifactError(f"its JSON holds {value!r:.80}, which is not a {kind}")
    return scalar


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a finite number")


def _finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError(f"{text[:80]} is not a finite number")
    return value


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    named = dict(pairs)
    if len(named) != len(pairs):
        raise ValueError("a key is repeated")
    return named
