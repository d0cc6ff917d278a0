"""Test candidates on calibration rows, in order, and bound the figures of those that pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emsco._utils.progress import tell
from emsco.cascade import CascadeClassifier
from emsco.cascade.fingerprint import fingerprints
from emsco.certify._binomial import cost_p_value, cost_upper
from emsco.certify._certified_candidate import CertifiedBounds, CertifiedCandidate, ChosenCandidate
from emsco.certify._fixed_sequence import passed
from emsco.certify._hypothesis_family import Family
from emsco.certify._targets import Shortfall, Targets
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
    tested: dict[int, _Tested] = {}

    def p_value(place: int) -> float:
        candidate = family.candidates[place]
        if id(candidate) not in counted:
            tell("test candidates", len(tested) / n_candidates)
            counted[id(candidate)] = _count(candidate, build(candidate), X, truth)
        tested[place] = counted[id(candidate)].tested(targets)
        return tested[place].p_value

    if n_shown:
        levels = np.full(n_candidates, level / tried)
        places = [place for place in range(n_candidates) if p_value(place) <= levels[place]]
    else:
        levels = level * family.shares
        places = passed(levels, p_value)
    certified = [tested[place] for place in places]
    # The level is divided among all candidates that might be listed, and then among the bounds of
    # each, so that all bounds hold at once.
    digests = fingerprints(one.counted.cascade for one in certified)
    listed = [
        one.certified(targets, level / tried, own)
        for one, own in zip(certified, digests, strict=True)
    ]
    lacking = () if certified else _lacking(tested, targets, levels)
    chosen = _chosen(family, tested, targets, levels, places)
    return TestedFamily(tried, tuple(listed), lacking, chosen)


def _chosen(
    family: Family,
    tested: Mapping[int, _Tested],
    targets: Targets,
    levels: NDArray[np.float64],
    places: Sequence[int],
) -> ChosenCandidate | None:
    """Return the result of the chosen candidate."""
    if family.chosen is None:
        return None
    if family.why_not:
        return ChosenCandidate(family.chosen, tested=False, why=family.why_not)
    place = next(i for i, c in enumerate(family.candidates) if c is family.chosen)
    lacks = () if place in places else _lacking({place: tested[place]}, targets, levels)
    return ChosenCandidate(family.chosen, tested=True, why="; ".join(map(str, lacks)))


class CandidateCounts(NamedTuple):
    """A candidate, its cascade, and its counts on the calibration rows."""

    candidate: Candidate
    cascade: CascadeClassifier
    evaluation: Evaluation
    reached: tuple[int, ...]

    @property
    def prices(self) -> tuple[float, ...]:
        """The price up to and including each stage."""
        return tuple(self.cascade.decider_.plan.costs.tolist())

    def tested(self, targets: Targets) -> _Tested:
        """Test the hypothesis that it breaks a target."""
        most = targets.max_cost
        cost = 0.0 if most is None else cost_p_value(self.reached, self.prices, most)
        return _Tested(self, targets.p_value(self.evaluation, cost))


class _Tested(NamedTuple):
    """A candidate with its counts, and the p-value of the hypothesis that it breaks a target."""

    counted: CandidateCounts
    p_value: float

    def certified(self, targets: Targets, level: float, own: str) -> CertifiedCandidate:
        """Return the certified candidate; any of its bounds is false with at most `level`.

        `own` is the fingerprint of its cascade.
        """
        candidate, cascade, evaluation, reached = self.counted
        if not candidate.evaluation.rows:  # a single cascade has no selected figures
            candidate = Candidate(candidate.design, candidate.threshold, evaluation)
        prices, labels = self.counted.prices, cascade.classes_.tolist()
        return CertifiedCandidate(
            candidate,
            own,
            evaluation,
            reached,
            prices,
            self.p_value,
            CertifiedBounds.of(evaluation, reached, prices, labels, targets, level),
        )


def _lacking(
    tested: Mapping[int, _Tested], targets: Targets, levels: NDArray[np.float64]
) -> tuple[Shortfall, ...]:
    """Return what the closest candidate lacks, if none has passed."""
    place = min(tested, key=lambda place: tested[place].p_value / levels[place])
    closest, level = tested[place].counted, levels[place]
    cost = float(cost_upper(closest.reached, closest.prices, level))
    return tuple(targets.shortfalls(closest.evaluation, cost, level))


def _count(
    candidate: Candidate, cascade: CascadeClassifier, X: Any, truth: NDArray[Any]
) -> CandidateCounts:
    decisions = cascade.decide(X)
    stages = range(len(cascade.stages_))
    reached = tuple(int((decisions.exit_stage >= stage).sum()) for stage in stages)
    return CandidateCounts(candidate, cascade, evaluate_known(decisions, truth), reached)
