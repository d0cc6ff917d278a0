"""The random draw of audited decisions, by their ids alone.

Whether a decision is drawn depends only on its id and a secret key, not on the row. So a decision
that is repeated after a crash is drawn again if it was drawn before, all processes draw the same
decisions, and a label of a decision that was never drawn is recognized without a query.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from emsco.exceptions import MonitorError

# SplitMix64 (Steele, Lea and Flood 2014): a counter, mixed until every bit depends on every bit.
_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_ALL = 2**64 - 1


class Audit:
    """Draws a random share of decisions by their ids.

    An id consists of the id of a call, a hyphen and the number of the row in the call.

    Examples
    --------
    >>> from emsco.serve.audit_draw import Audit
    >>> audit = Audit(0.02, b"secret")
    >>> drawn = audit.drawn([f"call-{row}" for row in range(10_000)])
    >>> len(drawn)
    223
    >>> audit.is_drawn(f"call-{drawn[0]}"), audit.is_drawn("call-0")
    (True, False)
    """

    def __init__(self, share: float, key: bytes) -> None:
        if not 0 <= share <= 1:
            raise MonitorError(f"`audit` must be between 0 and 1, got {share!r}.")
        self.share = share
        self._key = blake2b(key).digest()
        self._limit = round(share * 2**64)  # numbers below it are drawn

    def is_drawn(self, id: str) -> bool:  # noqa: A002
        """Return whether a decision is drawn."""
        call, row = _parts(id)
        return _stirred(self._first(call) + row * _STEP) < self._limit

    def drawn(self, ids: Sequence[str]) -> list[int]:
        """Return the positions of the decisions of one call that are drawn."""
        if len(ids) == 1:
            return [0] if self.is_drawn(ids[0]) else []
        if not ids or not self._limit:
            return []
        call, first = _parts(ids[0])
        if first or ids[-1] != f"{call}-{len(ids) - 1}":  # not the rows of a whole call
            return [place for place, one in enumerate(ids) if self.is_drawn(one)]
        numbers = np.arange(len(ids), dtype=np.uint64) * np.uint64(_STEP)
        numbers += np.uint64(self._first(call))
        numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(_FIRST)
        numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(_SECOND)
        numbers ^= numbers >> np.uint64(31)
        places: list[int] = np.flatnonzero(numbers <= np.uint64(self._limit - 1)).tolist()
        return places

    def _first(self, call: str) -> int:
        found = blake2b(call.encode("utf-8", "surrogatepass"), key=self._key, digest_size=8)
        return int.from_bytes(found.digest(), "little")


def _parts(id: str) -> tuple[str, int]:  # noqa: A002
    """Split the id of a decision into the id of its call and its row number."""
    call, _, row = id.rpartition("-")
    if call and len(row) < 16 and row.isascii() and row.isdigit():
        return call, int(row)
    return id, 0


def _stirred(number: int) -> int:
    number &= _ALL
    number = ((number ^ (number >> 30)) * _FIRST) & _ALL
    number = ((number ^ (number >> 27)) * _SECOND) & _ALL
    return number ^ (number >> 31)
