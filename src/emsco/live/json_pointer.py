"""JSON pointers (RFC 6901), such as "/owner/age_days" and "/rows/0"."""

from __future__ import annotations

from typing import Any

from emsco.exceptions import SourcesError


def check_pointer(pointer: str, what: str) -> str:
    """Return the pointer; raise an error if it is not valid."""
    if pointer and not pointer.startswith("/"):
        raise SourcesError(f"`{what}` must be a JSON pointer such as '/age_days', got {pointer!r}.")
    return pointer


def look_up(document: Any, pointer: str) -> Any:
    """Return the value at a pointer; None if there is none.

    Examples
    --------
    >>> from emsco.live.json_pointer import look_up
    >>> look_up({"owner": [{"a/b": 7}]}, "/owner/0/a~1b")
    7
    >>> look_up({"owner": []}, "/owner/0") is None
    True
    """
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
