"""The numbers behind spot checks: how many rows to check at random, and where to stop.

Rows stand in an order, the most trusted first. Each is checked with the same probability. The walk
goes down the order and stops before the (c+1)-th checked row whose cheap label is wrong. More than
k wrong labels stay above the stop only if, of the first k + 1 + c wrong ones in the order, at most
c were checked. That is a binomial probability, whatever the rows, scores and errors are.

Rows of which the final answer was known before (held out) are checked for free. If they and the
rows of the batch were drawn alike, how many of those first ones they are is hypergeometric.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, pdtr  # type: ignore[import-untyped]  # scipy has no types

from emsco.certify.binomial import tail

_SAFE = 1 + 1e-9  # a rate is rounded up by so much, far more than its functions are imprecise
_HALVINGS = 60
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
class HeldOut:
    """How many rows of known answers stand among so many rows in all."""

    held: int
    rows: int

    def among(self, first: int, most: int) -> NDArray[np.float64]:
        """Return the probabilities that 0 to `most` of the first so many are held out."""
        rest = self.rows - self.held
        # The probability of none, as a product; then each from the one before.
        none = np.log1p(-self.held / (self.rows - np.arange(first))).sum()
        counts = np.arange(most)
        ratios = np.log((first - counts) * (self.held - counts)) - np.log(
            (counts + 1.0) * (rest - first + counts + 1)
        )
        chances: NDArray[np.float64] = np.exp(none + np.append(0.0, np.cumsum(ratios)))
        return chances


NOTHING_HELD_OUT = HeldOut(0, 0)


def chance(most: int, tolerated: int, rate: float, held_out: HeldOut = NOTHING_HELD_OUT) -> float:
    """Return the largest probability that more than `most` disagreements stay above the stop.

    Examples
    --------
    >>> from emsco.batch.spot_checks import chance
    >>> round(chance(most=25, tolerated=2, rate=0.3), 4)  # P(Binomial(28, 0.3) <= 2)
    0.0038
    """
    first = most + 1 + tolerated
    if not held_out.held:
        return float(tail(tolerated, first, rate))
    if first > held_out.rows - held_out.held:
        return 1.0  # never asked for
    held = np.arange(min(tolerated, held_out.held) + 1)
    checked = tail(tolerated - held, first - held, rate)
    return float((held_out.among(first, len(held) - 1) * checked).sum())


def rate_for(
    most: int, tolerated: int, error: float, held_out: HeldOut = NOTHING_HELD_OUT
) -> float:
    """Return the least probability of a check that keeps a promise, rounded up.

    Examples
    --------
    >>> from emsco.batch.spot_checks import chance, rate_for
    >>> rate = rate_for(most=25, tolerated=2, error=0.1)
    >>> round(rate, 4), chance(25, 2, rate) <= 0.1
    (0.1791, True)
    """
    first = most + 1 + tolerated
    above = float(1 - betaincinv(first - tolerated, tolerated + 1, error))
    if held_out.held:
        if chance(most, tolerated, 0.0, held_out) * _SAFE <= error:
            return 0.0
        below = 0.0
        for _ in range(_HALVINGS):
            middle = (below + above) / 2
            if chance(most, tolerated, middle, held_out) <= error:
                above = middle
            else:
                below = middle
    rate = above
    while chance(most, tolerated, rate, held_out) * _SAFE > error and rate < 1:
        rate = min(1.0, rate * _SAFE + 1e-15)
    return rate


def tolerated_at(
    rate: float, most: int, error: float, held_out: HeldOut = NOTHING_HELD_OUT
) -> int | None:
    """Return the most disagreements that may be tolerated at this rate; None if not even 0."""
    if chance(most, 0, rate, held_out) * _SAFE > error:
        return None
    least, beyond = 0, 1
    limit = max(held_out.rows - held_out.held - most, 1) if held_out.held else max(most, _FEW) + 1
    while beyond < limit and chance(most, beyond, rate, held_out) * _SAFE <= error:
        least, beyond = beyond, 2 * beyond
    beyond = min(beyond, limit)
    while beyond - least > 1:
        middle = (least + beyond) // 2
        if chance(most, middle, rate, held_out) * _SAFE <= error:
            least = middle
        else:
            beyond = middle
    return least


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
