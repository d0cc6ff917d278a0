"""The models that decide: the model in use and its canary, with watch, metrics and tracing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from emsco.certify.monitor import Alarm
from emsco.core.decisions import ACCEPTED, Decisions
from emsco.exceptions import LateStateError, SourcesError, StateError
from emsco.live.decision_log import HeldWrites
from emsco.serve.canary import Canary, keep_looking, split, together
from emsco.serve.deployment import Deployment
from emsco.serve.events import WARNING, log_event, where
from emsco.serve.model_monitor import by_rows
from emsco.serve.problem_json import RequestProblem, problem
from emsco.serve.rejection_causes import is_passing, sent_invalid
from emsco.serve.request_bodies import DecideBody
from emsco.serve.shadow import ShadowAnswer
from emsco.serve.state.base import RequestContext, asking


class Models:
    """The models that decide, with their watch, metrics and tracing."""

    def __init__(
        self,
        deployed: Deployment,
        canary: Canary | None = None,
        *,
        watch: Any = None,
        metrics: Any = None,
        tracing: Any = None,
    ) -> None:
        self.watch, self.metrics, self.tracing = watch, metrics, tracing
        self._looking: asyncio.Task[None] | None = None  # withdraws the canary on an alarm
        self.deployed, self.canary = deployed, canary
        self._introduce(list(self)[1:])  # the watch was created for the first
        if metrics is not None:
            metrics.model(deployed.live, deployed.digest)

    def __iter__(self) -> Iterator[Deployment]:
        yield self.deployed
        if self.canary is not None:
            yield self.canary.deployed

    def use(self, deployed: Deployment, canary: Canary | None = None) -> None:
        """Switch to these models."""
        self.deployed, self.canary = deployed, canary
        self._introduce(self)

    def _introduce(self, models: Iterable[Deployment]) -> None:
        """Register models with the watch and the metrics."""
        for model in models:
            if self.watch is not None:
                self.watch.follow(model.digest, model.monitor, model.decider.classes.tolist())
            if self.metrics is not None:
                self.metrics.model(model.live, model.digest)

    def look(self) -> None:
        """Start to check whether the canary must be withdrawn."""
        if self._looking is not None:
            self._looking.cancel()
        if self.canary is not None and self.watch is not None:
            self._looking = asyncio.ensure_future(keep_looking(self.canary, self._against))

    async def _against(self, canary: str) -> Sequence[Alarm]:
        """Return the alarms that count against a canary.

        When rows change, coverage, cost and exits also raise alarms for the model in use: that is
        not the canary's fault. Alarms raised by labels always are.
        """
        raised: Sequence[Alarm] = self.watch.alarms_of(canary)
        in_use = self.watch.models.get(self.deployed.digest)
        if in_use is not None and any(map(by_rows, raised)):
            await in_use.traffic.read()  # another process may have raised the alarm
            if any(map(by_rows, in_use.alarms)):
                return [alarm for alarm in raised if not by_rows(alarm)]
        return raised

    async def close(self) -> None:
        """Stop the checks, and close all connections."""
        if self._looking is not None:
            self._looking.cancel()
        for model in self:
            await model.close()

    def check_known(self, names: Any) -> None:
        """Refuse names in `known` that no model uses."""
        self.deployed.check_known(names, None if self.canary is None else self.canary.deployed)

    async def decide(
        self,
        name: str,
        body: DecideBody,
        keys: list[Any],
        known: dict[str, list[Any]] | None,
        held: HeldWrites | None = None,
    ) -> tuple[dict[str, Any], Callable[[], None]]:
        """Decide rows; return the answer and a callback that counts it once it is final.

        `held` receives what writes the log, which is then not written yet.
        """
        canary = self.canary
        if canary is None:
            deployed = self.deployed
            rows, count = await self._decided_by(deployed, name, None, body, keys, known, held)
            return {"id": name, "model": deployed.digest, "decisions": rows}, count
        parts = split(keys, known, self.deployed, canary)
        work = [
            self._decided_by(part.deployed, name, part.places, body, part.keys, part.known, held)
            for part in parts
        ]
        found = await together(work)
        by_place: dict[int, dict[str, Any]] = {}
        for part, (rows, _) in zip(parts, found, strict=True):
            of = {"model": part.deployed.digest}
            by_place |= {place: row | of for place, row in zip(part.places, rows, strict=True)}
        model = parts[0].deployed.digest if len(parts) == 1 else None

        def count_all() -> None:
            for _, count in found:
                count()

        in_order = [by_place[place] for place in range(len(keys))]
        return {"id": name, "model": model, "decisions": in_order}, count_all

    async def _decided_by(
        self,
        deployed: Deployment,
        name: str,
        places: Sequence[int] | None,
        body: DecideBody,
        keys: list[Any],
        known: dict[str, list[Any]] | None,
        held: HeldWrites | None,
    ) -> tuple[list[dict[str, Any]], Callable[[], None]]:
        """Decide rows with one model; `places` are their positions in the request, None: all."""
        begin = time.perf_counter()
        ids = [f"{name}-{place}" for place in (range(len(keys)) if places is None else places)]
        call = name if places is None else ids
        shadowed = None
        deployed.begin()
        token = asking.set(RequestContext(name, body.tenant)) if deployed.is_counted else None
        try:
            if deployed.shadow is None:
                decisions = await deployed.live.decide(
                    keys, known, call=call, factors=body.factors, held=held
                )
            else:
                shadowed = await deployed.shadow.decide(
                    keys, known, call, factors=body.factors, held=held
                )
                decisions = shadowed.answered
        except SourcesError as error:
            raise RequestProblem(422, "known", str(error)) from None
        except StateError as error:
            raise no_state(error) from None
        finally:
            if token is not None:
                asking.reset(token)
            deployed.end()
        rows = decision_rows(ids, decisions, receipt=body.receipt)
        seconds = time.perf_counter() - begin

        def count() -> None:
            self._count(ids, decisions, seconds, deployed, shadowed, known or ())

        return rows, count

    def _count(
        self,
        ids: Sequence[str],
        decisions: Decisions,
        seconds: float,
        deployed: Deployment,
        shadowed: ShadowAnswer | None,
        known: Collection[str],
    ) -> None:
        """Report to watch, metrics and tracing; in shadow, watch what the cascade would decide."""
        model = deployed.digest
        if self.watch is not None:
            watched = decisions if shadowed is None else shadowed.would_be
            answers = None if shadowed is None else decisions.label.tolist()
            left_out = sent_invalid(watched, known, deployed.needs)
            self.watch.decided(watched, ids, model, answers, left_out=left_out)
        if self.metrics is not None:
            self.metrics.decided(decisions, seconds, model)
            if shadowed is not None:
                self.metrics.shadowed(shadowed, model)
        if self.tracing is not None:
            now = time.time()
            self.tracing.decided(decisions, now - seconds, now, model)


def decision_rows(
    ids: Sequence[str], decisions: Decisions, *, receipt: bool
) -> list[dict[str, Any]]:
    """Return the decisions as one JSON object per row."""
    accepted = decisions.accepted.tolist()
    # Building the reasons takes as long as everything else, and most rows have none.
    reasons = [ACCEPTED] * len(accepted) if all(accepted) else decisions.reason.tolist()
    columns = zip(
        decisions.label.tolist(), accepted, reasons, decisions.confidence.tolist(),
        decisions.cost.tolist(), decisions.exit_stage.tolist(), decisions.latency.tolist(),
        strict=True,
    )  # fmt: skip
    rows: list[dict[str, Any]] = [
        {"id": one, "label": label if accepts else None, "accepted": accepts,
         # A client that reads only `label` must not act on a rejected row. If no stage judged the
         # row, its confidence is 0 and there is no guess.
         "guess": None if accepts or not confidence else label,
         "reason": reason, "retry": not accepts and is_passing(reason),
         "confidence": confidence, "cost": cost, "exit_stage": stage, "latency": latency}
        for one, (label, accepts, reason, confidence, cost, stage, latency)
        in zip(ids, columns, strict=True)
    ]  # fmt: skip
    if receipt and decisions.receipts is not None:
        for row, one in zip(rows, decisions.receipts, strict=True):
            row["receipt"] = _receipt(one)
    if decisions.factors is not None:
        for row, one in zip(rows, decisions.factors, strict=True):
            row["factors"] = asdict(one) | {"features": dict(one.features), "score": one.score}
    return rows


def _receipt(receipt: Any) -> dict[str, Any]:
    fields = asdict(receipt) | {"paid": receipt.paid, "unknown": list(receipt.unknown)}
    return {name: value for name, value in fields.items() if name not in ("id", "model")}


def no_state(error: StateError) -> RequestProblem:
    """Log that the state does not respond, and return the problem for the client."""
    if isinstance(error, LateStateError):
        log_event("state", WARNING, text="The state did not respond before the deadline.")
        return problem("late-state")
    log_event("state", WARNING, error=where(error))
    return problem("state")
