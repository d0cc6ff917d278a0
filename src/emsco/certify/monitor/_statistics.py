"""Promises as means of numbers from 0 to 1 that must not exceed a bound, with evidence."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emsco.certify.monitor._evidence import Evidence
from emsco.certify.monitor._sample import AuditedRow
from emsco.core.decisions import Decisions
from emsco.core.measure import DECISIONS, Measure

Numbers = NDArray[np.float64]


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
    """Evidence on one promise: the mean of the evidence on its means.

    Parameters
    ----------
    what : str
        The name of the promise.
    means : sequence of BoundedMean
        The means that must hold together; those that always hold are left out.
    alpha : float
        The probability of an alarm, ever, although all means hold.
    """

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
