"""The log of live decisions: a JSON line each, without keys and, unless asked for, without values.

A key is personal data. The log has its HMAC, keyed from the environment, so that the entries of a
known key can be found, and a key cannot be found from an entry.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import os
import secrets
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from emsco.core.decisions import ERROR, FIELDS, Decisions, reason_for
from emsco.exceptions import SourcesError
from emsco.live.fetch_result import Key, key_text
from emsco.live.source import long_secret

SECRET = "EMSCO_LOG_KEY"  # the environment variable with the secret of the HMAC
DROP, REJECT = "drop", "reject"
DECISIONS, LABELS = "decisions", "labels"  # how the names of files begin
NO_LOG = reason_for(ERROR, "log")  # why rows are rejected that cannot be logged

# Where this is a list, entries wait in it as functions that write them: whoever has set it does not
# know yet whether the decisions count. A log that rejects what it cannot write does not wait.
held_back: ContextVar[list[Callable[[], Awaitable[bool]]] | None] = ContextVar(
    "held_back", default=None
)

_PART = secrets.token_hex(4)  # of the names of files: in every container there is a process 1
_ENTRY = 4096  # bytes that an entry may take, before any was written


def tell_loss(folder: Path, what: str, why: str, lost: int) -> None:
    """Tell by `logging` that a log cannot be written, or (`why` is empty) is written again.

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
    told = f"The log of {what} in {folder}"
    if why:
        _LOGGER.warning("%s cannot be written: %s. Its entries are lost until it can.", told, why)
    else:
        _LOGGER.warning("%s is written again; %d entries were lost.", told, lost)


_LOGGER = logging.getLogger("emsco")


class DecisionLog:
    """Appends live decisions to a file per day and process.

    Parameters
    ----------
    folder : path
        The folder of the files; it is created if it is missing.
    on_failure : {"drop", "reject"}, default="drop"
        What happens to decisions that cannot be written, for example because the disk is full:
        they are returned and counted in `lost`, or their rows are rejected before anything is
        bought.

    Attributes
    ----------
    lost : Counter of str
        How many entries could not be written: "decisions" and "labels".
    tell : callable
        Called with folder, "decisions" or "labels", why, and a number of entries: once when they
        cannot be written, and once, with no reason, when they are again. By default `tell_loss`.
    """

    def __init__(self, folder: str | os.PathLike[str], on_failure: str = DROP) -> None:
        if on_failure not in (DROP, REJECT):
            raise SourcesError(
                f"`on_log_failure` must be {DROP!r} or {REJECT!r}, got {on_failure!r}."
            )
        self.rejects = on_failure == REJECT
        self.lost = Counter({DECISIONS: 0, LABELS: 0})
        self.tell: Callable[[Path, str, str, int], None] = tell_loss
        self._lately: dict[str, int] = {}  # what cannot be written now, and how much was lost
        self._entry = _ENTRY
        self._promised = 0  # bytes for decisions that are being made
        self._folder = Path(folder)
        self._secret = long_secret(SECRET)
        self._lock = threading.Lock()  # calls write from threads

    def __repr__(self) -> str:
        return f"DecisionLog({str(self._folder)!r})"

    def hidden(self, key: Key) -> str:
        """Return the HMAC of a key: the same for the same key and secret."""
        text = key_text(key).encode("utf-8", "surrogateescape")
        return hmac.new(self._secret, text, hashlib.sha256).hexdigest()

    @asynccontextmanager
    async def room(self, n_rows: int) -> AsyncIterator[bool]:
        """Hold the room for decisions before anything is bought for them; False: there is none.

        Only a log whose failures reject rows looks for it: to look takes as long as to write.
        """
        if not self.rejects:
            yield True
            return
        needed = n_rows * self._entry
        self._promised += needed  # others at the same time must not count on the same room
        try:
            is_there = await self._try(DECISIONS, n_rows, self._grow, self._promised)
            yield is_there
        finally:
            self._promised -= needed

    async def _try(self, what: str, n_entries: int, work: Callable[..., None], *given: Any) -> bool:
        """Do what writes entries, in a thread; count and tell what is lost."""
        try:
            await asyncio.to_thread(work, *given)
        except OSError as error:
            self.lost[what] += n_entries
            begins = what not in self._lately
            self._lately[what] = self._lately.get(what, 0) + n_entries
            if begins:
                why = error.strerror or type(error).__name__
                self.tell(self._folder, what, why, n_entries)
            return False
        if what in self._lately and work != self._grow:  # room alone is no entry
            self.tell(self._folder, what, "", self._lately.pop(what))
        return True

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
        return await self._try(DECISIONS, len(decisions), self._append, decisions, values, more)

    async def write_labels(self, labels: Sequence[tuple[str, Any]]) -> bool:
        """Append true labels by the ids of decisions, and say whether that was possible."""
        now = datetime.now(UTC)
        entries = ({"id": one, "time": now.isoformat(), "label": label} for one, label in labels)
        lines = [json.dumps(entry) + "\n" for entry in entries]
        return await self._try(
            LABELS, len(lines), self._write, LABELS, "".join(lines).encode(), now
        )

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
        if self.rejects:
            self._entry = max(self._entry, 2 * max(map(len, lines), default=0))
        self._write(DECISIONS, "".join(lines).encode(), now)

    def _grow(self, size: int) -> None:
        """Let the file of decisions grow as if so many bytes were written, and take it back."""
        with self._lock, self._opened(DECISIONS, datetime.now(UTC)) as file:
            before = os.fstat(file).st_size
            try:
                if hasattr(os, "posix_fallocate"):
                    os.posix_fallocate(file, before, size)
                else:
                    _write_all(file, bytes(size))
            finally:
                os.ftruncate(file, before)

    def _write(self, kind: str, text: bytes, now: datetime) -> None:
        """Append all of a text or nothing: half a line would damage the next one."""
        with self._lock, self._opened(kind, now) as file:
            size = os.fstat(file).st_size
            try:
                _write_all(file, text)
            except OSError:
                os.ftruncate(file, size)
                raise

    @contextmanager
    def _opened(self, kind: str, now: datetime) -> Iterator[int]:
        """Open the file of a day, of this process alone."""
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{kind}-{now:%Y-%m-%d}-{os.getpid()}-{_PART}.jsonl"
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            yield file
        finally:
            os.close(file)


def _write_all(file: int, text: bytes) -> None:
    left = memoryview(text)
    while left:
        left = left[os.write(file, left) :]


def _finite(value: Any) -> Any:
    """Return a value, and None for the numbers that JSON does not have."""
    return None if isinstance(value, float) and not isfinite(value) else value


def _plain(value: Any) -> Any:
    """Return a value as JSON can hold it."""
    if isinstance(value, np.generic):
        return value.item()
    return str(value)
