"""Candidates tested on calibration rows, in order, and what is told of those that pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emsco.cascade import CascadeClassifier
from emsco.cascade.fingerprint import fingerprints
from emsco.certify._binomial import cost_p_value, cost_upper
from emsco.certify._certificate import Bounds, CertifiedCandidate
from emsco.certify._order import in_order
from emsco.certify._sequence import passed, shares
from emsco.certify._targets import Shortfall, Targets
from emsco.exceptions import CertificateError
from emsco.search import CascadeSearchCV
from emsco.words.evaluation import Evaluation, evaluate
from emsco.words.front import Candidate

_BOUNDS = 4  # told of a candidate, besides one a class


class Answer(NamedTuple):
    """How many candidates were tried, those certified, or what the closest lacks."""

    tried: int
    candidates: tuple[CertifiedCandidate, ...]
    shortfalls: tuple[Shortfall, ...]


def answer(
    model: CascadeSearchCV | CascadeClassifier,
    targets: Targets,
    level: float,
    shown: int,
    counted: dict[int, Counted],
    X: Any,
    truth: NDArray[Any],
) -> Answer:
    """Test candidates; `counted` has what was counted of some of them already.

    Where these rows have shown how many candidates do, each of them has its part of the level, and
    none hands it on: what is asked may have been chosen by what was seen.
    """
    family = _family(model, targets)
    n_candidates = len(family.candidates)
    tried = max(n_candidates, shown)
    tested: dict[int, _Tested] = {}

    def p_value(place: int) -> float:
        candidate = family.candidates[place]
        if id(candidate) not in counted:
            counted[id(candidate)] = _count(candidate, family.build(candidate), X, truth)
        tested[place] = counted[id(candidate)].tested(targets)
        return tested[place].p_value

    if shown:
        levels = np.full(n_candidates, level / tried)
        places = [place for place in range(n_candidates) if p_value(place) <= levels[place]]
    else:
        levels = level * shares(n_candidates, family.among)
        places = passed(levels, p_value)
    certified = [tested[place] for place in places]
    # One for every candidate that might be listed and every bound told: the worst must hold too.
    each = level / (tried * (_BOUNDS + len(model.classes_)))
    told = fingerprints(one.counted.cascade for one in certified)
    listed = [one.certified(each, own) for one, own in zip(certified, told, strict=True)]
    lacking = () if certified else _lacking(tested, targets, levels)
    return Answer(tried, tuple(listed), lacking)


class _Family(NamedTuple):
    """The candidates to test, in order, of how many, and how each becomes a cascade."""

    candidates: Sequence[Candidate]
    among: int
    build: Callable[[Candidate], CascadeClassifier]


def _family(model: CascadeSearchCV | CascadeClassifier, targets: Targets) -> _Family:
    if isinstance(model, CascadeClassifier):
        itself = Candidate(model.design_, model.threshold, Evaluation(0, 0, 0, 0))
        return _Family([itself], 1, lambda _: model)
    if not len(model.front_):
        raise CertificateError("The front is empty: there is no candidate to certify.")
    candidates = in_order(model.front_, targets, model.costs_)
    return _Family(candidates, len(model.front_), model.cascade)


class Counted(NamedTuple):
    """A candidate, its cascade, and what was counted of it on the calibration rows."""

    candidate: Candidate
    cascade: CascadeClassifier
    evaluation: Evaluation
    reached: tuple[int, ...]

    @property
    def prices(self) -> tuple[float, ...]:
        """What a row has paid that bought each stage."""
        return tuple(self.cascade.decider_.plan.costs.tolist())

    def tested(self, targets: Targets) -> _Tested:
        """Test the hypothesis that it breaks a target."""
        most = targets.max_cost
        cost = 0.0 if most is None else cost_p_value(self.reached, self.prices, most)
        return _Tested(self, targets.p_value(self.evaluation, cost))


class _Tested(NamedTuple):
    """A candidate that was counted, and the p-value of the hypothesis that it breaks a target."""

    counted: Counted
    p_value: float

    def certified(self, level: float, own: str) -> CertifiedCandidate:
        """Tell all about one that passed, with bounds that are each false at most at `level`.

        `own` is its cascade's fingerprint.
        """
        candidate, cascade, evaluation, reached = self.counted
        if not candidate.evaluation.rows:  # a cascade by itself was not selected by anything
            candidate = Candidate(candidate.design, candidate.threshold, evaluation)
        prices, labels = self.counted.prices, cascade.classes_.tolist()
        return CertifiedCandidate(
            candidate,
            own,
            evaluation,
            reached,
            prices,
            self.p_value,
            Bounds.of(evaluation, reached, prices, labels, level),
        )


def _lacking(
    tested: Mapping[int, _Tested], targets: Targets, levels: NDArray[np.float64]
) -> tuple[Shortfall, ...]:
    """Say what the closest candidate lacks, where none has passed."""
    place = min(tested, key=lambda place: tested[place].p_value / levels[place])
    closest, level = tested[place].counted, levels[place]
    cost = float(cost_upper(closest.reached, closest.prices, level))
    return tuple(targets.shortfalls(closest.evaluation, cost, level))


def _count(
    candidate: Candidate, cascade: CascadeClassifier, X: Any, truth: NDArray[Any]
) -> Counted:
    decisions = cascade.decide(X)
    stages = range(len(cascade.stages_))
    reached = tuple(int((decisions.exit_stage >= stage).sum()) for stage in stages)
    return Counted(candidate, cascade, evaluate(decisions, truth), reached)
