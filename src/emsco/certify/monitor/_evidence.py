"""Evidence that a mean exceeds a bound, gathered number by number, valid however often you look.

A gambler starts with 1 and bets that the next number exceeds the bound: a stake s turns a wealth of
W into W * (1 + s * (x - bound)). As long as the mean does not exceed the bound, whatever came
before, no such bet is favourable, and the probability that the wealth ever reaches 1 / alpha is at
most alpha (Ville 1939). So the wealth is the evidence, and looking often costs nothing.

One gambler would need the right stake, and would be ruined by a long good time before a change. So
the initial wealth is divided: over stakes from large to small, and over gamblers who start later, a
group of them after every 100 numbers (a lot). Their total wealth is evidence of the same kind.
"""

from __future__ import annotations

from collections import deque
from math import log, log2
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

EVERY = 100  # numbers in a lot, after which new gamblers start
RECENT = 10  # lots, at most, whose sums are kept for the recent mean
# Stakes, as shares of the stake that ruins a gambler if the number is 0. Each is the best stake
# against a mean of bound + share * (1 - bound), so together they cover small and large changes.
SHARES = 0.5 ** np.arange(1, 10)
_TOGETHER = 100  # lots that are added at a time: as many as fit into the cache
_LEAST_BOUND = 1e-9  # with a bound of 0, one larger number would be infinite evidence


class Evidence:
    """Evidence that numbers from 0 to 1 have a mean above a bound."""

    def __init__(self, bound: float) -> None:
        self.bound = max(bound, _LEAST_BOUND)
        self.seen = 0
        self._stakes = SHARES / self.bound
        # The wealth of the gamblers of each stake at the start of the lot and their gain since, as
        # logarithms, and the sum of the numbers of the lot.
        self._held = np.full(len(SHARES), log(0.5 / len(SHARES)))
        self._gained = np.zeros(len(SHARES))
        self._sum = 0.0
        self._sums: deque[float] = deque(maxlen=RECENT)

    @property
    def log_evidence(self) -> float:
        """The logarithm of the total wealth of all gamblers."""
        return float(np.logaddexp(_log_sum(self._held + self._gained), self._reserve))

    @property
    def recent(self) -> tuple[float, int]:
        """The recent mean that deviates most from the bound, and its number of values."""
        sums = np.cumsum([self._sum, *reversed(self._sums)])
        counts = self.seen % EVERY + EVERY * np.arange(len(sums))
        means = sums / np.maximum(counts, 1)
        deviation = (means - self.bound) * np.sqrt(counts)
        since = int(deviation.argmax()) if deviation.max() > 0 else -1
        return float(means[since]), int(counts[since])

    def add(self, numbers: ArrayLike) -> NDArray[np.float64]:
        """Add numbers, and return the logarithm of the evidence after each of them.

        The result is the same to the last bit, in whatever portions the numbers are added.
        """
        values = np.asarray(numbers, dtype=np.float64)
        path = np.empty(len(values))
        done = 0
        while done < len(values):
            # The rest of a lot, or several whole lots, or the start of one.
            begun = self.seen % EVERY
            n_lots = 1 if begun else max(min((len(values) - done) // EVERY, _TOGETHER), 1)
            taken = values[done : done + n_lots * EVERY - begun]
            path[done : done + len(taken)] = self._add_lots(taken.reshape(n_lots, -1))
            done += len(taken)
        return path

    def _add_lots(self, lots: NDArray[np.float64]) -> NDArray[np.float64]:
        """Add whole lots, or numbers within a single lot."""
        gains = np.log1p(self._stakes[:, None, None] * (lots - self.bound))
        gains[:, 0, 0] += self._gained
        wealth = np.cumsum(gains, axis=2)  # stakes x lots x numbers
        lasts = wealth[:, :, -1].copy()
        first = lots[0, 0] + self._sum
        sums = np.cumsum(np.vstack([np.append(first, lots[0, 1:]), lots[1:]]), axis=1)[:, -1]
        reserve = np.empty((len(lots), 1))
        for lot in range(len(lots)):
            wealth[:, lot] += self._held[:, None]
            reserve[lot] = self._reserve
            self._gained, self._sum = lasts[:, lot], float(sums[lot])
            self.seen += lots.shape[1]
            if self.seen % EVERY == 0:
                self._begin_anew()
        return np.logaddexp(_log_sum(wealth), reserve).ravel()

    @property
    def _reserve(self) -> float:
        """The logarithm of the wealth that is kept for gamblers who start later."""
        return log(0.5 / log2(self.seen // EVERY + 2))

    def _begin_anew(self) -> None:
        """Start new gamblers, with a part of the other half of the initial wealth.

        The parts decrease as slowly as their sum allows, so that late changes are found too.
        """
        lot = self.seen // EVERY
        part = 0.5 / log2(lot + 1) - 0.5 / log2(lot + 2)
        self._held = np.logaddexp(self._held + self._gained, log(part / len(SHARES)))
        self._gained = np.zeros(len(SHARES))
        self._sums.append(self._sum)
        self._sum = 0.0

    def state(self) -> dict[str, Any]:
        """Return everything that changes, as plain values."""
        return {
            "seen": self.seen,
            "held": self._held.tolist(),
            "gained": self._gained.tolist(),
            "sum": self._sum,
            "sums": list(self._sums),
        }

    def restore(self, state: dict[str, Any]) -> Self:
        """Continue from the `state` of another one."""
        self.seen = int(state["seen"])
        self._held, self._gained = (
            np.array(state[name], dtype=np.float64) for name in ("held", "gained")
        )
        self._sum = float(state["sum"])
        self._sums = deque(map(float, state["sums"]), maxlen=RECENT)
        if any(
            a.shape != SHARES.shape or not np.isfinite(a).all() for a in (self._held, self._gained)
        ):
            raise ValueError(f"{len(SHARES)} finite wealths are needed.")
        return self


def _log_sum(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the logarithm of a sum over the first axis, of numbers given as logarithms."""
    most = logs.max(axis=0)
    total = np.zeros_like(most)
    for own in logs:
        total += np.exp(own - most)
    log_sum: NDArray[np.float64] = most + np.log(total)
    return log_sum


def upper_bound(share: float, rows: float, delta: float) -> float:
    """Return an upper bound of a mean of numbers from 0 to 1, too low with probability `delta`.

    Chernoff's bound: rows * KL(share, bound) = log(1 / delta).
    """
    low, high = share, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if rows * _divergence(share, middle) < -log(delta):
            low = middle
        else:
            high = middle
    return high


def _divergence(share: float, other: float) -> float:
    """Return the Kullback-Leibler divergence of two Bernoulli variables, for other >= share."""
    heads = share * log(share / other) if share else 0.0
    if share == 1 or other == 1:
        return 0.0 if share == other else float("inf")
    return heads + (1 - share) * log((1 - share) / (1 - other))
