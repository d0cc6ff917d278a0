"""A canary: another model that decides a share of the keys until one of its promises is broken.

The HMAC of a key, with a secret stored in the state, determines whether the canary decides it: a
key has the same model in every process, on every machine, and after a restart. The state also
records that an alarm has withdrawn the canary.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from emsco.cascade.fingerprint import digest_of
from emsco.certify.monitor import Alarm
from emsco.exceptions import ServiceError, quoted
from emsco.io import load
from emsco.live import Sources
from emsco.live.fetch_result import Key, key_text
from emsco.serve.deployment import Deployment, cascade_of
from emsco.serve.events import WARNING, log_event, now_text, where
from emsco.serve.request_bodies import DecideRequest
from emsco.serve.settings import Settings
from emsco.serve.shared_values import shared_secret
from emsco.serve.state.base import State

T = TypeVar("T")

_DIGITS = 8  # bytes of an HMAC that are compared with the share


@dataclass(frozen=True)
class Withdrawal:
    """Why and when a canary was withdrawn."""

    at: str
    promise: str
    message: str


class KeyDraw:
    """Draws keys by their HMAC; a larger share includes all keys of a smaller one."""

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
    """Another model that decides a share of the keys."""

    def __init__(self, deployed: Deployment, draw: KeyDraw, state: State, deployment: str) -> None:
        self.deployed, self.draw = deployed, draw
        self.withdrawn: Withdrawal | None = None
        self.is_settled = False  # whether it was withdrawn and the state has recorded that
        self.since = now_text()
        self._state = state
        monitor = deployed.monitor
        # A different certificate makes different promises, so earlier alarms do not apply to it.
        promised = "" if monitor is None else digest_of(json.dumps(monitor.state()["promised"]))
        self._name = f"canary:{deployment}:{deployed.digest}:{promised}"

    @property
    def share(self) -> float:
        """The share of keys that it currently decides."""
        return 0.0 if self.withdrawn is not None else self.draw.share

    def drawn(self, keys: Sequence[Key]) -> list[int]:
        """Return the positions of the keys that it decides."""
        if self.withdrawn is not None:
            return []
        return [place for place, key in enumerate(keys) if self.draw(key)]

    async def look(self, alarms: Sequence[Alarm]) -> None:
        """Withdraw it if there is an alarm about it, here or, by the state, in another process."""
        if alarms and self.withdrawn is None:
            self._withdraw(Withdrawal(now_text(), alarms[0].what, alarms[0].message))
        if self.withdrawn is not None:
            text = json.dumps(vars(self.withdrawn))
            await self._state.keep(self._name, text, was=0)  # the first withdrawal is kept
        stored = await self._state.get_value(self._name)
        if stored is not None:
            self.is_settled = True
            first = Withdrawal(**json.loads(stored.text))
            if self.withdrawn is None:
                self._withdraw(first)
            self.withdrawn = first

    def _withdraw(self, why: Withdrawal) -> None:
        self.withdrawn = why
        log_event(
            "canary withdrawn", WARNING, model=self.deployed.digest, promise=why.promise,
            message=why.message, at=why.at,
        )  # fmt: skip

    def description(self) -> dict[str, Any]:
        """Return its description as JSON data."""
        return {
            **self.deployed.description,
            "since": self.since,
            "share": self.share,
            "watched": self.deployed.monitor is not None,
            "withdrawn": None if self.withdrawn is None else vars(self.withdrawn),
        }


async def load_models(
    settings: Settings, state: State, *, again: bool = False
) -> tuple[Deployment, Canary | None]:
    """Load the model and the canary, if any; check them and warm up.

    On a reload (`again`), a canary whose file is gone has ended.
    """
    is_gone = again and settings.canary is not None and not settings.canary.exists()
    if is_gone:
        log_event("canary", text=f"{settings.canary} was removed, so the canary has ended.")
    if settings.canary is None or is_gone:
        return await Deployment.load(settings, state), None
    sources = await asyncio.to_thread(Sources.from_toml, settings.sources)
    files = (settings.model, settings.canary)
    models = [await asyncio.to_thread(load, file, trusted=settings.trust) for file in files]
    known = [set(cascade_of(model).decider_.costs.names) for model in models]
    async with AsyncExitStack() as refused:  # closes what was loaded before
        own, others = _own(sources, *known), _own(sources, *reversed(known))
        deployed = await Deployment.make(models[0], own, settings, state)
        refused.push_async_callback(deployed.close)
        other = await Deployment.make(models[1], others, settings, state)
        refused.push_async_callback(other.close)
        canary = await make_canary(other, deployed, settings, state)
        refused.pop_all()
    if canary is None:
        await other.close()
    return deployed, canary


async def make_canary(
    other: Deployment, deployed: Deployment, settings: Settings, state: State
) -> Canary | None:
    """Create the canary of a loaded model, if clients of the model in use can rely on it.

    None: it is the same as the model in use.
    """
    if other.digest == deployed.digest:
        log_event("canary", text="The canary is identical to the model in use and is ignored.")
        return None
    other.standing.check_after(deployed.standing, settings, who="The canary")
    if settings.max_changed is not None and other.final != deployed.final:
        raise ServiceError(
            "With --max-changed, the canary must have the same final model as the model in use: "
            "answers of both count for one promise."
        )
    missing = [name for name in other.needed if name not in deployed.needed]
    if missing:
        raise ServiceError(
            f"The canary needs {quoted(missing)} in `known`, but clients of the model in use do "
            "not send it."
        )
    secret = await shared_secret(state, f"canary:{settings.deployment}:secret")
    draw = KeyDraw(settings.share, secret, other.digest)
    canary = Canary(other, draw, state, settings.deployment)
    await canary.look(())
    if other.monitor is None:
        log_event("canary", WARNING, text="The canary has no certificate that can be monitored, so "
                  "no alarm will withdraw it.")  # fmt: skip
    log_event("canary", model=other.digest, share=canary.share, before=deployed.digest)
    return canary


def _own(sources: Sources, own: set[str], others: set[str]) -> Sources:
    """Drop sources that only the other model buys; those that neither has stay and are refused."""
    return Sources({n: one for n, one in sources.items() if n in own or n not in others})


class ModelRows(NamedTuple):
    """The rows of a request that one model decides."""

    deployed: Deployment
    places: Sequence[int]  # positions of the rows in the request
    keys: list[Any]
    known: dict[str, list[Any]] | None


def split(request: DecideRequest, deployed: Deployment, canary: Canary | None) -> list[ModelRows]:
    """Split the rows of a request by the model that decides them."""
    keys, known = request.keys, request.known
    drawn = [] if canary is None else canary.drawn(keys)
    if canary is None or not drawn:
        return [ModelRows(deployed, range(len(keys)), keys, known)]
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
    """Run coroutines concurrently; if one fails, cancel the others."""
    if len(work) == 1:
        return [await work[0]]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in work]
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]


async def keep_looking(canary: Canary, alarms: Callable[[str], Awaitable[Sequence[Alarm]]]) -> None:
    """Check every second whether a canary must be withdrawn."""
    while not canary.is_settled:
        try:
            await canary.look(await alarms(canary.deployed.digest))
        except Exception as error:  # keep running: nothing else would withdraw the canary
            log_event("watch failed", WARNING, error=where(error))
        await asyncio.sleep(1.0)
