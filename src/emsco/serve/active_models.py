"""The models that decide: the model in use and its canary, with watch, metrics and tracing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from emsco.certify.monitor import Alarm
from emsco.core.decisions import ACCEPTED, SHARE, Decisions
from emsco.exceptions import LateStateError, SourcesError, StateError, nearest
from emsco.live.accounts import RequestContext
from emsco.live.decision_log import HeldWrites
from emsco.serve.canary import Canary, ModelRows, keep_looking, split, together
from emsco.serve.deployment import Deployment
from emsco.serve.events import WARNING, log_event, where
from emsco.serve.model_monitor import by_rows
from emsco.serve.problem_json import RequestProblem, problem
from emsco.serve.rejection_causes import is_passing, sent_invalid
from emsco.serve.request_bodies import DecideRequest
from emsco.serve.shadow import ShadowAnswer
from emsco.serve.stream_checks import StreamChecks


class DecidedRows(NamedTuple):
    """The rows of a request that one model has decided."""

    part: ModelRows
    ids: list[str]
    decisions: Decisions
    watched: Decisions  # by the cascade, as if nothing were checked, or in shadow
    shadowed: ShadowAnswer | None
    rows: list[dict[str, Any]]  # as JSON data
    seconds: float

    @property
    def model(self) -> str:
        """The digest of the model."""
        return self.part.deployed.digest


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
        stream: StreamChecks | None = None,
    ) -> None:
        self.watch, self.metrics, self.tracing, self.stream = watch, metrics, tracing, stream
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
        if self.stream is not None:
            self.stream.use(deployed.final)
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
        """Refuse names that no model uses: a misspelled one would be fetched and paid for."""
        known = self.deployed.may_be_known
        if self.canary is not None:
            known |= self.canary.deployed.may_be_known
        for name in names:
            if name not in known:
                raise RequestProblem(
                    422,
                    "known",
                    "`known` has a name that is neither a feature of the model nor used by a source"
                    f"{nearest(name, known)}",
                )

    async def decide(
        self, request: DecideRequest, held: HeldWrites | None = None
    ) -> tuple[dict[str, Any], list[DecidedRows]]:
        """Decide rows; return the answer, and what `count` takes once the answer is final.

        `held` receives what writes the log, which is then not written yet.
        """
        canary = self.canary
        parts = split(request, self.deployed, canary)
        found = await together([self._decide(part, request, held) for part in parts])
        if canary is None:
            return {"id": request.id, "model": found[0].model, "decisions": found[0].rows}, found
        by_place = {
            place: row | {"model": one.model}
            for one in found
            for place, row in zip(one.part.places, one.rows, strict=True)
        }
        in_order = [by_place[place] for place in range(len(request.keys))]
        model = found[0].model if len(found) == 1 else None
        return {"id": request.id, "model": model, "decisions": in_order}, found

    async def _decide(
        self, part: ModelRows, request: DecideRequest, held: HeldWrites | None
    ) -> DecidedRows:
        """Decide rows with one model."""
        begin = time.perf_counter()
        deployed, keys, known, body = part.deployed, part.keys, part.known, request.body
        ids = [f"{request.id}-{place}" for place in part.places]
        context = RequestContext(request.id, body.tenant)
        options: dict[str, Any] = {"call": ids, "factors": body.factors, "held": held,
                                   "context": context}  # fmt: skip
        shadowed = None
        try:
            with deployed.in_use():
                if deployed.shadow is not None:
                    shadowed = await deployed.shadow.decide(keys, known, **options)
                    decisions, watched = shadowed.answered, shadowed.would_be
                elif self.stream is not None:
                    decisions, watched = await self.stream.decide(deployed, keys, known, **options)
                else:
                    decisions = watched = await deployed.live.decide(keys, known, **options)
        except SourcesError as error:
            raise RequestProblem(422, "known", str(error)) from None
        except StateError as error:
            raise no_state(error) from None
        rows = decision_rows(ids, decisions, receipt=body.receipt)
        seconds = time.perf_counter() - begin
        return DecidedRows(part, ids, decisions, watched, shadowed, rows, seconds)

    def count(self, found: Iterable[DecidedRows]) -> None:
        """Report to watch, metrics and tracing."""
        for part, ids, decisions, watched, shadowed, _, seconds in found:
            model = part.deployed.digest
            if self.watch is not None:
                answers = None if shadowed is None else decisions.label.tolist()
                left_out = sent_invalid(watched, part.known or (), part.deployed.needs)
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
    if SHARE in decisions.fields:
        for row, share in zip(rows, decisions.share.tolist(), strict=True):
            row[SHARE] = share
    if receipt and decisions.receipts is not None:
        for row, one in zip(rows, decisions.receipts, strict=True):
            fields = asdict(one) | {"paid": one.paid, "unknown": list(one.unknown)}
            del fields["id"], fields["model"]
            row["receipt"] = fields
    if decisions.factors is not None:
        for row, one in zip(rows, decisions.factors, strict=True):
            row["factors"] = asdict(one) | {"features": dict(one.features), "score": one.score}
    return rows


def no_state(error: StateError) -> RequestProblem:
    """Log that the state does not respond, and return the problem for the client."""
    if isinstance(error, LateStateError):
        log_event("state", WARNING, text="The state did not respond before the deadline.")
        return problem("late-state")
    log_event("state", WARNING, error=where(error))
    return problem("state")
