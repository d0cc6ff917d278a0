"""The watch over a service: audited rows, their labels, and the monitor of each certificate.

Labels sent by customers are self-selected, and one class gets its labels sooner than the other. So
a random share of the rows, accepted and rejected, is marked when decided, and only labels of marked
rows reach the monitor: by cohort, once `label_after` has passed.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from math import isfinite
from typing import Any, TypeAlias

import numpy as np

from emsco.certify.monitor import Alarm, CertificateMonitor
from emsco.core.decisions import Decisions, kind_of
from emsco.exceptions import MonitorError
from emsco.serve.audit_cohorts import Audit
from emsco.serve.events import WARNING, log_event, where
from emsco.serve.model_monitor import ModelMonitor
from emsco.serve.shared_values import shared_secret
from emsco.serve.state.base import AuditMark, State

Label: TypeAlias = str | int | float | bool

MONTH = 30 * 86_400.0
# Possible outcomes of a label that is sent.
# "late": after their cohort was closed. "unknown": they wait for a day, because their decision may
# not have been written yet. "unknown label": no model has it.
OUTCOMES = ("used", "not audited", "repeated", "late", "unknown", "unknown label")
_PAUSE = 0.05  # seconds before marks are written, so that many are written together
_COUNT_EVERY = 5.0  # seconds
_MOST_MARKS = 100_000  # waiting while the state does not respond
_RETENTION = 7 * 86_400.0  # minimum seconds for which audited rows are kept


class AuditWatch:
    """Marks rows for the audit, and feeds the monitor of each model."""

    def __init__(
        self,
        monitor: CertificateMonitor | None,  # None: no alarm is raised, only reports
        state: State,
        *,
        model: str,
        classes: Sequence[Any] | None = None,  # None: any label of the right type is accepted
        deployment: str = "emsco",
        audit: float = 0.02,
        label_after: float = MONTH,
        cohort: float | None = None,  # seconds; None: a tenth of `label_after`, at most an hour
        seed: int | None = None,  # for drawing rows; None: a secret stored in the state
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not label_after >= 0:
            raise MonitorError(f"`label_after` must be at least 0 seconds, got {label_after!r}.")
        self.label_after = label_after
        self.cohort = min(max(label_after / 10, 1.0), 3600.0) if cohort is None else cohort
        self.counts: Counter[str] = Counter()  # of this process
        self.standing: Callable[[], dict[str, Any]] | None = None  # of spot checks, for alarms
        self._state, self._name, self._clock, self._seed = state, deployment, clock, seed
        self._audit = Audit(audit, b"" if seed is None else str(seed).encode())
        self._worker = uuid.uuid4().hex
        self._rng = np.random.default_rng(seed)
        self.models: dict[str, ModelMonitor] = {}  # by digest
        self._marks: list[AuditMark] = []
        self._answers: dict[str, Label] = {}  # of final models, for marked rows
        self._woken = asyncio.Event()
        self._writing, self._working = asyncio.Lock(), asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self.follow(model, monitor, classes)

    def follow(
        self,
        model: str,
        monitor: CertificateMonitor | None,
        classes: Sequence[Any] | None = None,
    ) -> None:
        """Watch another model too; earlier ones are watched until their labels have arrived.

        If the model is already watched but has a different certificate now, its monitor restarts.
        """
        if model in self.models:
            self.models[model].renew(monitor, classes)
            return
        name = f"watch:{self._name}:{model}"
        self.models[model] = ModelMonitor(self._state, name, model, monitor, self.cohort, classes)

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """All alarms, as last seen by this process."""
        return tuple(alarm for model in self.models for alarm in self.alarms_of(model))

    def alarms_of(self, model: str) -> tuple[Alarm, ...]:
        """Return the alarms about one model."""
        return self.models[model].alarms if model in self.models else ()

    def takes_answers(self, model: str) -> bool:
        """Return whether the labels of a model are the answers of its final model."""
        return model in self.models and "agreement" in self.models[model].evidence

    def decided(
        self,
        decisions: Decisions,
        ids: Sequence[str],
        model: str,
        answers: Sequence[Label] | None = None,
        *,
        left_out: Sequence[int] = (),
    ) -> None:
        """Record decisions, and draw the audit among them.

        Call it once for every decision, after its answer was stored: a decision that is repeated
        after a crash must not count twice.
        """
        if left_out:
            kinds = Counter(kind_of(reason) for reason in decisions.reason[list(left_out)].tolist())
            self.counts.update({f"left out {kind}": rows for kind, rows in kinds.items()})
            places = sorted(set(range(len(ids))).difference(left_out))
            decisions, ids = decisions[places], [ids[place] for place in places]
            answers = None if answers is None else [answers[place] for place in places]
        if model not in self.models:
            self.follow(model, None)
        if not self.models[model].note(decisions):
            self.counts["not counted"] += len(decisions)
        drawn = self._audit.drawn(ids)
        if drawn:
            self._mark(decisions, ids, model, drawn)
            if answers is not None and self.takes_answers(model):
                self._answers |= {ids[place]: answers[place] for place in drawn}

    def _mark(
        self, decisions: Decisions, ids: Sequence[str], model: str, drawn: Sequence[int]
    ) -> None:
        now = self._clock()
        self.counts["audited"] += len(drawn)
        fields = (
            getattr(decisions, name)[drawn].tolist()
            for name in ("label", "accepted", "reason", "exit_stage")
        )
        for place, label, accepted, reason, stage in zip(drawn, *fields, strict=True):
            self._marks.append(AuditMark(ids[place], now, model, label, accepted, reason, stage))
        if len(self._marks) > _MOST_MARKS:
            self.counts["marks lost"] += len(self._marks) - _MOST_MARKS
            for lost in self._marks[:-_MOST_MARKS]:
                self._answers.pop(lost.id, None)
            del self._marks[:-_MOST_MARKS]
        self._woken.set()

    async def feedback(
        self, labels: Mapping[str, Label] | Iterable[tuple[str, Label]]
    ) -> dict[str, int]:
        """Take labels by decision id; they may be late, repeated and in any order.

        Returns the number of labels by outcome. Show it to operators only: it reveals which rows
        are audited. If a label is neither text nor a number, none is taken.
        """
        by_id = dict(labels)
        for label in by_id.values():
            if not (isinstance(label, str) or (isinstance(label, int | float) and isfinite(label))):
                raise MonitorError(f"Labels must be text or numbers, got {label!r}.")
        classes = [followed.cohorts.value.classes for followed in self.models.values()]
        real = [
            one for one, label in by_id.items() if any(c is None or label in c for c in classes)
        ]
        drawn = [one for one in real if self._audit.is_drawn(one)]
        counts = dict.fromkeys(OUTCOMES, 0)
        counts["unknown label"] = len(by_id) - len(real)
        counts["not audited"] = len(real) - len(drawn)
        if drawn:
            await self._write_marks()
            known = {row.id: row for row in await self._state.marked(drawn)}
            models = {row.model for row in known.values()}.intersection(self.models)
            closed = {model: (await self.models[model].cohorts.read()).closed for model in models}
            foreign = {row.id for row in known.values() if self._is_foreign(row, by_id[row.id])}
            late = {row.id for row in known.values() if row.at < closed.get(row.model, 0.0)}
            late -= foreign
            taken = [one for one in drawn if one not in late | foreign]
            # Concurrently: the state then writes them as one group.
            news = await asyncio.gather(*(self._state.label(one, by_id[one]) for one in taken))
            counts["late"] = len(late)
            counts["unknown label"] += len(foreign)
            for one, is_new in zip(taken, news, strict=True):
                counts["repeated" if not is_new else "used" if one in known else "unknown"] += 1
        self.counts.update({f"labels {what}": n for what, n in counts.items()})
        return counts

    def _is_foreign(self, row: AuditMark, label: Label) -> bool:
        """Return whether the model that decided a row does not have this label."""
        followed = self.models.get(row.model)
        return followed is not None and not followed.cohorts.value.is_label(label, row.label)

    async def start(self) -> None:
        """Read the stored state, and start the background work."""
        if self._seed is None:
            secret = await shared_secret(self._state, f"watch:{self._name}:secret")
            self._audit = Audit(self._audit.share, secret)
        for followed in self.models.values():
            await followed.cohorts.read()
            await followed.traffic.read()
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stop the background work, and write what is pending."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        await self._attempt(self._write_marks)
        await self._attempt(self._count)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        close_every = min(max(self.cohort / 10, 1.0), 60.0)
        counted = closed = loop.time()
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(min(_COUNT_EVERY, close_every)):
                    await self._woken.wait()
            await asyncio.sleep(_PAUSE)
            written = await self._attempt(self._write_marks)
            if loop.time() - counted >= _COUNT_EVERY:
                counted = loop.time()
                written = await self._attempt(self._count) and written
            if loop.time() - closed >= close_every:
                closed = loop.time()
                written = await self._attempt(self._close) and written
            if not written:
                await asyncio.sleep(1.0)  # the state does not respond

    async def _attempt(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Run work that is retried later if it fails."""
        try:
            await work()
        except Exception as error:
            self.counts["failures"] += 1
            log_event("watch failed", WARNING, error=where(error))
            return False
        return True

    async def work(self) -> None:
        """Do the background work now: write marks, count, close cohorts."""
        await self._write_marks()
        await self._count()
        await self._close()

    async def _write_marks(self) -> None:
        async with self._writing:
            self._woken.clear()
            marks, self._marks = self._marks, []
            answers, self._answers = self._answers, {}
            try:
                # Answers first: a cohort closed in between must not miss them.
                await asyncio.gather(*(self._state.label(*one) for one in answers.items()))
                if marks:
                    await self._state.mark(marks)
            except BaseException:
                self._marks = marks + self._marks  # marking a row twice is harmless
                self._answers = answers | self._answers
                raise
            for mark in marks:
                if mark.at < self.models[mark.model].cohorts.value.closed:
                    self.counts["marks late"] += 1  # the state did not respond for too long

    async def _count(self) -> None:
        """Add the decisions since the last call to the counts of all processes."""
        async with self._working:
            for followed in list(self.models.values()):
                self._tell(followed.model, await followed.count(self._worker, self._rng))

    async def _close(self) -> None:
        """Close the cohorts that are due."""
        async with self._working:
            now = self._clock()
            for followed in list(self.models.values()):
                self._tell(followed.model, await followed.close(now - self.label_after))
            # Rows are kept twice as long, so that late labels are recognized.
            await self._state.forget(now - 2 * self.label_after - _RETENTION)

    def _tell(self, model: str, raised: Sequence[Alarm]) -> None:
        beside = {} if self.standing is None else {"spot_checks": self.standing()}
        for alarm in raised:
            log_event(
                "alarm", WARNING, model=model, promise=alarm.what, message=alarm.message, **beside
            )
