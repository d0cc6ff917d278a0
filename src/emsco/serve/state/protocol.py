"""The state of a service: what its processes share, and what must survive when one is killed.

Whatever a method has returned is kept: the process that called it may die at any moment afterwards.
A method that raises `StateError` may have done its work or not; nothing is repeated by itself.
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
INCARNATION = "incarnation:"  # and the deployment: the name under which it is kept
PAUSE = 1.0  # seconds between trial calls to a failing source


@dataclass(frozen=True)
class RequestContext:
    """Whose request is being decided, for the intents of its paid calls.

    Parameters
    ----------
    id : str
        The id of the request.
    tenant : str, default=""
        Who is charged for it.
    """

    id: str
    tenant: str = ""


asking: ContextVar[RequestContext | None] = ContextVar("asking", default=None)


@dataclass(frozen=True)
class Claim:
    """What is known about the id of a request.

    Parameters
    ----------
    kind : {"new", "done", "other", "running", "died"}
        "new": decide it. "done": `answer` is what was answered. "other": the id belongs to another
        body. "running": another process decides it. "died": another process began to decide it and
        has let its lease pass; decide it, and `begin` refuses what may have been bought already.
    answer : str, default=None
        What was answered.
    """

    kind: str
    answer: str | None = None


@dataclass(frozen=True)
class OpenIntent:
    """A call that was begun and has no outcome: it is under way, or its process died.

    Parameters
    ----------
    id : str
        The id of the intent.
    source : str
        What was asked.
    tenant : str
        Who is charged for it.
    request : str
        The id of the request that it was made for.
    at : float
        When it was begun, in seconds since 1970.
    rows : int
        For how many rows.
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
    """What was spent on a source for a tenant in a day.

    Parameters
    ----------
    source : str
        What was asked.
    tenant : str
        Who is charged for it.
    day : str
        The day (UTC), such as "2026-01-31".
    paid : float
        What answers cost.
    unknown : float
        What calls without an answer may have cost, those of `open` included.
    open : tuple of OpenIntent
        The calls that have no outcome.
    """

    source: str
    tenant: str
    day: str
    paid: float
    unknown: float
    open: tuple[OpenIntent, ...] = ()


@dataclass(frozen=True)
class Concern:
    """Why a store may lose what it is given.

    Parameters
    ----------
    text : str
        A sentence that says so, and what to do.
    loses : bool
        Whether it is known to lose it; False: only where something goes wrong, or it is not known.
    """

    text: str
    loses: bool


@dataclass(frozen=True)
class VersionedValue:
    """A small value, and how often it was written."""

    text: str
    version: int


@dataclass(frozen=True)
class AuditMark:
    """A decision that was chosen for an audit.

    Parameters
    ----------
    id : str
        The id of the decision.
    at : float
        When it was made, in seconds since 1970.
    model : str
        The digest of the model.
    label : str, int, float, bool or None
        The label that was given.
    accepted : bool
        Whether it was accepted.
    reason : str
        Why it was not.
    exit_stage : int
        The stage that decided it.
    truth : str, int, float, bool or None, default=None
        The label that came back. None: none did.
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
    """Protocol of what the processes of a service share; one object per process.

    It keeps accounts too: `begin` holds the money of a call for all processes, per source and day
    (UTC), and writes the intent, with the id and the tenant of `asking`, before it returns.

    Attributes
    ----------
    deployment : str
        Whose ids, marks and labels are meant.
    incarnation : str or None
        What must be kept as incarnation of the deployment, or `begin` grants nothing. None:
        anything.
    secrets : dict of str to str
        The secrets that this process has read, by name, to be put back where they are lost.
    """

    deployment: str
    incarnation: str | None
    secrets: dict[str, str]
    key_file: Path | None  # where its secret may be kept; None: it has no place of its own

    async def open(self) -> None:
        """Connect, and make what is not there yet."""

    async def close(self) -> None:
        """Finish what is under way, and disconnect."""

    async def ping(self) -> None:
        """Raise `StateError` if the state cannot be written to."""

    async def server(self) -> str:
        """Return what tells the server from another one and from itself before a restart."""

    async def concerns(self) -> list[Concern]:
        """Return why the store may lose what it is given."""

    async def claim(self, id: str, body: str, lease: float) -> Claim:  # noqa: A002
        """Claim the id of a request with this body, for so many seconds."""

    async def renew(self, id: str, lease: float) -> bool:  # noqa: A002
        """Claim it for so many seconds from now on; False: another process has it."""

    async def answer(self, id: str, text: str) -> str:  # noqa: A002
        """Keep the answer to a claimed id, and return what is kept: the first answer stays."""

    async def drop(self, id: str) -> None:  # noqa: A002
        """Give up a claim: the id is new again, or "died" if something may have been bought."""

    async def failing(self) -> set[str]:
        """Return the sources that `is_well` has told to fail."""

    async def spend(self, day: str | None = None) -> list[DaySpending]:
        """Return what was spent, on one day (such as "2026-01-31") or on all."""

    async def settle(self, source: str, day: str, charged: float) -> float:
        """Settle what is unknown for a source on a day: so much of it was charged, the rest not.

        An answer that comes later still counts as it is. Return how much was unknown; `StateError`
        if that is less than what was charged.
        """

    async def keep(self, name: str, text: str, was: int | None = None) -> bool:
        """Keep a small value.

        Parameters
        ----------
        name : str
            The name of the value.
        text : str
            The value.
        was : int, default=None
            Write only if this is the version that is kept (0: if none is). None: write anyway.

        Returns
        -------
        bool
            Whether it was written.
        """

    async def kept(self, name: str) -> VersionedValue | None:
        """Return a small value, or None."""

    async def mark(self, rows: Sequence[AuditMark]) -> None:
        """Keep decisions for the audit; of two marks of an id the last one stays."""

    async def marked(self, ids: Sequence[str]) -> list[AuditMark]:
        """Return those of the decisions that are marked."""

    async def label(self, id: str, label: Any) -> bool:  # noqa: A002
        """Keep the true label of a decision, marked or not; False: it has this label already.

        The last label counts. The label of a decision that is not marked waits a day for its mark.
        """

    async def due(
        self, before: float, since: float = 0.0, model: str | None = None
    ) -> list[AuditMark]:
        """Return marked decisions made before a time, and not before another, oldest first."""

    async def forget(self, before: float) -> None:
        """Forget marked decisions made before a time."""
