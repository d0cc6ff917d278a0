"""Spot checks on a stream: which cheap answers of a service go out, and which are checked.

Before a stage answers in place of the final model, its row is admitted to the period (see
`check_period`), with a coin that is drawn here. If it is unknown whether an admission was written,
the final model answers. The end of a check is written again until that succeeds: it has an id, and
counts once. A check goes on if the caller hangs up.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emsco.cascade.decision_loop import Leaving
from emsco.cascade.fingerprint import digest_of
from emsco.core.decisions import ACCEPTED, Decisions
from emsco.exceptions import StateError
from emsco.serve.check_period import (
    ACCEPTED_LOSS,
    CHANGED,
    CHEAP,
    FINAL,
    RESTARTED,
    Admission,
    CheckOutcome,
    CheckPeriod,
    PeriodTerms,
    Step,
)
from emsco.serve.check_plan import (
    CheckPlan,
    expected_arrivals,
    expected_disagreements,
    plan_checks,
)
from emsco.serve.deployment import Deployment
from emsco.serve.events import WARNING, log_event, where
from emsco.serve.settings import Settings
from emsco.serve.state import State
from emsco.serve.state.executors import GroupCommit

UNKNOWN = "unknown"  # whether an admission was written
DISAGREEMENTS = "disagreements"  # more are known than the period tolerates
CLOSED = (DISAGREEMENTS, CHANGED, RESTARTED, ACCEPTED_LOSS)  # the reasons why a period is closed
_PATIENCE = 1.0  # seconds in which the state must admit a row; or half of the deadline
_BITS = 53  # of a coin
_FEWER = 4  # times fewer disagreements than allowed are expected before any are known
_MOST_UNWRITTEN = 10_000  # ends of checks that wait for the state
_LOOK = 1.0  # seconds between looks at the period


def draw_coin() -> float:
    """Return a fresh random number from 0 to 1."""
    return secrets.randbits(_BITS) / 2.0**_BITS


class StreamAnswer(NamedTuple):
    """The decisions that were given out, and those that the cascade made without checks."""

    decisions: Decisions
    unchecked: Decisions


@dataclass
class _HeldRow:
    """A row that a stage accepts but that goes on to the final model."""

    admission: str  # its id
    became: str
    stage: int
    winner: int
    confidence: float
    share: float | None


@dataclass
class _Rows:
    """The rows of a call that were admitted."""

    is_asking: bool = False  # whether an admission is being written
    held: dict[int, _HeldRow] = field(default_factory=dict)  # by row

    @property
    def has_checks(self) -> bool:
        """Whether a check is, or may be, under way: then the call goes on without its caller."""
        return self.is_asking or any(one.became != FINAL for one in self.held.values())


class StreamChecks:
    """Admits the rows of a process to the periods that all processes share."""

    def __init__(
        self,
        settings: Settings,
        state: State,
        final: str,  # the fingerprint of the final model
        *,
        coin: Callable[[], float] = draw_coin,
    ) -> None:
        assert settings.max_changed is not None  # as its caller has checked
        self._settings, self._state, self._coin = settings, state, coin
        self._most, self._error = settings.max_changed, 1 - settings.confidence
        self._per_rows, self._per_seconds = settings.period
        self.period: CheckPeriod | None = None  # as last seen by this process
        self._patience = min(_PATIENCE, (settings.deadline or np.inf) / 2)
        self._batches: GroupCommit[Sequence[Step]] = GroupCommit(self._take)
        self._calls: set[asyncio.Task[StreamAnswer]] = set()
        self._writing: set[asyncio.Task[None]] = set()
        self._unwritten: list[CheckOutcome] = []
        self._is_failing = False
        self._seen: tuple[int, str] | None = None  # the period last logged, and why it was closed
        self.use(final)

    def use(self, final: str) -> None:
        """Check against this final model; another one closes the period."""
        promise = [self._most, self._error, self._per_rows, self._per_seconds]
        self._digest = digest_of([*promise, final])
        self.plan = self._planned()

    def _planned(self) -> CheckPlan:
        """Plan the next period, by what the present one has measured."""
        settings, period = self._settings, self.period
        rows = float(self._per_rows or self._per_seconds * settings.rows_per_second)
        arrivals = settings.check_seconds * settings.rows_per_second
        disagreements = self._most / _FEWER
        if period is not None:
            arrivals = expected_arrivals(period.finished, period.arrived, arrivals)
            disagreements = expected_disagreements(
                period.finished, period.known, rows, disagreements
            )
        return plan_checks(self._most, self._error, arrivals, disagreements)

    @property
    def _terms(self) -> PeriodTerms:
        plan = self.plan
        return PeriodTerms(
            self._digest, self._per_rows, self._per_seconds, plan.tolerated, plan.rate
        )

    async def _take(self, batch: Sequence[Sequence[Step]]) -> list[list[str]]:
        """Take the steps of several calls as one turn; return what became of each call's rows."""
        taken = await self._state.turn([step for steps in batch for step in steps], self._terms)
        self.period = taken.period or self.period
        became = iter(taken.admitted)
        return [[next(became) for one in s if isinstance(one, Admission)] for s in batch]

    # Decisions

    async def decide(
        self, deployed: Deployment, keys: Sequence[Any], known: Any, **options: Any
    ) -> StreamAnswer:
        """Decide rows; the options are those of `LiveCascade.decide`.

        If this is cancelled while a check is under way, the decision goes on.
        """
        rows = _Rows()
        task = asyncio.ensure_future(self._decide(rows, deployed, keys, known, options))
        self._calls.add(task)
        task.add_done_callback(self._forget)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if not rows.has_checks:
                task.cancel()
            raise

    def _forget(self, done: asyncio.Task[StreamAnswer]) -> None:
        self._calls.discard(done)
        if not done.cancelled():
            done.exception()  # retrieve it: the caller may have left

    async def _decide(
        self, rows: _Rows, deployed: Deployment, keys: Sequence[Any], known: Any, options: Any
    ) -> StreamAnswer:
        agree: dict[int, bool] = {}
        try:
            with deployed.in_use():
                decisions = await deployed.live.decide(
                    keys, known, admit=partial(self._admit, rows), **options
                )
            classes = deployed.decider.classes
            for row, one in rows.held.items():
                is_same = decisions.label[row] == classes[one.winner]
                agree[row] = bool(decisions.accepted[row] and is_same)
        finally:  # a check that was cancelled or failed counts as a disagreement
            ended = [
                CheckOutcome(one.admission, agree.get(row, False))
                for row, one in rows.held.items()
                if one.became != FINAL
            ]
            if ended:
                self._write(ended)
        return StreamAnswer(decisions, _unchecked(decisions, rows.held, deployed))

    async def _admit(self, rows: _Rows, leaving: Leaving) -> NDArray[np.bool_]:
        """Admit rows; return which of them leave with the cheap answer."""
        # Each coin is drawn once, and after its answer is fixed; it goes into one write only.
        steps = [Admission(secrets.token_hex(8), self._coin()) for _ in leaving.rows]
        became = [UNKNOWN] * len(steps)
        rows.is_asking = True
        try:
            became = await self._ask(steps)
        finally:  # also if this is cancelled
            share = leaving.share
            for place, row in enumerate(leaving.rows.tolist()):
                if became[place] != CHEAP:
                    rows.held[row] = _HeldRow(
                        steps[place].id, became[place], leaving.stage, int(leaving.winner[place]),
                        float(leaving.confidence[place]),
                        None if share is None else float(share[place]),
                    )  # fmt: skip
            rows.is_asking = False
        return np.array([one == CHEAP for one in became])

    async def _ask(self, steps: Sequence[Admission]) -> list[str]:
        """Return what becomes of admissions; the state is not waited for while it fails."""
        if self._is_failing:
            return [FINAL] * len(steps)
        try:
            became: list[str] = await asyncio.wait_for(self._batches.run(steps), self._patience)
        except (StateError, TimeoutError) as error:
            self._is_failing = True  # until a look at the period succeeds
            text = "The state did not say whether rows were admitted: the final model answers."
            log_event("spot checks", WARNING, error=where(error), text=text)
            return [UNKNOWN] * len(steps)
        return became

    # Ends of checks

    def _write(self, ended: list[CheckOutcome]) -> None:
        """Write ends of checks in the background: until then, they count as under way."""
        task = asyncio.ensure_future(self._try_to_write(ended))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)

    async def _try_to_write(self, ended: list[CheckOutcome]) -> None:
        try:
            await self._batches.run(ended)
            self._is_failing = False
        except StateError:
            self._unwritten = [*self._unwritten, *ended][-_MOST_UNWRITTEN:]

    # The period

    async def keep_looking(self) -> None:
        """Look at the period every second, plan the next one, and write what could not be."""
        while True:
            with suppress(StateError):
                await self.look()
            await asyncio.sleep(_LOOK)

    async def look(self) -> None:
        """Look at the period once."""
        ended, self._unwritten = self._unwritten, []
        await self._try_to_write(ended)
        self.plan = self._planned()
        period = self.period
        if period is None:
            return
        seen = period.number, self._closed(period)
        if seen != self._seen:
            if self._seen is None or seen[0] != self._seen[0]:
                log_event("period", **self.description())
            if seen[1]:
                log_event("period closed", WARNING, **self.description())
            self._seen = seen

    def _closed(self, period: CheckPeriod) -> str:
        return period.closed or (DISAGREEMENTS if period.known > period.tolerated else "")

    async def start(self) -> None:
        """Look at the period that other processes may have begun, and log the plan."""
        await self.look()
        plan = self.plan
        log_event(
            "spot checks", max_changed=self._most, per=self._settings.per,
            confidence=self._settings.confidence, tolerated=plan.tolerated,
            check_rate=round(plan.rate, 4), arrivals=round(plan.arrivals, 1),
            ceiling=round(plan.ceiling, 3),
        )  # fmt: skip

    async def stop(self, seconds: float = 0.0) -> None:
        """Wait up to `seconds` for checks whose callers have left, and write how checks ended."""
        if self._calls:
            _, late = await asyncio.wait(list(self._calls), timeout=seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        await asyncio.gather(*self._writing, return_exceptions=True)
        await self._batches.finish()

    def description(self) -> dict[str, Any]:
        """Return what is promised and where the period stands, as JSON data."""
        plan, period = self.plan, self.period
        promise = {
            "max_changed": self._most,
            "per": self._settings.per,
            "confidence": self._settings.confidence,
            "ceiling": round(plan.ceiling, 4),
            "arrivals": round(plan.arrivals, 1),
            "period": None,
        }
        if period is None:
            return promise
        ends = period.ends
        return promise | {
            "period": period.number,
            "ends": None if ends is None else datetime.fromtimestamp(ends, UTC).isoformat(),
            "rows": period.rows,
            "tolerated": period.tolerated,
            "check_rate": period.rate,
            "known": period.known,
            "under_way": len(period.under_way),
            "cheap": period.cheap,
            "checked": period.checked,
            "final": period.final,
            "open": period.is_open,
            "closed": self._closed(period),
        }


def _unchecked(decisions: Decisions, held: dict[int, _HeldRow], deployed: Deployment) -> Decisions:
    """Return what the cascade decided before checks held rows back."""
    if not held:
        return decisions
    label, accepted = decisions.label.copy(), decisions.accepted.copy()
    stage, confidence = decisions.exit_stage.copy(), decisions.confidence.copy()
    cost, reason = decisions.cost.copy(), decisions.reason.copy()
    share = decisions.share.copy() if any(one.share is not None for one in held.values()) else None
    for row, one in held.items():
        label[row], accepted[row] = deployed.decider.classes[one.winner], True
        stage[row], confidence[row], reason[row] = one.stage, one.confidence, ACCEPTED
        fetches = decisions.receipts[row].fetches  # type: ignore[index]
        cost[row] = sum(fetch.paid for fetch in fetches if fetch.stage <= one.stage)
        if share is not None:
            share[row] = one.share
    return Decisions(label, accepted, stage, confidence, cost, reason, share=share)
