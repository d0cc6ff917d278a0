"""What all states have in common: their values and methods, attempts at a request, and intents.

A state is data that the processes of a service share and that survives when one is killed. Once a
method returns, its effect is durable: the calling process may die at any moment afterwards. A
method that raises `StateError` may or may not have done its work; nothing is retried automatically.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from emsco.core.decisions import ERROR
from emsco.exceptions import StateError
from emsco.live.accounts import Accounts, Intent, money
from emsco.serve.check_period import PeriodTerms, Step, StoreIdentity, Turn

VERSION = 2  # of the layout of a state

NEW, DONE, OTHER, RUNNING, DIED = "new", "done", "other", "running", "died"

KEEP_FOR = 7 * 86_400.0  # seconds for which ids are kept
UNSEEN_FOR = 86_400.0  # seconds for which a label waits for the mark of its row
INCARNATION = "incarnation:"  # prefix of its name, followed by the deployment
PAUSE = 1.0  # seconds between trial calls to a failing source
_MOST_ATTEMPTS = 10_000  # to remember: only requests whose process died have more than one
_FIRST_DAY = date(1970, 1, 1)
_MORE = 1e-6  # sums of prices are not exact


@dataclass(frozen=True)
class Claim:
    """The result of claiming the id of a request."""

    # "new": decide it. "done": it was answered with `answer`. "other": the id belongs to another
    # body. "running": another process is deciding it. "died": another process began to decide it
    # and its lease has expired; decide it, and `begin` refuses what may have been bought already.
    kind: str
    answer: str | None = None


@dataclass(frozen=True)
class OpenIntent:
    """A call that was begun and has no outcome: it is in progress, or its process died."""

    id: str
    source: str
    tenant: str
    request: str  # the id of the request that it was made for
    at: float  # in seconds since 1970
    rows: int
    held: float  # their full price


@dataclass(frozen=True)
class DaySpending:
    """The spending on a source for a tenant on one day."""

    source: str
    tenant: str
    day: str  # in UTC, such as "2026-01-31"
    paid: float
    unknown: float  # what calls without an answer may have cost, including those in `open`
    open: tuple[OpenIntent, ...] = ()


@dataclass(frozen=True)
class Concern:
    """A reason why a store may lose data."""

    text: str  # with what to do
    loses: bool  # whether it is known to; False: only after a failure, or it is unknown


@dataclass(frozen=True)
class VersionedValue:
    """A small value, and the number of times it was written."""

    text: str
    version: int


@dataclass(frozen=True)
class AuditMark:
    """A decision that was drawn for the audit."""

    id: str
    at: float  # in seconds since 1970
    model: str
    label: Any
    accepted: bool
    reason: str
    exit_stage: int
    truth: Any = None  # the true label, if it is known


class State(Accounts, Protocol):
    """The state that the processes of a service share; one object per process.

    It also implements `Accounts`: `begin` reserves the money for a call across all processes, per
    source and day (UTC), and writes the intent, with the id and the tenant of its context, before
    it returns.

    An attempt is a claim of a request's id: the first one, or one after a process died. A purchase
    begun by another attempt is not repeated, even by a process that only seemed to be dead.
    """

    deployment: str  # whose ids, marks and labels are used
    incarnation: str | None  # that it must have for `begin` to grant anything; None: any
    secrets: dict[str, str]  # that this process has read, by name, to restore them if they are lost
    key_file: Path | None = None  # the file for its secret; None: the secret is stored in the state
    _attempts: dict[str, int]  # by id, of this process; 1 if there is none
    _apart: set[asyncio.Task[None]]

    def __init__(self, deployment: str) -> None:
        self.deployment, self.incarnation, self.secrets = deployment, None, {}
        self._attempts, self._apart = {}, set()

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

    async def turn(self, steps: Sequence[Step], terms: PeriodTerms) -> Turn:
        """Take steps of the period of spot checks, all at once, on the clock of the store.

        Without steps, nothing changes, and the period is returned as it is. A step may be taken
        although this raises `StateError`, but never twice.
        """

    def _identity(self, server: str = "") -> StoreIdentity:
        """Return which store this is, as far as this process knows."""
        if self.incarnation is None:
            return StoreIdentity(server)
        own = json.loads(self.incarnation)
        return StoreIdentity(server, own["id"], own["after"] is not None)

    async def keep(self, name: str, text: str, was: int | None = None) -> bool:
        """Store a small value, with `was` only if that version is stored (0: none yet).

        Return whether it was written.
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

    def _claimed(self, id: str, attempt: int) -> Claim:  # noqa: A002
        """Remember which attempt this process makes."""
        self._attempts.pop(id, None)
        if attempt == 1:
            return Claim(NEW)
        self._attempts[id] = attempt
        if len(self._attempts) > _MOST_ATTEMPTS:
            del self._attempts[next(iter(self._attempts))]
        return Claim(DIED)

    def _attempt(self, id: str) -> int:  # noqa: A002
        return self._attempts.get(id, 1)

    def _answered(self, id: str, answer: str | None) -> str:  # noqa: A002
        if answer is None:
            raise StateError(
                f"The answer to {id!r} cannot be stored: the state does not know this id. It must "
                "be claimed first; if it was, the store has lost it."
            )
        return answer

    def _begin_apart(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a background task, and keep a reference: the event loop does not."""
        task = asyncio.ensure_future(work)
        self._apart.add(task)
        task.add_done_callback(self._apart.discard)

    async def _finish_apart(self) -> None:
        await asyncio.gather(*self._apart, return_exceptions=True)


def intent_of(
    id_: str, source: str, price: float, granted: int | None, refused: str = ERROR
) -> Intent:
    """Return the intent of a call for the granted number of rows; None: it was refused."""
    if granted is None:
        return Intent(id_, source, 0, 0.0, refused=refused)
    return Intent(id_, source, granted, price * granted)


def day_of(number: int) -> str:
    """Return a day, given as the number of days since 1970, as text."""
    return (_FIRST_DAY + timedelta(days=number)).isoformat()


def day_number(day: str) -> int:
    """Return the number of days from 1970 to a day."""
    try:
        return (date.fromisoformat(day) - _FIRST_DAY).days
    except ValueError:
        today = datetime.now(UTC).date().isoformat()
        raise StateError(f"The day must look like {today}, got {day!r}.") from None


def to_text(label: Any) -> str:
    """Serialize a label as JSON; numpy scalars become Python values."""
    return json.dumps(label, default=lambda value: value.item())


def check_version(found: int, address: str) -> None:
    """Refuse a state created by another version of emsco."""
    if found < VERSION:
        raise StateError(
            f"The state at {address} has version {found}, of an earlier emsco; this one needs "
            f"version {VERSION}. Use another state, or another ?prefix=NAME at the end of its "
            "URL, and keep the old one for `emsco spend` of the emsco that created it."
        )
    if found > VERSION:
        raise StateError(
            f"The state at {address} has version {found}; this emsco supports versions up to "
            f"{VERSION}. Install the emsco that created it, or use another state."
        )


def unusable(address: str, error: BaseException) -> StateError:
    """Return an error with the URL of the state and the first line of another error."""
    line = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
    return StateError(f"The state at {address} cannot be used: {line}.")


def share_of(charged: float, unknown: float) -> float:
    """Return the share of the unknown amount that was charged; refuse more than is unknown."""
    if not 0 <= charged <= unknown + _MORE:
        raise StateError(
            f"The charged part of the unknown amount must be from 0 to {money(unknown, '')}, got "
            f"{charged!r}. If the bill has more, it includes calls that this state does not know."
        )
    return min(charged / unknown, 1.0) if unknown else 0.0
