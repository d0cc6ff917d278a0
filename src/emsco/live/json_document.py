"""JSON that others have written: read if it means one thing, and can be read at all."""

from __future__ import annotations

import json
import zlib
from typing import Any

UNREADABLE = object()  # JSON, but nobody knows what is meant
_EITHER = 47  # zlib's own sign for gzip or zlib, whichever it is


def read_document(text: bytes | str) -> Any:
    """Read JSON; None where it is none, `UNREADABLE` where a name comes twice, or it is too deep.

    Examples
    --------
    >>> from emsco.live.json_document import UNREADABLE, read_document
    >>> read_document('{"age": 3}'), read_document("<html>")
    ({'age': 3}, None)
    >>> read_document('{"age": 3, "age": 4}') is UNREADABLE
    True
    """
    try:
        return json.loads(text, object_pairs_hook=_once)
    except (_TwiceError, RecursionError):
        return UNREADABLE
    except ValueError:
        return None


class _TwiceError(Exception):
    """A name comes twice in an object."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _TwiceError
    return found


def unpacked(body: bytes, encoding: str, most: int) -> bytes | None:
    """Unpack an answer of at most so many bytes; None where it is larger, or packed otherwise.

    Examples
    --------
    >>> import gzip
    >>> from emsco.live.json_document import unpacked
    >>> unpacked(gzip.compress(b"{}"), "gzip", 100), unpacked(gzip.compress(b"{}"), "gzip", 1)
    (b'{}', None)
    """
    if encoding in ("", "identity"):
        return body
    if encoding not in ("gzip", "x-gzip", "deflate"):
        return None  # among others, what is packed twice
    unpacking = zlib.decompressobj(_EITHER)
    try:
        whole = unpacking.decompress(body, most)
    except zlib.error:
        return None
    return whole if unpacking.eof and not unpacking.unused_data else None
