"""Audited rows by cohort: those decided in the same hour or day count together, when it is time.

Labels do not come evenly. A fraud is reported within days, that there was none is known after a
month: of the labels that have come so far, too many are frauds. So nothing is counted as it comes.
A cohort is closed once `label_after` has passed since its last decision, and its rows count in the
order of their decisions. What has no label by then is shown, never guessed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass, replace
from itertools import groupby
from math import floor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco.certify.monitor import Alarm, CertificateMonitor
from emsco.core.decisions import Decisions
from emsco.exceptions import MonitorError
from emsco.serve.rejection_causes import is_failure
from emsco.serve.state.protocol import AuditMark

_FORMAT = 1
_SHOWN = 50  # cohorts that are told one by one


@dataclass(frozen=True)
class Cohort:
    """Audited rows that were counted together.

    Parameters
    ----------
    begin, end : float
        When the first and last could be decided, in seconds since 1970.
    accepted : int
        Rows that were accepted.
    labelled : int
        Those of them with a label.
    right : int
        Those of them whose label is the one given.
    rejected : int
        Rows that the cascade rejected.
    rejected_labelled : int
        Those of them with a label.
    failed : int
        Rows that were rejected because a source failed.

    Examples
    --------
    >>> from emsco.serve.audit_cohorts import Cohort
    >>> day = Cohort(0, 86_400, accepted=100, labelled=90, right=86)
    >>> day.unlabelled, f"{day.accuracy:.3f}", f"{day.accuracy_at_worst:.3f}"
    (10, '0.956', '0.860')
    """

    begin: float = 0.0
    end: float = 0.0
    accepted: int = 0
    labelled: int = 0
    right: int = 0
    rejected: int = 0
    rejected_labelled: int = 0
    failed: int = 0

    @property
    def unlabelled(self) -> int:
        """Rows without a label, accepted and rejected; those that failed are not among them."""
        return self.accepted - self.labelled + self.rejected - self.rejected_labelled

    @property
    def accuracy(self) -> float | None:
        """The share of labelled accepted rows that are right; None where there is no label."""
        return self.right / self.labelled if self.labelled else None

    @property
    def accuracy_at_worst(self) -> float | None:
        """The same if all accepted rows without a label were wrong."""
        return self.right / self.accepted if self.accepted else None

    @classmethod
    def of(cls, begin: float, end: float, rows: Sequence[AuditMark]) -> Cohort:
        """Count rows."""
        accepted = [row for row in rows if row.accepted]
        labelled = [row for row in accepted if row.truth is not None]
        rejected = [row for row in rows if not row.accepted and not is_failure(row.reason)]
        return cls(
            begin, end, len(accepted), len(labelled),
            sum(row.truth == row.label for row in labelled),
            len(rejected), sum(row.truth is not None for row in rejected),
            len(rows) - len(accepted) - len(rejected),
        )  # fmt: skip

    def __add__(self, other: Cohort) -> Cohort:
        counts = (own + more for own, more in zip(self.counts, other.counts, strict=True))
        begin = min(self.begin or other.begin, other.begin)
        return Cohort(begin, max(self.end, other.end), *counts)

    @property
    def counts(self) -> tuple[int, ...]:
        """How many rows of each kind there are."""
        counts: tuple[int, ...] = astuple(self)[2:]
        return counts


class Cohorts:
    """The audited rows of a model that have been counted, and the monitor that they were told to.

    Parameters
    ----------
    monitor : CertificateMonitor, default=None
        What labels feed (`monitor_split.by_labels`). None: rows are counted, nothing alarms.
    length : float, default=3600.0
        How many seconds of decisions make a cohort.
    classes : sequence, default=None
        The classes; another label counts as none. None: any label of the type of the one given.
    """

    def __init__(
        self,
        monitor: CertificateMonitor | None = None,
        length: float = 3600.0,
        classes: Sequence[Any] | None = None,
    ) -> None:
        self.monitor, self.length, self.classes = monitor, length, classes
        self.closed = 0.0  # all rows decided before this time have been counted
        self.total = Cohort()
        self.recent: tuple[Cohort, ...] = ()

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """The alarms that labels have raised."""
        return () if self.monitor is None else self.monitor.alarms

    def closes(self, before: float) -> float:
        """Return the end of the last cohort that was over before a time."""
        return max(floor(before / self.length) * self.length, self.closed)

    def close(self, rows: Sequence[AuditMark], until: float) -> tuple[Alarm, ...]:
        """Count the rows that were decided since the last time, and before `until`.

        Returns
        -------
        tuple of Alarm
            The alarms that this raises.
        """
        due = (self._checked(row) for row in rows if self.closed <= row.at < until)
        fresh = sorted(due, key=lambda row: (row.at, row.id))
        raised: tuple[Alarm, ...] = ()
        for number, group in groupby(fresh, key=lambda row: floor(row.at / self.length)):
            own = list(group)
            begin = number * self.length
            raised += _tell(self.monitor, own)
            cohort = Cohort.of(begin, begin + self.length, own)
            self.total += cohort
            self.recent = (*self.recent, cohort)[-_SHOWN:]
        self.closed = max(self.closed, until)
        return raised

    def is_label(self, label: Any, given: Any) -> bool:
        """Return whether a label can be that of a row to which another one was given."""
        if isinstance(label, str) != isinstance(given, str):
            return False
        return self.classes is None or label in self.classes

    def _checked(self, row: AuditMark) -> AuditMark:
        if row.truth is None or self.is_label(row.truth, row.label):
            return row
        return replace(row, truth=None)

    def to_text(self) -> str:
        """Return all that changes."""
        return json.dumps(
            {
                "format": _FORMAT,
                "closed": self.closed,
                "total": asdict(self.total),
                "recent": [list(astuple(cohort)) for cohort in self.recent],
                "monitor": None if self.monitor is None else self.monitor.state(),
            }
        )

    def after(self, text: str) -> Cohorts:
        """Return what goes on where another one was.

        If that one watched other promises, the monitor begins anew, with rows not counted yet.
        """
        kept = json.loads(text)
        if kept["format"] != _FORMAT:
            raise MonitorError(f"The state has the format {kept['format']!r}, not {_FORMAT}.")
        later = Cohorts(go_on(self.monitor, kept["monitor"]), self.length, self.classes)
        later.closed = float(kept["closed"])
        later.total = Cohort(**kept["total"])
        later.recent = tuple(Cohort(*cohort) for cohort in kept["recent"])
        return later


def go_on(
    monitor: CertificateMonitor | None, state: dict[str, Any] | None
) -> CertificateMonitor | None:
    """Return a monitor that goes on from a state, or a new one if that was of other promises."""
    if monitor is None:
        return None
    own = json.loads(json.dumps(monitor.state()))
    is_same = state is not None and state.get("promised") == own["promised"]
    return CertificateMonitor.from_state(state if is_same and state is not None else own)


def _tell(monitor: CertificateMonitor | None, rows: Sequence[AuditMark]) -> tuple[Alarm, ...]:
    """Show rows and their labels to a monitor, in the order of decisions."""
    if monitor is None or not rows:
        return ()
    if "agreement" in monitor.evidence:
        return _tell_answers(monitor, rows)
    # What is given up counts as right. As an accepted row it would wait for its label for ever.
    accepted = [row.accepted and row.truth is not None for row in rows]
    raised = _show(monitor, rows, accepted, [row.exit_stage for row in rows])
    raised += monitor.labelled(*_truths([row for row in rows if row.truth is not None]))
    return raised + monitor.give_up([row.id for row in rows if row.truth is None])


def _tell_answers(monitor: CertificateMonitor, rows: Sequence[AuditMark]) -> tuple[Alarm, ...]:
    """Show rows and the answers of the final model, which is the last stage."""
    last = monitor.state()["promised"]["stages"] - 1
    # Nothing was promised about a row that a failing source has rejected: it counts as agreed.
    failed = [is_failure(row.reason) for row in rows]
    accepted = [row.accepted or lost for row, lost in zip(rows, failed, strict=True)]
    stages = [last if lost else row.exit_stage for row, lost in zip(rows, failed, strict=True)]
    raised = _show(monitor, rows, accepted, stages)
    waiting = set(monitor.to_answer)
    answered = [row for row in rows if row.id in waiting and row.truth is not None]
    raised += monitor.answered(*_truths(answered))
    return raised + monitor.give_up(monitor.to_answer)


def _show(
    monitor: CertificateMonitor,
    rows: Sequence[AuditMark],
    accepted: Sequence[bool],
    stages: Sequence[int],
) -> tuple[Alarm, ...]:
    decisions = Decisions(
        label=_objects([row.label for row in rows]),
        accepted=accepted,
        exit_stage=stages,
        confidence=np.ones(len(rows)),
        cost=np.zeros(len(rows)),
    )
    return monitor.decided(decisions, keys=[row.id for row in rows])


def _truths(rows: Sequence[AuditMark]) -> tuple[list[str], NDArray[np.object_]]:
    return [row.id for row in rows], _objects([row.truth for row in rows])


def _objects(values: Sequence[Any]) -> NDArray[np.object_]:
    """Return values as they are: numpy would turn labels of several types into texts."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array
