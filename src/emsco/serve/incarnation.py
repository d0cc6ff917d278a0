"""The incarnation of a state: by it, a state that has lost its data is told from one that has not.

It is a random id that an operator writes once, under the name of a deployment. A store that was
emptied, or that is another one, does not have it: ids whose requests were paid for would then be
paid for again, and limits would begin anew.
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
from emsco.serve.state.protocol import INCARNATION, State

_LOOK = 1.0  # seconds between looks
_AGAIN = 60.0  # seconds after which a loss is told again


@dataclass(frozen=True)
class Incarnation:
    """What tells a state from one that has lost its data.

    Parameters
    ----------
    id : str
        Its random id.
    at : str
        When it was written.
    after : str or None, default=None
        The id of the one that an operator has replaced by it; "" where there was none. None: it is
        the first.

    Examples
    --------
    >>> from emsco.serve.incarnation import Incarnation
    >>> one = Incarnation("81f3", "2026-01-31T12:00:00+00:00")
    >>> Incarnation.from_text(one.to_text()) == one
    True
    """

    id: str
    at: str
    after: str | None = None

    @classmethod
    def new(cls, after: str | None = None) -> Incarnation:
        """Make one that nobody has."""
        return cls(uuid.uuid4().hex, now_text(), after)

    @classmethod
    def from_text(cls, text: str) -> Incarnation:
        """Read what was kept."""
        return cls(**json.loads(text))

    def to_text(self) -> str:
        """Write it as JSON."""
        return json.dumps(asdict(self))


async def find(state: State) -> Incarnation | None:
    """Return the incarnation of a deployment's state; None: it has none."""
    kept = await state.kept(INCARNATION + state.deployment)
    return None if kept is None else Incarnation.from_text(kept.text)


async def begin(state: State) -> Incarnation:
    """Write the first incarnation.

    Raises
    ------
    StateError
        If there is one already.
    """
    new = Incarnation.new()
    if not await state.keep(INCARNATION + state.deployment, new.to_text(), was=0):
        raise StateError(
            f"The deployment {state.deployment!r} has an incarnation already: this state is in "
            "use. If it has lost data, and you know what that means, run `emsco state accept`."
        )
    return new


async def accept(state: State) -> Incarnation:
    """Write another incarnation, so that services that have missed theirs go on."""
    before = await find(state)
    new = Incarnation.new("" if before is None else before.id)
    await state.keep(INCARNATION + state.deployment, new.to_text())
    return new


class Witness:
    """Knows the state that a service began with, and tells when it is that one no longer.

    A running service goes on with another incarnation only where `accept` has written it: instead
    of the one it had, or after it had told of the loss.

    Parameters
    ----------
    state : State
        The state, which from now on grants no paid call without this incarnation.
    own : Incarnation
        The one that it has.

    Attributes
    ----------
    is_lost : bool
        Whether the state has lost it.
    moved : int
        How often another server answered, which had it.
    """

    def __init__(self, state: State, own: Incarnation) -> None:
        self._state, self._own = state, own
        self.is_lost, self.moved = False, 0
        self._seen: Incarnation | None = own
        self._server = ""
        self._told = 0.0  # when the loss was told last
        state.incarnation = own.to_text()

    async def keep_looking(self) -> None:
        """Look every second."""
        while True:
            with suppress(StateError):  # a state that does not answer has not lost anything yet
                await self.look()
            await asyncio.sleep(_LOOK)

    async def look(self) -> None:
        """Look once whether the state still has its incarnation, and who answers."""
        found, server = await find(self._state), await self._state.server()
        if found is not None and found != self._own and self._is_accepted(found):
            self._go_on(found)
        elif found != self._own:
            await self._tell_loss()
        elif self.is_lost:  # the store that has it is back
            self._go_on(found)
        elif self._server and server != self._server:
            self.moved += 1
            log_event("state moved", WARNING, text="The store was restarted, or another server "
                      "took over. It has the incarnation of this deployment, and calls go on; a "
                      "replica may lack the last seconds.")  # fmt: skip
        self._seen, self._server = found, server

    def _is_accepted(self, found: Incarnation) -> bool:
        if found.after is None:
            return False
        return found.after == self._own.id or (self.is_lost and found != self._seen)

    def _go_on(self, found: Incarnation) -> None:
        self._own, self.is_lost = found, False
        self._state.incarnation = found.to_text()
        log_event("state accepted", incarnation=found.id, at=found.at)

    async def _tell_loss(self) -> None:
        now = asyncio.get_running_loop().time()
        if not self.is_lost or now - self._told > _AGAIN:
            self._told = now
            log_event("state lost", ERROR, deployment=self._state.deployment, text="The state has "
                      "lost its data, or is another one: ids that were paid for are unknown, and "
                      "limits would begin anew. Paid calls have stopped. Find out what was lost; "
                      "then run `emsco state accept`.")  # fmt: skip
        self.is_lost = True
        for name, secret in self._state.secrets.items():
            await self._state.keep(name, secret, was=0)


async def witness_of(
    settings: Settings, models: Sequence[Deployment], state: State
) -> Witness | None:
    """Return who watches a state that others can share; None: a file is watched by nobody.

    Raises
    ------
    ServiceError
        If sources are paid for or limited, and the state has no incarnation or is known to lose
        what it is given.
    """
    is_counted = any(model.is_counted for model in models)
    concerns = await state.concerns()
    losing = [concern.text for concern in concerns if concern.loses]
    if losing and is_counted and not settings.allow_volatile_state:
        raise ServiceError(
            f"{' '.join(losing)} What was paid for would be paid for again; with "
            "--allow-volatile-state it is used all the same."
        )
    for concern in concerns:
        log_event("state", WARNING, text=concern.text)
    if not settings.is_shared:
        return None
    found = await find(state)
    if found is None and is_counted:
        name = f"--deployment {settings.deployment}"
        raise ServiceError(
            f"The state has no incarnation of the deployment {settings.deployment!r}: it is new, "
            f"or it has lost its data. If it is new, run `emsco state init {name}`, with the "
            "address in EMSCO_STATE. If it was in use before, find out what was lost: ids that "
            "were paid for are unknown to it, and limits begin anew; then run "
            f"`emsco state accept {name}`."
        )
    if found is None:  # nothing is paid for: all that a loss costs is the audit, and it is told
        with suppress(StateError):  # another process was faster
            await begin(state)
        found = await find(state)
    if found is None:
        raise StateError("The state does not keep what it is given.")
    return Witness(state, found)
