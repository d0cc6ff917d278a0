"""Promises as means of numbers from 0 to 1 that must not exceed a bound, with evidence on each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco.decisions import Decisions
from emsco.exceptions import MonitorError
from emsco.monitor._evidence import Evidence, upper_bound


@dataclass(frozen=True)
class Promises:
    """What a monitor is told; its parameters say what each one is."""

    accuracy: float | None = None
    coverage: float | None = None
    cost: float | None = None
    exits: tuple[float, ...] | None = None
    total: float | None = None
    rows: float | None = None
    candidates: int = 1
    tolerance: float = 0.0
    alpha: float = 0.01
    keep: int = 100_000

    def __post_init__(self) -> None:
        if self.exits is not None:
            object.__setattr__(self, "exits", tuple(map(float, self.exits)))
        if all(p is None for p in (self.accuracy, self.coverage, self.cost, self.exits)):
            raise MonitorError("Nothing is promised: give accuracy, coverage, cost or exits.")
        for name in ("accuracy", "coverage", "tolerance"):
            share = getattr(self, name)
            if share is not None and not 0 <= share <= 1:
                raise MonitorError(f"`{name}` must be from 0 to 1, got {share}.")
        if self.cost is not None:
            total = self.total or 0.0
            if not (0 <= self.cost <= total and 0 < total < np.inf):
                raise MonitorError(
                    f"`cost` must be from 0 to `total`, what a row pays that buys everything; got "
                    f"{self.cost} and {self.total}."
                )
        if self.exits is not None and (
            not all(share >= 0 for share in self.exits) or not abs(sum(self.exits) - 1) < 1e-6
        ):
            raise MonitorError(f"`exits` must be shares that sum to 1, got {self.exits}.")
        if self.rows is not None and not self.rows > 0:
            raise MonitorError(f"`rows` must be above 0, got {self.rows}.")
        if self.candidates < 1:
            raise MonitorError(f"`candidates` must be at least 1, got {self.candidates}.")
        if not 0 < self.alpha < 1:
            raise MonitorError(f"`alpha` must be between 0 and 1, got {self.alpha}.")
        if self.keep < 1:
            raise MonitorError(f"`keep` must be at least 1, got {self.keep}.")

    def watches(self) -> list[Watch]:
        """Make what watches each of them; `alpha` is shared evenly."""
        promised = [
            p for p in (self.accuracy, self.coverage, self.cost, self.exits) if p is not None
        ]
        alpha = self.alpha / len(promised)
        # An alarm without a change needs a bad estimate or bad evidence: half of alpha for each.
        after_estimate = alpha if self.rows is None else alpha / 2

        def bound(share: float, parts: int = 1) -> float:
            share = min(max(share, 0.0), 1.0)
            if self.rows is not None:
                share = upper_bound(share, self.rows, alpha / 2 / parts / self.candidates)
            return share + self.tolerance

        watches = []
        if self.accuracy is not None:
            watches.append(Watch("accuracy", [Errors(1 - self.accuracy)], alpha))
        if self.coverage is not None:
            watches.append(Watch("coverage", [Rejected(bound(1 - self.coverage))], after_estimate))
        if self.cost is not None and self.total is not None:
            paid = Paid(bound(self.cost / self.total), self.total)
            watches.append(Watch("cost", [paid], after_estimate))
        if self.exits is not None:
            reaching = np.cumsum(self.exits[::-1])[::-1][1:].tolist()
            traffic: list[Mean] = []
            for stage, share in enumerate(reaching, start=1):
                both = 2 * len(reaching)
                traffic.append(Traffic(bound(share, both), stage, more=True))
                traffic.append(Traffic(bound(1 - share, both), stage, more=False))
            watches.append(Watch("exits", traffic, after_estimate))
        # A bound of 1 cannot be exceeded.
        return [watch for watch in watches if watch.means]


class Mean:
    """A mean that must not exceed a bound."""

    def __init__(self, bound: float) -> None:
        self.bound = bound
        self.evidence = Evidence(bound)

    def numbers(self, decisions: Decisions) -> NDArray[Any]:
        """Give the numbers that decisions add."""
        raise NotImplementedError

    def tell(self) -> str:
        """Say what the mean was of late, and what it should be."""
        return self._tell(*self.evidence.recent)

    def _tell(self, mean: float, count: int) -> str:
        raise NotImplementedError


class Errors(Mean):
    """The share of accepted rows labelled wrong; labels come by themselves, not with decisions."""

    def _tell(self, mean: float, count: int) -> str:
        return (
            f"{mean:.1%} of the last {count:,} labels of accepted rows show an error; at most "
            f"{self.bound:.1%} are promised."
        )


class Rejected(Mean):
    """The share of rows rejected."""

    def numbers(self, decisions: Decisions) -> NDArray[Any]:
        """Give 1 for a rejected row."""
        return ~decisions.accepted

    def _tell(self, mean: float, count: int) -> str:
        return (
            f"{mean:.1%} of the last {count:,} rows were rejected; at most {self.bound:.1%} are "
            f"expected."
        )


class Paid(Mean):
    """What rows paid, as a share of what everything costs."""

    def __init__(self, bound: float, total: float) -> None:
        super().__init__(bound)
        self.total = total

    def numbers(self, decisions: Decisions) -> NDArray[Any]:
        """Give what each row paid; one that pays more than everything counts as everything."""
        return (decisions.cost / self.total).clip(0, 1)

    def _tell(self, mean: float, count: int) -> str:
        return (
            f"Each of the last {count:,} rows paid {mean * self.total:.4g} on the mean; at most "
            f"{self.bound * self.total:.4g} is expected."
        )


class Traffic(Mean):
    """The share of rows that reach a stage, or the share that does not."""

    def __init__(self, bound: float, stage: int, *, more: bool) -> None:
        super().__init__(bound)
        self.stage = stage
        self.more = more

    def numbers(self, decisions: Decisions) -> NDArray[Any]:
        """Give 1 for a row that reaches the stage, or for one that does not."""
        reached: NDArray[np.bool_] = decisions.exit_stage >= self.stage
        return reached if self.more else ~reached

    def _tell(self, mean: float, count: int) -> str:
        share, limit = (mean, self.bound) if self.more else (1 - mean, 1 - self.bound)
        return (
            f"Stage {self.stage} was bought for {share:.1%} of the last {count:,} rows; at "
            f"{'most' if self.more else 'least'} {limit:.1%} are expected."
        )


class Watch:
    """Evidence on one promise: the mean of the evidence on its means.

    Parameters
    ----------
    what : str
        The name of the promise.
    means : sequence of Mean
        What must hold together; what always holds is left out.
    alpha : float
        The probability of ever gathering enough evidence although all holds.
    """

    def __init__(self, what: str, means: Sequence[Mean], alpha: float) -> None:
        self.what = what
        self.means = [mean for mean in means if mean.bound < 1]
        self.alpha = alpha

    @property
    def log_evidence(self) -> float:
        """The logarithm of the evidence now."""
        logs = [mean.evidence.log_evidence for mean in self.means]
        return float(np.logaddexp.reduce(logs)) - log(len(logs))

    def add(self, numbers: Sequence[NDArray[Any]]) -> tuple[int, float, str] | None:
        """Take in numbers, one array a mean.

        Where evidence suffices: say after how many of them first, its logarithm then, and what the
        mean was of late that says most.
        """
        before = [mean.evidence.state() for mean in self.means]
        path = self.follow(numbers)
        enough = np.flatnonzero(path >= -log(self.alpha))
        if not enough.size:
            return None
        first = int(enough[0]) + 1
        # Back to that very number: what is told must not depend on how many came together.
        for mean, state in zip(self.means, before, strict=True):
            mean.evidence.restore(state)
        self.follow([own[:first] for own in numbers])
        told = self.tell()
        self.follow([own[first:] for own in numbers])
        return first, float(path[first - 1]), told

    def tell(self) -> str:
        """Say what the mean was of late that says most."""
        return max(self.means, key=lambda mean: mean.evidence.log_evidence).tell()

    def follow(self, numbers: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
        """Take in numbers, one array a mean; give the logarithm of the evidence after each."""
        paths = [mean.evidence.add(own) for mean, own in zip(self.means, numbers, strict=True)]
        path: NDArray[np.float64] = np.logaddexp.reduce(paths, axis=0) - log(len(paths))
        return path
