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
from emsco.cascade.fingerprint import fingerprint
from emsco.certify._certified_candidate import CertifiedBounds, CertifiedCandidate, ChosenCandidate
from emsco.certify._hypothesis_family import Family, kept_by, passed
from emsco.certify._hypothesis_tests import CandidateCounts, TestedFamily
from emsco.certify._path import FRONT, LADDER, Path, StageAnswers, Stop, tolerated
from emsco.certify._targets import Shortfall, Targets
from emsco.certify.binomial import lower, rows_for, tail, upper
from emsco.core.front import Candidate
from emsco.core.threshold import lowest
from emsco.exceptions import CertificateError, Code, Parameter, nearest
from emsco.search import CascadeSearchCV

_WAYS = (LADDER, FRONT)
_BY_LADDER, _BY_FRONT = Code("by='ladder'"), Code("by='front'")
_DESIGNS = 3  # of those on the front, for which more thresholds are evaluated on the searched rows
_MOMENTS = 50  # quantiles of luck at which the cost of a certificate is predicted
_NEVER = np.array([2.0])  # a threshold that no score reaches
NOT_SO_FAR = "the ladder did not get as far as its thresholds"
OTHER_DESIGN = "the ladder is about another design"


@dataclass(frozen=True)
class Ladder:
    """A path, with what the search says of its knots.

    Parameters
    ----------
    path : Path
        The path.
    known : tuple of Candidate
        Candidates at the first knots, as selected; of knots after them only thresholds are known.
    dearest : float
        What a row costs that the final model answers.
    keeps : function of Candidate
        Whether a candidate keeps, by its figures, what the choice kept and was asked for.
    chosen : Candidate or None, default=None
        The chosen candidate.
    """

    path: Path
    known: tuple[Candidate, ...]
    dearest: float
    keeps: Callable[[Candidate], bool]
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
                raise CertificateError(_BY_LADDER + " " + why, value=way)
    return ways


def _why_no_ladder(targets: Targets, model: Any) -> str:
    """Return why a question cannot be answered by a ladder; "" if it can."""
    names = [measure.target for measure, _ in targets.measures()]
    if names != ["agreement"]:
        others = " and ".join(f"`{name}`" for name in names if name != "agreement")
        return f"certifies `agreement` alone, not {others}; use " + _BY_FRONT + "."
    if not isinstance(model, CascadeSearchCV):
        return "needs a search, whose candidates say how thresholds are loosened, not one cascade."
    if model.all_sources_.evaluation.is_by_stake:
        return "takes no search that counts a stake, because agreement is a share of answers."
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
    ladders = _ladders(model, family, lambda one: one.predicted_cost(rows, share, level))
    if not ladders:
        if way is None:
            return None
        raise CertificateError(
            _BY_LADDER
            + " needs a candidate with a stage before the final model, and with thresholds that "
            "are numbers, not by class; use " + _BY_FRONT + ".",
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
            _BY_LADDER
            + " needs rows that have shown nothing, and these have shown figures of candidates; "
            "use fresh rows, or " + _BY_FRONT + ".",
            value=LADDER,
        )


def _ladders(
    model: CascadeSearchCV, family: Family, predicted: Callable[[Ladder], float]
) -> list[Ladder]:
    """Return the ladder of the chosen candidate, or, without one, those of the best designs.

    Knots are the best thresholds of the design on the searched rows, as far as they keep what the
    choice kept; after them, every threshold is loosened as far as it goes.
    """
    front, chosen = model.front_, family.chosen
    keeps_choice, least = kept_by(model, chosen), lowest(len(model.classes_))

    def keeps(candidate: Candidate) -> bool:
        missed = family.floors.missed_by([candidate], is_chosen=candidate is chosen).values()
        return not any(own[0] for own in missed) and keeps_choice(candidate)

    def ladder(known: Sequence[Candidate]) -> Ladder:
        one, knots = known[0], [_knot(candidate) for candidate in known]
        end = (least,) * len(knots[0])
        knots += [end] * (knots[-1] != end)
        path = Path(one.design, tuple(knots), one.learner)
        return Ladder(path, tuple(known), model.costs_.total, keeps, chosen)

    def usable_of(one: Candidate) -> list[Candidate]:
        own = model.found_.holding(one).front_of(one.design, one.learner)
        return [candidate for candidate in own if _knot(candidate) and keeps(candidate)]

    if chosen is not None and _knot(chosen) and keeps(chosen):
        own, at = usable_of(chosen), _knot(chosen)
        stricter = [c for c in own if _is_looser(at, _knot(c))]
        looser = [c for c in own if _is_looser(_knot(c), at)]
        return [ladder([*_longest(stricter), chosen, *_longest(looser)])]
    designs: dict[Any, list[Candidate]] = {}
    for candidate in front:
        if _knot(candidate) and keeps(candidate):
            key = candidate.design.assignment.tobytes(), candidate.learner
            designs.setdefault(key, []).append(candidate)
    ladders = [ladder(_longest(same)) for same in designs.values()]
    best = sorted(ladders, key=predicted)[:_DESIGNS]
    return [ladder(_longest(usable_of(one.known[0])) or one.known) for one in best]


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
    listed: list[CertifiedCandidate] = []

    def list_point(candidate: Candidate) -> bool:
        """List a point if its own counts are right; return whether it keeps what it has to."""
        counts = CandidateCounts.of(candidate, build(candidate), X, truth)
        if counts.p_value(targets) > level:  # a final model that answers otherwise when asked again
            return False
        bounds, own = bounds_on_path(counts, most, level), fingerprint(counts.cascade)
        p_value = float(tail(stop.most, len(truth), share))
        one = counts.certified(p_value, bounds, own, keeps=True)
        listed.append(replace(one, keeps=ladder.keeps(one.candidate)))
        return listed[-1].keeps

    # Every point that was passed may be used, so figures of these rows may say which.
    passed_knots = ladder.known[: stop.knots]
    chosen, is_on_path = ladder.chosen, ladder.chosen in ladder.known
    if stop.thresholds:
        at_end = [c for c in passed_knots if _knot(c) == stop.thresholds]
        is_enough = list_point(at_end[0] if at_end else path.candidate(stop.thresholds))
        last = len(passed_knots) - 1
        for place, knot in enumerate(passed_knots):
            if knot not in at_end and (knot == chosen or (place == last and not is_enough)):
                list_point(knot)
    lacking: tuple[Shortfall, ...] = ()
    if not listed:
        needed = rows_for(share, level, stop.most)
        lacking = (Shortfall("decisions", len(truth), stop.most, needed, "changed"),)
    result = None
    if chosen is not None:
        why = "" if any(one.candidate == chosen for one in listed) else NOT_SO_FAR
        if not is_on_path:
            why = family.why_not or OTHER_DESIGN
        result = ChosenCandidate(chosen, tested=is_on_path, why=why)
    return TestedFamily(max(len(listed), 1), tuple(listed), lacking, result)


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
