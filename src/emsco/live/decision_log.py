"""The log of live decisions: a JSON line each, without keys and, by default, without values.

A key is personal data. The log has its HMAC, with a secret from the environment, so that the
entries of a known key can be found, but a key cannot be found from an entry.
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
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from emsco.core.decisions import ERROR, Decisions, reason_for
from emsco.exceptions import SourcesError
from emsco.live.fetch_result import Key, key_text
from emsco.live.source import long_secret

SECRET = "EMSCO_LOG_KEY"  # the environment variable with the secret of the HMAC
DROP, REJECT = "drop", "reject"
DECISIONS, LABELS = "decisions", "labels"  # how the names of files begin
NO_LOG = reason_for(ERROR, "log")  # the reason of rows that cannot be logged

# Functions that write entries later, because it is not known yet whether the decisions count.
HeldWrites: TypeAlias = list[Callable[[], Awaitable[bool]]]

_PART = secrets.token_hex(4)  # part of file names, as process ids are not unique over containers
_ENTRY = 4096  # expected bytes of an entry, before any was written


def tell_loss(folder: Path, what: str, why: str, lost: int) -> None:
    """Log a warning that a log cannot be written or, if `why` is empty, is written again."""
    name = f"The log of {what} in {folder}"
    if why:
        _LOGGER.warning("%s cannot be written: %s. Entries are lost until it can be.", name, why)
    else:
        _LOGGER.warning("%s is written again; %d entries were lost.", name, lost)


_LOGGER = logging.getLogger("emsco")


class DecisionLog:
    """Appends live decisions to a file per day and process.

    Decisions that cannot be written, for example because the disk is full, are returned and counted
    in `lost`; or, with `on_failure="reject"`, their rows are rejected before anything is bought.
    `tell` is called once when entries cannot be written, and once, without an error, when they are
    written again.
    """

    def __init__(self, folder: str | os.PathLike[str], on_failure: str = DROP) -> None:
        if on_failure not in (DROP, REJECT):
            raise SourcesError(
                f"`on_log_failure` must be {DROP!r} or {REJECT!r}, got {on_failure!r}."
            )
        self.rejects = on_failure == REJECT
        self.lost = Counter({DECISIONS: 0, LABELS: 0})
        self.tell: Callable[[Path, str, str, int], None] = tell_loss
        self._lately: dict[str, int] = {}  # entries lost, for what cannot be written now
        self._entry = _ENTRY
        self._promised = 0  # bytes reserved for decisions in progress
        self._folder = Path(folder)
        self._secret = long_secret(SECRET)
        self._lock = threading.Lock()  # entries are written in threads

    def __repr__(self) -> str:
        return f"DecisionLog({str(self._folder)!r})"

    def hidden(self, key: Key) -> str:
        """Return the HMAC of a key: the same for the same key and secret."""
        text = key_text(key).encode("utf-8", "surrogateescape")
        return hmac.new(self._secret, text, hashlib.sha256).hexdigest()

    @asynccontextmanager
    async def room(self, n_rows: int) -> AsyncIterator[bool]:
        """Reserve disk space for decisions before anything is bought for them; False: it is full.

        Only a log that rejects rows on failure checks: checking takes as long as writing.
        """
        if not self.rejects:
            yield True
            return
        needed = n_rows * self._entry
        self._promised += needed  # concurrent calls must not count on the same space
        try:
            is_there = await self._try(DECISIONS, n_rows, self._grow, self._promised)
            yield is_there
        finally:
            self._promised -= needed

    async def _try(self, what: str, n_entries: int, work: Callable[..., None], *args: Any) -> bool:
        """Write entries in a thread; count and report those that are lost."""
        try:
            await asyncio.to_thread(work, *args)
        except OSError as error:
            self.lost[what] += n_entries
            begins = what not in self._lately
            self._lately[what] = self._lately.get(what, 0) + n_entries
            if begins:
                why = error.strerror or type(error).__name__
                self.tell(self._folder, what, why, n_entries)
            return False
        if what in self._lately and work != self._grow:  # nothing was written yet
            self.tell(self._folder, what, "", self._lately.pop(what))
        return True

    async def write(
        self,
        decisions: Decisions,
        values: Sequence[Mapping[str, Any]] | None = None,
        more: Sequence[Mapping[str, Any]] | None = None,
        *,
        held: HeldWrites | None = None,
    ) -> bool:
        """Append decisions, and return whether that was possible.

        `values` are those from which each decision was made, and `more` are fields that are added
        to its entry or replace its own. `held` receives a function that writes the entries later; a
        log that rejects rows it cannot write does not wait.
        """
        write = partial(self._try, DECISIONS, len(decisions), self._append, decisions, values, more)
        if held is None or self.rejects:
            return await write()
        held.append(write)
        return True

    async def write_labels(self, labels: Sequence[tuple[str, Any]]) -> bool:
        """Append true labels by the ids of decisions, and return whether that was possible."""
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
            entry |= {name: getattr(decision, name) for name in decisions.fields}
            entry |= {"model": receipt.pop("model"), "receipt": receipt}
            if values is not None:
                entry["values"] = {  # without the numbers that JSON does not have
                    name: None if isinstance(value, float) and not isfinite(value) else value
                    for name, value in values[i].items()
                }
            if more is not None:
                entry |= more[i]
            lines.append(json.dumps(entry, default=_plain) + "\n")
        if self.rejects:
            self._entry = max(self._entry, 2 * max(map(len, lines), default=0))
        self._write(DECISIONS, "".join(lines).encode(), now)

    def _grow(self, size: int) -> None:
        """Check that the file of decisions can grow by some bytes, and undo that."""
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
        """Append all of the text or nothing: half a line would damage the next one."""
        with self._lock, self._opened(kind, now) as file:
            size = os.fstat(file).st_size
            try:
                _write_all(file, text)
            except OSError:
                os.ftruncate(file, size)
                raise

    @contextmanager
    def _opened(self, kind: str, now: datetime) -> Iterator[int]:
        """Open the file of a day and of this process."""
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


def _plain(value: Any) -> Any:
    """Return a value of a type that JSON has."""
    if isinstance(value, np.generic):
        return value.item()
    return str(value)
