"""Calibration rows, and what is counted of them when a candidate decides them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing

from emsco.cascade import CascadeClassifier
from emsco.certify._certified_bounds import CertifiedBounds
from emsco.certify._certified_candidate import CertifiedCandidate, CertifiedGroup
from emsco.certify._group_terms import GroupedRows
from emsco.certify._stake_terms import StakedRows
from emsco.certify._targets import Shortfall, Targets
from emsco.certify.binomial import cost_p_value, cost_upper
from emsco.core.decisions import Decisions
from emsco.core.evaluation import Evaluation, evaluate_known
from emsco.core.front import Candidate


@dataclass(frozen=True)
class CalibrationRows:
    """Calibration rows with their labels and, if these were given, their stakes and groups."""

    X: Any
    truth: NDArray[Any]
    staked: StakedRows | None = None
    grouped: GroupedRows | None = None

    def __len__(self) -> int:
        return len(self.truth)

    def take(self, rows: NDArray[np.intp]) -> CalibrationRows:
        """Return some of the rows."""
        if len(rows) == len(self):
            return self
        staked = None if self.staked is None else self.staked.take(rows)
        grouped = None if self.grouped is None else self.grouped.take(rows)
        return CalibrationRows(_safe_indexing(self.X, rows), self.truth[rows], staked, grouped)

    def decide(self, cascade: CascadeClassifier) -> Decisions:
        """Decide the rows with a cascade, which needs their stakes if it has a cap."""
        return cascade.decide(self.X, stake=None if self.staked is None else self.staked.stakes)

    def count(self, decisions: Decisions, n_stages: int, group: int | None = None) -> Counts:
        """Count decisions, of all rows or of those of a group.

        Of staked rows those are counted that the coin kept, but what they pay is that of all rows,
        because a cost is per row whatever is at stake.
        """
        truth, kept = self.truth, None if self.staked is None else self.staked.kept
        if group is not None:
            assert self.grouped is not None
            own = self.grouped.places == group
            decisions, truth = decisions[own], truth[own]
            kept = None if kept is None else kept[own]
        reached = tuple(int((decisions.exit_stage >= stage).sum()) for stage in range(n_stages))
        if kept is None:
            return Counts(evaluate_known(decisions, truth), reached)
        counted = evaluate_known(decisions[kept], truth[kept])
        share = counted.rows / len(truth)
        counted = replace(
            counted,
            paid=float(decisions.cost.sum()) * share,
            waited=float(decisions.latency.sum()) * share,
            worst_latency=float(decisions.latency.max(initial=0.0)),
        )
        return Counts(counted, reached)


class Counts(NamedTuple):
    """The counts of some rows, and how many of them bought each stage."""

    evaluation: Evaluation
    reached: tuple[int, ...]

    def p_value(self, targets: Targets, prices: Sequence[float]) -> float:
        """Return the p-value of the hypothesis that some target is broken."""
        most = targets.max_cost
        cost = 0.0 if most is None else cost_p_value(self.reached, prices, most)
        return targets.p_value(self.evaluation, cost)

    def shortfalls(
        self, targets: Targets, prices: Sequence[float], level: float
    ) -> list[Shortfall]:
        """Return each target that fails at this level."""
        cost = float(cost_upper(self.reached, prices, level))
        return targets.shortfalls(self.evaluation, cost, level)


class CandidateCounts(NamedTuple):
    """A candidate, its cascade, and its counts on the calibration rows, also by group."""

    candidate: Candidate
    cascade: CascadeClassifier
    evaluation: Evaluation
    reached: tuple[int, ...]
    by_group: dict[Any, Counts]

    @classmethod
    def of(
        cls, candidate: Candidate, cascade: CascadeClassifier, rows: CalibrationRows
    ) -> CandidateCounts:
        """Decide the calibration rows with the cascade of a candidate, and count."""
        decisions, n_stages = rows.decide(cascade), len(cascade.stages_)
        groups = () if rows.grouped is None else rows.grouped.groups
        by_group = {g: rows.count(decisions, n_stages, i) for i, g in enumerate(groups)}
        return cls(candidate, cascade, *rows.count(decisions, n_stages), by_group)

    @property
    def prices(self) -> tuple[float, ...]:
        """The price up to and including each stage."""
        return tuple(self.cascade.decider_.plan.costs.tolist())

    @property
    def whole(self) -> Counts:
        """The counts of all rows."""
        return Counts(self.evaluation, self.reached)

    def p_values(self, targets: Targets) -> dict[Any, float]:
        """Return the p-value of the hypothesis that some target is broken in each group."""
        return {g: own.p_value(targets, self.prices) for g, own in self.by_group.items()}

    def p_value(self, targets: Targets) -> float:
        """Return the p-value of the hypothesis that it breaks a target, in any group."""
        if self.by_group:
            return max(self.p_values(targets).values())
        return self.whole.p_value(targets, self.prices)

    def shortfalls(self, targets: Targets, level: float) -> list[Shortfall]:
        """Return each target that fails at this level, in which group."""
        if not self.by_group:
            return self.whole.shortfalls(targets, self.prices, level)
        return [
            short._replace(what=f"{short.what} in group {group!r}")
            for group, own in self.by_group.items()
            for short in own.shortfalls(targets, self.prices, level)
        ]

    def bounds(self, counts: Counts, targets: Targets, level: float) -> CertifiedBounds:
        """Return bounds on what was counted, any of which is false with at most `level`."""
        labels = self.cascade.classes_.tolist()
        return CertifiedBounds.of(*counts, self.prices, labels, targets, level)

    def certified(
        self,
        p_value: float,
        bounds: CertifiedBounds,
        own: str,
        *,
        keeps: bool,
        groups: tuple[CertifiedGroup, ...] = (),
    ) -> CertifiedCandidate:
        """Return the certified candidate; `own` is the fingerprint of its cascade."""
        candidate = self.candidate
        # A single cascade has no selected figures, nor have thresholds that the search did not try.
        if not candidate.evaluation.rows:
            candidate = replace(candidate, evaluation=self.evaluation)
        return CertifiedCandidate(
            candidate, own, self.evaluation, self.reached, self.prices, p_value, bounds,
            keeps=keeps, groups=groups,
        )  # fmt: skip

    def certified_alone(
        self,
        p_value: float,
        targets: Targets,
        level: float,
        own: str,
        *,
        keeps: bool,
        passed: Sequence[Any] | None = None,
    ) -> CertifiedCandidate:
        """Return it with bounds that hold at once, of all rows and of the groups that passed.

        `passed` are these groups; None: all of them.
        """
        level /= 1 + len(self.by_group)
        p_values = self.p_values(targets)
        groups = tuple(
            CertifiedGroup(
                g, counts.evaluation, counts.reached, p_values[g],
                self.bounds(counts, targets, level),
            )
            for g, counts in self.by_group.items()
            if passed is None or g in passed
        )  # fmt: skip
        bounds = self.bounds(self.whole, targets, level)
        return self.certified(p_value, bounds, own, keeps=keeps, groups=groups)
