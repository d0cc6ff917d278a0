"""The problem of a search: costs, limits and thresholds, and the evaluation of designs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from emsco._core import count_labels, evaluate_chains
from emsco.core.costs import Costs
from emsco.core.design import StageDesign
from emsco.core.evaluation import Evaluation
from emsco.core.front import Candidate, ParetoFront
from emsco.core.threshold import StageThreshold, freeze
from emsco.exceptions import SearchError
from emsco.search._outcome_table import OutcomeTable, Sets
from emsco.search._proposal_checks import check_designs, check_thresholds, design_text
from emsco.search._unit_prices import UnitPrices
from emsco.search._weighing import Totals, Weighing, Weighings

Assignments = NDArray[np.int8]
Which = int | NDArray[np.int64]  # of the alternative thresholds: one, or designs x stages


class Counts(NamedTuple):
    """Evaluations of many designs as counts; those of infeasible designs are meaningless.

    With stakes, `accepted` and `right` are sums of them, in units of the table's stakes.
    """

    feasible: NDArray[np.bool_]
    accepted: NDArray[np.int64]
    right: NDArray[np.int64]
    paid: NDArray[np.int64]  # price units over all rows

    def take(self, designs: NDArray[Any]) -> Counts:
        """Return the counts of some designs, in the given order."""
        return Counts(*(values[designs] for values in self))

    def join(self, other: Counts) -> Counts:
        """Return these counts followed by others."""
        return Counts(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))


class _KernelCounts(NamedTuple):
    """Counts of designs as computed by the kernel, of rows or of their stakes."""

    begins: NDArray[np.int64]  # start of each design's chain of sets
    exists: NDArray[np.bool_]  # whether every set of the chain exists
    accepted: NDArray[np.int64]
    right: NDArray[np.int64]
    paid: NDArray[np.int64]
    class_accepted: NDArray[np.int64]  # designs x classes
    class_right: NDArray[np.int64]
    reached: NDArray[np.int64]  # rows that reach each set of each chain, also with stakes


class SearchResult(NamedTuple):
    """The front that a search found, and its history."""

    front: ParetoFront
    history: list[dict[str, Any]]


class Search(Protocol):
    """A strategy: it proposes designs and gets their counts; it never sees data.

    `emsco.testing.check_search` checks that your own strategy keeps what is promised here.
    """

    def run(self, problem: Problem, rng: np.random.Generator, callback: Any = None) -> SearchResult:
        """Search, drawing all randomness from `rng`.

        `callback` gets a dict at every step, as in the history: the `threshold` searched, the share
        `done` of the whole search, which ends at 1, the number of `source_sets` fitted and of
        `designs` evaluated at that threshold, the size of the `front` and its `hypervolume`; it
        may have more keys. An exception in it ends the search.
        """


@dataclass(frozen=True)
class Problem:
    """A table of outcomes, the prices, and the limits of designs."""

    table: OutcomeTable
    costs: Costs
    classes: Sequence[Any]
    thresholds: Sequence[StageThreshold]  # the alternatives, in the order of the table
    max_stages: int
    allow_unused: bool = True
    max_missed: Mapping[Any, float] = field(default_factory=dict)
    max_rejected: Mapping[Any, float] = field(default_factory=dict)
    starts: Assignments | None = None  # designs that were good with another learner

    def __post_init__(self) -> None:
        object.__setattr__(self, "thresholds", [freeze(t) for t in self.thresholds])

    @property
    def n_sources(self) -> int:
        """The number of sources."""
        return len(self.costs.names)

    @cached_property
    def n_designs(self) -> int:
        """The number of possible designs."""
        return StageDesign.count(self.n_sources, self.max_stages, unused=self.allow_unused)

    @property
    def n_rows(self) -> int:
        """The number of evaluation rows."""
        return self.table.n_rows

    @property
    def n_thresholds(self) -> int:
        """The number of alternative thresholds."""
        return len(self.thresholds)

    def span(self, threshold: int) -> tuple[float, float]:
        """Return the part of a search, from share to share, that one threshold of all takes."""
        return threshold / self.n_thresholds, (threshold + 1) / self.n_thresholds

    @cached_property
    def unit_prices(self) -> UnitPrices:
        """The prices as whole numbers."""
        return UnitPrices(self.costs, self.n_rows)

    @property
    def scale(self) -> Decimal:
        """The number of integer units per unit of the costs, a power of ten."""
        return self.unit_prices.scale

    def prices(self, sets: Sets) -> NDArray[np.int64]:
        """Return the prices of source sets in units, with each setup once."""
        return self.unit_prices.of(sets)

    @property
    def total(self) -> int:
        """The price of all sources per row, in units."""
        return self.unit_prices.total

    def exist(self, sets: Sets) -> NDArray[np.bool_]:
        """Return which source sets exist: those with everything that their sources require."""
        exist = np.ones(len(sets), dtype=np.bool_)
        for i, source in enumerate(self.costs.sources):
            for name in source.requires:
                exist &= ~sets[:, i] | sets[:, self.costs.names.index(name)]
        return exist

    @cached_property
    def class_rows(self) -> NDArray[np.int64]:
        """The number of rows of each class, or the sum of their stakes in units."""
        return self.weighings.own.class_rows

    @cached_property
    def weighings(self) -> Weighings:
        """How the search counts rows: each as one, or by its stake."""
        return Weighings.of(self.table, len(self.classes))

    @property
    def whole(self) -> int:
        """The number of rows, or the sum of their stakes in units: what coverage is a share of."""
        return int(self.class_rows.sum())

    @cached_property
    def most_missed(self) -> NDArray[np.int64]:
        """The maximum number of rows of each class that may be missed."""
        return self._most(self.max_missed)

    @cached_property
    def most_rejected(self) -> NDArray[np.int64]:
        """The maximum number of rows of each class that may be rejected."""
        return self._most(self.max_rejected)

    def _most(self, shares: Mapping[Any, float]) -> NDArray[np.int64]:
        # A share of 0.1 of 10 rows is one row, although 0.1 * 10 may be a little less.
        return np.array(
            [
                int(np.floor(shares.get(label, 1.0) * count + 1e-9 * max(1, count / self.n_rows)))
                for label, count in zip(self.classes, self.class_rows, strict=True)
            ]
        )

    def chains(self, assignments: Assignments) -> tuple[Sets, NDArray[np.int64]]:
        """Return the source sets that designs pass through, one per row, and each chain's start.

        The sets of design d are those from `begins[d]` up to `begins[d + 1]`. Invalid designs are
        refused here, wherever they come from.
        """
        designs = check_designs(
            assignments, self.costs.names, self.max_stages, allow_unused=self.allow_unused
        )
        n_stages = designs.max(axis=1).astype(np.int64) + 1
        begins = np.concatenate([[0], np.cumsum(n_stages)])
        design = np.repeat(np.arange(len(designs)), n_stages)
        stage = (np.arange(begins[-1]) - begins[design]).astype(np.int8)
        rows = designs[design]
        return (rows >= 0) & (rows <= stage[:, None]), begins

    def lacking(self, assignments: Assignments) -> NDArray[np.int64]:
        """Count the source sets of each design that are not fitted yet."""
        sets, begins = self.chains(assignments)
        return np.add.reduceat(~self.table.has(sets), begins[:-1], dtype=np.int64)

    def evaluate(self, assignments: Assignments, threshold: Which = 0) -> Counts:
        """Count accepted and right rows and the price of designs, by bits once sets are fitted.

        Parameters
        ----------
        assignments : array of shape (n_designs, n_sources)
            Canonical: stages 0, 1, ... without gaps, -1 for unused.
        threshold : int or array of shape (n_designs, max_stages), default=0
            Which of the alternative thresholds: one for all, or one per stage.

        Raises
        ------
        SearchError
            If a design is invalid: it buys nothing, has a gap or too many stages, or leaves a
            source unused that must be used. Designs that break `requires`, `max_missed` or
            `max_rejected` are not feasible instead.
        """
        masks = self.table.class_masks
        limited = bool(self.max_missed or self.max_rejected)
        # Classes are counted only if one is limited.
        counted = self._count(
            assignments, threshold, masks if limited else masks[:0], self.weighings.own
        )
        feasible = counted.exists
        if limited:
            missed = counted.class_accepted - counted.class_right
            rejected = self.class_rows - counted.class_accepted
            within = (missed <= self.most_missed) & (rejected <= self.most_rejected)
            feasible = feasible & within.all(axis=1)
        return Counts(feasible, counted.accepted, counted.right, counted.paid)

    def _count(
        self,
        assignments: Assignments,
        threshold: Which,
        masks: NDArray[np.uint64],
        weighing: Weighing,
    ) -> _KernelCounts:
        sets, begins = self.chains(assignments)
        n_designs = len(begins) - 1
        check_thresholds(threshold, n_designs, self.max_stages, self.n_thresholds)
        exists = np.logical_and.reduceat(self.exist(sets), begins[:-1])
        wanted = np.repeat(exists, np.diff(begins))
        positions = np.full(len(sets), -1, dtype=np.int64)
        positions[wanted] = self.table.positions(sets[wanted])
        n_classes = len(masks)
        counted = _KernelCounts(
            begins=begins,
            exists=exists,
            accepted=np.zeros(n_designs, dtype=np.int64),
            right=np.zeros(n_designs, dtype=np.int64),
            paid=np.zeros(n_designs, dtype=np.int64),
            class_accepted=np.zeros((n_designs, n_classes), dtype=np.int64),
            class_right=np.zeros((n_designs, n_classes), dtype=np.int64),
            reached=np.zeros(len(sets), dtype=np.int64),
        )
        evaluate_chains(
            positions,
            self.prices(sets),
            _spelled_out(threshold, begins),
            begins,
            self.table.accepted,
            self.table.right,
            self.table.everyone,
            weighing.planes,
            masks,
            *counted[2:],
        )
        return counted

    def candidates(self, assignments: Assignments, threshold: Which = 0) -> list[Candidate]:
        """Make candidates of designs with complete evaluations: by class, and with latencies.

        Raises
        ------
        SearchError
            If a design is invalid, as in `evaluate`, or buys a source before what it requires.
        """
        assignments = np.asarray(assignments)
        if not len(assignments):
            return []
        counted = self._count_classes(assignments, threshold, self.weighings.by_row)
        if not counted.exists.all():
            self._refuse_unmet(assignments[np.argmin(counted.exists)])
        designs = [StageDesign(a.astype(np.int64), self.costs.names) for a in assignments]
        totals = [self._totals(design, counted, i) for i, design in enumerate(designs)]
        evaluations = self._evaluations(
            assignments, threshold, counted, self.weighings.by_row, totals
        )
        if self.weighings.squares is not None:
            others = [evaluations]
            for weighing in (self.weighings.own, self.weighings.squares):
                counted = self._count_classes(assignments, threshold, weighing)
                others.append(self._evaluations(assignments, threshold, counted, weighing, totals))
            evaluations = [
                replace(stakes, by_row=rows, squares=squares)
                for rows, stakes, squares in zip(*others, strict=True)
            ]
        which = np.broadcast_to(threshold, (len(assignments), self.max_stages))
        made = []
        for i, (design, evaluation) in enumerate(zip(designs, evaluations, strict=True)):
            own = tuple(self.thresholds[t] for t in which[i, : design.n_stages])
            shared = len(set(own)) == 1
            made.append(Candidate(design, own[0] if shared else own, evaluation))
        return made

    def _count_classes(
        self, assignments: Assignments, threshold: Which, weighing: Weighing
    ) -> _KernelCounts:
        return self._count(assignments, threshold, self.table.class_masks, weighing)

    def _totals(self, design: StageDesign, counted: _KernelCounts, i: int) -> Totals:
        """Return what all rows pay and wait for in a design, the one at place `i`."""
        reached = counted.reached[counted.begins[i] : counted.begins[i + 1]]
        latencies = np.zeros(design.n_stages)
        if any(source.latency for source in self.costs.sources):
            latencies = np.array([self.costs.latency_of(stage) for stage in design.stages])
        return Totals(
            paid=float(int(counted.paid[i]) / self.scale),
            waited=float(reached @ latencies),
            worst_latency=float(latencies[reached > 0].sum()),
        )

    def _evaluations(
        self,
        assignments: Assignments,
        threshold: Which,
        counted: _KernelCounts,
        weighing: Weighing,
        totals: Sequence[Totals],
    ) -> list[Evaluation]:
        """Make evaluations of counts, with what was paid and waited, which is of rows."""
        labelled = self._count_labels(assignments, threshold, weighing)
        return weighing.evaluations(
            self.classes,
            counted.accepted,
            counted.right,
            counted.class_accepted,
            counted.class_right,
            labelled,
            totals,
        )

    def beside(
        self,
        evaluations: Sequence[Evaluation],
        assignments: Assignments,
        threshold: Which,
        reference: NDArray[np.uint64],
    ) -> list[Evaluation]:
        """Add by class the accepted rows that a reference is right on, and both are right on.

        `reference` has a bit for each row.
        """
        masks = self.table.class_masks & reference

        def compared(some: Sequence[Any], weighing: Weighing) -> list[Evaluation]:
            counted = self._count(assignments, threshold, masks, weighing)
            return [
                replace(
                    one,
                    class_reference=weighing.by_label(self.classes, accepted),
                    class_both=weighing.by_label(self.classes, right),
                )
                for one, accepted, right in zip(
                    some, counted.class_accepted, counted.class_right, strict=True
                )
            ]

        found = compared(evaluations, self.weighings.own)
        for name, weighing in self.weighings.each().items():
            others = compared([getattr(one, name) for one in found], weighing)
            found = [replace(one, **{name: part}) for one, part in zip(found, others, strict=True)]  # type: ignore[arg-type]
        return found

    def _count_labels(
        self, assignments: Assignments, threshold: Which, weighing: Weighing
    ) -> NDArray[np.int64] | None:
        """Count accepted rows under each label; None with two classes, where others imply it."""
        if not len(self.table.labels):
            return None
        sets, begins = self.chains(assignments)
        found = np.zeros((len(begins) - 1, len(self.classes)), dtype=np.int64)
        count_labels(
            self.table.positions(sets), _spelled_out(threshold, begins), begins,
            self.table.accepted, self.table.labels, self.table.everyone, weighing.planes, found,
        )  # fmt: skip
        return found

    def _refuse_unmet(self, assignment: NDArray[Any]) -> None:
        """Raise an error about a source that a design buys before what it requires."""
        design = StageDesign(assignment, self.costs.names)
        for stage in range(design.n_stages):
            for source, required in self.costs.unmet(design.acquired(stage)):
                raise SearchError(
                    f"The search proposed {design_text(assignment)} as a candidate, which buys "
                    f"{source!r} in stage {stage}, before {required!r}, which it requires; "
                    "propose only designs that `evaluate` finds feasible."
                )

    def hypervolume(self, counts: Counts) -> float:
        """Return the dominated share of the unit box coverage x accuracy x (1 - cost / total)."""
        import moocore

        if not len(counts.paid):
            return 0.0
        accuracy = counts.right / np.maximum(counts.accepted, 1)
        saved = 1 - counts.paid / max(self.total * self.n_rows, 1)
        points = np.column_stack([counts.accepted / self.whole, accuracy, saved])
        return float(moocore.hypervolume(points, ref=[0.0] * 3, maximise=True))

    def front(self, candidates: Iterable[Candidate]) -> ParetoFront:
        """Return the front of candidates at this problem's prices."""
        return ParetoFront(candidates, self.costs)


def _spelled_out(which: Which, begins: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the threshold of each set of each chain."""
    if np.ndim(which) == 0:
        return np.full(begins[-1], which, dtype=np.int64)
    design = np.repeat(np.arange(len(begins) - 1), np.diff(begins))
    spelled: NDArray[np.int64] = np.asarray(which)[design, np.arange(begins[-1]) - begins[design]]
    return spelled
