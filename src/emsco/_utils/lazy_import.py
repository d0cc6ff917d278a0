"""Names of a room that are loaded when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy(
    room: str, places: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make `__getattr__` and `__dir__` of a room whose names are in these modules of emsco.

    Examples
    --------
    >>> from emsco._utils.lazy_import import lazy
    >>> get, _ = lazy("emsco.engine", {"LocalEngine": "engine"})
    >>> get("LocalEngine").__name__
    'LocalEngine'
    >>> get("CloudEngine")
    Traceback (most recent call last):
    AttributeError: module 'emsco.engine' has no attribute 'CloudEngine'
    """

    def get(name: str) -> Any:
        if name in places:
            return getattr(import_module(f"emsco.{places[name]}"), name)
        raise AttributeError(f"module {room!r} has no attribute {name!r}")

    def names() -> list[str]:
        return sorted({*vars(sys.modules[room]), *places})

    return get, names
