"""Which rows were used for which questions: one ledger for all models.

A promise holds for the first question on fresh rows, not for the one that finally passed. So every
question is recorded before it is answered. Within a process, all models share the ledger, whatever
they were fitted on; processes share it through files of JSON lines, which are locked while they are
written.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from emsco.exceptions import ArtifactError
from emsco.rows.fitted_rows import ColumnSetHashes, FittedRows, HashedRows
from emsco.rows.row_hashes import Hashes
from emsco.rows.row_sketch import Sketch, SmallestHashes

_FORMAT = 2
# The fields of an entry that are written as they are, with their types.
_SCALARS: dict[str, type] = {
    "fitted": str, "question": str, "share": float, "candidates": int, "figures": int,
    "number": str, "withdraws": str,
}  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """Rows that were used for a question, or on which candidates were shown."""

    question: str  # a digest of targets, rows, labels and everything that decides
    share: float  # of the allowed error that the question uses; 0 if rows were only looked at
    candidates: int  # cascades shown if rows were only looked at; else 0
    rows: HashedRows
    number: str = field(default_factory=lambda: secrets.token_hex(8))
    withdraws: str = ""  # the number of an entry that got no answer
    fitted: str = ""  # digest of the rows that `rows` are hashed for: those fitted on
    sketch: Sketch = field(default_factory=Sketch)  # as other models recognise rows
    figures: int = 1  # shown of each cascade if rows were only looked at

    def withdrawal(self) -> Entry:
        """Return an entry that withdraws this one, because it got no answer."""
        return Entry(self.question, 0.0, 0, HashedRows(), withdraws=self.number)


@dataclass
class Ledger:
    """All questions and looks at rows of this process, and the files of one model."""

    fitted: str  # a digest of the rows that the model was fitted on
    _paths: list[str] = field(default_factory=list)

    def keep_in(self, path: str | os.PathLike[str]) -> None:
        """Also write new entries to a file, and read what other processes write there."""
        with _LOCK:
            if os.path.realpath(path) not in self._paths:
                self._paths.append(os.path.realpath(path))

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The entries of all models in order, without those that were withdrawn."""
        with _LOCK:
            withdrawn = {entry.withdraws for entry in _ENTRIES}
            return tuple(
                entry for entry in _ENTRIES if entry.number not in withdrawn and not entry.withdraws
            )

    def refresh(self) -> None:
        """Read what other processes have written to existing files."""
        with _LOCK, _locked([path for path in self._paths if os.path.exists(path)]):
            pass  # they are read when they are locked

    @contextmanager
    def open(self) -> Iterator[Callable[[Sequence[Entry]], None]]:
        """Read all entries, and lock the ledger for the block; what it gets records entries."""
        with _LOCK, _locked(self._paths) as files:

            def record(entries: Sequence[Entry]) -> None:
                lines = b"".join(map(_line, entries))
                for file in files:
                    _append(file, lines)
                _ENTRIES.extend(entries)

            yield record


_ENTRIES: list[Entry] = []  # of all models
_LEDGERS: dict[str, Ledger] = {}
_LOCK = threading.RLock()


def ledger_of(fitted: str) -> Ledger:
    """Return this process's ledger, with the files of models fitted on these rows."""
    with _LOCK:
        return _LEDGERS.setdefault(fitted, Ledger(fitted))


def keep_ledger(model: Any, path: str | os.PathLike[str]) -> None:
    """Record questions and looks at rows by a fitted model in a file, not only in this process.

    Parameters
    ----------
    model : CascadeSearchCV or CascadeClassifier
        The model; what is asked of all models fitted on the same rows is written to the file.
    path : str or path
        The file, created at the first question or look. What it says about rows holds for every
        model.
    """
    fitted: FittedRows = getattr(model, "fitted_rows_", FittedRows())
    if fitted.digest:
        ledger_of(fitted.digest).keep_in(path)


def add_entries(entries: Sequence[Entry]) -> None:
    """Add entries from a file that are not here yet."""
    with _LOCK:
        known = {entry.number for entry in _ENTRIES}
        _ENTRIES.extend(entry for entry in entries if entry.number not in known)


def consult_ledger(path: str | os.PathLike[str]) -> None:
    """Read a file once, such as the ledger of another table, and write nothing to it."""
    with open(path, "rb") as file:
        data = file.read()
    if data.startswith(b'{"format"'):  # other programs call their files so, too
        add_entries(_entries(data, os.fspath(path)))


def forget_all() -> None:
    """Clear all ledgers, as in a new process."""
    with _LOCK:
        _LEDGERS.clear()
        _ENTRIES.clear()


@contextmanager
def _locked(paths: Sequence[str]) -> Iterator[list[Any]]:
    """Open, lock and read files, to append to them; the lock ends with the process."""
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
        for file in files:
            add_entries(_read(file))
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


def _read(file: Any) -> list[Entry]:
    """Read all entries; remove a line that is incomplete."""
    file.seek(0)
    data = file.read()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        file.truncate(whole)  # written before answering, so nothing was answered
    return _entries(data, file.name)


def _entries(data: bytes, name: str) -> list[Entry]:
    entries = []
    for number, line in enumerate(data[: data.rfind(b"\n") + 1].splitlines(), 1):
        try:
            entries.append(_entry(json.loads(line)))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ArtifactError(
                f"Line {number} of the ledger {name} is damaged ({error}). Restore the "
                "file: it records what these rows were used for before."
            ) from error
    return entries


def _line(entry: Entry) -> bytes:
    rows = entry.rows.in_no_order()
    fields = {
        "format": _FORMAT,
        **{name: getattr(entry, name) for name in _SCALARS},
        "keys": None if rows.keys is None else _text(rows.keys),
        "views": [{"columns": v.columns, "hashes": [*map(_text, v.hashes)]} for v in rows.views],
        "sketch": {
            name: [_text(part.hashes), part.total, part.clump]
            for name, part in entry.sketch.parts.items()
        },
    }
    return json.dumps(fields).encode() + b"\n"


def _entry(fields: Any) -> Entry:
    if fields["format"] != _FORMAT:
        raise ValueError(f"format {fields['format']}")
    views = tuple(
        ColumnSetHashes(str(view["columns"]), tuple(_hashes(text) for text in view["hashes"]))
        for view in fields["views"]
    )
    keys = None if fields["keys"] is None else _hashes(fields["keys"])
    parts = {
        name: SmallestHashes(_hashes(text), int(total), int(clump))
        for name, (text, total, clump) in fields["sketch"].items()
    }
    if not all(0 < len(part.hashes) <= part.total and part.clump > 0 for part in parts.values()):
        raise ValueError("its sketch")
    scalars: dict[str, Any] = {name: kind(fields[name]) for name, kind in _SCALARS.items()}
    return Entry(rows=HashedRows(views, keys), sketch=Sketch(parts), **scalars)


def _text(hashes: Hashes) -> str:
    return b64encode(hashes.astype("<u8").tobytes()).decode("ascii")


def _hashes(text: str) -> Hashes:
    return np.frombuffer(b64decode(text, validate=True), dtype="<u8").astype(np.uint64)
