"""Test candidates on calibration rows, in order, and bound the figures of those that pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emsco._utils.progress import tell
from emsco.cascade import CascadeClassifier
from emsco.cascade.fingerprint import fingerprints
from emsco.certify._certified_candidate import CertifiedBounds, CertifiedCandidate, ChosenCandidate
from emsco.certify._hypothesis_family import Family, passed
from emsco.certify._targets import Shortfall, Targets
from emsco.certify.binomial import cost_p_value, cost_upper
from emsco.core.evaluation import Evaluation, evaluate_known
from emsco.core.front import Candidate


class TestedFamily(NamedTuple):
    """The number of candidates tried, those certified or what the closest lacks, and the choice."""

    tried: int
    candidates: tuple[CertifiedCandidate, ...]
    shortfalls: tuple[Shortfall, ...]
    chosen: ChosenCandidate | None


def answer(
    family: Family,
    build: Callable[[Candidate], CascadeClassifier],
    targets: Targets,
    level: float,
    n_shown: int,
    counted: dict[int, CandidateCounts],
    X: Any,
    truth: NDArray[Any],
) -> TestedFamily:
    """Test candidates; `counted` has the counts of those that were tested before.

    If these rows have shown the figures of `n_shown` candidates, each has an equal part of the
    level and hands it to no other, because the question may have been chosen by what was seen. A
    tested candidate that is not on the front was not shown, and has an additional part.
    """
    n_candidates = len(family.candidates)
    tried = max(n_candidates, n_shown + family.off_front if n_shown else 0)
    tested: dict[int, CandidateCounts] = {}
    p_values: dict[int, float] = {}

    def p_value(place: int) -> float:
        candidate = family.candidates[place]
        if id(candidate) not in counted:
            tell("test candidates", len(tested) / n_candidates)
            counted[id(candidate)] = CandidateCounts.of(candidate, build(candidate), X, truth)
        tested[place] = counted[id(candidate)]
        p_values[place] = tested[place].p_value(targets)
        return p_values[place]

    def lacking(places: Iterable[int]) -> tuple[Shortfall, ...]:
        """Return what the closest of some candidates lacks, if none of them has passed."""
        place = min(places, key=lambda place: p_values[place] / levels[place])
        closest, own = tested[place], levels[place]
        cost = float(cost_upper(closest.reached, closest.prices, own))
        return tuple(targets.shortfalls(closest.evaluation, cost, own))

    if n_shown:
        levels = np.full(n_candidates, level / tried)
        places = [place for place in range(n_candidates) if p_value(place) <= levels[place]]
    else:
        levels = level * family.shares
        places = passed(levels, p_value)
    chosen = None
    if family.chosen is not None:
        why = family.why_not
        if not why:
            place = next(i for i, c in enumerate(family.candidates) if c is family.chosen)
            why = "" if place in places else "; ".join(map(str, lacking([place])))
        chosen = ChosenCandidate(family.chosen, tested=not family.why_not, why=why)
    # The level is divided among all candidates that might be listed, and then among the bounds of
    # each, so that all bounds hold at once.
    digests = fingerprints(tested[place].cascade for place in places)
    listed = [
        tested[place].certified(
            p_values[place],
            tested[place].bounds(targets, level / tried),
            own,
            keeps=not family.keeps or family.keeps[place],
        )
        for place, own in zip(places, digests, strict=True)
    ]
    return TestedFamily(tried, tuple(listed), () if places else lacking(tested), chosen)


class CandidateCounts(NamedTuple):
    """A candidate, its cascade, and its counts on the calibration rows."""

    candidate: Candidate
    cascade: CascadeClassifier
    evaluation: Evaluation
    reached: tuple[int, ...]

    @classmethod
    def of(
        cls, candidate: Candidate, cascade: CascadeClassifier, X: Any, truth: NDArray[Any]
    ) -> CandidateCounts:
        """Decide the calibration rows with the cascade of a candidate, and count."""
        decisions = cascade.decide(X)
        stages = range(len(cascade.stages_))
        reached = tuple(int((decisions.exit_stage >= stage).sum()) for stage in stages)
        return cls(candidate, cascade, evaluate_known(decisions, truth), reached)

    @property
    def prices(self) -> tuple[float, ...]:
        """The price up to and including each stage."""
        return tuple(self.cascade.decider_.plan.costs.tolist())

    def p_value(self, targets: Targets) -> float:
        """Return the p-value of the hypothesis that it breaks a target."""
        most = targets.max_cost
        cost = 0.0 if most is None else cost_p_value(self.reached, self.prices, most)
        return targets.p_value(self.evaluation, cost)

    def bounds(self, targets: Targets, level: float) -> CertifiedBounds:
        """Return its bounds, any of which is false with at most `level`."""
        labels = self.cascade.classes_.tolist()
        own = self.evaluation, self.reached, self.prices
        return CertifiedBounds.of(*own, labels, targets, level)

    def certified(
        self, p_value: float, bounds: CertifiedBounds, own: str, *, keeps: bool
    ) -> CertifiedCandidate:
        """Return the certified candidate; `own` is the fingerprint of its cascade."""
        candidate, _, evaluation, reached = self
        # A single cascade has no selected figures, nor have thresholds that the search did not try.
        if not candidate.evaluation.rows:
            candidate = replace(candidate, evaluation=evaluation)
        return CertifiedCandidate(
            candidate, own, evaluation, reached, self.prices, p_value, bounds, keeps=keeps
        )
