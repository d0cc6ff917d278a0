"""A canary: another model that decides a share of the keys, until a promise of it is broken.

Which keys it decides follows from their HMAC, with a secret that the state keeps: a key has the
same model in every process, on every machine, and after a restart. That an alarm has taken the
canary back stands in the state as well.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from emsco.cascade.fingerprint import digest_of
from emsco.certify.monitor import Alarm
from emsco.exceptions import ServiceError, quoted
from emsco.io import load
from emsco.live import Sources
from emsco.live.fetch_result import Key, key_text
from emsco.serve.cas_value import shared_secret
from emsco.serve.deployment import Deployment, cascade_of
from emsco.serve.events import WARNING, log_event, now_text, where
from emsco.serve.settings import Settings
from emsco.serve.state.protocol import State

T = TypeVar("T")

_DIGITS = 8  # bytes of an HMAC that are compared with the share


@dataclass(frozen=True)
class Withdrawal:
    """Why and when a canary was taken back.

    Parameters
    ----------
    at : str
        When, in UTC.
    promise : str
        The promise that no longer holds.
    message : str
        What the alarm says.
    """

    at: str
    promise: str
    message: str


class KeyDraw:
    """Draws keys by their HMAC: a larger share has all the keys of a smaller one, and more.

    Parameters
    ----------
    share : float
        The share of keys that is drawn.
    secret : bytes
        The key of the HMAC. Whoever knows it can tell which keys are drawn.
    name : str
        What they are drawn for; for another name, other keys are drawn.

    Examples
    --------
    >>> from emsco.serve.canary import KeyDraw
    >>> draw = KeyDraw(0.05, b"secret", "a model")
    >>> sum(draw(f"customer-{number}") for number in range(10_000))
    501
    """

    def __init__(self, share: float, secret: bytes, name: str) -> None:
        self.share = share
        self._secret, self._name = secret, f"{name}:".encode()
        self._limit: int = round(share * 2 ** (8 * _DIGITS))

    def __call__(self, key: Key) -> bool:
        """Return whether a key is drawn."""
        text = self._name + key_text(key).encode("utf-8", "surrogatepass")
        found = hmac.digest(self._secret, text, "sha256")
        return int.from_bytes(found[:_DIGITS], "big") < self._limit


class Canary:
    """Another model that decides a share of the keys.

    Parameters
    ----------
    deployed : Deployment
        The model.
    draw : KeyDraw
        Which keys it decides.
    state : State
        Where it is kept that it was taken back.
    deployment : str
        The name of the deployment.

    Attributes
    ----------
    withdrawn : Withdrawal or None
        Why it decides no longer; None while it does.
    """

    def __init__(self, deployed: Deployment, draw: KeyDraw, state: State, deployment: str) -> None:
        self.deployed, self.draw = deployed, draw
        self.withdrawn: Withdrawal | None = None
        self.is_settled = False  # whether it was taken back, and the state keeps that
        self.since = now_text()
        self._state = state
        monitor = deployed.monitor
        # Another certificate makes other promises: its alarms are not those of the one before.
        promised = "" if monitor is None else digest_of(json.dumps(monitor.state()["promised"]))
        self._name = f"canary:{deployment}:{deployed.digest}:{promised}"

    @property
    def share(self) -> float:
        """The share of keys that it decides now."""
        return 0.0 if self.withdrawn is not None else self.draw.share

    def drawn(self, keys: Sequence[Key]) -> list[int]:
        """Return the places of the keys that it decides."""
        if self.withdrawn is not None:
            return []
        return [place for place, key in enumerate(keys) if self.draw(key)]

    async def look(self, alarms: Sequence[Alarm]) -> None:
        """Take it back if there is an alarm about it, here or in another process.

        Parameters
        ----------
        alarms : sequence of Alarm
            The alarms about it that this process knows of.

        Raises
        ------
        StateError
            If the state does not answer; what this process knows counts all the same.
        """
        if alarms and self.withdrawn is None:
            self._withdraw(Withdrawal(now_text(), alarms[0].what, alarms[0].message))
        if self.withdrawn is not None:
            text = json.dumps(vars(self.withdrawn))
            await self._state.keep(self._name, text, was=0)  # who was first has told why
        kept = await self._state.kept(self._name)
        if kept is not None:
            self.is_settled = True
            first = Withdrawal(**json.loads(kept.text))
            if self.withdrawn is None:
                self._withdraw(first)
            self.withdrawn = first

    def _withdraw(self, why: Withdrawal) -> None:
        self.withdrawn = why
        log_event(
            "canary withdrawn", WARNING, model=self.deployed.digest, promise=why.promise,
            message=why.message, at=why.at,
        )  # fmt: skip

    def told(self) -> dict[str, Any]:
        """Tell what it is, as plain values."""
        return {
            **self.deployed.told,
            "since": self.since,
            "share": self.share,
            "watched": self.deployed.monitor is not None,
            "withdrawn": None if self.withdrawn is None else vars(self.withdrawn),
        }


async def load_models(
    settings: Settings, state: State, *, again: bool = False
) -> tuple[Deployment, Canary | None]:
    """Load the model and, where there is one, the canary; check and warm them.

    Parameters
    ----------
    settings : Settings
        Where the files are.
    state : State
        What processes share.
    again : bool, default=False
        Whether models are in use already: a canary whose file has gone has then ended.

    Raises
    ------
    EmscoError
        If one of them is refused; nothing of the other is left open then.
    """
    if settings.canary is None:
        return await Deployment.load(settings, state), None
    if again and not settings.canary.exists():
        log_event("canary", text=f"{settings.canary} is gone, and the canary has ended.")
        return await Deployment.load(settings, state), None
    sources = await asyncio.to_thread(Sources.from_toml, settings.sources)
    files = (settings.model, settings.canary)
    models = [await asyncio.to_thread(load, file, trusted=settings.trust) for file in files]
    known = [set(cascade_of(model).decider_.costs.names) for model in models]
    own, others = _own(sources, *known), _own(sources, *reversed(known))
    deployed = await Deployment.make(models[0], own, settings, state)
    try:
        other = await Deployment.make(models[1], others, settings, state)
    except BaseException:
        await deployed.close()
        raise
    try:
        canary = await make_canary(other, deployed, settings, state)
    except BaseException:
        with suppress(Exception):
            await asyncio.gather(deployed.close(), other.close())
        raise
    if canary is None:
        await other.close()
    return deployed, canary


async def make_canary(
    other: Deployment, deployed: Deployment, settings: Settings, state: State
) -> Canary | None:
    """Let another model decide some of the keys; None: it is the model in use.

    Raises
    ------
    ServiceError
        If clients of the model in use could not be answered by it.
    """
    if other.digest == deployed.digest:
        log_event("canary", text="The canary is the model in use: there is none.")
        return None
    _check(other, deployed)
    other.standing.check_after(deployed.standing, settings, who="The canary")
    secret = await shared_secret(state, f"canary:{settings.deployment}:secret")
    draw = KeyDraw(settings.share, secret, other.digest)
    canary = Canary(other, draw, state, settings.deployment)
    await canary.look(())
    if other.monitor is None:
        log_event("canary", WARNING, text="The canary has no certificate that could be watched: "
                  "no alarm will take it back.")  # fmt: skip
    log_event("canary", model=other.digest, share=canary.share, before=deployed.digest)
    return canary


def _own(sources: Sources, own: set[str], others: set[str]) -> Sources:
    """Leave out what only the other model buys; what neither knows stays, and is refused."""
    return Sources({n: one for n, one in sources.items() if n in own or n not in others})


def _check(canary: Deployment, deployed: Deployment) -> None:
    """Refuse a canary whose answers clients do not know, or that needs what they do not send."""
    labels, before = canary.decider.classes.tolist(), deployed.decider.classes.tolist()
    if labels != before:
        raise ServiceError(
            f"The canary has the labels {quoted(labels)}, and the model in use {quoted(before)}; "
            "clients know only the latter."
        )
    lacking = [name for name in canary.needed if name not in deployed.needed]
    if lacking:
        raise ServiceError(
            f"The canary needs {quoted(lacking)} in `known`, which clients of the model in use do "
            "not send."
        )


class ModelRows(NamedTuple):
    """Some rows of a request, and the model that decides them."""

    deployed: Deployment
    places: list[int]  # of the rows in the request
    keys: list[Any]
    known: dict[str, list[Any]] | None


def split(
    keys: list[Any], known: dict[str, list[Any]] | None, deployed: Deployment, canary: Canary
) -> list[ModelRows]:
    """Split the rows of a request by the model that decides them."""
    drawn = canary.drawn(keys)
    if not drawn:
        return [ModelRows(deployed, list(range(len(keys))), keys, known)]
    if len(drawn) == len(keys):
        return [ModelRows(canary.deployed, drawn, keys, known)]
    others = sorted(set(range(len(keys))) - set(drawn))
    return [
        ModelRows(
            model,
            places,
            [keys[place] for place in places],
            known and {name: [values[p] for p in places] for name, values in known.items()},
        )
        for model, places in ((deployed, others), (canary.deployed, drawn))
    ]


async def together(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Do all of some work at once; where one part fails, the others end."""
    if len(work) == 1:
        return [await work[0]]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in work]
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]


async def keep_looking(
    canary: Canary, alarms: Callable[[str], Awaitable[Sequence[Alarm]]], seconds: float = 1.0
) -> None:
    """Look every second whether a canary must be taken back.

    Parameters
    ----------
    canary : Canary
        The canary.
    alarms : async callable
        Gives the alarms that speak against it.
    seconds : float, default=1.0
        The pause between two looks.
    """
    while not canary.is_settled:
        try:
            await canary.look(await alarms(canary.deployed.digest))
        except Exception as error:  # it must go on: nobody else would take the canary back
            log_event("watch failed", WARNING, error=where(error))
        await asyncio.sleep(seconds)
