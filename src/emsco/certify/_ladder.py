"""The ladder: certify agreement along one path of thresholds, instead of candidates of the front.

The front spreads the level over several designs at the few thresholds of the search. A ladder has
one design, and each of its points has the full level, because they are tested in a fixed order. So
it finds thresholds that the search has not tried, and usually saves more where few decisions may
differ. Which of the two is decided by figures of the search, before the calibration rows are looked
at, and is part of the question.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import log, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtrik, betaincinv  # type: ignore[import-untyped]  # scipy has no types

from emsco._utils.frozen_mapping import FrozenMapping
from emsco.cascade import CascadeClassifier
from emsco.cascade.fingerprint import fingerprints
from emsco.certify._certified_candidate import CertifiedBounds, ChosenCandidate
from emsco.certify._hypothesis_family import Family, kept_by, passed
from emsco.certify._hypothesis_tests import CandidateCounts, TestedFamily
from emsco.certify._path import FRONT, LADDER, Path, StageAnswers, Stop, tolerated
from emsco.certify._targets import Shortfall, Targets
from emsco.certify.binomial import lower, rows_for, tail, upper
from emsco.core.front import Candidate
from emsco.core.threshold import lowest
from emsco.exceptions import CertificateError, Keyword, Parameter, nearest
from emsco.search import CascadeSearchCV

_WAYS = (LADDER, FRONT)
_MOMENTS = 50  # quantiles of luck at which the cost of a certificate is predicted
_NEVER = np.array([2.0])  # a threshold that no score reaches
NOT_ON_IT = "the ladder did not get as far as its thresholds"
OTHER_DESIGN = "the ladder is about another design"


@dataclass(frozen=True)
class Ladder:
    """A path, with what the search says of its knots.

    Parameters
    ----------
    path : Path
        The path.
    known : tuple of Candidate
        Candidates of the front at the first knots; knots after them are only known to be looser.
    dearest : float
        What a row costs that the final model answers.
    chosen : Candidate or None, default=None
        The chosen candidate.
    """

    path: Path
    known: tuple[Candidate, ...]
    dearest: float
    chosen: Candidate | None = None

    def digested(self) -> list[Any]:
        """List the values that distinguish one ladder from another."""
        own = self.chosen
        return [LADDER, *self.path.digested(), None if own is None else own.identity]

    def predicted_cost(self, rows: int, share: float, level: float) -> float:
        """Predict the mean cost of what is certified, from the figures of the search.

        The share that truly differs where the walk stops varies as an order statistic does.
        """
        most = tolerated(rows, share, level)
        if most < 0:
            return self.dearest
        reached = betaincinv(most + 1, rows - most, _quantiles())
        differ = np.maximum.accumulate([0.0, *map(_differing, self.known)])
        costs = [self.dearest, *(candidate.evaluation.cost for candidate in self.known)]
        return float(np.interp(reached, differ, costs).mean())


def check_by(by: Any, questions: Sequence[Targets], model: Any) -> list[str | None]:
    """Return the way of each question, None where it is not said; refuse what no ladder can do."""
    ways = [by] * len(questions) if by is None or isinstance(by, str) else list(by)
    if len(ways) != len(questions):
        raise CertificateError(
            Parameter("by") + f" must be one for all questions or one for each, got {by!r}."
        )
    for way, targets in zip(ways, questions, strict=True):
        if way is not None and way not in _WAYS:
            raise CertificateError(
                Parameter("by") + f" must be 'ladder' or 'front'; got {way!r}{nearest(way, _WAYS)}",
                value=way,
            )
        if way == LADDER:
            why = _why_no_ladder(targets, model)
            if why:
                raise CertificateError(Keyword("by", LADDER) + f" {why}", value=way)
    return ways


def _why_no_ladder(targets: Targets, model: Any) -> str:
    """Return why a question cannot be answered by a ladder; "" if it can."""
    names = [measure.target for measure, _ in targets.measures()]
    if names != ["agreement"]:
        others = " and ".join(f"`{name}`" for name in names if name != "agreement")
        return f"certifies `agreement` alone, not {others}; use " + Keyword("by", FRONT) + "."
    if not isinstance(model, CascadeSearchCV):
        return "needs a search, whose candidates say how thresholds are loosened, not one cascade."
    return ""


def ladder_or_front(
    model: CascadeSearchCV | CascadeClassifier,
    targets: Targets,
    way: str | None,
    family: Family,
    rows: int,
    level: float,
) -> Ladder | None:
    """Return the ladder of a question, or None if the front is to answer it.

    If neither is said, it is the one whose certificate is predicted to cost less per row.
    """
    if way == FRONT or (way is None and _why_no_ladder(targets, model)):
        return None
    assert isinstance(model, CascadeSearchCV)
    assert targets.agreement is not None
    share = 1 - targets.agreement
    ladders = [*_ladders(model, family)]
    if not ladders:
        if way is None:
            return None
        raise CertificateError(
            Keyword("by", LADDER)
            + " needs a candidate with a stage before the final model, and with thresholds that "
            "are numbers, not by class; use " + Keyword("by", FRONT) + ".",
            value=way,
        )
    costs = [ladder.predicted_cost(rows, share, level) for ladder in ladders]
    best = int(np.argmin(costs))
    if way is None and _predicted_by_front(model, family, rows, share, level) <= costs[best]:
        return None
    return ladders[best]


def refuse_seen(ways: Sequence[str | None]) -> None:
    """Refuse a ladder on rows that have shown figures of candidates; by default, use the front.

    A path that was chosen by what was seen has no claim to the full level.
    """
    if LADDER in ways:
        raise CertificateError(
            Keyword("by", LADDER)
            + " needs rows that have shown nothing, and these have shown figures of candidates; "
            "use fresh rows, or " + Keyword("by", FRONT) + ".",
            value=LADDER,
        )


def _ladders(model: CascadeSearchCV, family: Family) -> list[Ladder]:
    """Return the ladder of the chosen candidate, or, without one, that of each design.

    Knots are candidates of the front. After a choice, the last of them ends the path, because what
    is looser might not keep what the choice kept.
    """
    front, chosen = model.front_, family.chosen
    missed = [np.zeros(len(front), dtype=bool), *family.floors.missed_by(front).values()]
    keeps = kept_by(model, chosen)
    usable = [c for c, out in zip(front, np.any(missed, axis=0), strict=True) if not out]
    usable = [c for c in usable if _knot(c) and keeps(c)]
    is_free = chosen is None and not (
        family.floors.bounds or model.max_missed or model.max_rejected
    )
    least = lowest(len(model.classes_))

    def ladder(known: Sequence[Candidate]) -> Ladder:
        one, knots = known[0], [_knot(candidate) for candidate in known]
        end = (least,) * len(knots[0])
        if is_free and knots[-1] != end:
            knots.append(end)
        path = Path(one.design, tuple(knots), one.learner)
        return Ladder(path, tuple(known), model.costs_.total, chosen)

    own = [] if chosen is None else [c for c in (*usable, chosen) if _is_alike(c, chosen)]
    if chosen is not None and _knot(chosen) and not _misses(family, chosen):
        at = _knot(chosen)
        stricter = [c for c in own if _is_looser(at, _knot(c))]
        looser = [c for c in own if _is_looser(_knot(c), at)]
        return [ladder([*_longest(stricter), chosen, *_longest(looser)])]
    designs: dict[Any, list[Candidate]] = {}
    for candidate in usable:
        key = candidate.design.assignment.tobytes(), candidate.learner
        designs.setdefault(key, []).append(candidate)
    return [ladder(_longest(same)) for same in designs.values()]


def _misses(family: Family, chosen: Candidate) -> bool:
    """Return whether the chosen candidate misses what was asked for when it was chosen."""
    return any(missed[0] for missed in family.floors.missed_by([chosen], is_chosen=True).values())


def _is_alike(candidate: Candidate, other: Candidate) -> bool:
    """Return whether two candidates have the same stages."""
    return candidate.design == other.design and candidate.learner == other.learner


def _knot(candidate: Candidate) -> tuple[float, ...]:
    """Return the thresholds of the stages before the final model; () if it cannot be a knot."""
    threshold, before = candidate.threshold, candidate.design.n_stages - 1
    each = threshold[:before] if isinstance(threshold, tuple) else (threshold,) * before
    numbers = tuple(one for one in each if isinstance(one, float))
    return numbers if len(numbers) == before else ()


def _longest(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the longest chain of candidates, each looser than the one before."""
    ordered = sorted(candidates, key=lambda c: (_differing(c), -c.evaluation.cost))
    chains: list[list[Candidate]] = []
    for candidate in ordered:
        before = [chain for chain in chains if _is_looser(_knot(candidate), _knot(chain[-1]))]
        chains.append([*max(before, key=len, default=[]), candidate])
    return max(chains, key=len, default=[])


def _is_looser(knot: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Return whether a knot follows another one on some path."""
    return knot != other and all(a <= b for a, b in zip(knot, other, strict=True))


def _differing(candidate: Candidate) -> float:
    """Return the share of searched rows that it decides otherwise than the final model."""
    evaluation = candidate.evaluation
    return float((evaluation.rows - evaluation.right) / evaluation.rows)


def _quantiles() -> NDArray[np.float64]:
    return (np.arange(_MOMENTS) + 0.5) / _MOMENTS


def _predicted_by_front(
    model: CascadeSearchCV, family: Family, rows: int, share: float, level: float
) -> float:
    """Predict the mean cost of the cheapest candidate that the front certifies.

    Luck is that of the rows, so it is the same for all candidates.
    """
    candidates = family.candidates
    differ = np.array([*map(_differing, candidates)])
    counts = np.ceil(np.nan_to_num(bdtrik(_quantiles(), rows, differ[:, None])))
    p_values = tail(counts, rows, share)
    keeps = family.keeps or [True] * len(candidates)
    costs = []
    for own in p_values.T:
        places = passed(level * family.shares, own.item)
        listed = [candidates[place].evaluation.cost for place in places if keeps[place]]
        costs.append(min(listed, default=model.costs_.total))
    return float(np.mean(costs))


def answer_by_ladder(
    ladder: Ladder,
    family: Family,
    build: Callable[[Candidate], CascadeClassifier],
    targets: Targets,
    level: float,
    X: Any,
    truth: NDArray[Any],
) -> TestedFamily:
    """Follow the path on the calibration rows, and certify its last point that was passed.

    The chosen candidate is certified as well, if it is one of the points.
    """
    path, share = ladder.path, 1 - (targets.agreement or 0.0)
    most = tolerated(len(truth), share, level)
    stop = Stop((), 0, 0)
    if most >= 0:
        strict = build(path.candidate(path.knots[0]))
        stop = path.follow(stage_answers(strict, X, truth), most)
    wanted = [path.candidate(stop.thresholds)] if stop.thresholds else []
    chosen = ladder.chosen
    place = ladder.known.index(chosen) if chosen in ladder.known else None
    if chosen is not None and place is not None and place < stop.knots:
        wanted = [chosen] if _knot(chosen) == stop.thresholds else [*wanted, chosen]
    counted = [CandidateCounts.of(c, build(c), X, truth) for c in wanted]
    # Counts are those of the cascades themselves: a final model that answers otherwise when asked
    # again has none.
    counted = [one for one in counted if one.p_value(targets) <= level]
    p_value = float(tail(stop.most, len(truth), share))
    digests = fingerprints(one.cascade for one in counted)
    listed = tuple(
        one.certified(p_value, bounds_on_path(one, most, level), digest, keeps=True)
        for one, digest in zip(counted, digests, strict=True)
    )
    lacking: tuple[Shortfall, ...] = ()
    if not listed:
        needed = rows_for(share, level, stop.most)
        lacking = (Shortfall("decisions", len(truth), stop.most, needed, "changed"),)
    result = None
    if chosen is not None:
        is_certified = any(one.candidate is chosen for one in counted)
        why = "" if is_certified else NOT_ON_IT
        if place is None:
            why = family.why_not or OTHER_DESIGN
        result = ChosenCandidate(chosen, tested=place is not None, why=why)
    return TestedFamily(1 + (place is not None), listed, lacking, result)


def stage_answers(cascade: CascadeClassifier, X: Any, truth: NDArray[Any]) -> StageAnswers:
    """Return what each stage before the final model says of every row, as the cascade would."""
    decider = cascade.decider_
    scores, differ = [], []
    for number in range(1, len(decider.plan.stages)):
        stages = (replace(stage, threshold=_NEVER) for stage in decider.plan.stages[:number])
        alone = replace(decider, plan=replace(decider.plan, stages=tuple(stages)))
        built = CascadeClassifier.of(alone, cascade.fitted_rows_, threshold=cascade.threshold)
        decisions = built.decide(X)
        scores.append(decisions.share)
        differ.append(decisions.label != truth)
    return StageAnswers(np.column_stack(scores), np.column_stack(differ))


def bounds_on_path(counts: CandidateCounts, most: int, level: float) -> CertifiedBounds:
    """Return bounds that hold at every point that was passed, all at once.

    The calibration rows chose the point, so bounds of a single candidate would be too narrow. Those
    of the cost hold along the whole path (Massart 1990): that a row reaches a stage is an event in
    the path's order. That of the agreement follows from the walk, and those of missed rows from it.
    """
    evaluation, prices = counts.evaluation, np.array(counts.prices)
    rows, labels = int(evaluation.rows), counts.cascade.classes_.tolist()
    each = level / (1 + len(prices) + len(labels))  # agreement, coverage, stages after the first
    differ = float(upper(most, rows, each))
    reached = np.array(counts.reached[1:]) / rows + sqrt(log(1 / each) / (2 * rows))
    cost = prices[0] + (np.diff(prices) * np.minimum(reached, 1.0)).sum()
    shares = {c: float(lower(evaluation.class_rows.get(c, 0), rows, each)) for c in labels}
    return CertifiedBounds(
        accuracy=1 - differ,
        coverage=(float(lower(rows, rows, each)), 1.0),
        cost=float(cost),
        missed=FrozenMapping({c: min(1.0, differ / s) if s else 1.0 for c, s in shares.items()}),
    )
