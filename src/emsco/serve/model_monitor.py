"""One model that is watched: its audited rows, all its rows, and what both have told."""

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
from emsco.serve.state.protocol import State
from emsco.serve.traffic_monitor import PendingDecisions, TrafficMonitor

_MOST_ROWS = 1_000_000  # that wait for a state that does not answer


class ModelMonitor:
    """One model that is watched.

    Parameters
    ----------
    state : State
        What the processes of the service share.
    name : str
        Its name there.
    model : str
        The digest of the model.
    monitor : CertificateMonitor or None
        A new monitor of its certificate.
    length : float
        How many seconds of decisions make a cohort.
    classes : sequence or None
        Its classes.

    Attributes
    ----------
    cohorts : CasValue of Cohorts
        Its audited rows, and what labels feed.
    traffic : CasValue of TrafficMonitor
        All its rows, and what decisions feed.
    """

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
        self._sent = PendingDecisions()  # what is being counted
        self._number = 0  # of that load
        self._begin(monitor, classes)

    def _begin(self, monitor: CertificateMonitor | None, classes: Sequence[Any] | None) -> None:
        labels = None if monitor is None else by_labels(monitor)
        decisions = None if monitor is None else by_decisions(monitor)
        self._promised = None if monitor is None else monitor.state()["promised"]
        cohorts = Cohorts(labels, self._length, classes)
        self.cohorts = CasValue(self._state, f"{self._name}:cohorts", cohorts)
        self.traffic = CasValue(self._state, f"{self._name}:traffic", TrafficMonitor(decisions))

    def renew(self, monitor: CertificateMonitor | None, classes: Sequence[Any] | None) -> None:
        """Watch what another certificate promises, if it promises something else."""
        promised = None if monitor is None else monitor.state()["promised"]
        if promised != self._promised:
            self._begin(monitor, classes)

    @property
    def monitors(self) -> tuple[CertificateMonitor, ...]:
        """Both parts of its monitor, as far as there are any."""
        both = (self.cohorts.value.monitor, self.traffic.value.monitor)
        return tuple(monitor for monitor in both if monitor is not None)

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """The alarms about it, as this process saw them last."""
        return tuple(alarm for monitor in self.monitors for alarm in monitor.alarms)

    @property
    def not_watched(self) -> dict[str, str]:
        """The reasons why promises are not watched, by name."""
        return {what: why for one in self.monitors for what, why in one.not_watched.items()}

    @property
    def evidence(self) -> dict[str, float]:
        """The evidence against each promise."""
        return {what: found for one in self.monitors for what, found in one.evidence.items()}

    def told(self) -> dict[str, Any]:
        """Tell all of this as plain values."""
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
            "audited": _told(cohorts.total),
            "cohorts": [_told(cohort) for cohort in cohorts.recent],
        }

    def note(self, decisions: Decisions) -> bool:
        """Take note of decisions; False: too many wait to be counted."""
        if len(self._load) >= _MOST_ROWS:
            return False
        self._load.add(decisions)
        return True

    async def count(self, worker: str, rng: np.random.Generator) -> tuple[Alarm, ...]:
        """Count the decisions noted since the last time, for all processes."""
        if not len(self._sent):  # else the last time failed, and it may have been counted
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
        """Close the cohorts that were over before a time."""
        cohorts = await self.cohorts.read()
        until = cohorts.closes(before)
        if until <= cohorts.closed:
            return ()
        rows = await self._state.due(until, since=cohorts.closed, model=self.model)
        return await self.cohorts.change(lambda cohorts: cohorts.close(rows, until))


def _told(cohort: Cohort) -> dict[str, Any]:
    return asdict(cohort) | {
        "unlabelled": cohort.unlabelled,
        "accuracy": cohort.accuracy,
        "accuracy_at_worst": cohort.accuracy_at_worst,
    }
