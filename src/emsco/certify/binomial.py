"""Exact tests and bounds for shares that were counted, and the number of rows that they need.

Counts are integers throughout: a rate that is multiplied back may round an exact count up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betainc, betaincinv  # type: ignore[import-untyped]  # scipy has no types

from emsco.exceptions import CertificateError, Parameter

_SMALLEST = 1e-300  # the smallest p-value that is distinguished from 0
_HALVINGS = 80  # of an interval of logarithms: more precise than the last digit
_MOST_ROWS = 2**40  # more than anybody has
_LEAPS = 20  # in power that are checked beyond the first that suffices


def tail(count: ArrayLike, rows: ArrayLike, share: ArrayLike) -> Any:
    """Return the probability of at most `count` events among `rows`, each of probability `share`.

    It is the exact p-value of "the share is at least this".
    """
    count, rows, share = np.asarray(count), np.asarray(rows), np.asarray(share)
    rest = rows - count
    inside = betainc(np.maximum(rest, 1), count + 1, 1 - share)
    return np.where(rest > 0, inside, 1.0)[()]


def lower(count: ArrayLike, rows: ArrayLike, level: ArrayLike) -> Any:
    """Return Clopper and Pearson's lower bound of a share, too high with probability `level`."""
    count, rows = np.asarray(count), np.asarray(rows)
    inside = betaincinv(np.maximum(count, 1), rows - count + 1, level)
    return np.where(count > 0, inside, 0.0)[()]


def upper(count: ArrayLike, rows: ArrayLike, level: ArrayLike) -> Any:
    """Return Clopper and Pearson's upper bound of a share, too low with probability `level`."""
    count, rows = np.asarray(count), np.asarray(rows)
    return 1 - lower(rows - count, rows, level)


def cost_upper(reached: ArrayLike, prices: ArrayLike, level: float) -> Any:
    """Bound the mean cost from above.

    The mean cost is the price of the first stage, plus the price of every later stage times the
    share of rows that reach it. So the bounds of these shares are added, each at its part of the
    level.
    """
    reached, prices = np.asarray(reached), np.asarray(prices)
    steps = np.diff(prices)
    each = level / np.maximum((steps > 0).sum(axis=-1, keepdims=True), 1)
    shares = upper(reached[..., 1:], reached[..., :1], each)
    return prices[..., 0] + (steps * shares).sum(axis=-1)


def cost_p_value(reached: Sequence[int], prices: Sequence[float], most: float) -> float:
    """Return the p-value of "the mean cost is above `most`".

    It is the smallest level at which `cost_upper` does not exceed `most`.
    """
    if prices[-1] <= most:
        return 0.0
    if prices[0] > most or not reached[0]:
        return 1.0
    below, above = np.log(_SMALLEST), 0.0
    if cost_upper(reached, prices, 1.0) > most:
        return 1.0
    for _ in range(_HALVINGS):
        middle = (below + above) / 2
        if cost_upper(reached, prices, float(np.exp(middle))) <= most:
            above = middle
        else:
            below = middle
    return float(np.exp(above))


def required_rows(
    accuracy: float,
    confidence: float = 0.99,
    *,
    errors: int = 0,
    candidates: int = 1,
    true_accuracy: float | None = None,
    power: float | None = None,
) -> int:
    """Return how many accepted calibration rows a certificate needs.

    Parameters
    ----------
    accuracy, confidence : float
        What to certify.
    errors : int, default=0
        The number of accepted rows that may be wrong.
    candidates : int, default=1
        The number of candidates that share the allowed error evenly.
    true_accuracy, power : float, default=None
        Instead of a number of errors: the true accuracy, and the probability with which the
        certificate is to be issued, for this and for every larger number of rows.

    Examples
    --------
    >>> from emsco.certify import required_rows
    >>> required_rows(0.95, 0.99), required_rows(0.95, 0.99, errors=5)
    (90, 259)
    >>> required_rows(0.95, 0.99, true_accuracy=0.97, power=0.8)
    1068
    """
    check_between("accuracy", accuracy)
    check_between("confidence", confidence)
    if errors < 0 or candidates < 1:
        raise CertificateError(
            f"`errors` must be >= 0 and `candidates` >= 1, got {errors} and {candidates}."
        )
    level = (1 - confidence) / candidates
    if true_accuracy is None and power is None:
        return rows_for(1 - accuracy, level, errors)
    if true_accuracy is None or power is None or errors:
        raise CertificateError("Give `true_accuracy` and `power` together, and without `errors`.")
    check_between("power", power)
    if not accuracy < true_accuracy <= 1:
        raise CertificateError(
            f"`true_accuracy` must be above {accuracy} and at most 1, got {true_accuracy!r}."
        )
    return rows_for_power(1 - accuracy, level, 1 - true_accuracy, power)


def check_between(name: str, value: object) -> None:
    """Refuse anything but a number strictly between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < 1:
        raise CertificateError(
            Parameter(name) + f" must be a number between 0 and 1, got {value!r}.", value=value
        )


def rows_for(share: float, level: float, events: int) -> int:
    """Return the fewest rows among which `events` events reject a share at this level."""
    return _fewest(lambda rows: bool(tail(events, rows, share) <= level), events + 1)


def rows_for_power(share: float, level: float, true_share: float, power: float) -> int:
    """Return the fewest rows from which on a smaller true share is detected with this power.

    Power falls with every row until one more event is allowed, and then leaps up. So what counts is
    the power just before each leap.
    """

    def suffices(events: int) -> bool:
        last = rows_for(share, level, events + 1) - 1
        return bool(tail(events, last, true_share) >= power)

    events = _fewest(suffices, 0)
    # The power before the leaps rises, except for rounding, which matters near the target.
    while not all(suffices(events + more) for more in range(1, _LEAPS)):
        events += 1
    return rows_for(share, level, events)


def _fewest(holds: Callable[[int], bool], least: int) -> int:
    """Return the smallest number from which on a condition holds."""
    most = max(least, 1)
    while not holds(most):
        least, most = most + 1, 2 * most
        if most > _MOST_ROWS:
            raise CertificateError("This would need more rows than anyone has.")
    while least < most:
        middle = (least + most) // 2
        if holds(middle):
            most = middle
        else:
            least = middle + 1
    return least
