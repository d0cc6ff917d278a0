"""What the service does, whatever it is asked by: decide, take labels, and tell what it is."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic_core import from_json, to_json

from emsco.exceptions import EmscoError, MonitorError, SourcesError, StateError
from emsco.serve.bodies import DecideBody, FeedbackBody
from emsco.serve.deployed import Deployed
from emsco.serve.events import WARNING, log_event, where
from emsco.serve.limits import Queue
from emsco.serve.problems import Problem, problem
from emsco.serve.settings import Settings
from emsco.serve.state.protocol import DONE, OTHER, RUNNING, Asking, State, asking
from emsco.words.decisions import ACCEPTED, Decisions

LEASE = 10.0  # seconds for which a request is claimed; the claim is renewed while it is decided
_POLL = 0.25  # seconds between looks at which sources fail elsewhere
_PING = 2.0  # seconds in which the state must answer to be ready


@dataclass(frozen=True)
class _Running:
    """A request with an id that is being decided in this process."""

    digest: str
    task: asyncio.Task[dict[str, Any]]


class Service:
    """Decides by a deployed model, once for each id, within its limits.

    Parameters
    ----------
    settings : Settings
        All that an operator can set.
    deployed : Deployed
        The model.
    state : State
        What is shared with other processes and survives this one.
    watch : Watch, default=None
        What audits decisions and takes labels. None: nobody does.
    metrics : Metrics, default=None
        What counts decisions and requests. None: nobody does.
    tracing : Tracing, default=None
        What makes spans of decisions. None: nobody does.
    """

    def __init__(
        self,
        settings: Settings,
        deployed: Deployed,
        state: State,
        *,
        watch: Any = None,
        metrics: Any = None,
        tracing: Any = None,
    ) -> None:
        self.settings, self.deployed, self.state = settings, deployed, state
        self.watch, self.metrics, self.tracing = watch, metrics, tracing
        self.queue = Queue(settings.concurrency, settings.queue)
        self.is_draining = False
        self._running: dict[str, _Running] = {}
        self._background: list[asyncio.Task[None]] = []
        self._reloading = asyncio.Lock()
        self._since = _now()
        self._refused: dict[str, str] | None = None

    async def start(self) -> None:
        """Begin what goes on beside requests."""
        loops = [self._renew_claims()]
        if self.settings.is_shared:
            loops.append(self._follow_failures())
        if self.metrics is not None:
            self.metrics.model(self.deployed.live)
            loops.append(self._show_metrics())
        self._background = [asyncio.ensure_future(loop) for loop in loops]
        if self.watch is not None:
            await self.watch.start()

    async def stop(self, seconds: float = 0.0) -> None:
        """End: wait so long for requests whose clients have left, then close everything."""
        self.is_draining = True
        tasks = [running.task for running in self._running.values()]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=seconds)
            await _end(list(late))
        await _end(self._background)
        if self.watch is not None:
            await self.watch.stop()
        await self.deployed.close()

    async def is_ready(self) -> bool:
        """Return whether requests can be answered: the model is warm, and the state answers."""
        if self.is_draining:
            return False
        try:
            async with asyncio.timeout(_PING):
                await self.state.ping()
        except (StateError, TimeoutError):
            return False
        return True

    # Decisions

    async def decide(self, body: DecideBody) -> dict[str, Any]:
        """Decide the rows of a request.

        Without an id, whoever cancels this cancels the decision, and nothing more is bought. With
        one, the decision goes on, and its answer is kept for who asks again.
        """
        keys, known = self._rows(body)
        if body.id is None:
            async with self.queue:
                answer, count = await self._decided(secrets.token_hex(16), body, keys, known)
            count()
            return answer
        running = self._running.get(body.id)
        if running is None:
            if self.queue.is_full:
                raise problem("queue-full")
            task = asyncio.ensure_future(self._decide_once(body.id, body, keys, known))
            running = self._running[body.id] = _Running(body.digest, task)
            task.add_done_callback(lambda done: self._forget(str(body.id), done))
        elif running.digest != body.digest:
            raise problem("other-body")
        return await asyncio.shield(running.task)

    def _forget(self, name: str, done: asyncio.Task[dict[str, Any]]) -> None:
        del self._running[name]
        if not done.cancelled():
            done.exception()  # looked at, or the event loop would print it where nobody waits

    def _rows(self, body: DecideBody) -> tuple[list[Any], dict[str, list[Any]] | None]:
        """Read keys and what is known of them, or raise a problem."""
        settings = self.settings
        if (body.key is None) == (body.keys is None):
            raise Problem(422, "keys", "Send either `key` or `keys`.")
        keys = [body.key] if body.keys is None else body.keys
        if not 1 <= len(keys) <= settings.max_rows:
            raise Problem(422, "keys", f"Send 1 to {settings.max_rows:,} keys.")
        for key in keys:
            if type(key) is str and len(key) > settings.max_key:
                raise Problem(422, "keys", f"A key has at most {settings.max_key:,} characters.")
        if not body.known:
            return keys, None
        self.deployed.check_known(body.known)
        single = body.keys is None
        for values in body.known.values():
            if isinstance(values, list) is single or (not single and len(values) != len(keys)):  # type: ignore[arg-type]
                raise Problem(
                    422,
                    "known",
                    "With `key`, `known` has one value per feature; with `keys`, a list with one "
                    "value per key.",
                )
        if single:
            return keys, {name: [value] for name, value in body.known.items()}
        return keys, dict(body.known)  # type: ignore[arg-type]

    async def _decide_once(
        self, name: str, body: DecideBody, keys: list[Any], known: dict[str, list[Any]] | None
    ) -> dict[str, Any]:
        """Decide a request with an id, unless it is decided already or elsewhere."""
        async with self.queue:
            try:
                claim = await self.state.claim(name, body.digest, LEASE)
                if claim.kind == DONE:
                    kept: dict[str, Any] = from_json(str(claim.answer))
                    return kept
                if claim.kind == OTHER:
                    raise problem("other-body")
                if claim.kind == RUNNING:
                    raise problem("running")
                return await self._decide_claimed(name, body, keys, known)
            except StateError as error:
                raise _no_state(error) from None

    async def _decide_claimed(
        self, name: str, body: DecideBody, keys: list[Any], known: dict[str, list[Any]] | None
    ) -> dict[str, Any]:
        try:
            answer, count = await self._decided(name, body, keys, known)
            text = dumped(answer).decode()
            kept = await self.state.answer(name, text)
        except BaseException:
            with suppress(StateError):
                await asyncio.shield(self.state.drop(name))
            raise
        if kept != text:  # somebody else has answered it meanwhile
            other: dict[str, Any] = from_json(kept)
            return other
        count()
        return answer

    async def _decided(
        self, name: str, body: DecideBody, keys: list[Any], known: dict[str, list[Any]] | None
    ) -> tuple[dict[str, Any], Callable[[], None]]:
        """Decide rows: the answer, and what tells those who watch, once it is sure to count."""
        deployed, begin = self.deployed, time.perf_counter()
        deployed.begin()
        token = asking.set(Asking(name, body.tenant)) if deployed.is_counted else None
        try:
            decisions = await deployed.live.decide(keys, known, call=name, factors=body.factors)
        except SourcesError as error:
            raise Problem(422, "known", str(error)) from None
        except StateError as error:
            raise _no_state(error) from None
        finally:
            if token is not None:
                asking.reset(token)
            deployed.end()
        rows = _told(name, decisions, receipt=body.receipt)
        answer = {"id": name, "model": deployed.digest, "decisions": rows}
        seconds = time.perf_counter() - begin

        def count() -> None:
            self._count(rows, decisions, seconds, deployed.digest)

        return answer, count

    def _count(
        self, rows: list[dict[str, Any]], decisions: Decisions, seconds: float, model: str
    ) -> None:
        """Tell those who watch."""
        if self.watch is not None:
            self.watch.decided(decisions, [row["id"] for row in rows], model)
        if self.metrics is not None:
            self.metrics.decided(decisions, seconds, model)
        if self.tracing is not None:
            now = time.time()
            self.tracing.decided(decisions, now - seconds, now, model)

    # Labels, and what the service is

    async def feedback(self, body: FeedbackBody) -> dict[str, Any]:
        """Take true labels, by the ids of decisions."""
        if len(body.labels) > self.settings.max_rows:
            raise Problem(422, "labels", f"Send at most {self.settings.max_rows:,} labels.")
        if self.watch is None:
            return {"received": len(body.labels), "audited": 0}
        try:
            told: dict[str, Any] = await self.watch.feedback(
                [(one.id, one.label) for one in body.labels]
            )
        except MonitorError as error:
            expected = str(error).partition(", got ")[0]  # without the label that was sent
            raise Problem(422, "labels", f"{expected}.") from None
        except StateError as error:
            raise _no_state(error) from None
        return told

    def model(self) -> dict[str, Any]:
        """Tell what decides: design, prices, certificate, what it means live, and alarms."""
        alarms = () if self.watch is None else self.watch.alarms
        told = [{"promise": alarm.what, "message": alarm.message} for alarm in alarms]
        return {**self.deployed.told, "since": self._since, "alarms": told,
                "refused": self._refused}  # fmt: skip

    async def reload(self) -> bool:
        """Load the configured files anew; where they are refused, the model in use stays."""
        async with self._reloading:
            try:
                new = await Deployed.load(self.settings, self.state)
            except Exception as error:
                why = str(error) if isinstance(error, EmscoError) else where(error)
                self._refused = {"at": _now(), "why": why}
                log_event("refused", WARNING, why=why, model=self.deployed.digest)
                return False
            self.replace(new)
            return True

    def replace(self, new: Deployed) -> None:
        """Decide by another model from now on; the one before closes after its last request."""
        if self.watch is not None:
            self.watch.follow(new.digest, new.monitor, new.decider.classes.tolist())
        if self.metrics is not None:
            self.metrics.model(new.live)
        old, self.deployed = self.deployed, new
        self._since, self._refused = _now(), None
        old.retire()
        log_event("reload", model=new.digest, before=old.digest)

    # Beside requests

    async def _renew_claims(self) -> None:
        """Keep the claims of requests that take long."""
        while True:
            await asyncio.sleep(LEASE / 3)
            for name in list(self._running):
                with suppress(StateError):
                    await self.state.renew(name, LEASE)

    async def _follow_failures(self) -> None:
        """Leave sources alone that fail for other processes."""
        while True:
            await asyncio.sleep(_POLL)
            with suppress(StateError):
                self.deployed.live.leave_alone(await self.state.failing())

    async def _show_metrics(self) -> None:
        """Show what changes by itself, once a second."""
        while True:
            self.metrics.queue(self.queue.waiting)
            self.metrics.gates(self.deployed.live)
            if self.watch is not None:
                self.metrics.watch(self.watch)
            await asyncio.sleep(1.0)


def _no_state(error: StateError) -> Problem:
    log_event("state", WARNING, error=where(error))
    return problem("state")


def _told(name: str, decisions: Decisions, *, receipt: bool) -> list[dict[str, Any]]:
    """Tell what was decided, row by row."""
    accepted = decisions.accepted.tolist()
    # To spell reasons out takes as long as all the rest, and most rows have none.
    reasons = [ACCEPTED] * len(accepted) if all(accepted) else decisions.reason.tolist()
    columns = zip(
        decisions.label.tolist(), accepted, reasons, decisions.confidence.tolist(),
        decisions.cost.tolist(), decisions.exit_stage.tolist(), decisions.latency.tolist(),
        strict=True,
    )  # fmt: skip
    rows: list[dict[str, Any]] = [
        {"id": f"{name}-{row}", "label": label, "accepted": accepts, "reason": reason,
         "confidence": confidence, "cost": cost, "exit_stage": stage, "latency": latency}
        for row, (label, accepts, reason, confidence, cost, stage, latency) in enumerate(columns)
    ]  # fmt: skip
    if receipt and decisions.receipts is not None:
        for row, one in zip(rows, decisions.receipts, strict=True):
            row["receipt"] = _receipt(one)
    if decisions.factors is not None:
        for row, one in zip(rows, decisions.factors, strict=True):
            row["factors"] = asdict(one) | {"features": dict(one.features), "score": one.score}
    return rows


def _receipt(receipt: Any) -> dict[str, Any]:
    told = asdict(receipt) | {"paid": receipt.paid, "unknown": list(receipt.unknown)}
    return {name: value for name, value in told.items() if name not in ("id", "model")}


def dumped(answer: Any) -> bytes:
    """Write an answer as JSON."""
    return to_json(answer, inf_nan_mode="null", fallback=_plain)


def _plain(value: Any) -> Any:
    item = getattr(value, "item", None)  # of numpy
    return str(value) if item is None else item()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


async def _end(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
