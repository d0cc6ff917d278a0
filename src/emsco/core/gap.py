"""The largest difference of a share between two groups, and how far it may be off by chance.

A bound on it must be met by every ordered pair of groups, each with the whole margin. That needs no
correction for the number of pairs: if the largest true difference exceeds the bound, then so does
that of some pair, and this pair alone passes with at most the probability that the margin leaves,
whatever the other pairs do. Only the other end of an interval, which shows that *some* pair
differs, is corrected for their number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from emsco.core.caution import Shares
from emsco.core.group_labels import name_text
from emsco.core.interval import LEVEL
from emsco.core.measure import Measure
from emsco.core.measures import columns
from emsco.core.selection import MAX_GAP, check_number
from emsco.exceptions import SelectionError, nearest, nearest_class

LEAST_ROWS = 30  # of a group, or of a class within it: nothing is concluded from fewer


def comparable() -> dict[str, Measure]:
    """Return the measures whose shares are compared between groups, by name."""
    listed = [*columns(by_class=False), *columns(by_class=True)]
    return {measure.name: measure for measure in listed if measure.is_share}


def most_difference(
    part: ArrayLike, whole: ArrayLike, other_part: ArrayLike, other_whole: ArrayLike, z: float
) -> Shares:
    """Return the upper bound of a share less another one, `z` standard errors away.

    It is the larger one of two bounds. The first adds standard errors, as other margins do. The
    second adds the distances to Wilson's bounds with continuity correction, squared (Newcombe's
    method 11 of 1998), for shares near 0 or 1. Either alone is too low in some cases. If a share is
    unknown, because it is one of no rows, the bound is 1.

    Examples
    --------
    >>> from emsco.core.gap import most_difference
    >>> f"{most_difference(12, 100, 5, 100, 1.0):.3f}"
    '0.117'
    """
    counts = np.broadcast_arrays(part, whole, other_part, other_whole)
    k, n, other_k, other_n = (count.astype(np.float64) for count in counts)
    known = (n > 0) & (other_n > 0)
    n, other_n = np.where(known, n, 2.0), np.where(known, other_n, 2.0)
    k, other_k = np.where(known, k, 1.0), np.where(known, other_k, 1.0)
    share, other = k / n, other_k / other_n
    if not z:
        return np.where(known, share - other, 1.0)
    p, q = (k + 1) / (n + 2), (other_k + 1) / (other_n + 2)
    errors = z * np.sqrt(p * (1 - p) / n + q * (1 - q) / other_n)
    up = _to_upper_bound(share, n, z)
    down = _to_upper_bound(1 - other, other_n, z)  # of the share of the other rows
    return np.where(known, share - other + np.maximum(errors, np.hypot(up, down)), 1.0)


def _to_upper_bound(share: Shares, n: Shares, z: float) -> Shares:
    """Return the distance from a share to Wilson's upper bound with continuity correction."""
    root = np.sqrt(np.maximum(z * z + 2 - 1 / n + 4 * share * (n * (1 - share) - 1), 0))
    bound = (2 * n * share + z * z + 1 + z * root) / (2 * (n + z * z))
    distance: Shares = np.where(share < 1, np.clip(bound, share, 1) - share, 0.0)
    return distance


class Gap(NamedTuple):
    """The largest difference of a share between two groups, with its 95% interval.

    Examples
    --------
    >>> from emsco import Evaluation
    >>> from emsco.core.gap import largest_gap
    >>> from emsco.core.measures import MEASURES
    >>> groups = {"F": Evaluation(100, 80, 76, 100), "M": Evaluation(200, 190, 171, 200)}
    >>> print(largest_gap(groups, MEASURES["coverage"]))
    coverage: 15.0 points, 'M' over 'F' (95% interval: 5.2 to 24.7)
    """

    measure: str
    label: Any  # the class that it is about; None: all rows
    more: Any  # the group with the highest share
    less: Any
    difference: float
    low: float  # NaN if rows were weighted
    high: float

    def __str__(self) -> str:
        of = "" if self.label is None else f" of {self.label!r}"
        more, less = (repr(name) if name is not None else "no group" for name in self[2:4])
        text = f"{comparable()[self.measure].in_words}{of}: {100 * self.difference:.1f} points, "
        text += f"{more} over {less}"
        if self.low != self.low:
            return text
        return f"{text} ({LEVEL:.0%} interval: {100 * self.low:.1f} to {100 * self.high:.1f})"


def largest_gap(
    groups: Mapping[Any, Any],
    measure: Measure,
    label: Any = None,
    repeats: float | None = 1.0,
) -> Gap | None:
    """Return the largest difference between the evaluations of groups; None of less than two.

    Groups of which the share is unknown are left out. `repeats` is how often a row was counted on
    average; None: rows are weighted, so there is no interval.
    """
    counts = {name: measure.count(one, label) for name, one in groups.items()}
    counts = {name: own for name, own in counts.items() if own[1]}
    if len(counts) < 2:
        return None
    shares = {name: part / whole for name, (part, whole) in counts.items()}
    less, *_, more = sorted(shares, key=shares.__getitem__)
    low = high = float("nan")
    if repeats is not None:
        tail, n_pairs = (1 - LEVEL) / 2, len(counts) * (len(counts) - 1)
        scaled = {n: (part / repeats, whole / repeats) for n, (part, whole) in counts.items()}
        high = _widest(scaled, NormalDist().inv_cdf(1 - tail))
        low = _least(scaled, NormalDist().inv_cdf(1 - tail / n_pairs))
    return Gap(measure.name, label, more, less, shares[more] - shares[less], low, high)


def _widest(counts: Mapping[Any, tuple[Any, Any]], z: float) -> Any:
    """Return the largest upper bound over ordered pairs of groups."""
    widest: Any = -inf
    for one, own in counts.items():
        for other, others in counts.items():
            if one != other:
                widest = np.maximum(widest, most_difference(*own, *others, z))
    return widest


def _least(counts: Mapping[Any, tuple[Any, Any]], z: float) -> float:
    """Return the largest lower bound over ordered pairs of groups, at least 0."""
    bounds = [
        -float(most_difference(*others, *own, z))
        for one, own in counts.items()
        for other, others in counts.items()
        if one != other
    ]
    return max(0.0, *bounds)


class GapBound(NamedTuple):
    """A measure, the largest difference that is allowed between groups, and the class, if any."""

    measure: Measure
    limit: float
    label: Any = None

    @property
    def name(self) -> str:
        """What is bounded."""
        return f"gap of {self.measure.name_of(self.label)}"

    def margin(self, z: float) -> float:
        """Return the margin in standard errors; bounds of 0 and 1 have none."""
        return 0.0 if self.limit in (0, 1) else z

    def sizes(self, figures: Mapping[Any, Any], repeats: float) -> dict[Any, float]:
        """Return how many rows, or rows of the class, each group has, whatever was decided."""
        if not self.measure.is_by_class:
            return {name: float(own.rows[0]) / repeats for name, own in figures.items()}
        return {
            name: float(own.class_rows[self.label][0]) / repeats for name, own in figures.items()
        }

    def values(self, figures: Mapping[Any, Any], z: float, repeats: float) -> Shares:
        """Return the largest difference between groups with its margin, for every candidate.

        `figures` has the counts of the candidates by group. Groups with few rows are left out.
        """
        sizes = self.sizes(figures, repeats)
        large = {name: own for name, own in figures.items() if sizes[name] >= LEAST_ROWS}
        if len(large) < 2:
            of_class = "" if self.label is None else f" of class {self.label!r}"
            listed = ", ".join(f"{name_text(n)!r} {size:,.0f}" for n, size in sizes.items())
            raise SelectionError(
                f"`{MAX_GAP}` of {self.measure.name!r} compares groups of at least {LEAST_ROWS} "
                f"rows{of_class}, and fewer than two are so large: {listed}; merge groups, bound "
                "other classes ({label: share}), or give more rows.",
                parameter=MAX_GAP,
            )
        counts = {}
        for name, own in large.items():
            part, whole = self.measure.count(own, self.label)
            counts[name] = part / repeats, whole / repeats
        widest: Shares = _widest(counts, self.margin(z))
        return widest

    def left_out(self, figures: Mapping[Any, Any], repeats: float) -> list[Any]:
        """List the groups that are too small to be compared."""
        sizes = self.sizes(figures, repeats)
        return [name for name, size in sizes.items() if size < LEAST_ROWS]


def read_max_gap(max_gap: Any, classes: Sequence[Any]) -> list[GapBound]:
    """Read the bounds of `max_gap`: by the name of a measure, a share, or one for each class.

    One share for a measure by class is the bound of every class.

    Examples
    --------
    >>> from emsco.core.gap import read_max_gap
    >>> bounds = read_max_gap({"coverage": 0.1, "missed": {"sick": 0.02}}, ["sick", "well"])
    >>> [bound.name for bound in bounds]
    ['gap of coverage', 'gap of missed sick']
    """
    if not isinstance(max_gap, Mapping) or not max_gap:
        raise SelectionError(
            f"`{MAX_GAP}` must be a mapping such as {{'rejected': 0.05}}, got {max_gap!r}.",
            parameter=MAX_GAP,
            value=max_gap,
        )
    bounds = []
    for name, limit in max_gap.items():
        measure = comparable().get(name)
        if measure is None:
            raise SelectionError(
                f"`{MAX_GAP}` must name {', '.join(comparable())}; got {name!r}"
                f"{nearest(str(name), comparable())}",
                parameter=MAX_GAP,
                value=name,
            )
        if not isinstance(limit, Mapping):
            check_number(MAX_GAP, limit, is_share=True, label=name)
            labels = classes if measure.is_by_class else [None]
            bounds += [GapBound(measure, float(limit), label) for label in labels]
            continue
        if not measure.is_by_class:
            raise SelectionError(
                f"`{MAX_GAP}` of {name!r} is one share for all rows, got {dict(limit)!r}.",
                parameter=MAX_GAP,
            )
        for label, share in limit.items():
            if label not in classes:
                raise SelectionError(
                    f"`{MAX_GAP}` of {name!r} names {label!r}, which is not a class"
                    f"{nearest_class(label, classes)}",
                    parameter=MAX_GAP,
                    value=label,
                )
            check_number(MAX_GAP, share, is_share=True, label=label)
            bounds.append(GapBound(measure, float(share), label))
    return bounds
