"""The log of live decisions: a JSON line each, without keys and, unless asked for, without values.

A key is personal data. The log has its HMAC, keyed from the environment, so that the entries of a
known key can be found, and a key cannot be found from an entry.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from emsco.acquisition.fetched import Key, key_text
from emsco.acquisition.source import from_environment
from emsco.exceptions import SourcesError
from emsco.words.decisions import FIELDS, Decisions

SECRET = "EMSCO_LOG_KEY"  # the environment variable with the secret of the HMAC
DROP, REJECT = "drop", "reject"
DECISIONS, LABELS = "decisions", "labels"  # how the names of files begin

# Where this is a list, entries wait in it as functions that write them: whoever has set it does not
# know yet whether the decisions count. A log that rejects what it cannot write does not wait.
held_back: ContextVar[list[Callable[[], Awaitable[bool]]] | None] = ContextVar(
    "held_back", default=None
)


class Log:
    """Appends live decisions to a file per day and process.

    Parameters
    ----------
    folder : path
        The folder of the files; it is created if it is missing.
    on_failure : {"drop", "reject"}, default="drop"
        What happens to decisions that cannot be written, for example because the disk is full:
        they are returned and counted in `dropped`, or their rows are rejected.
    """

    def __init__(self, folder: str | os.PathLike[str], on_failure: str = DROP) -> None:
        if on_failure not in (DROP, REJECT):
            raise SourcesError(
                f"`on_log_failure` must be {DROP!r} or {REJECT!r}, got {on_failure!r}."
            )
        self.rejects = on_failure == REJECT
        self.dropped = 0
        self._folder = Path(folder)
        self._secret = from_environment(SECRET).encode()
        self._lock = threading.Lock()  # calls write from threads

    def __repr__(self) -> str:
        return f"Log({str(self._folder)!r})"

    def hidden(self, key: Key) -> str:
        """Return the HMAC of a key: the same for the same key and secret."""
        text = key_text(key).encode("utf-8", "surrogateescape")
        return hmac.new(self._secret, text, hashlib.sha256).hexdigest()

    async def write(
        self,
        decisions: Decisions,
        values: Sequence[Mapping[str, Any]] | None = None,
        more: Sequence[Mapping[str, Any]] | None = None,
    ) -> bool:
        """Append decisions, and say whether that was possible.

        Parameters
        ----------
        decisions : Decisions
            Live decisions, with their keys and receipts.
        values : sequence of mapping, default=None
            The values that each decision was made from. None: the log has none.
        more : sequence of mapping, default=None
            What else, or instead, the entry of each decision has.
        """
        held = None if self.rejects else held_back.get()
        if held is not None:
            held.append(partial(self._write_now, decisions, values, more))
            return True
        return await self._write_now(decisions, values, more)

    async def _write_now(
        self,
        decisions: Decisions,
        values: Sequence[Mapping[str, Any]] | None,
        more: Sequence[Mapping[str, Any]] | None,
    ) -> bool:
        try:
            await asyncio.to_thread(self._append, decisions, values, more)
        except OSError:
            self.dropped += len(decisions)
            return False
        return True

    async def write_labels(self, labels: Sequence[tuple[str, Any]]) -> bool:
        """Append true labels by the ids of decisions, and say whether that was possible."""
        now = datetime.now(UTC)
        entries = ({"id": one, "time": now.isoformat(), "label": label} for one, label in labels)
        lines = [json.dumps(entry) + "\n" for entry in entries]
        try:
            await asyncio.to_thread(self._write, LABELS, "".join(lines).encode(), now)
        except OSError:
            return False
        return True

    def _append(
        self,
        decisions: Decisions,
        values: Sequence[Mapping[str, Any]] | None,
        more: Sequence[Mapping[str, Any]] | None,
    ) -> None:
        now = datetime.now(UTC)
        lines = []
        for i, decision in enumerate(decisions):
            receipt = asdict(decision.receipt)
            entry = {"id": receipt.pop("id"), "time": now.isoformat()}
            entry |= {"key": self.hidden(decisions.index[i])}
            entry |= {name: getattr(decision, name) for name in FIELDS}
            entry |= {"model": receipt.pop("model"), "receipt": receipt}
            if values is not None:
                entry["values"] = {name: _finite(value) for name, value in values[i].items()}
            if more is not None:
                entry |= more[i]
            lines.append(json.dumps(entry, default=_plain) + "\n")
        self._write(DECISIONS, "".join(lines).encode(), now)

    def _write(self, kind: str, text: bytes, now: datetime) -> None:
        """Append all of a text or nothing: half a line would damage the next one."""
        path = self._folder / f"{kind}-{now:%Y-%m-%d}-{os.getpid()}.jsonl"
        with self._lock:
            self._folder.mkdir(parents=True, exist_ok=True)
            file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                size = os.fstat(file).st_size
                try:
                    left = memoryview(text)
                    while left:
                        left = left[os.write(file, left) :]
                except OSError:
                    os.ftruncate(file, size)
                    raise
            finally:
                os.close(file)


def _finite(value: Any) -> Any:
    """Return a value, and None for the numbers that JSON does not have."""
    return None if isinstance(value, float) and not isfinite(value) else value


def _plain(value: Any) -> Any:
    """Return a value as JSON can hold it."""
    if isinstance(value, np.generic):
        return value.item()
    return str(value)
