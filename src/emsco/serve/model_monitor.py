"""The monitoring of one model: its audited rows, and all its rows.

A certificate's monitor has two parts. Accuracy, agreement and missed shares wait for the labels of
audited rows, for weeks. Coverage, cost and exit stages are visible in all decisions immediately.
The parts are updated at different times, so they are stored separately in the state. Every promise
keeps its share of `alpha`: together, the two parts raise false alarms no more often than the whole.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco.certify import Certificate
from emsco.certify.monitor import Alarm, CertificateMonitor, watchable
from emsco.core.decisions import Decisions
from emsco.core.measure import DRAWN_ANSWERS, DRAWN_LABELS, LABELS
from emsco.exceptions import MonitorError, MonitorWarning
from emsco.serve.audit_cohorts import Cohorts, go_on
from emsco.serve.rejection_causes import is_failure
from emsco.serve.shared_values import CasValue
from emsco.serve.state.base import State

_MOST_ROWS = 1_000_000  # waiting while the state does not respond
_MOST_WORKERS = 64  # to remember; one that exited long ago sends nothing more
_ALPHA = 0.01  # the maximum probability of any alarm, ever, while the promises hold
_BY_DECISIONS: dict[str, Any] = {"coverage": None, "cost": None, "exits": None}


@dataclass
class PendingDecisions:
    """Decisions of one process that are not counted yet."""

    accepted: list[bool] = field(default_factory=list)
    stages: list[int] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)  # positions of rows with a failing source

    def __len__(self) -> int:
        return len(self.accepted)

    def add(self, decisions: Decisions) -> None:
        """Add decisions."""
        accepted = decisions.accepted.tolist()
        if False in accepted:
            reasons = decisions.reason.tolist()
            failures = {reason for reason in set(reasons) if is_failure(reason)}
            if failures:
                first = len(self)
                places = (place for place, reason in enumerate(reasons) if reason in failures)
                self.failed += [first + place for place in places]
        self.accepted += accepted
        self.stages += decisions.exit_stage.tolist()
        self.costs += decisions.cost.tolist()


class TrafficMonitor:
    """The decisions of all processes of a deployment with a model.

    A certificate is about decisions for which every source responds. So rows rejected because of a
    failing source are counted separately, and an outage must not look like a change of the rows:
    such a row counts as accepted, at the price paid for it, and its exit stage is drawn from those
    of the certified rows, from the failed stage on. This may hide a change while a source fails,
    but it causes no alarm.
    """

    def __init__(self, monitor: CertificateMonitor | None = None) -> None:
        self.monitor = monitor
        self.rows = self.accepted = self.failed = 0
        self.taken: dict[str, int] = {}  # the number of the last batch of each process

    def take(
        self, load: PendingDecisions, worker: str, number: int, rng: np.random.Generator
    ) -> tuple[Alarm, ...]:
        """Count a batch unless it was counted before; return the alarms raised."""
        if self.taken.get(worker, 0) >= number:
            return ()
        self.taken.pop(worker, None)  # the most recent writer goes last
        self.taken = dict([*self.taken.items(), (worker, number)][-_MOST_WORKERS:])
        self.rows += len(load)
        self.accepted += sum(load.accepted)
        self.failed += len(load.failed)
        if self.monitor is None or not len(load):
            return ()
        n_rows = len(load)
        accepted, stages = np.array(load.accepted), np.array(load.stages)
        if load.failed:
            accepted[load.failed] = True
            stages[load.failed] = self._ways(stages[load.failed], rng)
        nothing = np.zeros(n_rows)
        return self.monitor.decided(
            Decisions(np.zeros(n_rows, int), accepted, stages, nothing, load.costs)
        )

    def _ways(self, stages: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.intp]:
        """Draw the exit stages of rows that failed at these stages, by the certified exits."""
        assert self.monitor is not None
        exits = self.monitor.state()["promised"]["exits"]
        if exits is None:
            return stages
        leaving = np.cumsum(exits)
        before = np.concatenate([[0.0], leaving])[stages]
        drawn = before + (1 - before) * rng.random(len(stages))
        ways = np.searchsorted(leaving, drawn, side="right").clip(max=len(exits) - 1)
        later: NDArray[np.intp] = np.maximum(ways, stages)
        return later

    def to_data(self) -> dict[str, Any]:
        """Return the state that changes, as JSON data."""
        return {
            "counts": [self.rows, self.accepted, self.failed],
            "taken": self.taken,
            "monitor": None if self.monitor is None else self.monitor.state(),
        }

    def after(self, data: dict[str, Any]) -> TrafficMonitor:
        """Return a copy that continues from stored data; with other promises, it restarts."""
        later = TrafficMonitor(go_on(self.monitor, data["monitor"]))
        later.rows, later.accepted, later.failed = map(int, data["counts"])
        later.taken = {worker: int(number) for worker, number in data["taken"].items()}
        return later


class ModelMonitor:
    """The monitoring of one model."""

    def __init__(
        self,
        state: State,
        name: str,
        model: str,
        monitor: CertificateMonitor | None,
        length: float,
        classes: Sequence[Any] | None,
    ) -> None:
        self.model = model
        self._state, self._name, self._length = state, name, length
        self._load = PendingDecisions()
        self._sent = PendingDecisions()  # the batch being counted
        self._number = 0  # of that batch
        self._begin(monitor, classes)

    def _begin(self, monitor: CertificateMonitor | None, classes: Sequence[Any] | None) -> None:
        labels = None if monitor is None else by_labels(monitor)
        decisions = None if monitor is None else by_decisions(monitor)
        self._promised = None if monitor is None else monitor.state()["promised"]
        cohorts = Cohorts(labels, self._length, classes)
        self.cohorts = CasValue(self._state, f"{self._name}:cohorts", cohorts)
        self.traffic = CasValue(self._state, f"{self._name}:traffic", TrafficMonitor(decisions))

    def renew(self, monitor: CertificateMonitor | None, classes: Sequence[Any] | None) -> None:
        """Restart with another certificate, if its promises differ."""
        promised = None if monitor is None else monitor.state()["promised"]
        if promised != self._promised:
            self._begin(monitor, classes)

    @property
    def monitors(self) -> tuple[CertificateMonitor, ...]:
        """The parts of its monitor that exist."""
        both = (self.cohorts.value.monitor, self.traffic.value.monitor)
        return tuple(monitor for monitor in both if monitor is not None)

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """The alarms about it, as last seen by this process."""
        return tuple(alarm for monitor in self.monitors for alarm in monitor.alarms)

    @property
    def evidence(self) -> dict[str, float]:
        """The evidence against each promise."""
        return {what: found for one in self.monitors for what, found in one.evidence.items()}

    def note(self, decisions: Decisions) -> bool:
        """Record decisions; return False if too many are waiting to be counted."""
        if len(self._load) >= _MOST_ROWS:
            return False
        self._load.add(decisions)
        return True

    async def count(self, worker: str, rng: np.random.Generator) -> tuple[Alarm, ...]:
        """Add the decisions since the last call to the counts of all processes."""
        if not len(self._sent):  # otherwise the last call failed, and may have counted the batch
            self._sent, self._load = self._load, PendingDecisions()
            self._number += 1
        if not len(self._sent):
            await self.traffic.read()
            return ()
        raised = await self.traffic.change(
            lambda traffic: traffic.take(self._sent, worker, self._number, rng)
        )
        self._sent = PendingDecisions()
        return raised

    async def close(self, before: float) -> tuple[Alarm, ...]:
        """Close the cohorts that ended before a time."""
        cohorts = await self.cohorts.read()
        until = cohorts.closes(before)
        if until <= cohorts.closed:
            return ()
        rows = await self._state.due(until, since=cohorts.closed, model=self.model)
        return await self.cohorts.change(lambda cohorts: cohorts.close(rows, until))


def monitor_of(certificate: Any, cascade: Any) -> CertificateMonitor | None:
    """Return the monitor of a cascade's certificate, for rows drawn by the service.

    None: nothing is certified, or nothing of it can be watched.
    """
    if not isinstance(certificate, Certificate) or not certificate.certified:
        return None
    targets = certificate.targets
    # All rows that it gets have been drawn already.
    is_drawn = any(m.watched_by in (DRAWN_ANSWERS, DRAWN_LABELS) for m, _ in targets.measures())
    drawn = {"share": 1.0, "random_state": 0} if is_drawn else {}
    with warnings.catch_warnings():
        # Promises that cannot be watched are reported by `not_watched`.
        warnings.simplefilter("ignore", MonitorWarning)
        try:
            return CertificateMonitor.of(certificate, cascade, alpha=_ALPHA, **drawn)
        except MonitorError:
            return None


def by_labels(monitor: CertificateMonitor) -> CertificateMonitor | None:
    """Return the part fed by labels, which gets only audited rows, or None."""
    promised = monitor.state()["promised"]
    share = {"share": 1.0, "random_state": 0} if promised["share"] is not None else {}
    return _part(monitor, _by_labels(), _BY_DECISIONS | share)


def by_decisions(monitor: CertificateMonitor) -> CertificateMonitor | None:
    """Return the part fed by decisions, which gets all rows, or None."""
    others = {"share": None, "left_out": (), "without_watch": ()}
    return _part(monitor, _BY_DECISIONS, _by_labels() | others)


def by_rows(alarm: Alarm) -> bool:
    """Return whether decisions raised an alarm: a change of the rows may then be the cause."""
    return alarm.what in _BY_DECISIONS


def _by_labels() -> dict[str, Any]:
    """Return the promises that wait for labels, and the values that stand for none."""
    return {name: () if measure.is_by_class else None for name, measure in watchable().items()}


def _part(
    monitor: CertificateMonitor, names: dict[str, Any], changed: dict[str, Any]
) -> CertificateMonitor | None:
    """Return a monitor of some promises, with their share of alpha."""
    if monitor.counts["decided"]:
        raise MonitorError("The monitor has already seen decisions; use a new one.")
    state = monitor.state()
    promised = state["promised"]
    here, in_all = _number(promised, names), _number(promised, _by_labels() | _BY_DECISIONS)
    if not any((what in _BY_DECISIONS) == (names is _BY_DECISIONS) for what in monitor.evidence):
        return None  # none of these promises was made, or none can be broken
    alpha = promised["alpha"] * here / in_all
    return CertificateMonitor.from_state(
        state | {"promised": promised | changed | {"alpha": alpha}}
    )


def _number(promised: dict[str, Any], names: dict[str, Any]) -> int:
    """Count the promises that share alpha; one by class counts for each class."""
    count = 0
    for name in names:
        measure, value = watchable().get(name), promised.get(name)
        is_drawn = measure is not None and measure.watched_by != LABELS
        if value is not None and not (is_drawn and promised["share"] is None):
            count += len(value) if measure is not None and measure.is_by_class else 1
    return count
