"""Objects of the user's own, named as module:name."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

import typer


def import_named(text: str, flag: str, what: str) -> Any:
    """Import what `module:name` names, also from the folder in which the command runs."""
    module, _, name = text.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # last, so that nothing else is imported from there
    try:
        return getattr(import_module(module), name)
    except ImportError as error:
        raise typer.BadParameter(
            f"{flag} {text} cannot be imported: {error}; is its folder in PYTHONPATH?"
        ) from error
    except AttributeError as error:
        raise typer.BadParameter(f"{flag}: {module} has no {what} {name!r}.") from error


def is_named(text: str) -> bool:
    """Return whether a text looks like module:name."""
    module, colon, name = text.partition(":")
    return bool(module and colon and name)
