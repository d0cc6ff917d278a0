"""Which rows were used for which questions: one ledger for all models fitted on the same rows.

A promise holds for the first question on fresh rows, not for the one that finally passed. So every
question is recorded before it is answered. Within a process, copies, loads and refits of a model
share their ledger; processes share it through a file of JSON lines, which is locked while it is
written.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from emsco.exceptions import ArtifactError
from emsco.rows.hashes import Hashes
from emsco.rows.known import FittedRows, HashedRows, View

_FORMAT = 1


@dataclass(frozen=True)
class Entry:
    """Rows that were used for a question, or on which candidates were shown.

    Parameters
    ----------
    question : str
        A digest of the question: targets, rows, labels and everything that decides.
    share : float
        The part of the allowed error that the question uses; 0 if rows were only looked at.
    candidates : int
        How many cascades were shown if rows were only looked at; else 0.
    rows : HashedRows
        The rows.
    number : str
        Identifies this entry.
    withdraws : str, default=""
        The number of an entry that got no answer, because its rows could not be decided.
    """

    question: str
    share: float
    candidates: int
    rows: HashedRows
    number: str = field(default_factory=lambda: secrets.token_hex(8))
    withdraws: str = ""

    def withdrawal(self) -> Entry:
        """Return an entry that withdraws this one, because it got no answer."""
        return Entry(self.question, 0.0, 0, HashedRows(), withdraws=self.number)


@dataclass
class Ledger:
    """All questions and looks at rows by models that were fitted on the same rows.

    Parameters
    ----------
    fitted : str
        The digest of the fitted rows.
    """

    fitted: str
    _entries: list[Entry] = field(default_factory=list)
    _paths: list[str] = field(default_factory=list)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def keep_in(self, path: str | os.PathLike[str]) -> None:
        """Also write new entries to a file, and read what other processes write there."""
        with self._lock:
            if os.path.realpath(path) not in self._paths:
                self._paths.append(os.path.realpath(path))

    def add(self, entries: Sequence[Entry]) -> None:
        """Add entries from a model file that are not here yet."""
        with self._lock:
            known = {entry.number for entry in self._entries}
            self._entries += [entry for entry in entries if entry.number not in known]

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The entries in order, without those that were withdrawn."""
        with self._lock:
            withdrawn = {entry.withdraws for entry in self._entries}
            return tuple(
                entry
                for entry in self._entries
                if entry.number not in withdrawn and not entry.withdraws
            )

    def refresh(self) -> None:
        """Read what other processes have written to existing files."""
        with self._lock, _locked([path for path in self._paths if os.path.exists(path)]) as files:
            for file in files:
                self.add(_read(file, self.fitted))

    @contextmanager
    def open(self) -> Iterator[Page]:
        """Read all entries, and lock the ledger until the page is closed."""
        with self._lock, _locked(self._paths) as files:
            for file in files:
                self.add(_read(file, self.fitted))
            yield Page(self, files)


@dataclass
class Page:
    """An open ledger, to which no other process can write."""

    _ledger: Ledger
    _files: list[Any]

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The entries so far."""
        return self._ledger.entries

    def append(self, entries: Sequence[Entry]) -> None:
        """Record entries, first in the files."""
        lines = b"".join(_line(self._ledger.fitted, entry) for entry in entries)
        for file in self._files:
            _append(file, lines)
        self._ledger._entries.extend(entries)


_LEDGERS: dict[str, Ledger] = {}
_REGISTRY = threading.Lock()


def ledger_of(fitted: str) -> Ledger:
    """Return this process's ledger for models fitted on these rows."""
    with _REGISTRY:
        return _LEDGERS.setdefault(fitted, Ledger(fitted))


def keep_ledger(model: Any, path: str | os.PathLike[str]) -> None:
    """Record questions and looks at rows by a fitted model in a file, not only in this process.

    Parameters
    ----------
    model : CascadeSearchCV or CascadeClassifier
        The model; all models fitted on the same rows share the ledger.
    path : str or path
        The file, created at the first question or look.
    """
    fitted: FittedRows = getattr(model, "fitted_rows_", FittedRows())
    if fitted.digest:
        ledger_of(fitted.digest).keep_in(path)


def forget_all() -> None:
    """Clear all ledgers, as in a new process."""
    with _REGISTRY:
        _LEDGERS.clear()


@contextmanager
def _locked(paths: Sequence[str]) -> Iterator[list[Any]]:
    """Open and lock files to read and append; the lock ends with the process."""
    files: list[Any] = []
    try:
        for path in sorted(paths):  # always in this order, to avoid deadlocks
            try:
                file = open(path, "a+b")  # noqa: SIM115  # closed below
                files.append(file)
                _lock_file(file)
            except OSError as error:
                raise ArtifactError(
                    f"The ledger {path} cannot be opened: {error.strerror}. It records what "
                    "these rows were used for before."
                ) from error
        yield files
    finally:
        for file in files:
            file.close()


def _lock_file(file: Any) -> None:
    try:
        import fcntl
    except ImportError:  # not POSIX
        import msvcrt

        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)  # type: ignore[attr-defined]
        return
    fcntl.flock(file, fcntl.LOCK_EX)


def _append(file: Any, lines: bytes) -> None:
    """Write all lines to the disk, or none."""
    end = file.seek(0, os.SEEK_END)
    try:
        file.write(lines)
        file.flush()
        os.fsync(file.fileno())
    except OSError as error:
        with suppress(OSError):
            file.truncate(end)
        raise ArtifactError(
            f"The ledger {file.name} cannot be written: {error.strerror}. No question was answered."
        ) from error


def _read(file: Any, fitted: str) -> list[Entry]:
    """Read entries of models fitted on these rows; remove a line that is incomplete."""
    file.seek(0)
    data = file.read()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        file.truncate(whole)  # written before answering, so nothing was answered
    entries = []
    for number, line in enumerate(data[:whole].splitlines(), 1):
        try:
            told = json.loads(line)
            if told["format"] != _FORMAT:
                raise ValueError(f"format {told['format']}")
            if told["fitted"] == fitted:
                entries.append(_entry(told))
        except (ValueError, KeyError, TypeError) as error:
            raise ArtifactError(
                f"Line {number} of the ledger {file.name} is damaged ({error}). Restore the "
                "file: it records what these rows were used for before."
            ) from error
    return entries


def _line(fitted: str, entry: Entry) -> bytes:
    rows = entry.rows.in_no_order()
    told = {
        "format": _FORMAT,
        "fitted": fitted,
        "question": entry.question,
        "share": entry.share,
        "candidates": entry.candidates,
        "number": entry.number,
        "withdraws": entry.withdraws,
        "keys": None if rows.keys is None else _text(rows.keys),
        "views": [{"columns": v.columns, "hashes": [*map(_text, v.hashes)]} for v in rows.views],
    }
    return json.dumps(told).encode() + b"\n"


def _entry(told: Any) -> Entry:
    views = tuple(
        View(str(view["columns"]), tuple(_hashes(text) for text in view["hashes"]))
        for view in told["views"]
    )
    keys = None if told["keys"] is None else _hashes(told["keys"])
    return Entry(
        str(told["question"]),
        float(told["share"]),
        int(told["candidates"]),
        HashedRows(views, keys),
        str(told["number"]),
        str(told["withdraws"]),
    )


def _text(hashes: Hashes) -> str:
    return b64encode(hashes.astype("<u8").tobytes()).decode("ascii")


def _hashes(text: str) -> Hashes:
    return np.frombuffer(b64decode(text, validate=True), dtype="<u8").astype(np.uint64)
