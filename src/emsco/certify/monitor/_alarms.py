"""What is watched of each promise, as means that must not exceed a bound, and the alarms raised."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import exp, log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emsco.certify.monitor._evidence import Evidence
from emsco.certify.monitor._sample import AuditedRow, Counted
from emsco.core.decisions import Decisions
from emsco.core.measure import DECISIONS, Measure

Numbers = NDArray[np.float64]

_LARGEST = 700.0  # exp(700) still fits a double


class RowCounts:
    """What each of some rows adds to the counts of an `Evaluation`, as arrays under its names.

    A row without a truth was given up.
    """

    def __init__(self, rows: Sequence[AuditedRow]) -> None:
        self.given_up = np.array([row.truth is None for row in rows], dtype=np.bool_)
        self.rows = np.ones(len(rows))
        self.accepted = np.array([row.accepted for row in rows], dtype=np.float64)
        self.right = self.accepted * [row.label == row.truth for row in rows]
        truths = [row.truth for row in rows]
        self.class_rows = _CountsByLabel(truths, self.rows)
        self.class_accepted = _CountsByLabel(truths, self.accepted)
        self.class_right = _CountsByLabel(truths, self.right)
        self.label_accepted = _CountsByLabel([row.label for row in rows], self.accepted)


class _CountsByLabel(NamedTuple):
    labels: list[Any]
    counts: Numbers

    def get(self, label: Any, _: float) -> Numbers:
        """Return what each row adds to the count of a label."""
        return self.counts * np.array([own == label for own in self.labels], dtype=np.float64)


class BoundedMean:
    """A mean that must not exceed a bound."""

    watched_by = DECISIONS

    def __init__(self, bound: float) -> None:
        self.bound = bound
        self.evidence = Evidence(bound)

    def numbers(self, decisions: Decisions) -> NDArray[Any]:
        """Return the numbers that decisions add."""
        raise NotImplementedError

    def sentence(self) -> str:
        """Describe the recent mean and its bound."""
        return self._sentence(*self.evidence.recent)

    def _sentence(self, mean: float, count: int) -> str:
        raise NotImplementedError


class BadRate(BoundedMean):
    """The share of rows that count against a promise about a measure, among rows with a truth."""

    def __init__(self, measure: Measure, label: Any, promised: float) -> None:
        super().__init__(1 - promised if measure.is_better_high else promised)
        self.watched_by = measure.watched_by
        self.measure, self.label = measure, label

    def audited(self, counts: RowCounts) -> tuple[Numbers, NDArray[np.bool_]]:
        """Return 1 for each bad row, and which rows it is about; one given up is not bad."""
        bad, whole = self.measure.bad_count(counts, self.label)
        return np.where(counts.given_up, 0.0, bad), counts.given_up | (whole > 0)

    def _sentence(self, mean: float, count: int) -> str:
        return (
            f"{mean:.1%} of the last {count:,} {self.measure.observed.format(label=self.label)}; "
            f"at most {self.bound:.1%} are promised."
        )


class RejectionRate(BoundedMean):
    """The share of rows rejected."""

    def numbers(self, decisions: Decisions) -> NDArray[Any]:
        """Return 1 for a rejected row."""
        return ~decisions.accepted

    def _sentence(self, mean: float, count: int) -> str:
        return (
            f"{mean:.1%} of the last {count:,} rows were rejected; at most {self.bound:.1%} are "
            f"expected."
        )


class CostRate(BoundedMean):
    """What rows paid, as a share of what everything costs."""

    def __init__(self, bound: float, total: float) -> None:
        super().__init__(bound)
        self.total = total

    def numbers(self, decisions: Decisions) -> NDArray[Any]:
        """Return the share of the total that each row paid, at most 1."""
        return (decisions.cost / self.total).clip(0, 1)

    def _sentence(self, mean: float, count: int) -> str:
        return (
            f"The last {count:,} rows cost {mean * self.total:.4g} per row on average; at most "
            f"{self.bound * self.total:.4g} is expected."
        )


class StageTraffic(BoundedMean):
    """The share of rows that reach a stage, or the share that does not."""

    def __init__(self, bound: float, stage: int, *, more: bool) -> None:
        super().__init__(bound)
        self.stage = stage
        self.more = more

    def numbers(self, decisions: Decisions) -> NDArray[Any]:
        """Return 1 for a row that reaches the stage, or for one that does not."""
        reached: NDArray[np.bool_] = decisions.exit_stage >= self.stage
        return reached if self.more else ~reached

    def _sentence(self, mean: float, count: int) -> str:
        share, limit = (mean, self.bound) if self.more else (1 - mean, 1 - self.bound)
        return (
            f"Stage {self.stage} was bought for {share:.1%} of the last {count:,} rows; at "
            f"{'most' if self.more else 'least'} {limit:.1%} are expected."
        )


class PromiseEvidence:
    """Evidence on one promise: the mean of the evidence on its means."""

    def __init__(self, what: str, means: Sequence[BoundedMean], alpha: float) -> None:
        self.what = what
        self.means = [mean for mean in means if mean.bound < 1]
        self.alpha = alpha

    @property
    def watched_by(self) -> str:
        """What its numbers are computed from."""
        return self.means[0].watched_by

    @property
    def seen(self) -> int:
        """The number of rows that it has seen."""
        return self.means[0].evidence.seen

    @property
    def log_evidence(self) -> float:
        """The logarithm of the evidence now."""
        logs = [mean.evidence.log_evidence for mean in self.means]
        return float(np.logaddexp.reduce(logs)) - log(len(logs))

    def add(self, numbers: Sequence[NDArray[Any]]) -> tuple[int, float, str] | None:
        """Add numbers, one array per mean.

        If there is enough evidence for an alarm: return after how many numbers, the logarithm of
        the evidence then, and a sentence about the mean with the most evidence.
        """
        before = [mean.evidence.state() for mean in self.means]
        path = self.follow(numbers)
        enough = np.flatnonzero(path >= -log(self.alpha))
        if not enough.size:
            return None
        first = int(enough[0]) + 1
        # Repeat up to that number, because the sentence must not depend on later numbers.
        for mean, state in zip(self.means, before, strict=True):
            mean.evidence.restore(state)
        self.follow([own[:first] for own in numbers])
        message = self.sentence()
        self.follow([own[first:] for own in numbers])
        return first, float(path[first - 1]), message

    def sentence(self) -> str:
        """Describe the mean with the most evidence."""
        return max(self.means, key=lambda mean: mean.evidence.log_evidence).sentence()

    def follow(self, numbers: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
        """Add numbers, one array per mean, and return the logarithm of the evidence after each."""
        paths = [mean.evidence.add(own) for mean, own in zip(self.means, numbers, strict=True)]
        path: NDArray[np.float64] = np.logaddexp.reduce(paths, axis=0) - log(len(paths))
        return path


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
    """Watches by their name, and the first alarm of each."""

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
