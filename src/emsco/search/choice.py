"""The choice from a front, as asked or by default, and what it is held against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco.exceptions import SelectionError, SelectionWarning, nearest, warn
from emsco.search._problem import Problem
from emsco.words.costs import Costs
from emsco.words.design import StageDesign
from emsco.words.evaluation import Evaluation
from emsco.words.front import Candidate, ParetoFront
from emsco.words.threshold import lowest

LEAST_COVERAGE = 0.8
LEAST_AGREEMENT = 0.99  # with a final model
FEW_ROWS = 500


@dataclass(frozen=True)
class AllSources:
    """All sources bought at once: what a cascade is held against, on the same rows and folds."""

    costs: Costs
    classes: Sequence[Any]
    truth: NDArray[np.intp]  # from the surest row to the least sure
    right: NDArray[np.bool_]

    @classmethod
    def of(cls, problem: Problem) -> AllSources:
        """Look all sources up in a problem's table."""
        everything = np.ones((1, problem.n_sources), dtype=np.bool_)
        confidence, label = problem.table.outcomes(everything)
        order = np.argsort(-confidence[0], kind="stable")
        truth = problem.table.truth[order]
        return cls(problem.costs, problem.classes, truth, label[0][order] == truth)

    def answering(self) -> Candidate:
        """Answer every row."""
        design = StageDesign(np.zeros(len(self.costs.names), dtype=np.int64), self.costs.names)
        return Candidate(design, lowest(len(self.classes)), self.at(1.0))

    def at(self, coverage: float) -> Evaluation:
        """Reject the least sure rows, down to a coverage; they are paid for as well."""
        n_rows = len(self.truth)
        accepted = round(coverage * n_rows)
        truth, right = self.truth[:accepted], self.right[:accepted]
        latency = self.costs.latency_of(self.costs.names)
        return Evaluation(
            rows=n_rows,
            accepted=accepted,
            right=int(right.sum()),
            paid=self.costs.total * n_rows,
            class_rows=self._by_label(self.truth),
            class_accepted=self._by_label(truth),
            class_right=self._by_label(truth[right]),
            waited=latency * n_rows,
            worst_latency=latency,
        )

    def _by_label(self, codes: NDArray[np.intp]) -> dict[Any, int]:
        counts = np.bincount(codes, minlength=len(self.classes))
        return dict(zip(self.classes, counts.tolist(), strict=True))


def check_bounds(bounds: Mapping[str, Any]) -> None:
    """Refuse what `ParetoFront.select` does not take."""
    known = list(signature(ParetoFront.select).parameters)[1:]
    for name in bounds:
        if name not in known:
            raise SelectionError(f"Nothing is selected by {name!r}{nearest(name, known)}")


def select_as_asked(
    select: Any,
    front: ParetoFront,
    all_sources: Candidate,
    n_rows: int,
    max_missed: Mapping[Any, float],
    *,
    agreement: bool,
) -> Candidate:
    """Give the candidate asked for: itself, by bounds, by a function of the front, or by default.

    By default, where the target is `agreement` with a final model, the cheapest that agrees enough.
    """
    if max_missed and not len(front):
        raise SelectionError(
            f"No design accepts any row within max_missed={dict(max_missed)}; allow more, "
            "or search higher thresholds."
        )
    if isinstance(select, Candidate):
        return select
    if select is None:
        if agreement:
            return front.select(min_accuracy=LEAST_AGREEMENT)
        return select_by_default(front, all_sources, n_rows, max_missed)
    if callable(select):
        candidate = select(front)
        if not isinstance(candidate, Candidate):
            raise SelectionError(f"`select` must give a Candidate, gave {candidate!r}.")
        return candidate
    return front.select(**select)


def cheapest_as_good(candidates: Sequence[Candidate], reference: Candidate) -> Candidate | None:
    """Choose the cheapest that answers most rows and no class worse than the reference does.

    That is: coverage of 0.8 at least, and accuracy and every class's recall, on what is accepted,
    not below those of the reference on the same rows. None where there is none.
    """
    least = reference.evaluation
    good = [
        candidate
        for candidate in candidates
        if candidate.evaluation.coverage >= LEAST_COVERAGE
        and candidate.evaluation.accuracy >= least.accuracy
        and all(candidate.evaluation.recall[label] >= r for label, r in least.recall.items())
    ]
    key = lambda c: (c.evaluation.cost, -c.evaluation.accuracy, -c.evaluation.coverage)  # noqa: E731
    return min(good, key=key, default=None)


def select_by_default(
    front: Sequence[Candidate],
    all_sources: Candidate,
    n_rows: int,
    max_missed: Mapping[Any, float],
) -> Candidate:
    """Choose the cheapest that is as good as all sources, or these, and warn of what is doubtful.

    `n_rows` is how many the choice is made on. Within `max_missed` all sources are no way out.
    """
    if n_rows < FEW_ROWS:
        warn(
            f"The choice is optimistic: it was made on {n_rows} rows, fewer than {FEW_ROWS}; hold "
            "it against fresh rows with score_front(X, y).",
            SelectionWarning,
        )
    chosen = cheapest_as_good(front, all_sources)
    if chosen is not None:
        return chosen
    if max_missed:
        raise SelectionError(
            f"No design within max_missed={dict(max_missed)} accepts {LEAST_COVERAGE:.0%} of the "
            "rows and is as good as all sources at once; allow more, or say with select= what to "
            "give up."
        )
    warn(
        f"No cascade accepts {LEAST_COVERAGE:.0%} of the rows and is as good as all sources at "
        "once, so all sources at once were chosen; choose(...) takes another of the front.",
        SelectionWarning,
    )
    return all_sources
