"""Coins: which rows are checked, drawn by a secret and the whole question.

The coin of a row depends on its place, never on its values: copies of one wrong row must not share
a coin. The digest of a question fixes all that was decided before the first answer, so that another
question has other coins, and the same question the same ones.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from fractions import Fraction
from hashlib import sha256
from math import ceil

import numpy as np
from numpy.typing import NDArray

_BITS = 64


def digest_of(parts: Iterable[bytes]) -> bytes:
    """Return the digest of several parts, each with its length."""
    total = sha256()
    for part in parts:
        total.update(len(part).to_bytes(8, "big"))
        total.update(part)
    return total.digest()


def draw(secret: bytes, question: bytes, rows: NDArray[np.intp], rate: float) -> NDArray[np.bool_]:
    """Return which of these rows are checked, each with probability `rate`.

    Examples
    --------
    >>> import numpy as np
    >>> from emsco.batch.coins import draw
    >>> checked = draw(b"secret", b"question", np.arange(10_000), 0.25)
    >>> int(checked.sum())
    2452
    """
    below = ceil(Fraction(rate) * 2**_BITS)
    coins = (
        hmac.digest(secret, question + row.to_bytes(8, "big"), "sha256")[: _BITS // 8]
        for row in rows.tolist()
    )
    drawn = np.frombuffer(b"".join(coins), dtype=">u8")
    return drawn < np.uint64(below) if below < 2**_BITS else np.ones(len(rows), dtype=bool)


def shuffled(secret: bytes, what: str, n: int) -> NDArray[np.intp]:
    """Return the numbers below `n` in an order that the secret draws."""
    seed = hmac.digest(secret, what.encode(), "sha256")
    keys = np.random.PCG64(int.from_bytes(seed, "big")).random_raw(n)
    return np.argsort(keys, kind="stable")
