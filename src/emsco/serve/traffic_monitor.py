"""Coverage, cost and exit stages, monitored immediately over all decisions of all processes.

A certificate is about decisions for which every source responds. So rows rejected because of a
failing source are counted separately, and an outage must not look like a change of the rows: such a
row counts as accepted, at the price paid for it, and its exit stage is drawn from those of the
certified rows, from the failed stage on. This may hide a change while a source fails, but it causes
no alarm.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco.certify.monitor import Alarm, CertificateMonitor
from emsco.core.decisions import Decisions
from emsco.serve.audit_cohorts import go_on
from emsco.serve.rejection_causes import is_failure

_MOST_WORKERS = 64  # to remember; one that exited long ago sends nothing more


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
    """The decisions of all processes of a deployment with a model."""

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
