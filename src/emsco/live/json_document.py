"""JSON from other systems: no duplicate names, limited depth and size; JSON pointers (RFC 6901)."""

from __future__ import annotations

import json
import zlib
from typing import Any

from emsco.exceptions import SourcesError

UNREADABLE = object()  # ambiguous or too deeply nested JSON
_EITHER = 47  # zlib's code for detecting gzip or zlib


def read_document(text: bytes | str) -> Any:
    """Parse JSON; None if it is not valid, `UNREADABLE` if it is too deep or repeats a name."""
    try:
        return json.loads(text, object_pairs_hook=_once)
    except (KeyError, RecursionError):
        return UNREADABLE
    except ValueError:
        return None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise KeyError("An object has a duplicate name.")
    return found


def unpacked(body: bytes, encoding: str, most: int) -> bytes | None:
    """Decompress an answer of at most `most` bytes; None if it is larger or not supported."""
    if encoding in ("", "identity"):
        return body
    if encoding not in ("gzip", "x-gzip", "deflate"):
        return None  # for example, compressed twice
    unpacking = zlib.decompressobj(_EITHER)
    try:
        whole = unpacking.decompress(body, most)
    except zlib.error:
        return None
    return whole if unpacking.eof and not unpacking.unused_data else None


def check_pointer(pointer: str, what: str) -> str:
    """Return the pointer; raise an error if it is not valid."""
    if pointer and not pointer.startswith("/"):
        raise SourcesError(f"`{what}` must be a JSON pointer such as '/age_days', got {pointer!r}.")
    return pointer


def look_up(document: Any, pointer: str) -> Any:
    """Return the value at a pointer; None if there is none."""
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(document, dict):
            document = document.get(name)
        elif isinstance(document, list) and name.isascii() and name.isdigit():
            place = int(name)
            document = document[place] if place < len(document) else None
        else:
            return None
    return document
