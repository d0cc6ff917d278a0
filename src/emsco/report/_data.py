"""What a report knows: the front as counts, prices and thresholds, ready for JSON.

Counts, not rates: the page divides them as `Evaluation` does, so that bounds on it choose what
`ParetoFront.select` chooses with the same bounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from emsco._utils.progress import followed
from emsco.core.costs import Costs
from emsco.core.evaluation import Evaluation, evaluate_known
from emsco.core.front import Candidate, ParetoFront
from emsco.core.measure import Measure, rows_of
from emsco.core.measures import MEASURES, boundable, columns
from emsco.core.threshold import resolve
from emsco.exceptions import ArtifactError
from emsco.report._lines import choice_lines
from emsco.search import Stake, stake_of, without_stake, yardstick_of

MOST_CANDIDATES = 5000  # that a page draws without making one wait

_OF_SOURCE = ("name", "cost", "setup", "latency", "description")

Plain: TypeAlias = dict[str, Any]
Population: TypeAlias = Mapping[Any, float] | None


def page_data(
    search: Any,
    X: Any = None,
    y: ArrayLike | None = None,
    population: Population = None,
    stake: Any = None,
) -> Plain:
    """Gather what the page shows of a fitted search, with figures on fresh rows where given."""
    labels = search.classes_.tolist()
    front: ParetoFront = search.front_
    chosen: Candidate | None = getattr(search, "best_candidate_", None)
    apart = [chosen] if chosen is not None and chosen not in front else []
    own = [front.index(chosen)] if chosen is not None and not apart else []
    places = _thinned(front, [*own, *_extremes(front)])
    candidates = [*(front[i] for i in places), *apart]
    opens_with = len(places) if apart else places.index(own[0]) if own else None
    all_sources: Candidate = search.all_sources_
    as_many = {
        _whole(candidate.evaluation.accepted): candidate.evaluation.coverage
        for candidate in candidates
    }
    data: Plain = {
        "labels": [str(label) for label in labels],
        "label_reprs": [repr(label) for label in labels],
        "costs": _costs(search.costs_),
        "of": "stake" if all_sources.evaluation.is_by_stake else "rows",  # what shares are of
        "n_front": len(front),
        "n_on_front": len(places),  # a choice that is not on the front comes after these
        "luck": front.luck,
        "deciding": "confidence" if search.found_.stages.rule.is_equal else "share",
        "repeats": front.repeats,
        "chosen": opens_with,
        "sliders": [_measure_data(m, all_sources.evaluation) for m in _sliders().values()],
        "figures": [
            _measure_data(m, all_sources.evaluation)
            for m in (*columns(by_class=False), *columns(by_class=True))
        ],
        **_choice(search, labels),
        **_designs(candidates, labels),
        "selected": _counts([candidate.evaluation for candidate in candidates], labels)
        | {"repeats": front.repeats},
        "fresh": None,
        "all_sources": {
            "selected": _counts([all_sources.evaluation], labels),
            "fresh": None,
            "as_many": {
                "of": list(as_many),
                **_counts([search.all_sources_at(c) for c in as_many.values()], labels),
            },
            "boosted": _boosted(search, list(as_many.values())),
        },
    }
    if X is not None:
        truth = search.truth(X, y)
        of_front = _fresh(search, X, y, truth, population, stake)
        fresh = [of_front[i] for i in places]
        at_stake = stake_of(X, stake)
        X = without_stake(X, stake, search.found_.layout.names)
        given = X, truth, population, at_stake
        fresh += [_fresh_of(search, candidate, *given) for candidate in apart]
        # Weighted rows are not counts, so their shares have no intervals.
        repeats = 1.0 if population is None else None
        data["fresh"] = _counts(fresh, labels) | {"repeats": repeats}
        data["fresh_rows"] = len(truth)
        everything = _fresh_of(search, all_sources, *given)
        if everything is not None:
            data["all_sources"]["fresh"] = _counts([everything], labels)
    return data


def _boosted(search: Any, coverages: Sequence[float]) -> Plain | None:
    """Tell how often boosted trees are right on all sources: on every row, and on as many."""
    yardstick = yardstick_of(search.found_)
    if yardstick is None:
        return None
    every, *as_many = (yardstick.at(coverage).accuracy for coverage in (1.0, *coverages))
    return {"every": every, "as_many": as_many}


def _sliders() -> dict[str, Measure]:
    """Return the measures that the page has sliders for: not latencies, which have no counts."""
    return {name: measure for name, measure in boundable().items() if measure.whole}


def _measure_data(measure: Measure, evaluation: Evaluation) -> Plain:
    # Money is per row also where shares are of the stake.
    by_row = evaluation.is_by_stake and not measure.is_share and bool(measure.whole)
    return {
        "name": measure.name,
        "parameter": measure.parameter,
        "part": measure.part,
        "whole": ("n_rows",) if by_row else measure.whole,
        "sign": measure.sign,
        "margin": measure.margin,
        "unit": measure.unit,
        "by_class": measure.is_by_class,
        "within_class": measure.is_within_class,
    }


def _choice(search: Any, labels: Sequence[Any]) -> Plain:
    """Tell the rule of the choice, and the bounds of it where the page has sliders for them all."""
    choice = getattr(search, "choice_", None)
    bounds_asked = {} if choice is None else choice.bounds
    options = {name: value for name, value in bounds_asked.items() if value is not None}
    caution, by, errors = (
        options.pop(name, unsaid)
        for name, unsaid in (("caution", "auto"), ("by", "cost"), ("error_cost", 0.0))
    )
    bounds = {
        name: [value.get(label) for label in labels] if isinstance(value, Mapping) else value
        for name, value in options.items()
    }
    if isinstance(errors, Mapping):
        errors = [errors.get(label, 0.0) for label in labels]
    are_sliders = bounds and by == "cost" and bounds.keys() <= _sliders().keys()
    return {
        "rule": "" if choice is None else choice.rule,
        "is_default": choice is not None and choice.is_default,
        "choice": None if choice is None else choice_lines(search),
        "asked": {"caution": caution, **bounds} if are_sliders else None,
        "error_cost": errors if by == "loss" else None,
    }


def _extremes(front: ParetoFront) -> list[int]:
    """Place the ends of the front in each direction."""
    figures = np.array([c.objectives for c in front])
    return [*figures.argmax(axis=0).tolist(), *figures.argmin(axis=0).tolist()]


def _thinned(front: ParetoFront, wanted: Sequence[int]) -> list[int]:
    """Leave out candidates evenly where there are more than a page can draw."""
    if len(front) <= MOST_CANDIDATES:
        return list(range(len(front)))
    even = np.linspace(0, len(front) - 1, MOST_CANDIDATES - len(wanted)).round().astype(int)
    return sorted({*even.tolist(), *wanted})


def _fresh(
    search: Any,
    X: Any,
    y: ArrayLike | None,
    truth: NDArray[Any],
    population: Population,
    stake: Any,
) -> list[Evaluation | None]:
    """Evaluate the front on fresh rows, as far as that can be."""
    try:
        scored = search.score_front(X, y, stake=stake, population=population)
        return [one.fresh for one in scored]
    except ArtifactError:
        front = followed(search.front_, "decide fresh rows by every candidate")
        rest = without_stake(X, stake, search.found_.layout.names)
        given = rest, truth, population, stake_of(X, stake)
        return [_fresh_of(search, candidate, *given) for candidate in front]


def _fresh_of(
    search: Any,
    candidate: Candidate,
    X: Any,
    truth: NDArray[Any],
    population: Population,
    stake: Stake,
) -> Evaluation | None:
    """Evaluate one candidate; None where the file that the search is out of lacks its stages."""
    try:
        decisions = search.cascade(candidate).decide(X)
        return evaluate_known(decisions, truth, stake=stake, population=population)
    except ArtifactError:
        return None


def _costs(costs: Costs) -> Plain:
    return {
        "unit": costs.unit,
        "total": costs.total,
        "sources": [
            {name: getattr(source, name) for name in _OF_SOURCE} for source in costs.sources
        ],
        "setups": dict(costs.setups),
        "descriptions": dict(costs.descriptions),
        "review": None if costs.review is None else costs.review.cost,
        "review_accuracy": None if costs.review is None else costs.review.accuracy,
    }


def _designs(candidates: Sequence[Candidate], labels: Sequence[Any]) -> Plain:
    """Tell designs, thresholds and learners once each, and which of them a candidate has."""
    designs: dict[tuple[int, ...], int] = {}
    thresholds: dict[tuple[float, ...], int] = {}
    learners: dict[str, int] = {}
    of_candidate, at_stage, by = [], [], []
    for candidate in candidates:
        assignment = tuple(candidate.design.assignment.tolist())
        of_candidate.append(designs.setdefault(assignment, len(designs)))
        resolved = resolve(candidate.threshold, labels, candidate.design.n_stages)
        stages = [tuple(row) for row in resolved.tolist()]
        by.append(learners.setdefault(candidate.learner, len(learners)))
        at_stage.append([thresholds.setdefault(row, len(thresholds)) for row in stages])
    return {
        "designs": list(designs),
        "thresholds": [row[:1] if len(set(row)) == 1 else row for row in thresholds],
        "design_of": of_candidate,
        "thresholds_of": at_stage,
        "learners": list(learners),
        "learner_of": by,
    }


def _counts(evaluations: Sequence[Evaluation | None], labels: Sequence[Any]) -> Plain:
    """Spell evaluations out as columns of counts; null where there is none."""

    def column(name: str) -> list[Any]:
        return [None if e is None else _whole(getattr(e, name)) for e in evaluations]

    def by_class(name: str) -> list[list[Any]]:
        return [
            [None if e is None else _whole(getattr(e, name).get(label, 0)) for e in evaluations]
            for label in labels
        ]

    known = next((e for e in evaluations if e is not None), None)
    counts: Plain = {name: column(name) for name in ("accepted", "right", "paid")}
    counts |= {name: by_class(name) for name in ("class_accepted", "class_right")}
    if all(e.label_accepted for e in evaluations if e is not None):  # else it is not known
        counts["label_accepted"] = by_class("label_accepted")
    if known is not None:
        counts["rows"] = _whole(known.rows)
        counts["class_rows"] = [_whole(known.class_rows.get(label, 0)) for label in labels]
        if any(e.worst_latency for e in evaluations if e is not None):
            counts |= {name: column(name) for name in ("waited", "worst_latency")}
        if known.by_row is not None:
            counts |= _counts_of_stakes(evaluations, known.by_row, labels)
    return counts


def _counts_of_stakes(
    evaluations: Sequence[Evaluation | None], by_row: Evaluation, labels: Sequence[Any]
) -> Plain:
    """Spell out the rows behind sums of stakes, and how many equal rows would show the shares."""

    def effective(measure: Measure, label: Any) -> list[float | None]:
        return [None if e is None else float(measure.effective(e, label)[1]) for e in evaluations]

    shares = [m for m in MEASURES.values() if m.is_share]
    return {
        "n_rows": _whole(by_row.rows),
        "n_accepted": [None if e is None else _whole(rows_of(e).accepted) for e in evaluations],
        "n_class_rows": [_whole(by_row.class_rows.get(label, 0)) for label in labels],
        "effective": {
            m.name: [effective(m, label) for label in (labels if m.is_by_class else [None])]
            for m in shares
        },
    }


def _whole(number: float) -> float:
    """Write whole numbers without a decimal point: half the size."""
    return int(number) if float(number).is_integer() else float(number)
