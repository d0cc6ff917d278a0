"""The common part of all states: attempts at a request, and intents of calls."""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import Coroutine
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from emsco.core.decisions import ERROR
from emsco.exceptions import StateError
from emsco.live.accounts import Intent
from emsco.serve.state.protocol import DIED, NEW, Claim, RequestContext, asking

VERSION = 2  # of the layout of a state

_MOST_ATTEMPTS = 10_000  # to remember: only requests whose process died have more than one
_FIRST_DAY = date(1970, 1, 1)


class IdempotentState:
    """The common part of all states.

    An attempt is a claim of a request's id: the first one, or one after a process died. A purchase
    begun by another attempt is not repeated, even by a process that only seemed to be dead.

    Parameters
    ----------
    deployment : str
        The deployment whose ids, marks and labels are used.
    """

    key_file: Path | None = None  # the file for the secret of a state that is a file

    def __init__(self, deployment: str) -> None:
        self.deployment = deployment
        self.incarnation: str | None = None
        self.secrets: dict[str, str] = {}
        self._attempts: dict[str, int] = {}
        self._apart: set[asyncio.Task[None]] = set()

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


def current_request() -> RequestContext:
    """Return the request being decided."""
    return asking.get() or RequestContext("")


def new_id() -> str:
    """Return an id for an intent."""
    return uuid.uuid4().hex


def intent_of(
    id: str,  # noqa: A002
    source: str,
    price: float,
    granted: int | None,
    refused: str = ERROR,
) -> Intent:
    """Return the intent of a call for the granted number of rows; None: it was refused."""
    if granted is None:
        return Intent(id, source, 0, 0.0, refused=refused)
    return Intent(id, source, granted, price * granted)


def day_of(number: int) -> str:
    """Return a day, given as the number of days since 1970, as text.

    Examples
    --------
    >>> from emsco.serve.state.idempotency import day_number, day_of
    >>> day_of(20_484), day_number("2026-01-31")
    ('2026-01-31', 20484)
    """
    return (_FIRST_DAY + timedelta(days=number)).isoformat()


def day_number(day: str) -> int:
    """Return the number of days from 1970 to a day."""
    try:
        return (date.fromisoformat(day) - _FIRST_DAY).days
    except ValueError:
        raise StateError(f"The day must look like {_today()}, got {day!r}.") from None


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def to_text(label: Any) -> str:
    """Serialize a label as JSON; numpy scalars become Python values."""
    return json.dumps(label, default=lambda value: value.item())


def without_secrets(address: str) -> str:
    """Return a URL for messages, without user, password and options.

    Examples
    --------
    >>> from emsco.serve.state.idempotency import without_secrets
    >>> without_secrets("postgresql://me:pass@word@host:5432/db?sslmode=require")
    'postgresql://host:5432/db'
    """
    scheme, mark, rest = address.partition("://")
    user, _, place = rest.rpartition("@")
    if "?" in user:  # it may be part of an option or of a password
        return f"{scheme}://..."
    return scheme + mark + re.split("[?#]", place)[0]


def check_encoded(address: str) -> None:
    """Refuse a password that is not percent-encoded: a driver would misread it."""
    place = re.split("[/?#]", address.partition("://")[2], maxsplit=1)
    if len(place) == 2 and "@" in place[1].partition("?")[0]:
        raise StateError(
            "The URL of the state has an @ after its host. If the password contains / ? # @, write "
            "%2F %3F %23 %40 instead."
        )


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
