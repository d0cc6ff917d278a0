"""How methods are compared, as PROTOCOL.md fixes it: targets, choices, intervals, who wins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import moocore
import numpy as np
from scipy import stats  # type: ignore[import-untyped]  # scipy ships no types

from experiments.peers.method import (
    Codes,
    Decided,
    Figures,
    Offer,
    Scored,
    Thresholded,
    count_at,
    figures_of,
    threshold_at,
)

COVERAGES = (0.95, 0.9, 0.8, 0.7)
MARGINS = (0.005, 0.02)
N_SPLITS = 20
WORSE = -0.01  # in accuracy or coverage
_MOST_CANDIDATES = 20  # of a front, for its hypervolume


class Target(NamedTuple):
    """What a choice must have on selection rows; and how sure all sources are at that coverage."""

    coverage: float
    accuracy: float
    threshold: float


class Interval(NamedTuple):
    """A mean and its 95% interval."""

    mean: float
    low: float
    high: float


def make_targets(
    scored: Scored, truth: Codes, coverages: Sequence[float] = COVERAGES
) -> list[Target]:
    """Derive the eight targets from what all sources say out of fold."""
    right = (scored.label == truth)[np.argsort(-scored.confidence, kind="stable")]
    return [
        Target(coverage, float(right[: count_at(coverage, len(right))].mean()) - margin, threshold)
        for coverage in coverages
        for threshold in [threshold_at(scored, coverage)]
        for margin in MARGINS
    ]


def choose(figures: Sequence[Figures], target: Target, error_on: int | None = None) -> int | None:
    """Give the cheapest candidate that meets a target; of equals the most accurate, if any.

    With the number of rows that figures were measured on, a candidate's accuracy must meet the
    target even less one standard error (as Breiman et al. 1984 choose a tree).
    """
    meeting = [
        number
        for number, (accuracy, coverage, _) in enumerate(figures)
        if coverage >= target.coverage
        and accuracy - _error(accuracy, coverage, error_on) >= target.accuracy
    ]
    return min(
        meeting,
        key=lambda n: (figures[n].price, -figures[n].accuracy, -figures[n].coverage),
        default=None,
    )


def _error(accuracy: float, coverage: float, rows: int | None) -> float:
    if rows is None or not coverage:
        return 0.0
    return float(np.sqrt(accuracy * (1 - accuracy) / (coverage * rows)))


def judge(
    offer: Offer,
    chosen: Sequence[int | None],
    everything: Thresholded,
    targets: Sequence[Target],
    X: Any,
    truth: Codes,
) -> Figures:
    """Decide fresh rows by what was chosen for each target, and give the means of the figures.

    Where an offer has nothing, all sources reject down to the target's coverage.
    """
    total = everything.task.costs.total
    known: dict[int, Figures] = {}
    judged = []
    for number, target in zip(chosen, targets, strict=True):
        if number is None:
            fallen_back = everything.score(0, X).decide(target.threshold)
            judged.append(figures_of(fallen_back, truth, total))
            continue
        if number not in known:
            known[number] = figures_of(offer.decide(number, X), truth, total)
        judged.append(known[number])
    return Figures(*np.mean(judged, axis=0).tolist())


def spread(figures: Sequence[Figures], most: int = _MOST_CANDIDATES) -> list[int]:
    """Give some candidates that no other beats, spread evenly over these in the order of price."""
    points = np.array([[f.price, -f.accuracy, -f.coverage] for f in figures])
    front = np.flatnonzero(moocore.is_nondominated(points))
    ordered = front[np.lexsort((points[front, 2], points[front, 0]))]
    places = np.unique(np.linspace(0, len(ordered) - 1, most).round().astype(np.intp))
    return [int(number) for number in ordered[places]]


def hypervolume(judged: Sequence[Figures], truth: Codes) -> float:
    """Give the volume between figures and the worst point, as a share of the whole box.

    The worst: no coverage, the accuracy of the majority class, the full price.
    """
    worst = np.bincount(truth).max() / len(truth)
    points = np.array([[f.coverage, f.accuracy, 1 - f.price] for f in judged])
    beyond = points[(points > [0.0, worst, 0.0]).all(axis=1)]
    if not len(beyond):
        return 0.0
    volume = moocore.hypervolume(beyond, ref=[0.0, worst, 0.0], maximise=True)
    return float(volume / (1 - worst))


def judge_front(offer: Offer, X: Any, truth: Codes, total: float) -> float:
    """Give the hypervolume of an offer on fresh rows."""
    decided: list[Decided] = [offer.decide(number, X) for number in spread(offer.figures)]
    return hypervolume([figures_of(one, truth, total) for one in decided], truth)


def corrected_interval(values: Sequence[float], fresh_to_selection: float) -> Interval:
    """Give the mean of figures of splits, with an interval corrected for resampling.

    Nadeau and Bengio (2003): splits share rows, so the variance of the mean of J of them is that of
    one times 1 / J + fresh / selection.

    Examples
    --------
    >>> from experiments.peers.compare import corrected_interval
    >>> corrected_interval([1.0, 2.0, 3.0], fresh_to_selection=1.0).mean
    2.0
    """
    mean, n = float(np.mean(values)), len(values)
    if n < 2:
        return Interval(mean, -np.inf, np.inf)
    spread_of_mean = np.std(values, ddof=1) * np.sqrt(1 / n + fresh_to_selection)
    half = float(stats.t.ppf(0.975, n - 1) * spread_of_mean)
    return Interval(mean, mean - half, mean + half)


def outcome(price: Interval, accuracy: Interval, coverage: Interval) -> str:
    """Say who wins, from the intervals of ours less the method's."""
    we_are_worse = accuracy.high < WORSE or coverage.high < WORSE
    it_is_worse = accuracy.low > -WORSE or coverage.low > -WORSE
    if price.high < 0 and not we_are_worse:
        return "win"
    differs = price.high < 0 or price.low > 0
    if (price.low > 0 and not it_is_worse) or (not differs and we_are_worse):
        return "loss"
    return "tie"
