"""Audited rows: drawn at random, and counted in cohorts of the same period, once it is time.

Whether a decision is drawn depends only on its id and a secret key, not on the row. So a decision
that is repeated after a crash is drawn again if it was drawn before, all processes draw the same
decisions, and a label of a decision that was never drawn is recognized without a query.

Labels do not arrive evenly. A fraud is reported within days, while its absence is certain only
after a month: among the labels so far, frauds are overrepresented. So labels are not counted as
they arrive. A cohort is closed once `label_after` has passed since its last decision, and its rows
count in the order of their decisions. Rows without a label by then are reported, never guessed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass, replace
from hashlib import blake2b
from itertools import groupby
from math import floor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco.certify.monitor import Alarm, CertificateMonitor
from emsco.core.decisions import Decisions
from emsco.exceptions import MonitorError
from emsco.rows.row_hashes import COUNTER_STEP, finalise
from emsco.serve.rejection_causes import is_failure
from emsco.serve.state.base import AuditMark

_MOST_RECENT = 50  # cohorts that are reported individually
_ALL = 2**64 - 1


class Audit:
    """Draws a random share of decisions by their ids.

    An id consists of the id of a call, a hyphen and the number of the row in the call.
    """

    def __init__(self, share: float, key: bytes) -> None:
        if not 0 <= share <= 1:
            raise MonitorError(f"`audit` must be between 0 and 1, got {share!r}.")
        self.share = share
        self._key = blake2b(key).digest()  # with it, one could choose ids that are not drawn
        self._limit = round(share * 2**64)  # numbers below it are drawn

    def is_drawn(self, id: str) -> bool:  # noqa: A002
        """Return whether a decision is drawn."""
        call, row = _parts(id)
        return _finalised(self._start(call) + row * int(COUNTER_STEP)) < self._limit

    def drawn(self, ids: Sequence[str]) -> list[int]:
        """Return the positions of the decisions of one call that are drawn."""
        if len(ids) == 1:
            return [0] if self.is_drawn(ids[0]) else []
        if not ids or not self._limit:
            return []
        call, first = _parts(ids[0])
        if first or ids[-1] != f"{call}-{len(ids) - 1}":  # not the rows of a whole call
            return [place for place, one in enumerate(ids) if self.is_drawn(one)]
        numbers = np.arange(len(ids), dtype=np.uint64) * COUNTER_STEP
        numbers = finalise(numbers + np.uint64(self._start(call)))
        places: list[int] = np.flatnonzero(numbers <= np.uint64(self._limit - 1)).tolist()
        return places

    def _start(self, call: str) -> int:
        found = blake2b(call.encode("utf-8", "surrogatepass"), key=self._key, digest_size=8)
        return int.from_bytes(found.digest(), "little")


def _finalised(number: int) -> int:
    """Do what `finalise` does, which for a single number would take ten times as long."""
    number &= _ALL
    number = ((number ^ (number >> 30)) * 0xBF58476D1CE4E5B9) & _ALL
    number = ((number ^ (number >> 27)) * 0x94D049BB133111EB) & _ALL
    return number ^ (number >> 31)


def _parts(id: str) -> tuple[str, int]:  # noqa: A002
    """Split the id of a decision into the id of its call and its row number."""
    call, _, row = id.rpartition("-")
    if call and len(row) < 16 and row.isascii() and row.isdigit():
        return call, int(row)
    return id, 0


@dataclass(frozen=True)
class Cohort:
    """Audited rows that were counted together."""

    begin: float = 0.0  # of the period of the decisions, in seconds since 1970
    end: float = 0.0
    accepted: int = 0
    labelled: int = 0  # accepted rows with a true label
    right: int = 0  # labelled correctly
    rejected: int = 0  # by the cascade
    rejected_labelled: int = 0
    failed: int = 0  # rejected because a source failed

    @property
    def unlabelled(self) -> int:
        """Accepted and rejected rows without a true label, without those that failed."""
        return self.accepted - self.labelled + self.rejected - self.rejected_labelled

    @property
    def accuracy(self) -> float | None:
        """The share of labelled accepted rows that are right; None without labels."""
        return self.right / self.labelled if self.labelled else None

    @property
    def accuracy_at_worst(self) -> float | None:
        """The accuracy if all accepted rows without a label were wrong."""
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
        counts = map(sum, zip(astuple(self)[2:], astuple(other)[2:], strict=True))
        begin = min(self.begin or other.begin, other.begin)
        return Cohort(begin, max(self.end, other.end), *counts)


class Cohorts:
    """The counted audited rows of a model, and the monitor that they feed."""

    def __init__(
        self,
        monitor: CertificateMonitor | None = None,
        length: float = 3600.0,
        classes: Sequence[Any] | None = None,  # None: any of the type of the decided label
    ) -> None:
        self.monitor, self.length, self.classes = monitor, length, classes
        self.closed = 0.0  # all rows decided before this time have been counted
        self.total = Cohort()
        self.recent: tuple[Cohort, ...] = ()

    def closes(self, before: float) -> float:
        """Return the end of the last cohort that ended before a time."""
        return max(floor(before / self.length) * self.length, self.closed)

    def close(self, rows: Sequence[AuditMark], until: float) -> tuple[Alarm, ...]:
        """Count the rows decided since the last call and before `until`; return new alarms."""
        due = (self._checked(row) for row in rows if self.closed <= row.at < until)
        fresh = sorted(due, key=lambda row: (row.at, row.id))
        raised: tuple[Alarm, ...] = ()
        for number, group in groupby(fresh, key=lambda row: floor(row.at / self.length)):
            own = list(group)
            begin = number * self.length
            raised += _tell(self.monitor, own)
            cohort = Cohort.of(begin, begin + self.length, own)
            self.total += cohort
            self.recent = (*self.recent, cohort)[-_MOST_RECENT:]
        self.closed = max(self.closed, until)
        return raised

    def is_label(self, label: Any, decided: Any) -> bool:
        """Return whether a label can be the true one of a row with this decided label."""
        if isinstance(label, str) != isinstance(decided, str):
            return False
        return self.classes is None or label in self.classes

    def _checked(self, row: AuditMark) -> AuditMark:
        if row.truth is None or self.is_label(row.truth, row.label):
            return row
        return replace(row, truth=None)

    def to_data(self) -> dict[str, Any]:
        """Return the state that changes, as JSON data."""
        return {
            "closed": self.closed,
            "total": asdict(self.total),
            "recent": [list(astuple(cohort)) for cohort in self.recent],
            "monitor": None if self.monitor is None else self.monitor.state(),
        }

    def after(self, data: dict[str, Any]) -> Cohorts:
        """Return a copy that continues from stored data.

        If the stored one watched other promises, the monitor restarts with rows not counted yet.
        """
        later = Cohorts(go_on(self.monitor, data["monitor"]), self.length, self.classes)
        later.closed = float(data["closed"])
        later.total = Cohort(**data["total"])
        later.recent = tuple(Cohort(*cohort) for cohort in data["recent"])
        return later


def go_on(
    monitor: CertificateMonitor | None, state: dict[str, Any] | None
) -> CertificateMonitor | None:
    """Return a monitor that continues from a state, or a new one if its promises differ."""
    if monitor is None:
        return None
    own = json.loads(json.dumps(monitor.state()))
    is_same = state is not None and state.get("promised") == own["promised"]
    return CertificateMonitor.from_state(state if is_same and state is not None else own)


def _tell(monitor: CertificateMonitor | None, rows: Sequence[AuditMark]) -> tuple[Alarm, ...]:
    """Feed rows and their labels to a monitor, in the order of decisions."""
    if monitor is None or not rows:
        return ()
    if "agreement" in monitor.evidence:
        return _tell_answers(monitor, rows)
    # A row that is given up counts as right. If accepted, it would wait for its label forever.
    accepted = [row.accepted and row.truth is not None for row in rows]
    raised = _show(monitor, rows, accepted, [row.exit_stage for row in rows])
    raised += monitor.labelled(*_truths([row for row in rows if row.truth is not None]))
    return raised + monitor.give_up([row.id for row in rows if row.truth is None])


def _tell_answers(monitor: CertificateMonitor, rows: Sequence[AuditMark]) -> tuple[Alarm, ...]:
    """Feed rows and the answers of the final model, which is the last stage, to a monitor."""
    last = monitor.state()["promised"]["stages"] - 1
    # Nothing is promised about a row rejected because of a failing source: it counts as agreed.
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
    """Return an object array: numpy would convert labels of mixed types to text."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array
