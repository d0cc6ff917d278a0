"""What was asked of rows, and shown of them: one ledger for all models fitted on the same rows.

A promise holds for the first question on fresh rows, not for the one that happened to pass. So
every question is written down before it is answered. Copies, loads and refits of a model share what
was asked in this process; a file of JSON lines, appended to under a lock, shares it between
processes.
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
    """Rows that something was asked of, or shown of.

    Parameters
    ----------
    question : str
        A digest of what was asked: targets, rows, labels and all that decides.
    share : float
        The part of the allowed error that it takes; 0 where rows were only looked at.
    candidates : int
        How many cascades were shown, where rows were looked at; else 0.
    rows : HashedRows
        Which rows.
    number : str
        Tells this entry from any other.
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
        """Say that it got no answer."""
        return Entry(self.question, 0.0, 0, HashedRows(), withdraws=self.number)


@dataclass
class Ledger:
    """All that was asked and shown of rows, of models fitted on the same rows.

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
        """Write what comes to a file as well, and read what other processes write there."""
        with self._lock:
            if os.path.realpath(path) not in self._paths:
                self._paths.append(os.path.realpath(path))

    def add(self, entries: Sequence[Entry]) -> None:
        """Take over what a file tells was asked earlier."""
        with self._lock:
            known = {entry.number for entry in self._entries}
            self._entries += [entry for entry in entries if entry.number not in known]

    @property
    def entries(self) -> tuple[Entry, ...]:
        """What was asked and shown, in order, without what was withdrawn."""
        with self._lock:
            withdrawn = {entry.withdraws for entry in self._entries}
            return tuple(
                entry
                for entry in self._entries
                if entry.number not in withdrawn and not entry.withdraws
            )

    def refresh(self) -> None:
        """Read what other processes have written, where there is any file yet."""
        with self._lock, _locked([path for path in self._paths if os.path.exists(path)]) as files:
            for file in files:
                self.add(_read(file, self.fitted))

    @contextmanager
    def open(self) -> Iterator[Page]:
        """Read all there is, and let nobody else write until the page is closed."""
        with self._lock, _locked(self._paths) as files:
            for file in files:
                self.add(_read(file, self.fitted))
            yield Page(self, files)


@dataclass
class Page:
    """A ledger that is open: nobody else writes to it meanwhile."""

    _ledger: Ledger
    _files: list[Any]

    @property
    def entries(self) -> tuple[Entry, ...]:
        """What was asked and shown so far."""
        return self._ledger.entries

    def append(self, entries: Sequence[Entry]) -> None:
        """Write down, on the disk first."""
        lines = b"".join(_line(self._ledger.fitted, entry) for entry in entries)
        for file in self._files:
            _append(file, lines)
        self._ledger._entries.extend(entries)


_LEDGERS: dict[str, Ledger] = {}
_REGISTRY = threading.Lock()


def ledger_of(fitted: str) -> Ledger:
    """Give the one ledger of this process for models fitted on these rows."""
    with _REGISTRY:
        return _LEDGERS.setdefault(fitted, Ledger(fitted))


def keep_ledger(model: Any, path: str | os.PathLike[str]) -> None:
    """Keep what is asked and shown of rows by a fitted model in a file, besides in this process.

    Parameters
    ----------
    model : CascadeSearchCV or CascadeClassifier
        The model; all that were fitted on the same rows share what is kept.
    path : str or path
        The file, made when something is first asked or shown.
    """
    fitted: FittedRows = getattr(model, "fitted_rows_", FittedRows())
    if fitted.digest:
        ledger_of(fitted.digest).keep_in(path)


def forget_all() -> None:
    """Begin as a new process does."""
    with _REGISTRY:
        _LEDGERS.clear()


@contextmanager
def _locked(paths: Sequence[str]) -> Iterator[list[Any]]:
    """Open files to read and append, each locked; a process that dies leaves no lock behind."""
    files: list[Any] = []
    try:
        for path in sorted(paths):  # always in this order, or two processes could wait for ever
            try:
                file = open(path, "a+b")  # noqa: SIM115  # closed below
                files.append(file)
                _lock_file(file)
            except OSError as error:
                raise ArtifactError(
                    f"The ledger {path} cannot be opened: {error.strerror}; without it nobody "
                    "could know what was asked of these rows before."
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
    """Write lines so that all of them are on the disk, or none."""
    end = file.seek(0, os.SEEK_END)
    try:
        file.write(lines)
        file.flush()
        os.fsync(file.fileno())
    except OSError as error:
        with suppress(OSError):
            file.truncate(end)
        raise ArtifactError(
            f"The ledger {file.name} cannot be written: {error.strerror}; nothing was asked."
        ) from error


def _read(file: Any, fitted: str) -> list[Entry]:
    """Read what concerns models fitted on these rows; what a dying process left half is removed."""
    file.seek(0)
    data = file.read()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        file.truncate(whole)  # it was to be written before asking, so nothing was asked
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
                f"Line {number} of the ledger {file.name} is damaged ({error}); restore the file, "
                "because without it nobody could know what was asked of these rows before."
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
