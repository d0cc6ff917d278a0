"""The number of rows that a certificate needs."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real

from emsco.certify._binomial import tail
from emsco.exceptions import CertificateError, Parameter

_MOST_ROWS = 2**40  # more than anybody has
_LEAPS = 20  # in power that are checked beyond the first that suffices


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
