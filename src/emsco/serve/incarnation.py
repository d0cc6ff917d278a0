"""The incarnation of a state: a marker that shows whether the state has lost its data.

It is a random id that an operator writes once, under the name of a deployment. A store that was
emptied or replaced does not have it: requests that were already paid for would be paid for again,
and spending limits would start from zero.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass

from emsco.exceptions import ServiceError, StateError
from emsco.serve.deployment import Deployment
from emsco.serve.events import ERROR, WARNING, log_event, now_text
from emsco.serve.settings import Settings
from emsco.serve.state.base import INCARNATION, State

_LOOK = 1.0  # seconds between checks
_AGAIN = 60.0  # seconds after which a loss is logged again


@dataclass(frozen=True)
class Incarnation:
    """The marker of a state, which is missing if the state has lost its data."""

    id: str
    at: str
    # The incarnation that an operator replaced by it; "": there was none. None: it is the first.
    after: str | None = None

    @classmethod
    def new(cls, after: str | None = None) -> Incarnation:
        """Create one with a new random id."""
        return cls(uuid.uuid4().hex, now_text(), after)

    @classmethod
    def from_text(cls, text: str) -> Incarnation:
        """Parse the stored text."""
        return cls(**json.loads(text))

    def to_text(self) -> str:
        """Serialize it as JSON."""
        return json.dumps(asdict(self))


async def find(state: State) -> Incarnation | None:
    """Return the incarnation of a deployment's state, or None."""
    stored = await state.get_value(INCARNATION + state.deployment)
    return None if stored is None else Incarnation.from_text(stored.text)


async def begin(state: State) -> Incarnation:
    """Write the first incarnation."""
    new = Incarnation.new()
    if not await state.keep(INCARNATION + state.deployment, new.to_text(), was=0):
        raise StateError(
            f"The deployment {state.deployment!r} already has an incarnation: this state is in "
            "use. If it has lost data and you accept the consequences, run `emsco state accept`."
        )
    return new


async def accept(state: State) -> Incarnation:
    """Write a new incarnation, so that services that have lost theirs continue."""
    before = await find(state)
    new = Incarnation.new("" if before is None else before.id)
    await state.keep(INCARNATION + state.deployment, new.to_text())
    return new


class Witness:
    """Detects that the state is no longer the one that the service started with.

    A running service continues with another incarnation only if `accept` has written it: in place
    of the previous one, or after the loss was logged.
    """

    def __init__(self, state: State, own: Incarnation) -> None:
        self._state, self._own = state, own
        self.is_lost, self.moved = False, 0
        self._seen: Incarnation | None = own
        self._server = ""
        self._logged_at = 0.0  # when the loss was last logged
        state.incarnation = own.to_text()

    async def keep_looking(self) -> None:
        """Check every second."""
        while True:
            with suppress(StateError):  # a state that does not respond may still have its data
                await self.look()
            await asyncio.sleep(_LOOK)

    async def look(self) -> None:
        """Check once whether the state still has its incarnation, and which server answers."""
        found, server = await find(self._state), await self._state.server()
        if (
            found is not None
            and found != self._own
            and found.after is not None
            and (found.after == self._own.id or (self.is_lost and found != self._seen))
        ):
            self._go_on(found)  # an operator has accepted it
        elif found != self._own:
            await self._log_loss()
        elif self.is_lost:  # the store with the incarnation is back
            self._go_on(found)
        elif self._server and server != self._server:
            self.moved += 1
            log_event("state moved", WARNING, text="The store was restarted, or another server "
                      "took over. It has the incarnation of this deployment, so calls continue; a "
                      "replica may lack the writes of the last seconds.")  # fmt: skip
        self._seen, self._server = found, server

    def _go_on(self, found: Incarnation) -> None:
        self._own, self.is_lost = found, False
        self._state.incarnation = found.to_text()
        log_event("state accepted", incarnation=found.id, at=found.at)

    async def _log_loss(self) -> None:
        now = asyncio.get_running_loop().time()
        if not self.is_lost or now - self._logged_at > _AGAIN:
            self._logged_at = now
            log_event("state lost", ERROR, deployment=self._state.deployment, text="The state has "
                      "lost its data or was replaced: ids that were paid for are unknown, and "
                      "spending limits would start from zero. Paid calls have stopped. Find out "
                      "what was lost, then run `emsco state accept`.")  # fmt: skip
        self.is_lost = True
        for name, secret in self._state.secrets.items():
            await self._state.keep(name, secret, was=0)


async def witness_of(
    settings: Settings, models: Sequence[Deployment], state: State
) -> Witness | None:
    """Return the witness of a shared state; None for an SQLite file, which is not watched."""
    # What was spent, and how many checks disagreed, must not be forgotten.
    is_counted = any(model.is_counted for model in models) or settings.max_changed is not None
    concerns = await state.concerns()
    losing = [concern.text for concern in concerns if concern.loses]
    if losing and is_counted and not settings.allow_volatile_state:
        raise ServiceError(
            f"{' '.join(losing)} Requests could be paid for twice; --allow-volatile-state allows "
            "this store nevertheless."
        )
    for concern in concerns:
        log_event("state", WARNING, text=concern.text)
    if not settings.is_shared:
        return None
    if settings.max_changed is not None and not await state.server():
        raise ServiceError(
            "--max-changed needs a store that says when it was restarted, because it may have lost "
            "its last writes then; allow the service the command INFO, or use PostgreSQL."
        )
    found = await find(state)
    if found is None and is_counted:
        name = f"--deployment {settings.deployment}"
        raise ServiceError(
            f"The state has no incarnation of the deployment {settings.deployment!r}: it is new, "
            f"or it has lost its data. If it is new, run `emsco state init {name}` with its URL in "
            "EMSCO_STATE. If it was in use before, find out what was lost (ids that were paid for "
            "are unknown to it, and spending limits start from zero), then run "
            f"`emsco state accept {name}`."
        )
    if found is None:  # without paid sources, a loss affects only the audit, and is logged
        with suppress(StateError):  # another process was faster
            await begin(state)
        found = await find(state)
    if found is None:
        raise StateError("The state does not store values that were written to it.")
    return Witness(state, found)
