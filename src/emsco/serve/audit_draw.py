"""The random draw of audited decisions, by their ids alone.

Whether a decision is drawn depends only on its id and a secret key, not on the row. So a decision
that is repeated after a crash is drawn again if it was drawn before, all processes draw the same
decisions, and a label of a decision that was never drawn is recognized without a query.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from emsco.exceptions import MonitorError
from emsco.rows.row_hashes import COUNTER_STEP, Hashes, finalise


class Audit:
    """Draws a random share of decisions by their ids.

    An id consists of the id of a call, a hyphen and the number of the row in the call.

    Parameters
    ----------
    share : float
        The share to draw, from 0 to 1.
    key : bytes
        The secret for the draw. With it, one could choose ids that are not drawn.

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
        return bool(self._are_drawn(call, np.array([row], dtype=np.uint64))[0])

    def drawn(self, ids: Sequence[str]) -> list[int]:
        """Return the positions of the decisions of one call that are drawn."""
        if len(ids) == 1:
            return [0] if self.is_drawn(ids[0]) else []
        if not ids or not self._limit:
            return []
        call, first = _parts(ids[0])
        if first or ids[-1] != f"{call}-{len(ids) - 1}":  # not the rows of a whole call
            return [place for place, one in enumerate(ids) if self.is_drawn(one)]
        drawn = self._are_drawn(call, np.arange(len(ids), dtype=np.uint64))
        places: list[int] = np.flatnonzero(drawn).tolist()
        return places

    def _are_drawn(self, call: str, rows: Hashes) -> NDArray[np.bool_]:
        """Return which rows of a call are drawn: those whose numbers are below the limit."""
        found = blake2b(call.encode("utf-8", "surrogatepass"), key=self._key, digest_size=8)
        start = np.frombuffer(found.digest(), dtype="<u8").astype(np.uint64)
        numbers = finalise(start + rows * COUNTER_STEP)
        drawn: NDArray[np.bool_] = numbers <= np.uint64(max(self._limit - 1, 0))
        return drawn & (self._limit > 0)


def _parts(id: str) -> tuple[str, int]:  # noqa: A002
    """Split the id of a decision into the id of its call and its row number."""
    call, _, row = id.rpartition("-")
    if call and len(row) < 16 and row.isascii() and row.isdigit():
        return call, int(row)
    return id, 0
