"""Where a question and its answers are: in memory, or in a folder, which a killed process leaves.

A folder holds one SQLite file with the secret of the coins, the questions asked about its rows, the
answers that have come, and the calls in flight. Everything is written before it counts: a question
before its first check is sent, a call before it is made, an answer before the next call.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from emsco.batch.job_file import JobFile
from emsco.batch.row_marks import RowMarks
from emsco.exceptions import BatchError

_FORMAT = b"1"
# A question that was refused before anything was fixed or sent may be asked otherwise.
_COUNTED = """
SELECT identity, level, allowed, kind, row_hashes FROM question WHERE identity IN
(SELECT question FROM fixed UNION SELECT question FROM answer UNION SELECT question FROM flight
 UNION SELECT question FROM lost)
"""
_LOSE = """
INSERT INTO lost SELECT question, row,
(SELECT count(*) FROM lost WHERE (question, row) = (flight.question, flight.row)) FROM flight
WHERE question = ?
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
        new = {"format": _FORMAT, "secret": secrets.token_bytes(32)}
        self._file = JobFile(self.folder, new)
        found = dict(self._file.rows("SELECT name, value FROM job"))
        if found.get("format") != _FORMAT:
            self._file.close()
            raise BatchError(f"{self.folder} is not a job of this version of emsco.")
        self._secret: bytes = found["secret"]

    @property
    def secret(self) -> bytes:
        """What draws the coins of every question about these rows."""
        return self._secret

    def open(self, inquiry: Inquiry) -> None:
        """Record a question; refuse one about rows that others were about, beyond its level."""
        self._identity = inquiry.identity
        with self._file.transaction():
            earlier = self._file.rows(_COUNTED)
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
                self._file.write(
                    "INSERT OR IGNORE INTO question VALUES (?, ?, ?, ?, ?)",
                    [(inquiry.identity, inquiry.level, inquiry.allowed, inquiry.rows.kind,
                      inquiry.rows.to_bytes())],
                )  # fmt: skip
            # Rows in flight when a process was killed: they are sent again, and counted.
            self._file.write(_LOSE, [(inquiry.identity,)])
            self._file.write("DELETE FROM flight WHERE question = ?", [(inquiry.identity,)])

    def fixed(self, name: str, make: Callable[[], str]) -> str:
        """Return what was fixed when it was needed first, made now if it is new."""
        about = (self._identity, name)
        with self._file.reading():
            query = "SELECT value FROM fixed WHERE question = ? AND name = ?"
            found = self._file.rows(query, *about)
        if found:
            return str(found[0][0])
        value = make()
        with self._file.transaction():
            self._file.write("INSERT INTO fixed VALUES (?, ?, ?)", [(*about, value)])
        return value

    def answers(self) -> dict[int, Any]:
        """Return the answers so far."""
        with self._file.reading():
            self._file.verify()
            query = "SELECT row, label FROM answer WHERE question = ?"
            return {row: json.loads(label) for row, label in self._file.rows(query, self._identity)}

    def begin(self, rows: Sequence[int]) -> None:
        """Record that rows are being sent."""
        sent = [(self._identity, row) for row in rows]
        with self._file.transaction():
            self._file.write("INSERT OR IGNORE INTO flight VALUES (?, ?)", sent)

    def record(self, answers: Iterable[tuple[int, Any]]) -> None:
        """Record answers; the first one to a row stays."""
        found = [(self._identity, row, json.dumps(label)) for row, label in answers]
        with self._file.transaction():
            self._file.write("INSERT OR IGNORE INTO answer VALUES (?, ?, ?)", found)
            self._land([row for _, row, _ in found])

    def end(self, rows: Sequence[int]) -> None:
        """Record that calls have ended, but brought no answer."""
        with self._file.transaction():
            self._land(rows)

    def _land(self, rows: Sequence[int]) -> None:
        landed = [(self._identity, row) for row in rows]
        self._file.write("DELETE FROM flight WHERE question = ? AND row = ?", landed)

    @property
    def n_lost(self) -> int:
        """How many rows were in flight when a process was killed."""
        query = "SELECT count(*) FROM lost WHERE question = ?"
        with self._file.reading():
            return int(self._file.rows(query, self._identity)[0][0])

    @staticmethod
    def is_there(folder: str | os.PathLike[str]) -> bool:
        """Return whether a folder is a job."""
        return JobFile.is_there(folder)

    def note(self, name: str) -> str | None:
        """Return a note of whoever sends the rows; None if there is none."""
        with self._file.reading():
            found = self._file.rows("SELECT value FROM job WHERE name = ?", f"note: {name}")
            return str(found[0][0], "utf-8") if found else None

    def set_note(self, name: str, text: str) -> None:
        """Keep a note of whoever sends the rows."""
        with self._file.transaction():
            row = f"note: {name}", text.encode()
            self._file.write("INSERT OR REPLACE INTO job VALUES (?, ?)", [row])

    def close(self) -> None:
        """Close the file, for the next process."""
        self._file.close()
