"""Answers that have come and money that was spent, in one SQLite file for any number of processes.

An answer is found by the digest of its whole request. What a call can cost at most is written down
before it is made, and replaced by what it did cost. So a call in flight of a killed process counts
as its upper bound, and an answer that has come is never paid for again.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import Any

from emsco.chat.chat_protocol import ChatReply
from emsco.chat.spending import UNIT, ChatSpending
from emsco.exceptions import ArtifactError

_APPLICATION, _FORMAT = 0x656D7363, 1  # "emsc"
_WAIT = 30.0  # seconds for another process that writes
_TABLES = """
CREATE TABLE IF NOT EXISTS reply (digest TEXT PRIMARY KEY, content TEXT NOT NULL,
                                  seal TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS account (name TEXT PRIMARY KEY, known INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS reservation (id INTEGER PRIMARY KEY AUTOINCREMENT, account TEXT NOT NULL,
                                        digest TEXT NOT NULL, amount INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS reservation_amount ON reservation (account, digest, amount);
CREATE TABLE IF NOT EXISTS refused (account TEXT NOT NULL, name TEXT NOT NULL,
                                    PRIMARY KEY (account, name)) WITHOUT ROWID;
"""


class AnswerCache:
    """The answers and the accounts in a file.

    Parameters
    ----------
    path : path or None
        The file, which is made if there is none. None: they are in memory.
    """

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        self.path = ":memory:" if path is None else os.fspath(path)
        with self._named_errors():
            if path is not None and not os.path.exists(path):  # private from the first moment
                os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
            self._db = sqlite3.connect(self.path, timeout=_WAIT, check_same_thread=False,
                                       isolation_level=None)  # fmt: skip
            try:
                self._start()
            except BaseException:
                self._db.close()
                raise

    def _start(self) -> None:
        self._db.execute("BEGIN")  # all at one moment: another process may be creating the tables
        try:
            (n_tables,) = self._one("SELECT count(*) FROM sqlite_master")
            (application,) = self._one("PRAGMA application_id")
            (format_,) = self._one("PRAGMA user_version")
        finally:
            self._db.execute("COMMIT")
        if (application, format_) != (_APPLICATION, _FORMAT) and (application or n_tables):
            raise ArtifactError(
                f"{self.path} is no file of answers of this version of emsco; give another name."
            )
        self._write_ahead()
        self._db.execute("PRAGMA synchronous = FULL")
        with self.transaction():
            for statement in _TABLES.split(";"):
                self._db.execute(statement)
            self._db.execute(f"PRAGMA application_id = {_APPLICATION}")
            self._db.execute(f"PRAGMA user_version = {_FORMAT}")

    def _write_ahead(self) -> None:
        """Switch to a log of writes, for which SQLite itself does not wait for other processes."""
        until = time.monotonic() + _WAIT
        while True:
            try:
                self._db.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > until:
                    raise
                time.sleep(0.05)

    def find(self, digest: str) -> ChatReply | None:
        """Return the answer to a request, if it has come."""
        with self._named_errors():
            found = self._one("SELECT content, seal FROM reply WHERE digest = ?", digest)
            if found is None:
                return None
            if found[1] != _seal(digest, found[0]):
                raise ArtifactError(f"{self.path} is damaged: an answer in it was changed.")
            return ChatReply(*json.loads(found[0]))

    def reserve(self, account: str, digest: str, amount: int, limit: int | None) -> int | None:
        """Write down what a call can cost; None if that is more than is left of the limit."""
        with self.transaction():
            if limit is not None and sum(self._totals(account)[:2]) + amount > limit:
                return None
            cursor = self._db.execute(
                "INSERT INTO reservation (account, digest, amount) VALUES (?, ?, ?)",
                (account, digest, amount),
            )
            return cursor.lastrowid

    def settle(
        self,
        account: str,
        reservation: int,
        cost: int | None,
        digest: str,
        reply: ChatReply | None,
    ) -> None:
        """Write down what a call did cost, None if that is not known, and its answer, if any."""
        with self.transaction():
            if cost is not None:
                self._db.execute("DELETE FROM reservation WHERE id = ?", (reservation,))
                self._db.execute(
                    "INSERT INTO account VALUES (?, ?) "
                    "ON CONFLICT (name) DO UPDATE SET known = known + excluded.known",
                    (account, cost),
                )
            if reply is not None:
                content = json.dumps(reply)
                self._db.execute(
                    "INSERT OR IGNORE INTO reply VALUES (?, ?, ?)",
                    (digest, content, _seal(digest, content)),
                )

    def reserved(self, account: str, digest: str) -> int | None:
        """Return the last reservation for a request that is not settled."""
        with self._named_errors():
            query = "SELECT max(id) FROM reservation WHERE account = ? AND digest = ?"
            found: tuple[int | None] = self._one(query, account, digest)
            return found[0]

    def spending(self, account: str) -> ChatSpending:
        """Return what was spent from an account."""
        with self._named_errors():
            known, unknown, n_unknown = self._totals(account)
        return ChatSpending(known / UNIT, unknown / UNIT, n_unknown)

    def _totals(self, account: str) -> tuple[int, int, int]:
        known = self._one("SELECT known FROM account WHERE name = ?", account) or (0,)
        query = "SELECT coalesce(sum(amount), 0), count(*) FROM reservation WHERE account = ?"
        return (*known, *self._one(query, account))

    def refused(self, account: str) -> tuple[str, ...]:
        """Return the options of requests that an endpoint is known to refuse."""
        with self._named_errors():
            query = "SELECT name FROM refused WHERE account = ? ORDER BY name"
            return tuple(name for (name,) in self._db.execute(query, (account,)).fetchall())

    def refuse(self, account: str, names: Sequence[str]) -> None:
        """Remember that an endpoint refuses options of requests."""
        with self.transaction():
            self._db.executemany(
                "INSERT OR IGNORE INTO refused VALUES (?, ?)", [(account, name) for name in names]
            )

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _one(self, query: str, *values: Any) -> Any:
        return self._db.execute(query, values).fetchone()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Write all that is done inside the block at once; one inside another is part of it."""
        if self._db.in_transaction:
            yield
            return
        with self._named_errors():
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
            raise ArtifactError(f"{self.path} cannot be written: {error}.") from error
        except (sqlite3.DatabaseError, ValueError, TypeError, OverflowError) as error:
            if isinstance(error, ArtifactError):
                raise
            raise ArtifactError(f"{self.path} is damaged: {error}.") from error
        except OSError as error:
            raise ArtifactError(f"{self.path} cannot be opened: {error.strerror}.") from error


def _seal(digest: str, content: str) -> str:
    return sha256(f"{digest} {content}".encode()).hexdigest()[:16]
