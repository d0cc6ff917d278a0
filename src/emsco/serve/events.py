"""The event log for operators: one JSON line per event, on standard error.

No line contains a key, a value or a token. Log records of other libraries are passed on without the
text of exceptions, which may contain any of them.
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


def log_event(event: str, level: str = INFO, **fields: Any) -> None:
    """Write an event."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    entry = {"time": now, "level": level, "event": event, "pid": os.getpid(), **fields}
    with suppress(OSError, ValueError):  # standard error may be closed
        sys.stderr.write(json.dumps(entry, default=str) + "\n")
        sys.stderr.flush()


def tell_loss(folder: Path, what: str, why: str, lost: int) -> None:
    """Log that the decision log cannot be written, or is being written again."""
    if why:
        log_event("log failed", ERROR, folder=str(folder), what=what, why=why)
    else:
        log_event("log resumed", WARNING, folder=str(folder), what=what, lost=lost)


def now_text() -> str:
    """Return the current time in UTC as text, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def where(error: BaseException) -> str:
    """Return the type of an error and the line that raised it, without its text."""
    kind = type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return kind
    own = [frame for frame in frames if f"{os.sep}emsco{os.sep}" in frame.filename]
    last = (own or list(frames))[-1]
    return f"{kind} at {os.path.basename(last.filename)}:{last.lineno}"


class _AsEvents(logging.Handler):
    """Writes log records of other libraries as events."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record as an event; of an exception, only its type and line."""
        level = ERROR if record.levelno >= logging.ERROR else WARNING
        fields = {"from": record.name, "text": str(record.msg).strip()}  # without its arguments
        if record.exc_info and record.exc_info[1] is not None:
            fields["error"] = where(record.exc_info[1])
        log_event("library", level, **fields)


def take_over_logging() -> None:
    """Log warnings and errors of other libraries as events, and nothing else."""
    logging.basicConfig(handlers=[_AsEvents()], level=logging.WARNING, force=True)
