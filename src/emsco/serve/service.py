"""The service, independent of HTTP: decide, take labels, describe the model."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json, to_json

from emsco.exceptions import EmscoError, LateStateError, ServiceError, StateError
from emsco.live.decision_log import HeldWrites
from emsco.serve.active_models import Models, no_state
from emsco.serve.canary import Canary, load_models
from emsco.serve.deployment import Deployment, tell_sources
from emsco.serve.events import ERROR, log_event, now_text, where
from emsco.serve.incarnation import Witness
from emsco.serve.problem_json import RequestProblem, problem
from emsco.serve.request_bodies import DecideBody, DecideRequest, FeedbackBody
from emsco.serve.request_limits import Queue
from emsco.serve.settings import Settings
from emsco.serve.shared_values import state_key
from emsco.serve.state.base import DONE, OTHER, RUNNING, State
from emsco.serve.stream_checks import StreamChecks, draw_coin

LEASE = 10.0  # seconds for which a request is claimed; the claim is renewed while it is decided
_POLL = 0.25  # seconds between checks for sources that fail in other processes
_KEEPING = 0.5  # seconds beyond the deadline for claiming an id and storing its answer
_PING = 2.0  # seconds within which the state must respond for the service to be ready


@dataclass(frozen=True)
class _Running:
    """A request with an id that is being decided in this process."""

    digest: str
    task: asyncio.Task[dict[str, Any]]
    heard: asyncio.Future[dict[str, Any]]  # the response to clients: its outcome, or a timeout


class Service:
    """Decides with a deployed model, once per id, within limits."""

    def __init__(
        self,
        settings: Settings,
        deployed: Deployment,
        state: State,
        *,
        canary: Canary | None = None,
        watch: Any = None,
        metrics: Any = None,
        tracing: Any = None,
        witness: Witness | None = None,
        coin: Callable[[], float] = draw_coin,
    ) -> None:
        self.settings, self.state, self.witness = settings, state, witness
        self.watch, self.metrics = watch, metrics
        self.stream: StreamChecks | None = None
        if settings.max_changed is not None:
            self.stream = StreamChecks(settings, state, deployed.final, coin=coin)
            if watch is not None:
                watch.standing = self.stream.description
        self.models = Models(
            deployed, canary, watch=watch, metrics=metrics, tracing=tracing, stream=self.stream
        )
        self.queue = Queue(settings.concurrency, settings.queue)
        self.is_draining = False
        self._running: dict[str, _Running] = {}
        self._background: list[asyncio.Task[None]] = []
        self._reloading = asyncio.Lock()
        self._since = now_text()
        self._key = b""  # secret for the HMAC of bodies; `start` reads it
        self._refused: dict[str, str] | None = None

    @property
    def deployed(self) -> Deployment:
        """The model in use."""
        return self.models.deployed

    async def start(self) -> None:
        """Start the background tasks."""
        self._key = await state_key(self.state)
        loops = [self._renew_claims()]
        if self.settings.is_shared:
            loops.append(self._follow_failures())
        if self.stream is not None:
            await self.stream.start()
            loops.append(self.stream.keep_looking())
        if self.witness is not None:
            loops.append(self.witness.keep_looking())
        if self.metrics is not None:
            loops.append(self._show_metrics())
        self._background = [asyncio.ensure_future(loop) for loop in loops]
        if self.watch is not None:
            await self.watch.start()
        self.models.look()

    async def stop(self, seconds: float = 0.0) -> None:
        """Wait up to `seconds` for requests whose clients have disconnected, then close all."""
        self.is_draining = True
        tasks = [running.task for running in self._running.values()]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=seconds)
            await _end(list(late))
        if self.stream is not None:
            await self.stream.stop(seconds)
        await _end(self._background)
        if self.watch is not None:
            await self.watch.stop()
        await self.models.close()

    async def is_ready(self) -> bool:
        """Return whether the service can answer: it is not draining, and the state responds."""
        if self.is_draining:
            return False
        try:
            async with asyncio.timeout(_PING):
                await self.state.ping()
        except (StateError, TimeoutError):
            return False
        return True

    @property
    def is_state_lost(self) -> bool:
        """Whether the state has lost its data; rows that need a paid source are then rejected."""
        return self.witness is not None and self.witness.is_lost

    # Decisions

    async def decide(self, body: DecideBody) -> dict[str, Any]:
        """Decide the rows of a request.

        Without an id, cancelling this cancels the decision, and nothing more is bought. With an
        id, the decision continues, and its answer is stored for repeated requests.
        """
        request = self._read(body)
        if body.id is None:
            async with self.queue:
                answer, found = await self.models.decide(request)
            self.models.count(found)
            return answer
        digest = hmac.digest(self._key, body.digest.encode(), "sha256").hex()
        running = self._running.get(request.id)
        if running is None:
            if self.queue.is_full:
                raise problem("queue-full")
            heard = asyncio.get_running_loop().create_future()
            task = asyncio.ensure_future(self._decide_once(request, digest, heard))
            running = self._running[request.id] = _Running(digest, task, heard)
            task.add_done_callback(lambda done: self._forget(request.id, done))
        elif running.digest != digest:
            raise problem("other-body")
        return await asyncio.shield(running.heard)

    def _forget(self, name: str, done: asyncio.Task[dict[str, Any]]) -> None:
        heard = self._running.pop(name).heard
        if done.cancelled():
            heard.cancel()
            return
        error = done.exception()
        if heard.done():
            return
        if error is None:
            heard.set_result(done.result())
        else:
            _fail(heard, error)

    def _read(self, body: DecideBody) -> DecideRequest:
        """Check the keys and the known values of a body, or raise a problem."""
        settings, name = self.settings, body.id or secrets.token_hex(16)
        if (body.key is None) == (body.keys is None):
            raise RequestProblem(422, "keys", "Send either `key` or `keys`.")
        keys = [body.key] if body.keys is None else body.keys
        if not 1 <= len(keys) <= settings.max_rows:
            raise RequestProblem(422, "keys", f"Send 1 to {settings.max_rows:,} keys.")
        for key in keys:
            if type(key) is str and len(key) > settings.max_key:
                raise RequestProblem(
                    422, "keys", f"A key may have at most {settings.max_key:,} characters."
                )
        if not body.known:
            return DecideRequest(name, body, keys, None)
        self.models.check_known(body.known)
        single = body.keys is None
        for values in body.known.values():
            if isinstance(values, list) is single or (not single and len(values) != len(keys)):  # type: ignore[arg-type]
                raise RequestProblem(
                    422,
                    "known",
                    "With `key`, `known` must have one value per feature; with `keys`, a list with "
                    "one value per key.",
                )
        known: dict[str, Any] = dict(body.known)
        if single:
            known = {feature: [value] for feature, value in known.items()}
        return DecideRequest(name, body, keys, known)

    async def _decide_once(
        self, request: DecideRequest, digest: str, heard: asyncio.Future[dict[str, Any]]
    ) -> dict[str, Any]:
        """Decide a request with an id, unless it is already decided or in progress elsewhere."""
        async with self.queue:
            if self.settings.deadline is not None:
                # Sources enforce the deadline themselves, so a timeout here is due to the state.
                seconds = self.settings.deadline + _KEEPING
                timer = asyncio.get_running_loop().call_later(seconds, _give_up, heard)
                heard.add_done_callback(lambda _: timer.cancel())
            try:
                claim = await self.state.claim(request.id, digest, LEASE)
                if claim.kind == DONE:
                    answer: dict[str, Any] = from_json(str(claim.answer))
                    return answer
                if claim.kind == OTHER:
                    raise problem("other-body")
                if claim.kind == RUNNING:
                    raise problem("running")
                return await self._decide_claimed(request)
            except StateError as error:
                raise no_state(error) from None

    async def _decide_claimed(self, request: DecideRequest) -> dict[str, Any]:
        # A decision that is repeated after a crash must not be logged twice.
        held: HeldWrites = []
        try:
            answer, found = await self.models.decide(request, held)
            text = dumped(answer).decode()
            stored = await self.state.answer(request.id, text)
        except BaseException:
            with suppress(StateError):
                await asyncio.shield(self.state.drop(request.id))
            raise
        if stored != text:  # another process has answered it in the meantime
            other: dict[str, Any] = from_json(stored)
            return other
        self.models.count(found)
        for write in held:
            await write()
        return answer

    # Labels and the description of the model

    async def feedback(self, body: FeedbackBody) -> dict[str, Any]:
        """Take true labels by decision id."""
        if len(body.labels) > self.settings.max_rows:
            raise RequestProblem(422, "labels", f"Send at most {self.settings.max_rows:,} labels.")
        labels = [(one.id, one.label) for one in body.labels]
        classes, shadow = self.deployed.decider.classes.tolist(), self.deployed.shadow
        # The answer does not say how a label was used: that would reveal which rows are audited.
        unknown = [one for one, label in labels if label not in classes]
        result: dict[str, Any] = {"received": len(labels), "unknown_labels": unknown}
        if shadow is not None:
            usable = [(one, label) for one, label in labels if label in classes]
            result["logged"] = await shadow.keep_labels(usable)
        if self.watch is None:
            return result
        if shadow is not None and self.watch.takes_answers(self.deployed.digest):
            return result  # agreement is watched, and the answers of the final model are known
        try:
            await self.watch.feedback(labels)
        except StateError as error:
            raise no_state(error) from None
        return result

    def model(self) -> dict[str, Any]:
        """Describe the model: design, prices, certificate and its meaning live, and alarms."""
        followed = {} if self.watch is None else self.watch.models
        alarms = [
            {"model": model, "promise": alarm.what, "message": alarm.message}
            for model, one in followed.items() for alarm in one.alarms
        ]  # fmt: skip
        canary = None if self.models.canary is None else self.models.canary.description()
        checks = None if self.stream is None else self.stream.description()
        return {**self.deployed.description, "since": self._since, "alarms": alarms,
                "refused": self._refused, "canary": canary, "spot_checks": checks}  # fmt: skip

    async def reload(self) -> bool:
        """Reload the configured files; if one is refused, the models in use stay."""
        async with self._reloading:
            try:
                new, canary = await load_models(self.settings, self.state, again=True)
                try:
                    new.standing.check_after(self.deployed.standing, self.settings)
                except ServiceError:
                    for model in (new, *(() if canary is None else (canary.deployed,))):
                        await model.close()
                    raise
            except Exception as error:
                why = str(error) if isinstance(error, EmscoError) else where(error)
                self._refused = {"at": now_text(), "why": why}
                log_event("refused", ERROR, why=why, model=self.deployed.digest)
                self._count_reload("refused")
                return False
            tell_sources(new, self.deployed)
            self.replace(new, canary)
            self._count_reload("taken")
            return True

    def _count_reload(self, outcome: str) -> None:
        if self.metrics is not None:
            self.metrics.reloaded(outcome)

    def replace(self, new: Deployment, canary: Canary | None = None) -> None:
        """Switch to other models; the previous ones close after their last request."""
        before = list(self.models)
        self.models.use(new, canary)
        self._since, self._refused = now_text(), None
        for old in before:
            old.retire()
        self.models.look()
        log_event("reload", model=new.digest, before=before[0].digest)

    # Background tasks

    async def _renew_claims(self) -> None:
        """Renew the claims of long-running requests."""
        while True:
            await asyncio.sleep(LEASE / 3)
            for name in list(self._running):
                with suppress(StateError):
                    await self.state.renew(name, LEASE)

    async def _follow_failures(self) -> None:
        """Pause sources that fail in other processes."""
        while True:
            await asyncio.sleep(_POLL)
            with suppress(StateError):
                failing = await self.state.failing()
                for deployed in self.models:
                    deployed.live.leave_alone(failing)

    async def _show_metrics(self) -> None:
        """Update gauges once a second."""
        while True:
            self.metrics.queue(self.queue.waiting)
            if self.witness is not None:
                self.metrics.state(self.witness)
            self.metrics.gates(*(deployed.live for deployed in self.models))
            self.metrics.logs(*(deployed.log for deployed in self.models if deployed.log))
            canary = self.models.canary
            if canary is not None:
                self.metrics.canary(canary.deployed.digest, canary.share)
            if self.watch is not None:
                self.metrics.watch(self.watch)
            if self.stream is not None:
                self.metrics.stream(self.stream)
            await asyncio.sleep(1.0)


def _give_up(heard: asyncio.Future[dict[str, Any]]) -> None:
    """Tell clients that the state is late; the decision continues, for repeated requests."""
    if not heard.done():
        _fail(heard, no_state(LateStateError("The state did not respond before the deadline.")))


def _fail(heard: asyncio.Future[dict[str, Any]], error: BaseException) -> None:
    heard.set_exception(error)
    heard.exception()  # retrieve it, or the event loop logs it if nobody waits


async def _end(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def dumped(answer: Any) -> bytes:
    """Serialize an answer as JSON."""
    return to_json(answer, inf_nan_mode="null", fallback=_plain)


def _plain(value: Any) -> Any:
    item = getattr(value, "item", None)  # of numpy
    return str(value) if item is None else item()
