"""Drop what libraries log about our requests: it contains keys, which are personal data."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_asking: ContextVar[bool] = ContextVar("asking", default=False)


def quieten(logger: str) -> None:
    """Drop what a library logs about requests made within `quietly`, and nothing else."""
    logging.getLogger(logger).addFilter(_is_foreign)  # added only once by `logging`


@contextmanager
def quietly() -> Iterator[None]:
    """Run requests whose URLs and parameters must not be logged."""
    before = _asking.set(True)
    try:
        yield
    finally:
        _asking.reset(before)


def _is_foreign(_: logging.LogRecord) -> bool:
    return not _asking.get()
