"""Coverage, cost and the traffic of stages: watched in all decisions of all processes, at once.

A certificate is about decisions for which every source answers. So a row that a failing source has
rejected is counted apart, and an outage must not look like a change of the rows: such a row counts
as accepted, at the price that it has paid, and its way beyond the stage where it failed is drawn
from those of the certified rows. That may hide a change while a source fails, but causes no alarm.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from emsco.certify.monitor import Alarm, CertificateMonitor
from emsco.core.decisions import Decisions
from emsco.exceptions import MonitorError
from emsco.serve.audit_cohorts import go_on
from emsco.serve.rejection_causes import is_failure

_FORMAT = 1
_MOST_WORKERS = 64  # that are remembered; one that has gone long ago sends nothing again


@dataclass
class PendingDecisions:
    """Decisions of one process that wait to be counted."""

    accepted: list[bool] = field(default_factory=list)
    stages: list[int] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)  # places of rows that failing sources reject

    def __len__(self) -> int:
        return len(self.accepted)

    def add(self, decisions: Decisions) -> None:
        """Add what decisions themselves tell."""
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
    """What all processes of a deployment have decided with a model.

    Parameters
    ----------
    monitor : CertificateMonitor, default=None
        What decisions feed (`monitor_split.by_decisions`). None: rows are counted, nothing
        alarms.
    """

    def __init__(self, monitor: CertificateMonitor | None = None) -> None:
        self.monitor = monitor
        self.rows = self.accepted = self.failed = 0
        self.taken: dict[str, int] = {}  # the number of the last load of each process

    @property
    def rejected(self) -> int:
        """Rows that the cascade rejected."""
        return self.rows - self.accepted - self.failed

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """The alarms that decisions have raised."""
        return () if self.monitor is None else self.monitor.alarms

    def take(
        self, load: PendingDecisions, worker: str, number: int, rng: np.random.Generator
    ) -> tuple[Alarm, ...]:
        """Count a load, unless it was counted; return the alarms that this raises.

        Parameters
        ----------
        load : PendingDecisions
            The decisions.
        worker : str
            Which process they are of.
        number : int
            The number of this load among those of the process, from 1.
        rng : Generator
            Draws the further way of rows that failed.
        """
        if self.taken.get(worker, 0) >= number:
            return ()
        self.taken.pop(worker, None)  # the last one to write stands last
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
        """Draw where rows would have left that failed at some stages, by the certified exits."""
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

    def to_text(self) -> str:
        """Return all that changes."""
        return json.dumps(
            {
                "format": _FORMAT,
                "counts": [self.rows, self.accepted, self.failed],
                "taken": self.taken,
                "monitor": None if self.monitor is None else self.monitor.state(),
            }
        )

    def after(self, text: str) -> TrafficMonitor:
        """Return what goes on where another one was; under other promises the monitor is new."""
        kept = json.loads(text)
        if kept["format"] != _FORMAT:
            raise MonitorError(f"The state has the format {kept['format']!r}, not {_FORMAT}.")
        later = TrafficMonitor(go_on(self.monitor, kept["monitor"]))
        later.rows, later.accepted, later.failed = map(int, kept["counts"])
        later.taken = {worker: int(number) for worker, number in kept["taken"].items()}
        return later
