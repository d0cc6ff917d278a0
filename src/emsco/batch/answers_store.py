"""Where a question and its answers are: in memory, or in a folder, which a killed process leaves.

A folder holds one SQLite file with the secret of the coins, the questions asked about its rows, the
answers that have come, and the calls in flight. Everything is written before it counts: a question
before its first check is sent, a call before it is made, an answer before the next call.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from emsco.batch.row_marks import RowMarks
from emsco.exceptions import BatchError

_FILE, _FORMAT = "job.sqlite", 1
_TABLES = """
CREATE TABLE job (name TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE question (identity TEXT PRIMARY KEY, level REAL NOT NULL, allowed REAL NOT NULL,
                       kind TEXT NOT NULL, row_hashes BLOB NOT NULL);
CREATE TABLE fixed (question TEXT NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL,
                    PRIMARY KEY (question, name)) WITHOUT ROWID;
CREATE TABLE answer (question TEXT NOT NULL, row INTEGER NOT NULL, label TEXT NOT NULL,
                     PRIMARY KEY (question, row)) WITHOUT ROWID;
CREATE TABLE flight (question TEXT NOT NULL, row INTEGER NOT NULL,
                     PRIMARY KEY (question, row)) WITHOUT ROWID;
CREATE TABLE lost (question TEXT NOT NULL, row INTEGER NOT NULL);
"""
# A question that was refused before anything was fixed or sent may be asked otherwise.
_COUNTED = """
SELECT identity, level, allowed, kind, row_hashes FROM question WHERE identity IN
(SELECT question FROM fixed UNION SELECT question FROM answer UNION SELECT question FROM flight
 UNION SELECT question FROM lost)
"""


@dataclass(frozen=True)
class Inquiry:
    """What a store must know of a question before it is asked.

    `identity` is a digest of the question. `level` is the allowed error that it uses, of `allowed`
    in all.
    """

    identity: str
    level: float
    allowed: float
    rows: RowMarks


class AnswersStore(Protocol):
    """Protocol of where answers are."""

    @property
    def folder(self) -> str | None:
        """The folder; None: they are in memory."""

    @property
    def secret(self) -> bytes:
        """What draws the coins."""

    def open(self, inquiry: Inquiry) -> None:
        """Record a question; refuse one about rows that others were about, beyond its level."""

    def fixed(self, name: str, make: Callable[[], str]) -> str:
        """Return what was fixed when it was needed first, made now if it is new."""

    def answers(self) -> dict[int, Any]:
        """Return the answers so far, by row; None where the final model gave none."""

    def begin(self, rows: Sequence[int]) -> None:
        """Record that rows are being sent."""

    def record(self, answers: Iterable[tuple[int, Any]]) -> None:
        """Record answers, which end the calls of their rows."""

    def end(self, rows: Sequence[int]) -> None:
        """Record that calls have ended, but brought no answer."""

    @property
    def n_lost(self) -> int:
        """How many rows were in flight when a process was killed; they are sent again."""


@dataclass
class MemoryStore:
    """Answers in memory: they end with the process, and so does what is known of the question."""

    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    folder: None = None
    n_lost: int = 0
    _answers: dict[int, Any] = field(default_factory=dict)

    def open(self, inquiry: Inquiry) -> None:
        """Do nothing: there is one question."""

    def fixed(self, name: str, make: Callable[[], str]) -> str:  # noqa: ARG002
        """Return what is made now: it is needed once."""
        return make()

    def answers(self) -> dict[int, Any]:
        """Return the answers so far."""
        return dict(self._answers)

    def begin(self, rows: Sequence[int]) -> None:
        """Do nothing: calls in flight end with the process as well."""

    def record(self, answers: Iterable[tuple[int, Any]]) -> None:
        """Keep answers; the first one stays."""
        for row, label in answers:
            self._answers.setdefault(row, label)

    def end(self, rows: Sequence[int]) -> None:
        """Do nothing, as above."""


class JobStore:
    """Answers in a folder, for one process at a time.

    Parameters
    ----------
    folder : str or path
        The folder, which is created with its secret if there is none.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = os.fspath(folder)
        self._identity = ""
        with self._named_errors():
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
            path = Path(self.folder, _FILE)
            if not path.exists():  # private from the first moment
                os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
            self._db = sqlite3.connect(path, timeout=1.0, check_same_thread=False,
                                       isolation_level=None)  # fmt: skip
            try:
                self._start()
            except BaseException:
                self._db.close()
                raise

    def _start(self) -> None:
        # One process at a time: the lock is held until the file is closed.
        self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        with self._transaction():
            if not self._rows("SELECT 1 FROM sqlite_master WHERE name = 'job'"):
                for statement in _TABLES.split(";"):
                    self._db.execute(statement)
                new = {"format": str(_FORMAT).encode(), "secret": secrets.token_bytes(32)}
                self._db.executemany("INSERT INTO job VALUES (?, ?)", new.items())
        found = dict(self._rows("SELECT name, value FROM job"))
        if found.get("format") != str(_FORMAT).encode() or len(found.get("secret", b"")) != 32:
            raise BatchError(f"{self.folder} is not a job of this version of emsco.")
        self._secret: bytes = found["secret"]

    @property
    def secret(self) -> bytes:
        """What draws the coins of every question about these rows."""
        return self._secret

    def open(self, inquiry: Inquiry) -> None:
        """Record a question; refuse one about rows that others were about, beyond its level."""
        self._identity = inquiry.identity
        with self._named_errors(), self._transaction():
            earlier = self._rows(_COUNTED)
            if inquiry.identity not in {identity for identity, *_ in earlier}:
                same = [
                    (level, most)
                    for _, level, most, kind, hashes in earlier
                    if inquiry.rows.overlap(RowMarks.of_bytes(hashes, kind))
                ]
                used = sum(level for level, _ in same)
                # The first question says how much all may use together; a later one cannot add.
                allowed = min([inquiry.allowed, *(most for _, most in same)])
                if used + inquiry.level > allowed * (1 + 1e-9):
                    raise BatchError(
                        f"The job {self.folder} has a question about these rows already, which "
                        f"uses {used:.4g} of the {allowed:.4g} that may go wrong. Asking "
                        "again until an answer suits would break the promise: ask the same "
                        "question, or declare with the first how many `questions` there will be."
                    )
                self._db.execute(
                    "INSERT OR IGNORE INTO question VALUES (?, ?, ?, ?, ?)",
                    (inquiry.identity, inquiry.level, inquiry.allowed, inquiry.rows.kind,
                     inquiry.rows.to_bytes()),
                )  # fmt: skip
            # Rows in flight when a process was killed: they are sent again, and counted.
            about = (inquiry.identity,)
            self._db.execute("INSERT INTO lost SELECT * FROM flight WHERE question = ?", about)
            self._db.execute("DELETE FROM flight WHERE question = ?", about)

    def fixed(self, name: str, make: Callable[[], str]) -> str:
        """Return what was fixed when it was needed first, made now if it is new."""
        about = (self._identity, name)
        with self._named_errors():
            found = self._rows("SELECT value FROM fixed WHERE question = ? AND name = ?", *about)
        if found:
            return str(found[0][0])
        value = make()
        with self._named_errors(), self._transaction():
            self._db.execute("INSERT INTO fixed VALUES (?, ?, ?)", (*about, value))
        return value

    def answers(self) -> dict[int, Any]:
        """Return the answers so far."""
        with self._named_errors():
            query = "SELECT row, label FROM answer WHERE question = ?"
            return {row: json.loads(label) for row, label in self._rows(query, self._identity)}

    def begin(self, rows: Sequence[int]) -> None:
        """Record that rows are being sent."""
        with self._named_errors(), self._transaction():
            self._db.executemany(
                "INSERT OR IGNORE INTO flight VALUES (?, ?)",
                [(self._identity, row) for row in rows],
            )

    def record(self, answers: Iterable[tuple[int, Any]]) -> None:
        """Record answers; the first one to a row stays."""
        found = [(self._identity, row, json.dumps(label)) for row, label in answers]
        with self._named_errors(), self._transaction():
            self._db.executemany("INSERT OR IGNORE INTO answer VALUES (?, ?, ?)", found)
            self._land([row for _, row, _ in found])

    def end(self, rows: Sequence[int]) -> None:
        """Record that calls have ended, but brought no answer."""
        with self._named_errors(), self._transaction():
            self._land(rows)

    def _land(self, rows: Sequence[int]) -> None:
        self._db.executemany(
            "DELETE FROM flight WHERE question = ? AND row = ?",
            [(self._identity, row) for row in rows],
        )

    @property
    def n_lost(self) -> int:
        """How many rows were in flight when a process was killed."""
        query = "SELECT count(*) FROM lost WHERE question = ?"
        with self._named_errors():
            return int(self._rows(query, self._identity)[0][0])

    @staticmethod
    def is_there(folder: str | os.PathLike[str]) -> bool:
        """Return whether a folder is a job."""
        return Path(folder, _FILE).exists()

    def note(self, name: str) -> str | None:
        """Return a note of whoever sends the rows; None if there is none."""
        with self._named_errors():
            found = self._rows("SELECT value FROM job WHERE name = ?", f"note: {name}")
            return str(found[0][0], "utf-8") if found else None

    def set_note(self, name: str, text: str) -> None:
        """Keep a note of whoever sends the rows."""
        with self._named_errors(), self._transaction():
            self._db.execute("INSERT OR REPLACE INTO job VALUES (?, ?)",
                             (f"note: {name}", text.encode()))  # fmt: skip

    def close(self) -> None:
        """Close the file, for the next process."""
        self._db.close()

    def _rows(self, query: str, *values: Any) -> list[Any]:
        return self._db.execute(query, values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            with suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise BatchError(
                    f"Another process works on the job {self.folder}; wait until it has ended."
                ) from error
            raise BatchError(f"The job {self.folder} cannot be written: {error}.") from error
        except (sqlite3.DatabaseError, json.JSONDecodeError) as error:
            raise BatchError(f"The job {self.folder} is damaged: {error}.") from error
        except OSError as error:
            raise BatchError(
                f"The job {self.folder} cannot be opened: {error.strerror}."
            ) from error
