"""The watch over a service: audited rows, their labels, and the monitor of each certificate.

Labels that customers send are self-selected, and those of one class come sooner than those of the
other. So a random share of the rows is marked when it is decided, accepted and rejected ones alike,
and only labels of marked rows reach the monitor: by cohort, once `label_after` has passed.
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
from emsco.serve.audit_draw import Audit
from emsco.serve.cas_value import shared_secret
from emsco.serve.events import WARNING, log_event, where
from emsco.serve.model_monitor import ModelMonitor
from emsco.serve.state.protocol import AuditMark, State

Label: TypeAlias = str | int | float | bool

MONTH = 30 * 86_400.0
# What becomes of a label that is sent.
OUTCOMES = ("used", "not audited", "repeated", "late", "unknown", "unknown label")
_PAUSE = 0.05  # seconds until marks are written, so that many are written together
_COUNT_EVERY = 5.0  # seconds
_MOST_MARKS = 100_000  # that wait for a state that does not answer
_KEPT = 7 * 86_400.0  # seconds for which audited rows are kept at least


class AuditWatch:
    """Marks rows for an audit, and tells the monitor of each model what it needs to know.

    Parameters
    ----------
    monitor : CertificateMonitor or None
        A new monitor of the model's certificate (`monitor_split.monitor_of`). None: there is no
        certificate; rows are audited and shown, and nothing alarms.
    state : State
        What the processes of the service share.
    model : str
        The digest of the model.
    classes : sequence, default=None
        Its classes: other labels are refused. None: any label of their type is taken.
    deployment : str, default="emsco"
        The name of the deployment: each has monitors of its own.
    audit : float, default=0.02
        The share of rows that are marked.
    label_after : float, default=2_592_000.0
        How many seconds after a decision its label is final; 30 days.
    cohort : float, default=None
        How many seconds of decisions are counted together. None: a tenth of `label_after`, from a
        second to an hour.
    seed : int, default=None
        By what rows are drawn. None: a secret that the state keeps.
    clock : callable, default=time.time
        Gives the time, in seconds since 1970.

    Examples
    --------
    >>> import asyncio, tempfile
    >>> from pathlib import Path
    >>> from emsco import Decisions
    >>> from emsco.monitor import CertificateMonitor
    >>> from emsco.serve.state import open_state
    >>> from emsco.serve.audit_watch import AuditWatch
    >>> async def main(folder):
    ...     state = await open_state(str(Path(folder, "state.sqlite")))
    ...     promised = CertificateMonitor(accuracy=0.9)
    ...     options = {"audit": 1.0, "label_after": 0, "cohort": 0.01, "seed": 0}
    ...     watch = AuditWatch(promised, state, model="digest", **options)
    ...     decisions = Decisions(["ok", "ok"], [True, True], [0, 0], [0.9, 0.9], [1.0, 1.0])
    ...     watch.decided(decisions, ["call-0", "call-1"], "digest")
    ...     print(await watch.feedback({"call-0": "ok"}))
    ...     await asyncio.sleep(0.1)
    ...     await watch.work()  # `start` lets this be done in the background
    ...     audited = watch.told("digest")["audited"]
    ...     print(audited["accuracy"], audited["accuracy_at_worst"], watch.alarms)
    ...     await state.close()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     asyncio.run(main(folder))
    {'used': 1, 'not audited': 0, 'repeated': 0, 'late': 0, 'unknown': 0, 'unknown label': 0}
    1.0 0.5 ()
    """

    def __init__(
        self,
        monitor: CertificateMonitor | None,
        state: State,
        *,
        model: str,
        classes: Sequence[Any] | None = None,
        deployment: str = "emsco",
        audit: float = 0.02,
        label_after: float = MONTH,
        cohort: float | None = None,
        seed: int | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not label_after >= 0:
            raise MonitorError(f"`label_after` must be 0 or more seconds, got {label_after!r}.")
        self.label_after = label_after
        self.cohort = min(max(label_after / 10, 1.0), 3600.0) if cohort is None else cohort
        self.counts: Counter[str] = Counter()  # what this process did
        self._state, self._name, self._clock, self._seed = state, deployment, clock, seed
        self._audit = Audit(audit, b"" if seed is None else str(seed).encode())
        self._worker = uuid.uuid4().hex
        self._rng = np.random.default_rng(seed)
        self._models: dict[str, ModelMonitor] = {}
        self._marks: list[AuditMark] = []
        self._answers: dict[str, Label] = {}  # of final models, to rows among the marks
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
        """Watch another model too; those followed before go on until their labels have come.

        A model that is followed already, and has another certificate now, begins anew.
        """
        if model in self._models:
            self._models[model].renew(monitor, classes)
            return
        name = f"watch:{self._name}:{model}"
        self._models[model] = ModelMonitor(self._state, name, model, monitor, self.cohort, classes)

    @property
    def models(self) -> Mapping[str, ModelMonitor]:
        """What is watched, by the digest of the model."""
        return self._models

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """All alarms, as this process saw them last."""
        return tuple(alarm for model in self._models for alarm in self.alarms_of(model))

    def alarms_of(self, model: str) -> tuple[Alarm, ...]:
        """Return the alarms about one model."""
        return self._models[model].alarms if model in self._models else ()

    def told(self, model: str) -> dict[str, Any]:
        """Tell what is known of a model at work, as plain values."""
        audit = {"share": self._audit.share, "label_after": self.label_after}
        followed = self._models.get(model)
        return {"audit": audit, **({} if followed is None else followed.told())}

    def takes_answers(self, model: str) -> bool:
        """Return whether labels of a model are the answers of its final model, and no others."""
        return model in self._models and "agreement" in self._models[model].evidence

    def decided(
        self,
        decisions: Decisions,
        ids: Sequence[str],
        model: str,
        answers: Sequence[Label] | None = None,
        *,
        left_out: Sequence[int] = (),
    ) -> None:
        """Take note of decisions; draw among them for the audit.

        Call it once for every decision that is answered, after its answer was kept: a decision that
        is made again after a crash must not count twice.

        Parameters
        ----------
        decisions : Decisions
            The decisions of one call.
        ids : sequence of str
            Their ids.
        model : str
            The digest of the model that has made them.
        answers : sequence, default=None
            What the final model answers, where it is known. Promises of agreement are watched by
            it.
        left_out : sequence of int, default=()
            The places of rows that say nothing about the model (`emsco.serve.rejection_causes`).
        """
        if left_out:
            kinds = Counter(kind_of(reason) for reason in decisions.reason[list(left_out)].tolist())
            self.counts.update({f"left out {kind}": rows for kind, rows in kinds.items()})
            kept = sorted(set(range(len(ids))).difference(left_out))
            decisions, ids = decisions[kept], [ids[place] for place in kept]
            answers = None if answers is None else [answers[place] for place in kept]
        if model not in self._models:
            self.follow(model, None)
        if not self._models[model].note(decisions):
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

    @property
    def waiting(self) -> tuple[AuditMark, ...]:
        """The audited rows that are not written yet."""
        return tuple(self._marks)

    async def unlabelled(self, model: str) -> list[AuditMark]:
        """Return the audited rows of a model that have no label, and can still be given one."""
        closed = (await self._models[model].cohorts.read()).closed if model in self._models else 0.0
        rows = await self._state.due(self._clock() + 1.0, since=closed, model=model)
        return [row for row in rows if row.truth is None]

    async def feedback(
        self, labels: Mapping[str, Label] | Iterable[tuple[str, Label]]
    ) -> dict[str, int]:
        """Take labels, by the id of their decision: late, repeated, in any order.

        Returns
        -------
        dict of str to int
            How many were "used"; how many are "not audited", and count nothing; how many came
            "repeated" or too "late", after their cohort was closed; how many are "unknown": they
            wait for a day, as their decision may be on its way; and how many are an "unknown
            label", which no model has, and count nothing. Only operators may be told: it says who
            is audited.

        Raises
        ------
        MonitorError
            If a label is neither text nor a number; nothing is taken then.
        """
        given = dict(labels)
        for label in given.values():
            _check(label)
        real = [one for one, label in given.items() if self._is_label(label)]
        drawn = [one for one in real if self._audit.is_drawn(one)]
        told = dict.fromkeys(OUTCOMES, 0)
        told["unknown label"] = len(given) - len(real)
        told["not audited"] = len(real) - len(drawn)
        if drawn:
            await self._write_marks()
            known = {row.id: row for row in await self._state.marked(drawn)}
            models = {row.model for row in known.values()}.intersection(self._models)
            closed = {model: (await self._models[model].cohorts.read()).closed for model in models}
            foreign = {row.id for row in known.values() if self._is_foreign(row, given[row.id])}
            late = {row.id for row in known.values() if row.at < closed.get(row.model, 0.0)}
            late -= foreign
            taken = [one for one in drawn if one not in late | foreign]
            # All at once: the state writes together what it is given together.
            news = await asyncio.gather(*(self._state.label(one, given[one]) for one in taken))
            told["late"] = len(late)
            told["unknown label"] += len(foreign)
            for one, is_new in zip(taken, news, strict=True):
                told["repeated" if not is_new else "used" if one in known else "unknown"] += 1
        self.counts.update({f"labels {what}": n for what, n in told.items()})
        return told

    def _is_label(self, label: Label) -> bool:
        """Return whether some model may have a label."""
        known = [followed.cohorts.value.classes for followed in self._models.values()]
        return any(classes is None or label in classes for classes in known)

    def _is_foreign(self, row: AuditMark, label: Label) -> bool:
        """Return whether a label is none of the model that has decided a row."""
        followed = self._models.get(row.model)
        return followed is not None and not followed.cohorts.value.is_label(label, row.label)

    async def start(self) -> None:
        """Read what is kept, and begin to work in the background."""
        if self._seed is None:
            secret = await shared_secret(self._state, f"watch:{self._name}:secret")
            self._audit = Audit(self._audit.share, secret)
        for followed in self._models.values():
            await followed.cohorts.read()
            await followed.traffic.read()
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Write what is left, and end."""
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
                await asyncio.sleep(1.0)  # the state does not answer

    async def _attempt(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Do something that may fail and is then done later."""
        try:
            await work()
        except Exception as error:
            self.counts["failures"] += 1
            log_event("watch failed", WARNING, error=where(error))
            return False
        return True

    async def work(self) -> None:
        """Do now all that is done in the background: write, count, close cohorts."""
        await self._write_marks()
        await self._count()
        await self._close()

    async def _write_marks(self) -> None:
        async with self._writing:
            self._woken.clear()
            marks, self._marks = self._marks, []
            answers, self._answers = self._answers, {}
            try:
                # Answers first: a cohort that is closed in between must not miss them.
                await asyncio.gather(*(self._state.label(*one) for one in answers.items()))
                if marks:
                    await self._state.mark(marks)
            except BaseException:
                self._marks = marks + self._marks  # to mark a row again changes nothing
                self._answers = answers | self._answers
                raise
            for mark in marks:
                if mark.at < self._models[mark.model].cohorts.value.closed:
                    self.counts["marks late"] += 1  # the state has not answered for so long

    async def _count(self) -> None:
        """Count decisions made since the last time, for all processes."""
        async with self._working:
            for followed in list(self._models.values()):
                self._tell(followed.model, await followed.count(self._worker, self._rng))

    async def _close(self) -> None:
        """Close the cohorts whose time has come."""
        async with self._working:
            now = self._clock()
            for followed in list(self._models.values()):
                self._tell(followed.model, await followed.close(now - self.label_after))
            # Kept as long again, so that a label that comes too late is known as such.
            await self._state.forget(now - 2 * self.label_after - _KEPT)

    def _tell(self, model: str, raised: Sequence[Alarm]) -> None:
        for alarm in raised:
            log_event("alarm", WARNING, model=model, promise=alarm.what, message=alarm.message)


def _check(label: Any) -> None:
    """Refuse what cannot be a label."""
    is_number = isinstance(label, int | float) and isfinite(label)
    if not isinstance(label, str) and not is_number:
        raise MonitorError(f"Labels must be text or numbers, got {label!r}.")
