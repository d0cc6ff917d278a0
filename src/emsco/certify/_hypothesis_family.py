"""Which candidates are tested, in which order, and the share of the level that each has.

All of this is fixed before the calibration rows are looked at, and is part of the question: after
another choice, it is another question.

Candidates have an order that is fixed beforehand, and each has a share of the level. A candidate
whose p-value is at most its share passes, and hands its share to the next one that has not passed;
after the last comes the first again. However the p-values depend on each other, the probability
that any candidate passes that should not is at most the level (Wiens 2003, the fallback procedure;
Bretz, Maurer, Brannath and Posch 2009, of which this is the graph that forms a ring).

The first candidate has a large share, as in a fixed sequence, which is powerful if the order is
good. The rest is divided evenly, so that a bad first candidate does not stop everything. Candidates
that are left out, because their selected figures break a target, have no share: what Holm's
procedure over the whole front would give them at the start goes to the first candidate, which has
at least half. So if at most half of the front is tested, all candidates that Holm's first step
would certify are certified here too.

A chosen candidate comes before all others and has half of the level; the others share the other
half in the same way. The bound holds for any initial shares that sum to the level.

The strictest candidate should not be first: it may accept so few rows that its test fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import floor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emsco.cascade import CascadeClassifier
from emsco.certify._targets import Targets
from emsco.certify.binomial import tail
from emsco.core.costs import Costs
from emsco.core.evaluation import Evaluation
from emsco.core.front import Candidate
from emsco.core.measures import boundable
from emsco.core.selection import Bound, Bounds, Figures
from emsco.exceptions import CertificateError, Keyword
from emsco.search import CascadeSearchCV
from emsco.search.default_rule import may_be_default
from emsco.search.lost_classes import loses

UNSAID = 0.5  # the coverage if neither the search nor the question states one
_LEAST = 0.5
_CHOSEN = 0.5  # of the level, for the candidate that was chosen


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
        choice = search.__dict__.get("choice_")
        limits = {} if choice is None else choice.bounds
        chosen_by = {n: limit for n, limit in limits.items() if n in boundable()}
        coverage = chosen_by.pop("min_coverage", None)
        if coverage is None and isinstance(search.select, Mapping):
            coverage = search.select.get("min_coverage")
        own = Bounds(max_missed=search.max_missed, max_rejected=search.max_rejected)
        bounds = dict.fromkeys([*own.limits, *Bounds(**chosen_by).limits])
        if targets.min_coverage == 0:
            return cls(tuple(bounds))
        if coverage is not None:
            return cls(tuple(bounds), float(coverage))
        # Not needed with a final model, which answers every row, or if coverage is tested.
        is_needless = targets.min_coverage is not None or search.found_.final is not None
        return cls(tuple(bounds), 0.0 if is_needless else UNSAID, is_said=False)

    def missed_by(
        self, candidates: Sequence[Candidate], *, is_chosen: bool = False
    ) -> dict[Bound, NDArray[np.bool_]]:
        """Return for each bound which candidates miss it.

        The default coverage does not apply to a chosen one, because the user knows its coverage.
        """
        figures = Figures([candidate.evaluation for candidate in candidates])
        bounds = list(self.bounds)
        if self.coverage and (self.is_said or not is_chosen):
            bounds += Bounds(min_coverage=self.coverage).limits
        return {bound: bound.shortfalls(figures, 0.0, 1.0) != 0 for bound in bounds}

    def describe(self) -> tuple[str, ...]:
        """Describe each filter."""
        coverage = f"coverage >= {self.coverage:g}"
        by_default = f"{coverage} (the default; " + Keyword("min_coverage", 0) + " removes it)"
        return (
            *map(str, self.bounds),
            *[coverage if self.is_said else by_default] * bool(self.coverage),
        )


class Family(NamedTuple):
    """The candidates to test."""

    candidates: Sequence[Candidate]  # in the order in which they are tested
    shares: NDArray[np.float64]  # of the level, at the start
    floors: Floors = Floors()
    chosen: Candidate | None = None
    why_not: str = ""  # why the chosen candidate is not tested
    off_front: int = 0  # tested candidates that are not on the front
    keeps: Sequence[bool] = ()  # whether each keeps what the choice kept; (): all of them

    @classmethod
    def of(
        cls,
        front: Sequence[Candidate],
        chosen: Candidate | None,
        floors: Floors,
        targets: Targets,
        costs: Costs,
        keeps: Callable[[Candidate], bool] = lambda _: True,
    ) -> Family:
        """Put the chosen candidate first, then those that keep what it kept, then the others.

        Candidates whose selected figures miss a target or a floor are left out. If none meets the
        targets, only the closest one is tested.
        """
        why_not = ""
        if chosen is not None:
            chosen = next((own for own in front if own == chosen), chosen)
            missed = floors.missed_by([chosen], is_chosen=True)
            unmet = [
                f"it does not meet {b}, which was asked for" for b, is_so in missed.items() if is_so
            ]
            why_not = "; ".join([*targets.missed_by(chosen.evaluation), *unmet])
        first = [] if chosen is None or why_not else [chosen]
        left_out = np.any([np.zeros(len(front), bool), *floors.missed_by(front).values()], axis=0)
        filtered = zip(front, left_out, strict=True)
        others = [c for c, is_out in filtered if not is_out and not (first and c is chosen)]
        if not first and not others:
            raise CertificateError(
                f"No candidate has selected figures that show {'; '.join(floors.describe())}. So "
                "nothing was tested, and the rows stay fresh."
            )
        if first:
            met = [c for c in others if targets.met_by(c.evaluation)]
            met = in_order(met, targets, costs) if met else []
            ordered = [*first, *sorted(met, key=lambda c: not keeps(c))]
            held = shares_with_chosen(len(ordered) - 1, len(front))
        else:
            ordered = sorted(in_order(others, targets, costs), key=lambda c: not keeps(c))
            held = shares(len(ordered), len(front))
            if any(c is chosen for c in ordered):
                why_not = ""  # none meets the targets, and it comes closest
        replacing = [c is chosen or keeps(c) for c in ordered]
        off_front = sum(c not in front for c in first)
        return cls(ordered, held, floors, chosen, why_not, off_front, replacing)

    def digested(self) -> list[Any]:
        """List the values that distinguish one order from another."""
        order = zip(self.candidates, self.shares.tolist(), strict=True)
        own = self.chosen
        return [
            [[*c.identity, share] for c, share in order],
            None if own is None else own.identity,
        ]


def family_of(
    model: CascadeSearchCV | CascadeClassifier, targets: Targets, *, chosen_first: bool
) -> Family:
    """Return the candidates to test: those of a search, or the cascade itself.

    Without `chosen_first`, these are all candidates of the front that meet the targets.
    """
    if isinstance(model, CascadeClassifier):
        return _itself(model)
    front = model.front_
    if not len(front):
        raise CertificateError("The front is empty: there is no candidate to certify.")
    if not chosen_first:
        return Family.of(front, None, Floors(), targets, model.costs_)
    chosen = getattr(model, "best_candidate_", None)
    floors = Floors.of(model, targets)
    return Family.of(front, chosen, floors, targets, model.costs_, kept_by(model, chosen))


def _itself(cascade: CascadeClassifier) -> Family:
    """Return a cascade as the only candidate."""
    return Family(
        [Candidate(cascade.design_, cascade.threshold, Evaluation(0, 0, 0, 0))], np.ones(1)
    )


def family_of_one(model: CascadeSearchCV | CascadeClassifier) -> Family:
    """Return the chosen candidate of a search, or the cascade itself, as all that is tested."""
    if isinstance(model, CascadeClassifier):
        return _itself(model)
    chosen = getattr(model, "best_candidate_", None)
    if chosen is None:
        raise CertificateError(
            "Groups are listed of one cascade, and this search has chosen none; choose a candidate "
            "first, or certify a single cascade."
        )
    return Family([chosen], np.ones(1), chosen=chosen)


def kept_by(model: CascadeSearchCV, chosen: Candidate | None) -> Callable[[Candidate], bool]:
    """Return which candidates keep what the choice kept, by their selected figures as counted.

    They lose no class that the chosen one does not lose; after a default choice, they meet its
    conditions. Bounds of the choice are floors, which every tested candidate meets.
    """
    if chosen is None:
        return lambda _: True
    choice = model.__dict__.get("choice_")
    reference, repeats = model.all_sources_.evaluation, model.front_.repeats
    figures = Figures([chosen.evaluation])
    held = [c for c in chosen.evaluation.class_rows if not loses(figures, c)[0]]

    def keeps(candidate: Candidate) -> bool:
        own = Figures([candidate.evaluation])
        if any(loses(own, c)[0] for c in held):
            return False
        if choice is None or not choice.is_default:
            return True
        return bool(may_be_default(own, reference, 0.0, repeats)[0])

    return keeps


def shares_with_chosen(n_others: int, among: int) -> NDArray[np.float64]:
    """Return the shares of the chosen candidate, which is the first, and of the others."""
    if not n_others:
        return np.ones(1)
    return np.concatenate([[_CHOSEN], (1 - _CHOSEN) * shares(n_others, among)])


def shares(n_candidates: int, among: int) -> NDArray[np.float64]:
    """Return each candidate's share of the level at the start, for a front of size `among`."""
    first = max(_LEAST, 1 - n_candidates / among)
    held = np.full(n_candidates, (1 - first) / n_candidates)
    held[0] += first
    return held


def passed(levels: NDArray[np.float64], p_value: Callable[[int], float]) -> list[int]:
    """Return the positions of the candidates that pass, in order.

    `p_value` is called once for every candidate that gets a share.
    """
    n_candidates = len(levels)
    held: list[float] = levels.tolist()
    p_values: dict[int, float] = {}
    following = [*range(1, n_candidates), 0]  # in the ring; those that passed are skipped
    through = [False] * n_candidates
    waiting = [place for place in reversed(range(n_candidates)) if held[place]]
    while waiting:
        place = waiting.pop()
        if through[place]:
            continue
        if place not in p_values:
            p_values[place] = p_value(place)
        if p_values[place] > held[place]:
            continue
        through[place] = True
        heir = following[place]
        while through[heir] and heir != place:
            heir = following[heir]
        following[place] = heir
        if heir != place:
            held[heir] += held[place]
            waiting.append(heir)
    return [place for place in range(n_candidates) if through[place]]


def in_order(candidates: Sequence[Candidate], targets: Targets, costs: Costs) -> list[Candidate]:
    """Return the candidates whose selected figures meet the targets, the most certain first.

    They are sorted by their p-values on the rows that they were selected on. These p-values are no
    longer valid, but they give a good order. If none meets the targets, return the closest one.
    """
    met = [c for c in candidates if targets.met_by(c.evaluation)]

    def rank(candidate: Candidate) -> tuple[float, float, float]:
        e = candidate.evaluation
        return targets.p_value(e, _cost_guess(candidate, targets, costs)), -e.accepted, e.cost

    return sorted(met, key=rank) if met else [min(candidates, key=rank)]


def _cost_guess(candidate: Candidate, targets: Targets, costs: Costs) -> float:
    """Estimate the p-value of the cost without counts by stage, as if rows paid least or most."""
    most, evaluation, design = targets.max_cost, candidate.evaluation, candidate.design
    first, last = costs.of(design.stages[0]), costs.of(design.acquired(design.n_stages - 1))
    if most is None or last <= most:
        return 0.0
    if most < first:
        return 1.0
    rows = int(evaluation.rows)
    dear = min(floor((evaluation.paid - rows * first) / (last - first)), rows)
    return float(tail(max(dear, 0), rows, (most - first) / (last - first)))
