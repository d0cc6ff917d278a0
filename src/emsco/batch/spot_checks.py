"""The numbers behind spot checks: how many rows to check at random, and where to stop.

Rows stand in an order, the most trusted first. Each is checked with the same probability. The walk
goes down the order and stops before the (c+1)-th checked row whose cheap label is wrong. Which rate
keeps a promise is in `emsco.certify.check_rate`; here is which terms cost the fewest calls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import pdtr  # type: ignore[import-untyped]  # scipy has no types

from emsco.certify.check_rate import NOTHING_HELD_OUT, HeldOut, rate_for, tolerated_at

_FEW = 20  # numbers of tolerated disagreements that are all tried; of larger ones, some
_GROWTH = 1.15
_GRID = 2_000  # ranks at which a plan is computed
_WITHOUT_SCORES = 2  # tolerated disagreements, which do well for most orders


def allowed(n_rows: int, agreement: float) -> int:
    """Return how many of `n_rows` labels may differ, computed without rounding.

    Examples
    --------
    >>> from emsco.batch.spot_checks import allowed
    >>> allowed(1000, agreement=0.9), int(1000 * (1 - 0.9))
    (100, 99)
    """
    return int(n_rows * (1 - Fraction(str(agreement))))


@dataclass(frozen=True)
class Risk:
    """The expected disagreements of a promise, down the order: of the batch, and held out."""

    batch: NDArray[np.float64]  # among the rows up to each rank
    held: NDArray[np.float64] | float = 0.0


@dataclass(frozen=True)
class Allowance:
    """What a promise allows: at most `most` disagreements, but with probability `error`."""

    most: int
    error: float


@dataclass(frozen=True)
class Terms:
    """What is fixed before the coins: the rate of checks, and what each promise tolerates."""

    rate: float
    tolerated: tuple[int, ...]
    expected_checks: float
    expected_cheap: float  # rows that are expected to keep their cheap label


def best_terms(
    allowances: Sequence[Allowance],
    risks: Sequence[Risk] | None,
    n_rows: int,
    held_out: HeldOut = NOTHING_HELD_OUT,
) -> Terms | None:
    """Return the terms by which the fewest calls are expected; None if no rate keeps all promises.

    Any terms are valid that were fixed before the first answer: a bad expectation costs calls only.

    Examples
    --------
    >>> import numpy as np
    >>> from emsco.batch.spot_checks import Allowance, Risk, best_terms
    >>> expected = np.cumsum(np.linspace(0, 0.2, 2500) ** 2)  # ever more errors down the order
    >>> terms = best_terms([Allowance(25, 0.01)], [Risk(expected)], 2500)
    >>> terms.tolerated, round(terms.rate, 2), round(terms.expected_cheap)
    ((3,), 0.31, 1232)
    """
    if all(each.most >= n_rows for each in allowances):  # also if all rows disagree
        return Terms(0.0, tuple(n_rows for _ in allowances), 0.0, float(n_rows))
    places = np.unique(np.linspace(0, n_rows - 1, min(n_rows, _GRID)).round().astype(np.intp))
    best: Terms | None = None
    for terms in _possible(allowances, risks is None, n_rows, held_out):
        cheap = n_rows * (1 - terms.rate)
        if risks is not None:
            cheap *= _share_above(terms, risks, places)
        found = Terms(terms.rate, terms.tolerated, n_rows * terms.rate, cheap)
        if best is None or found.expected_cheap > best.expected_cheap:
            best = found
    return best


def _share_above(terms: Terms, risks: Sequence[Risk], places: NDArray[np.intp]) -> float:
    """Return the expected share of rows above the stop."""
    above: Any = 1.0
    for risk, tolerated in zip(risks, terms.tolerated, strict=True):
        held = risk.held if isinstance(risk.held, float) else risk.held[places]
        above = above * pdtr(tolerated, terms.rate * risk.batch[places] + held)
    return float(np.mean(above))


def _possible(
    allowances: Sequence[Allowance], without_scores: bool, n_rows: int, held_out: HeldOut
) -> Iterator[Terms]:
    """Give the rates that some promise makes worth trying, with what all tolerate at them."""
    for one in allowances:
        most = n_rows - one.most - 1  # as many are needed to be wrong
        if most < 0:
            continue
        numbers: Iterable[int] = _counts(min(most, max(one.most, _FEW)))
        if without_scores:
            numbers = [min(_WITHOUT_SCORES, most)]
        for tolerated in numbers:
            rate = rate_for(one.most, tolerated, one.error, held_out)
            if rate >= 1:
                continue
            at_rate = [
                tolerated if each is one
                else n_rows if each.most >= n_rows
                else tolerated_at(rate, each.most, each.error, held_out)
                for each in allowances
            ]  # fmt: skip
            if None not in at_rate:
                yield Terms(rate, tuple(int(each or 0) for each in at_rate), 0.0, 0.0)


def _counts(most: int) -> Iterator[int]:
    count = 0
    while count <= most:
        yield count
        count = max(count + 1, ceil(count * _GROWTH)) if count >= _FEW else count + 1


def stop_rank(known: NDArray[np.float64], tolerated: int, n_rows: int) -> int:
    """Return how many rows stand above the stop.

    `known` are the places of known disagreements: the rank of a checked row, or, of a held-out
    row, the number of rows of the batch above it less one half.

    Examples
    --------
    >>> import numpy as np
    >>> from emsco.batch.spot_checks import stop_rank
    >>> stop_rank(np.array([7.0, 3.0]), tolerated=1, n_rows=10)  # before the second one
    7
    >>> stop_rank(np.array([7.0, 2.5]), tolerated=0, n_rows=10)  # a held-out row below three
    3
    """
    if len(known) <= tolerated:
        return n_rows
    return ceil(float(np.partition(known, tolerated)[tolerated]))
