"""The monitoring of one model: its audited rows, and all its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from emsco.certify.monitor import Alarm, CertificateMonitor
from emsco.core.decisions import Decisions
from emsco.serve.audit_cohorts import Cohort, Cohorts
from emsco.serve.cas_value import CasValue
from emsco.serve.monitor_split import by_decisions, by_labels
from emsco.serve.state.base import State
from emsco.serve.traffic_monitor import PendingDecisions, TrafficMonitor

_MOST_ROWS = 1_000_000  # waiting while the state does not respond


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
    def not_watched(self) -> dict[str, str]:
        """The reasons why promises are not watched, by name."""
        return {what: why for one in self.monitors for what, why in one.not_watched.items()}

    @property
    def evidence(self) -> dict[str, float]:
        """The evidence against each promise."""
        return {what: found for one in self.monitors for what, found in one.evidence.items()}

    def summary(self) -> dict[str, Any]:
        """Return all of this as JSON data."""
        cohorts, traffic = self.cohorts.value, self.traffic.value
        return {
            "alarms": [asdict(alarm) for alarm in self.alarms],
            "evidence": self.evidence,
            "not_watched": self.not_watched,
            "decided": {
                "rows": traffic.rows,
                "accepted": traffic.accepted,
                "rejected": traffic.rejected,
                "failed": traffic.failed,
            },
            "audited": _cohort_fields(cohorts.total),
            "cohorts": [_cohort_fields(cohort) for cohort in cohorts.recent],
        }

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


def _cohort_fields(cohort: Cohort) -> dict[str, Any]:
    return asdict(cohort) | {
        "unlabelled": cohort.unlabelled,
        "accuracy": cohort.accuracy,
        "accuracy_at_worst": cohort.accuracy_at_worst,
    }
