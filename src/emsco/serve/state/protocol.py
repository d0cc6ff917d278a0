"""The state of a service: data that its processes share and that survives when one is killed.

Once a method returns, its effect is durable: the calling process may die at any moment afterwards.
A method that raises `StateError` may or may not have done its work; nothing is retried
automatically.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from emsco.live.accounts import Accounts

NEW, DONE, OTHER, RUNNING, DIED = "new", "done", "other", "running", "died"

KEEP_FOR = 7 * 86_400.0  # seconds for which ids are kept
UNSEEN_FOR = 86_400.0  # seconds for which a label waits for the mark of its row
INCARNATION = "incarnation:"  # prefix of its name, followed by the deployment
PAUSE = 1.0  # seconds between trial calls to a failing source


@dataclass(frozen=True)
class RequestContext:
    """The request being decided, for the intents of its paid calls.

    Parameters
    ----------
    id : str
        The id of the request.
    tenant : str, default=""
        The tenant that is charged.
    """

    id: str
    tenant: str = ""


asking: ContextVar[RequestContext | None] = ContextVar("asking", default=None)


@dataclass(frozen=True)
class Claim:
    """The result of claiming the id of a request.

    Parameters
    ----------
    kind : {"new", "done", "other", "running", "died"}
        "new": decide it. "done": it was answered with `answer`. "other": the id belongs to another
        body. "running": another process is deciding it. "died": another process began to decide it
        and its lease has expired; decide it, and `begin` refuses what may have been bought already.
    answer : str, default=None
        The stored answer.
    """

    kind: str
    answer: str | None = None


@dataclass(frozen=True)
class OpenIntent:
    """A call that was begun and has no outcome: it is in progress, or its process died.

    Parameters
    ----------
    id : str
        The id of the intent.
    source : str
        The source.
    tenant : str
        The tenant that is charged.
    request : str
        The id of the request that it was made for.
    at : float
        When it was begun, in seconds since 1970.
    rows : int
        The number of rows.
    held : float
        Their full price.
    """

    id: str
    source: str
    tenant: str
    request: str
    at: float
    rows: int
    held: float


@dataclass(frozen=True)
class DaySpending:
    """The spending on a source for a tenant on one day.

    Parameters
    ----------
    source : str
        The source.
    tenant : str
        The tenant that is charged.
    day : str
        The day (UTC), such as "2026-01-31".
    paid : float
        The amount paid for answers.
    unknown : float
        The amount that calls without an answer may have cost, including those in `open`.
    open : tuple of OpenIntent
        The calls without an outcome.
    """

    source: str
    tenant: str
    day: str
    paid: float
    unknown: float
    open: tuple[OpenIntent, ...] = ()


@dataclass(frozen=True)
class Concern:
    """A reason why a store may lose data.

    Parameters
    ----------
    text : str
        The reason and what to do, as a sentence.
    loses : bool
        Whether the store is known to lose data; False: only after a failure, or it is unknown.
    """

    text: str
    loses: bool


@dataclass(frozen=True)
class VersionedValue:
    """A small value, and the number of times it was written."""

    text: str
    version: int


@dataclass(frozen=True)
class AuditMark:
    """A decision that was drawn for the audit.

    Parameters
    ----------
    id : str
        The id of the decision.
    at : float
        When it was made, in seconds since 1970.
    model : str
        The digest of the model.
    label : str, int, float, bool or None
        The decided label.
    accepted : bool
        Whether it was accepted.
    reason : str
        Why it was rejected.
    exit_stage : int
        The stage that decided it.
    truth : str, int, float, bool or None, default=None
        The true label. None: not known.
    """

    id: str
    at: float
    model: str
    label: Any
    accepted: bool
    reason: str
    exit_stage: int
    truth: Any = None


class State(Accounts, Protocol):
    """Protocol of the state that the processes of a service share; one object per process.

    It also implements `Accounts`: `begin` reserves the money for a call across all processes, per
    source and day (UTC), and writes the intent, with the id and the tenant of `asking`, before it
    returns.

    Attributes
    ----------
    deployment : str
        The deployment whose ids, marks and labels are used.
    incarnation : str or None
        The incarnation that the state must have for `begin` to grant anything. None: any.
    secrets : dict of str to str
        The secrets that this process has read, by name, to restore them if they are lost.
    """

    deployment: str
    incarnation: str | None
    secrets: dict[str, str]
    key_file: Path | None  # the file for its secret; None: the secret is stored in the state

    async def open(self) -> None:
        """Connect, and create what does not exist yet."""

    async def close(self) -> None:
        """Finish operations in progress, and disconnect."""

    async def ping(self) -> None:
        """Raise `StateError` if the state cannot be written to."""

    async def server(self) -> str:
        """Return an id of the server, which changes with every restart."""

    async def concerns(self) -> list[Concern]:
        """Return the reasons why the store may lose data."""

    async def claim(self, id: str, body: str, lease: float) -> Claim:  # noqa: A002
        """Claim the id of a request with this body for `lease` seconds."""

    async def renew(self, id: str, lease: float) -> bool:  # noqa: A002
        """Extend a claim to `lease` seconds from now; False: another process has it."""

    async def answer(self, id: str, text: str) -> str:  # noqa: A002
        """Store the answer to a claimed id; return the stored one, which is the first."""

    async def drop(self, id: str) -> None:  # noqa: A002
        """Release a claim: the id is new again, or "died" if something may have been bought."""

    async def failing(self) -> set[str]:
        """Return the sources that `is_well` has reported as failing."""

    async def spend(self, day: str | None = None) -> list[DaySpending]:
        """Return the spending of one day (such as "2026-01-31") or of all days."""

    async def settle(self, source: str, day: str, charged: float) -> float:
        """Settle the unknown charges of a source on a day: `charged` of them, the rest not.

        An answer that arrives later still counts in full. Return the amount that was unknown; raise
        `StateError` if it is less than `charged`.
        """

    async def keep(self, name: str, text: str, was: int | None = None) -> bool:
        """Store a small value.

        Parameters
        ----------
        name : str
            The name of the value.
        text : str
            The value.
        was : int, default=None
            Write only if the stored version is this one (0: if there is none). None: always write.

        Returns
        -------
        bool
            Whether it was written.
        """

    async def get_value(self, name: str) -> VersionedValue | None:
        """Return a small value, or None."""

    async def mark(self, rows: Sequence[AuditMark]) -> None:
        """Store decisions for the audit; a second mark of the same id replaces the first."""

    async def marked(self, ids: Sequence[str]) -> list[AuditMark]:
        """Return the marks of those decisions that are marked."""

    async def label(self, id: str, label: Any) -> bool:  # noqa: A002
        """Store the true label of a decision, marked or not; False: it already has this label.

        The last label counts. The label of an unmarked decision waits a day for its mark.
        """

    async def due(
        self, before: float, since: float = 0.0, model: str | None = None
    ) -> list[AuditMark]:
        """Return marked decisions made between `since` and `before`, oldest first."""

    async def forget(self, before: float) -> None:
        """Delete marked decisions made before a time."""
