"""Which candidates are tested, in which order, and the share of the level that each has.

All of this is fixed before the calibration rows are looked at, and is part of the question: after
another choice, it is another question.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emsco.cascade import CascadeClassifier
from emsco.certify._fixed_sequence import in_order, shares, shares_with_chosen
from emsco.certify._targets import Targets
from emsco.core.costs import Costs
from emsco.core.evaluation import Evaluation
from emsco.core.front import Candidate
from emsco.core.measures import boundable
from emsco.core.selection import Bound, Bounds, Figures
from emsco.exceptions import CertificateError, Keyword
from emsco.search import CascadeSearchCV

UNSAID = 0.5  # the coverage if neither the search nor the question states one


class Floors(NamedTuple):
    """Bounds on selected figures, as counted: filters that candidates pass to be tested at all.

    They keep a certificate from being spent on candidates that nobody would use, and promise
    nothing, because selected figures say little about fresh rows.
    """

    bounds: Sequence[Bound] = ()
    coverage: float = 0.0  # at least; 0: any
    is_said: bool = True  # whether the user has asked for that coverage

    @classmethod
    def of(cls, search: CascadeSearchCV, targets: Targets) -> Floors:
        """Return the filters that follow from a search, its last choice and a question."""
        chosen_by = _bounds_of_choice(search)
        coverage = chosen_by.pop("min_coverage", None)
        if coverage is None and isinstance(search.select, Mapping):
            coverage = search.select.get("min_coverage")
        own = Bounds(max_missed=search.max_missed, max_rejected=search.max_rejected)
        bounds = dict.fromkeys([*own.as_list(), *Bounds(**chosen_by).as_list()])
        if targets.min_coverage == 0:
            return cls(tuple(bounds))
        if coverage is not None:
            return cls(tuple(bounds), float(coverage))
        # Not needed with a final model, which answers every row, or if coverage is tested.
        is_needless = targets.min_coverage is not None or search.found_.final is not None
        return cls(tuple(bounds), 0.0 if is_needless else UNSAID, is_said=False)

    def passed_by(self, candidates: Sequence[Candidate]) -> NDArray[np.bool_]:
        """Return which candidates are to be tested."""
        figures = Figures([candidate.evaluation for candidate in candidates])
        bounds = [*self.bounds, *Bounds(min_coverage=self.coverage or None).as_list()]
        mask = np.ones(len(candidates), dtype=np.bool_)
        for bound in bounds:
            mask &= bound.shortfalls(figures, 0.0, 1.0) == 0
        return mask

    def missed_by(self, candidate: Candidate) -> list[str]:
        """Describe the bounds that the chosen candidate misses.

        The default coverage does not apply to it, because the user knows the chosen coverage.
        """
        figures = Figures([candidate.evaluation])
        coverage = Bounds(min_coverage=self.coverage or None).as_list() if self.is_said else []
        bounds = [*self.bounds, *coverage]
        return [str(bound) for bound in bounds if bound.shortfalls(figures, 0.0, 1.0)[0]]

    def describe(self) -> tuple[str, ...]:
        """Describe each filter."""
        coverage = f"coverage >= {self.coverage:g}"
        by_default = f"{coverage} (the default; " + Keyword("min_coverage", 0) + " removes it)"
        return (
            *map(str, self.bounds),
            *[coverage if self.is_said else by_default] * bool(self.coverage),
        )


def _bounds_of_choice(search: CascadeSearchCV) -> dict[str, Any]:
    """Return the bounds by which the candidate was chosen."""
    choice = search.__dict__.get("choice_")
    bounds = {} if choice is None else choice.bounds
    return {n: bound for n, bound in bounds.items() if n in boundable() and bound is not None}


class Family(NamedTuple):
    """The candidates to test."""

    candidates: Sequence[Candidate]  # in the order in which they are tested
    shares: NDArray[np.float64]  # of the level, at the start
    floors: Floors = Floors()
    chosen: Candidate | None = None
    why_not: str = ""  # why the chosen candidate is not tested
    off_front: int = 0  # tested candidates that are not on the front

    @classmethod
    def of(
        cls,
        front: Sequence[Candidate],
        chosen: Candidate | None,
        floors: Floors,
        targets: Targets,
        costs: Costs,
    ) -> Family:
        """Put the chosen candidate first, and the others in their order.

        Candidates whose selected figures miss a target or a floor are left out. If none meets the
        targets, only the closest one is tested.
        """
        if chosen is not None:
            chosen = next((own for own in front if own == chosen), chosen)
        why_not = "" if chosen is None else _why_not(chosen, targets, floors)
        first = [] if chosen is None or why_not else [chosen]
        filtered = zip(front, floors.passed_by(front), strict=True)
        others = [c for c, keep in filtered if keep and not (first and c is chosen)]
        if not first and not others:
            raise CertificateError(
                f"No candidate has selected figures that show {'; '.join(floors.describe())}. So "
                "nothing was tested, and the rows stay fresh."
            )
        met = [c for c in others if targets.met_by(c.evaluation)]
        if first:
            ordered = [*first, *(in_order(met, targets, costs) if met else [])]
            held = shares_with_chosen(len(ordered) - 1, len(front))
        else:
            ordered = in_order(met or others, targets, costs)
            held = shares(len(ordered), len(front))
            if any(c is chosen for c in ordered):
                why_not = ""  # none meets the targets, and it comes closest
        return cls(ordered, held, floors, chosen, why_not, sum(c not in front for c in first))

    def digested(self) -> list[Any]:
        """List the values that distinguish one order from another."""
        order = zip(self.candidates, self.shares.tolist(), strict=True)
        own = self.chosen
        return [
            [[c.design.assignment, c.threshold, share] for c, share in order],
            None if own is None else [own.design.assignment, own.threshold],
        ]


def family_of(
    model: CascadeSearchCV | CascadeClassifier, targets: Targets, *, chosen_first: bool
) -> Family:
    """Return the candidates to test: those of a search, or the cascade itself.

    Without `chosen_first`, these are all candidates of the front that meet the targets.
    """
    if isinstance(model, CascadeClassifier):
        itself = Candidate(model.design_, model.threshold, Evaluation(0, 0, 0, 0))
        return Family([itself], np.ones(1))
    front = model.front_
    if not len(front):
        raise CertificateError("The front is empty: there is no candidate to certify.")
    if not chosen_first:
        return Family.of(front, None, Floors(), targets, model.costs_)
    chosen = getattr(model, "best_candidate_", None)
    return Family.of(front, chosen, Floors.of(model, targets), targets, model.costs_)


def builder_of(
    model: CascadeSearchCV | CascadeClassifier,
) -> Callable[[Candidate], CascadeClassifier]:
    """Return the function that builds the cascade of a candidate."""
    return (lambda _: model) if isinstance(model, CascadeClassifier) else model.cascade


def _why_not(chosen: Candidate, targets: Targets, floors: Floors) -> str:
    """Return why the chosen candidate is not tested; "" if it is."""
    unmet = [f"it does not meet {bound}, which was asked for" for bound in floors.missed_by(chosen)]
    return "; ".join([*targets.missed_by(chosen.evaluation), *unmet])
