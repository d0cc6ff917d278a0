"""The SQLite file of a job, in which a changed bit is noticed.

Each row has a checksum, and the file their sum, which triggers keep. When the file is opened, and
whenever answers are read, the rows must add up to it, and the file must have the tables that it was
made with. This is about accidents: a disk that forgets, a copy that went wrong. Whoever rewrites
rows can rewrite the sum; and a folder that was deleted, or replaced by an older copy of itself, has
nothing by which that could be noticed.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from zlib import crc32

from emsco.exceptions import BatchError

_FILE = "job.sqlite"
_TABLES = {
    "job": "name TEXT PRIMARY KEY, value BLOB NOT NULL",
    "question": "identity TEXT PRIMARY KEY, level REAL NOT NULL, allowed REAL NOT NULL, "
    "kind TEXT NOT NULL, row_hashes BLOB NOT NULL",
    "fixed": "question TEXT, name TEXT, value TEXT NOT NULL, PRIMARY KEY (question, name)",
    "answer": "question TEXT, row INTEGER, label TEXT NOT NULL, PRIMARY KEY (question, row)",
    "flight": "question TEXT, row INTEGER, PRIMARY KEY (question, row)",
    "lost": "question TEXT, row INTEGER, times INTEGER, PRIMARY KEY (question, row, times)",
}
_CANNOT_WRITE = {
    sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM, sqlite3.SQLITE_NOMEM,
}  # fmt: skip


def _schema() -> list[str]:
    """Return what makes the tables; SQLite keeps these very texts."""
    made = ["CREATE TABLE total (value INTEGER NOT NULL)"]
    for table, columns in _TABLES.items():
        # Rows are in their key's tree: no index beside it could lose one of them.
        made.append(f"CREATE TABLE {table} ({columns}) WITHOUT ROWID")
        for event, row, sign in (("INSERT", "NEW", "+"), ("DELETE", "OLD", "-")):
            values = ", ".join(f"{row}.{name}" for name in _names(columns))
            made.append(
                f"CREATE TRIGGER {table}_{event.lower()} AFTER {event} ON {table} BEGIN "
                f"UPDATE total SET value = value {sign} checksum('{table}', {values}); END"
            )
    return made


def _names(columns: str) -> list[str]:
    return [each.split()[0] for each in columns.split(", PRIMARY KEY (")[0].split(", ")]


def _checksum(*values: Any) -> int:
    return crc32(repr(values).encode())


class JobFile:
    """The open file of a folder, made with its folder if there is none; for one process at a time.

    Parameters
    ----------
    folder : str
        The folder.
    new : mapping of str to bytes
        The first rows of the table `job`, for a new file.
    """

    def __init__(self, folder: str, new: dict[str, bytes]) -> None:
        self._folder = folder
        with self._named_errors():
            os.makedirs(folder, mode=0o700, exist_ok=True)
            path = Path(folder, _FILE)
            if not path.exists():  # private from the first moment
                os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
            self._db = sqlite3.connect(path, timeout=1.0, check_same_thread=False,
                                       isolation_level=None)  # fmt: skip
            try:
                self._start(new)
            except BaseException:
                self._db.close()
                raise

    @staticmethod
    def is_there(folder: str | os.PathLike[str]) -> bool:
        """Return whether a folder has one."""
        return Path(folder, _FILE).exists()

    def _start(self, new: dict[str, bytes]) -> None:
        self._db.create_function("checksum", -1, _checksum, deterministic=True)
        for setting in ("locking_mode = EXCLUSIVE",  # the lock is held until the file is closed
                        "journal_mode = DELETE",  # of a log beside it, a lost end is not noticed
                        "synchronous = FULL",
                        "recursive_triggers = ON"):  # also for rows that are replaced  # fmt: skip
            self._db.execute(f"PRAGMA {setting}")
        with self.transaction():
            if not self.rows("SELECT 1 FROM sqlite_master"):
                for statement in [*_schema(), "INSERT INTO total VALUES (0)"]:
                    self._db.execute(statement)
                self._db.executemany("INSERT INTO job VALUES (?, ?)", new.items())
        found = {sql for (sql,) in self.rows("SELECT sql FROM sqlite_master")}
        if found != set(_schema()) or self.rows("PRAGMA integrity_check(1)") != [("ok",)]:
            raise self._damaged("its tables are not as they were made, or not by this version")
        self.verify()

    def verify(self) -> None:
        """Refuse a file whose rows do not add up."""
        found = [
            sum(_checksum(table, *row) for row in self._db.execute(f"SELECT * FROM {table}"))
            for table in _TABLES
        ]
        if self.rows("SELECT value FROM total") != [(sum(found),)]:
            raise self._damaged("its rows are not as they were written")

    def rows(self, query: str, *values: Any) -> list[Any]:
        """Return what a query gives."""
        return self._db.execute(query, values).fetchall()

    def write(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Execute a statement for each of some rows."""
        self._db.executemany(statement, rows)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Raise errors by name."""
        with self._named_errors():
            yield

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Write all of something, or nothing."""
        with self._named_errors():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                with suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def close(self) -> None:
        """Close the file, for the next process."""
        self._db.close()

    def _damaged(self, why: object) -> BatchError:
        return BatchError(f"The job {self._folder} is damaged: {why}.")

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                raise BatchError(
                    f"Another process works on the job {self._folder}; wait until it has ended."
                ) from error
            if code in _CANNOT_WRITE:
                raise BatchError(f"The job {self._folder} cannot be written: {error}.") from error
            raise self._damaged(error) from error
        except (json.JSONDecodeError, UnicodeDecodeError) as error:  # also of SQLite's messages
            raise self._damaged(error) from error
        except OSError as error:
            raise BatchError(
                f"The job {self._folder} cannot be opened: {error.strerror}."
            ) from error
