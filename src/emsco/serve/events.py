"""What the service tells operators: one JSON line per event, on standard error.

No line holds a key, a value or a token. What other libraries say is passed on without the text of
errors, which may hold any of them.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import traceback
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

INFO, WARNING, ERROR = "info", "warning", "error"


def log_event(event: str, level: str = INFO, **told: Any) -> None:
    """Write one event.

    Parameters
    ----------
    event : str
        What happened: "start", "ready", "reload", "drain", "refused", "alarm" and so on.
    level : {"info", "warning", "error"}, default="info"
        How much it matters.
    **told
        What else there is to tell; never a key, a value or a token.
    """
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    entry = {"time": now, "level": level, "event": event, "pid": os.getpid(), **told}
    with suppress(OSError, ValueError):  # where standard error is closed, nobody can be told
        sys.stderr.write(json.dumps(entry, default=str) + "\n")
        sys.stderr.flush()


def tell_loss(folder: Path, what: str, why: str, lost: int) -> None:
    """Write the event that the log of decisions cannot be written, or is written again.

    Parameters
    ----------
    folder : path
        The folder of the log.
    what : {"decisions", "labels"}
        What cannot be written.
    why : str
        What the system says. Empty: it is written again.
    lost : int
        How many entries were lost since it could not be written.
    """
    if why:
        log_event("log failed", ERROR, folder=str(folder), what=what, why=why)
    else:
        log_event("log resumed", WARNING, folder=str(folder), what=what, lost=lost)


def now_text() -> str:
    """Return the time as text: in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def where(error: BaseException) -> str:
    """Name the type of an error and the line that raised it, without its text.

    Examples
    --------
    >>> from emsco.serve.events import where
    >>> try:
    ...     int("the key of a customer")
    ... except ValueError as error:
    ...     print(where(error))
    ValueError at <doctest emsco.serve.events.where[1]>:2
    """
    kind = type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return kind
    own = [frame for frame in frames if f"{os.sep}emsco{os.sep}" in frame.filename]
    last = (own or list(frames))[-1]
    return f"{kind} at {os.path.basename(last.filename)}:{last.lineno}"


class _AsEvents(logging.Handler):
    """Passes on what other libraries log."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record as an event; of an error, only its type and place."""
        level = ERROR if record.levelno >= logging.ERROR else WARNING
        told = {"from": record.name, "text": str(record.msg).strip()}  # without its arguments
        if record.exc_info and record.exc_info[1] is not None:
            told["error"] = where(record.exc_info[1])
        log_event("library", level, **told)


def take_over_logging() -> None:
    """Let warnings and errors of other libraries be events, and nothing else be logged."""
    logging.basicConfig(handlers=[_AsEvents()], level=logging.WARNING, force=True)
