"""Whether a candidate is not worse than all sources: paired tests of shares, on the same rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emsco.core.caution import Shares, shares_of
from emsco.core.evaluation import Evaluation
from emsco.core.measure import share_of
from emsco.core.selection import Figures

# What the default choice may lose to all sources: over all rows, and in a class with enough rows.
SLACK = 0.005
CLASS_SLACK = 0.01
ENOUGH_ROWS = 100


def not_worse(
    figures: Figures, reference: Evaluation, z: float, repeats: float
) -> NDArray[np.bool_]:
    """Return which candidates are shown to be not worse than a reference, overall and by class.

    Both are compared on the same rows by the paired test of shares, so rows that both get right or
    both get wrong make no difference: the difference, less `z` standard errors, may be a slack
    below 0 at most. If it is unknown which rows both get right, they are taken as independent. A
    candidate also passes if it gets all its accepted rows right that the reference gets right; for
    a class it must then accept at least half of the rows, with at least the recall of the
    reference, because otherwise it may just reject the rows that the reference gets right.
    """
    every = _as_good(figures, reference, None, z, repeats, SLACK)
    known = figures.class_both.keys() >= reference.class_rows.keys()
    if known:
        both = sum(figures.class_reference.values()), sum(figures.class_both.values())
        every |= (both[0] == both[1]) & (figures.accepted > 0)
    for c in reference.class_rows:
        m, r = figures.class_accepted[c], figures.class_right[c]
        n, right = reference.class_rows[c], reference.class_right[c]
        slack = CLASS_SLACK if _rows_of_class(reference, c) / repeats >= ENOUGH_ROWS else 0.0
        as_good = _as_good(figures, reference, c, z, repeats, slack)
        if known:
            same = figures.class_both[c] == figures.class_reference[c]
            as_good |= same & (2 * m >= n) & (r * n >= right * m)
        every &= as_good
    return every


class _Pair(NamedTuple):
    """What a paired test of shares counts, of rows, of stakes or of their squares."""

    m: Shares  # accepted
    r: Shares  # of these, right
    n: float  # all
    right: float  # of these, right by the reference
    u: Any  # accepted rows that the reference gets right; None: unknown
    x: Any  # of these, right

    @classmethod
    def of(cls, figures: Figures, reference: Evaluation, label: Any) -> _Pair:
        """Count all rows, or those of a class."""
        known = figures.class_both.keys() >= reference.class_rows.keys()
        u: Any = None
        x: Any = None
        if label is None:
            if known:
                u, x = (
                    sum(each.values()) for each in (figures.class_reference, figures.class_both)
                )
            return cls(figures.accepted, figures.right, reference.rows, reference.right, u, x)
        if known:
            u, x = figures.class_reference[label], figures.class_both[label]
        return cls(
            figures.class_accepted[label], figures.class_right[label],
            reference.class_rows[label], reference.class_right[label], u, x,
        )  # fmt: skip


def _as_good(
    figures: Figures, reference: Evaluation, label: Any, z: float, repeats: float, slack: float
) -> NDArray[np.bool_]:
    """Return which candidates are not worse by the paired test, over all rows or in a class."""
    pair = _Pair.of(figures, reference, label)
    if figures.squares is None or reference.squares is None:
        return _paired(pair, z, repeats, slack)
    squares = _Pair.of(figures.squares, reference.squares, label)
    return _paired_by_stake(pair, squares, z, repeats, slack)


def _paired(pair: _Pair, z: float, repeats: float, slack: float) -> NDArray[np.bool_]:
    """Compare the share right of accepted rows with that of a reference on all rows."""
    m, r, n, right, u, x = pair
    m, n = m / repeats, n / repeats
    a, b = shares_of(r / repeats, m), right / repeats / n if n else 0.0
    shared = 0.0 if u is None else (x - a * u) / repeats
    rows = np.maximum(m, 1e-300)
    variance = a * (1 - a) / rows + (b * (1 - b) - 2 * shared / rows) / max(n, 1e-300)
    error = np.sqrt(np.maximum(variance, 1 / (n + 2) ** 2))
    not_worse: NDArray[np.bool_] = (m > 0) & (a - b >= z * error - slack)
    return not_worse


def _paired_by_stake(
    pair: _Pair, squares: _Pair, z: float, repeats: float, slack: float
) -> NDArray[np.bool_]:
    """Compare as `_paired` does, by stake: a row moves a share by its stake.

    With the stakes S of rows, A accepted of which W are right, and R right by the reference, the
    shares a and b differ with the variance sum (S A (W - a) / sum S A - S (R - b) / sum S)^2.
    """
    m, r, n, right, _, _ = pair
    m2, r2, n2, right2, u2, x2 = squares
    a, b = shares_of(r, m), right / n if n else 0.0
    own, all_ = np.maximum(m, 1e-300), max(n, 1e-300)
    variance = ((1 - a) ** 2 * r2 + a**2 * (m2 - r2)) / own**2
    variance = variance + ((1 - b) ** 2 * right2 + b**2 * (n2 - right2)) / all_**2
    if u2 is not None:
        variance = variance - 2 * (x2 - a * u2 - b * r2 + a * b * m2) / own / all_
    rows = n * n / n2 / repeats if n2 else 0.0
    error = np.sqrt(np.maximum(repeats * variance, 1 / (rows + 2) ** 2))
    not_worse: NDArray[np.bool_] = (m > 0) & (a - b >= z * error - slack)
    return not_worse


def _rows_of_class(reference: Evaluation, label: Any) -> float:
    """Return the number of rows of a class; of stakes, as many equal rows."""
    stake = reference.class_rows[label]
    if reference.squares is None:
        return stake
    return share_of(stake * stake, reference.squares.class_rows[label])
