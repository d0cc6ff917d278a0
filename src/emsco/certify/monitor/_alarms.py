"""All watches of a monitor, and the alarms that they raise, in the order of rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import exp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco.certify.monitor._sample import Counted
from emsco.certify.monitor._statistics import BadRate, PromiseEvidence, RowCounts
from emsco.core.decisions import Decisions
from emsco.core.measure import DECISIONS

_LARGEST = 700.0  # exp(700) still fits a double


@dataclass(frozen=True)
class Alarm:
    """A promise that no longer holds.

    Attributes
    ----------
    what : str
        "accuracy", "agreement", "missed" and a class, "coverage", "cost" or "exits".
    at : int
        The number of decisions until the alarm; for accuracy, of labels of accepted rows; for
        agreement, of rows drawn; for the share missed of a class, of rows drawn of that class.
    evidence : float
        The wealth of a gambler who bets against the promise and starts with 1.
    message : str
        What was seen recently, what was promised, and what is not watched.
    """

    what: str
    at: int
    evidence: float
    message: str


# The position, among the rows of a call, of the row that raised an alarm, and the alarm.
Raised = tuple[int, Alarm]


class AlarmBoard:
    """Watches by their name, and the first alarm of each.

    Parameters
    ----------
    watches : iterable of PromiseEvidence
        What is watched.
    """

    def __init__(self, watches: Iterable[PromiseEvidence]) -> None:
        self.watches = {watch.what: watch for watch in watches}
        self.alarms: dict[str, Alarm] = {}

    @property
    def evidence(self) -> dict[str, float]:
        """The evidence against each promise now."""
        return {what: _exp(watch.log_evidence) for what, watch in self.watches.items()}

    def decided(self, decisions: Decisions) -> list[Raised]:
        """Add decisions to the watches that need nothing else."""
        raised: list[Raised] = []
        for watch in self.watches.values():
            if watch.watched_by == DECISIONS:
                raised += self._add(watch, [mean.numbers(decisions) for mean in watch.means])
        return raised

    def counted(self, watched_by: str, rows: Sequence[Counted]) -> list[Raised]:
        """Add rows whose truth is known, or that were given up."""
        raised: list[Raised] = []
        counts = RowCounts([row for _, row in rows])
        places = np.array([place for place, _ in rows], dtype=np.intp)
        for watch in self.watches.values():
            mean = watch.means[0]
            if watch.watched_by == watched_by and isinstance(mean, BadRate):
                numbers, is_about = mean.audited(counts)
                raised += self._add(watch, [numbers[is_about]], places[is_about].tolist())
        return raised

    def _add(
        self,
        watch: PromiseEvidence,
        numbers: Sequence[NDArray[Any]],
        places: Sequence[int] | None = None,
    ) -> list[Raised]:
        """Add numbers, and return the alarm if it is the first of this watch.

        `places` has the row of the call that each number belongs to; None: one number per row.
        """
        first = watch.seen
        if watch.what in self.alarms:
            watch.follow(numbers)
            return []
        enough = watch.add(numbers)
        if enough is None:
            return []
        after, log_evidence, message = enough
        alarm = Alarm(watch.what, first + after, _exp(log_evidence), message)
        return [(after - 1 if places is None else places[after - 1], alarm)]

    def keep(self, raised: Sequence[Raised], not_watched: Sequence[str]) -> tuple[Alarm, ...]:
        """Store new alarms, in the order in which single rows would have raised them."""
        order = list(self.watches)
        in_order = sorted(raised, key=lambda one: (one[0], order.index(one[1].what)))
        alarms = []
        for _, alarm in in_order:
            others = ", ".join(what for what in not_watched if what != alarm.what)
            message = f"{alarm.message} Not watched: {others}." if others else alarm.message
            alarms.append(replace(alarm, message=message))
        self.alarms |= {alarm.what: alarm for alarm in alarms}
        return tuple(alarms)

    def cells(self, not_watched: Mapping[str, str]) -> list[list[object]]:
        """Return the rows of a table of promises: evidence, alarm level, alarm and recent mean."""
        rest = dict(not_watched)
        cells: list[list[object]] = []
        for what, watch in self.watches.items():
            at = self.alarms[what].at if what in self.alarms else ""
            why = rest.pop(what, None)
            status = watch.sentence() if why is None else f"not watched: {why}"
            cells.append([what, self.evidence[what], 1 / watch.alpha, at, status])
        return cells + [[what, "", "", "", f"not watched: {why}"] for what, why in rest.items()]

    def state(self) -> dict[str, Any]:
        """Return everything that changes, as plain values."""
        return {
            "evidence": {
                what: [mean.evidence.state() for mean in watch.means]
                for what, watch in self.watches.items()
            },
            "alarms": [asdict(alarm) for alarm in self.alarms.values()],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from the `state` of another one."""
        for what, watch in self.watches.items():
            for mean, saved in zip(watch.means, state["evidence"][what], strict=True):
                mean.evidence.restore(saved)
        self.alarms = {alarm["what"]: Alarm(**alarm) for alarm in state["alarms"]}


def _exp(log_evidence: float) -> float:
    return exp(min(log_evidence, _LARGEST))
