"""Which outcomes of a paid request the vendor may charge for.

A request that is certainly not charged must not use up the daily limit: an outage would lock the
source out for the rest of the day.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from emsco.exceptions import SourcesError

NO_ANSWER, LOST = "timeout", "lost"  # no answer in time; the connection was lost after sending
BILLED: tuple[int | str, ...] = ("2xx", 404, 410, 502, 504, NO_ANSWER, LOST)
_CLASSES = tuple(f"{first}xx" for first in range(1, 6))


class UnbilledError(ConnectionError):
    """A request failed, and the vendor charges nothing for it."""


@dataclass(frozen=True)
class Billing:
    """The outcomes of an HTTP request that the vendor may charge for.

    Parameters
    ----------
    statuses : frozenset of int
        The statuses of billed answers.
    timeout, lost : bool
        Whether a request is billed if it timed out, or if the connection was lost.

    Examples
    --------
    >>> from emsco.live.billing import Billing
    >>> billing = Billing.of(["2xx", 404, "timeout"])
    >>> 201 in billing.statuses, 404 in billing.statuses, 503 in billing.statuses
    (True, True, False)
    >>> billing.timeout, billing.lost
    (True, False)
    """

    statuses: frozenset[int]
    timeout: bool
    lost: bool

    @classmethod
    def of(cls, billed: Sequence[Any]) -> Billing:
        """Read statuses (404), classes of them ("2xx"), "timeout" and "lost"."""
        statuses: set[int] = set()
        for one in () if isinstance(billed, str) else billed:
            if one in _CLASSES:
                first = 100 * int(one[0])
                statuses.update(range(first, first + 100))
            elif type(one) is int and 100 <= one < 600:
                statuses.add(one)
            elif one not in (NO_ANSWER, LOST):
                raise SourcesError(
                    "`billed` must list statuses such as 404, status classes such as '2xx', "
                    f"{NO_ANSWER!r} or {LOST!r}, got {one!r}."
                )
        if 200 not in statuses:
            raise SourcesError(
                "`billed` must be a list that contains 200 or '2xx': a paid source is paid for "
                "its answers."
            )
        return cls(frozenset(statuses), NO_ANSWER in billed, LOST in billed)


def is_unbilled(error: BaseException | None) -> bool:
    """Return whether an error, or what caused it, says that nothing is charged for the request.

    Examples
    --------
    >>> from emsco.live.billing import is_unbilled
    >>> is_unbilled(ConnectionRefusedError()), is_unbilled(ConnectionResetError())
    (True, False)
    """
    while error is not None:
        if isinstance(error, UnbilledError | ConnectionRefusedError):
            return True
        error = error.__cause__
    return False
