"""Certificates of shares of a stake: the cap, the coin, and on how many rows they rest.

Rows are thinned as auditors sample monetary units: with the cap B, a calibration row with the stake
S is kept with probability S / B. An accepted row that is kept is then wrong with exactly the share
of the accepted stake that is wrong, so the exact tests of shares of rows apply to the rows kept.
This needs a cap that does not depend on the calibration rows, and that no row exceeds: rows above
it are rejected, here and live (`emsco.cascade.stake_cap`). With the largest stake of the sample, a
rare huge one that is not among the rows would count for nothing.

The coin is a function of the rows: asking again, in whatever order or process, keeps the same ones.
Other rows, or other stakes, draw anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from math import ceil, fsum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from emsco.cascade import CascadeClassifier
from emsco.cascade.stake_cap import StakeCap, read_stakes
from emsco.certify._serialization import expect, expect_keys, number, whole
from emsco.certify._targets import Shortfall, percent
from emsco.exceptions import CertificateError, Parameter
from emsco.rows.row_hashes import Hashes, hash_exactly
from emsco.rows.rows import Layout

STAKE = "stake"  # the column of stakes that were given as an array without a name


@dataclass(frozen=True)
class StakeTerms:
    """What a certificate of shares of a stake counts.

    Parameters
    ----------
    column : str
        The column that holds the stake of a row.
    cap : float
        The largest stake of a row that may be accepted; rows above it go to review.
    kept : int
        The number of calibration rows that the coin kept, which were counted.
    total : float
        The sum of the stakes of the calibration rows up to the cap.
    above : int
        The number of calibration rows above the cap.
    above_total : float
        The sum of their stakes.
    """

    column: str
    cap: float
    kept: int
    total: float
    above: int
    above_total: float

    @property
    def effective_rows(self) -> float:
        """The sum of the stakes over the cap: how many rows the coin keeps on average."""
        return self.total / self.cap

    @property
    def rule(self) -> StakeCap:
        """The cap, as a cascade enforces it."""
        return StakeCap(self.column, self.cap)

    @property
    def counting(self) -> str:
        """Say what is counted, for the middle of a sentence."""
        return f"counting the stake {self.column!r} instead of rows"

    def note(self, rows: int) -> str:
        """Say on how many rows the certificate rests, and what the cap keeps out."""
        beyond = percent(self.above_total / (self.total + self.above_total))
        return (
            f"Effective rows: {self.effective_rows:,.1f}, the sum of the stakes up to the cap over "
            f"the cap, {self.cap:,.10g}. Of {rows:,} calibration rows, a coin kept {self.kept:,}, "
            "each with probability stake / cap; these were counted. Rows with a stake above the "
            f"cap always go to review: {self.above:,} here, with {beyond} of the stake. Shares of "
            "coverage and rejected are of the stake up to the cap; the cost is per row."
        )

    def lacking(self, rows: int, shortfalls: tuple[Shortfall, ...]) -> str:
        """Say how many calibration rows with such stakes would do; "" if that is unknown."""
        # If none of those that were kept counts, all that are kept on average are assumed to.
        few = [s.needed / (s.rows or self.effective_rows) for s in shortfalls if s.needed]
        if not few:
            return ""
        needed = max(ceil(rows * max(few)), rows + 1)
        return (
            f" These are rows that the coin kept, of {self.effective_rows:,.1f} effective ones; "
            f"with such stakes, about {needed:,} calibration rows are needed, {needed - rows:,} "
            "more."
        )

    def to_data(self) -> dict[str, Any]:
        """Return it as plain values."""
        return dict(self.__dict__)

    @classmethod
    def from_data(cls, data: Any, rows: int) -> StakeTerms:
        """Rebuild it from the values of `to_data`; `rows` were used."""
        expect_keys(data, list(cls.__dataclass_fields__))
        cap = StakeCap(expect(data["column"], str, "column of stakes"), number(data["cap"], "cap"))
        terms = cls(
            cap.column,
            cap.cap,
            whole(data["kept"], "kept rows", rows),
            number(data["total"], "stake"),
            whole(data["above"], "rows above the cap", rows),
            number(data["above_total"], "stake above the cap"),
        )
        if not terms.total or terms.kept + terms.above > rows:
            raise CertificateError("A certificate has stakes that contradict one another.")
        return terms


@dataclass(frozen=True)
class StakedRows:
    """The stake of each calibration row, and whether the coin kept it."""

    cap: StakeCap
    stakes: NDArray[np.float64]
    kept: NDArray[np.bool_]

    def take(self, rows: NDArray[np.intp]) -> StakedRows:
        """Return some of the rows; the coin does not fall again."""
        return StakedRows(self.cap, self.stakes[rows], self.kept[rows])

    def digested(self, hashes: Hashes) -> list[Any]:
        """List the values that distinguish one question from another."""
        stakes = hashes + hash_exactly({"stake": self.stakes})
        return ["stake", self.cap.column, self.cap.cap, np.sort(stakes)]

    @property
    def terms(self) -> StakeTerms:
        """What a certificate says of them."""
        above = self.stakes > self.cap.cap
        # Rounded once, so that the order of the rows does not show.
        total, beyond = fsum(self.stakes[~above]), fsum(self.stakes[above])
        kept, n_above = int(self.kept.sum()), int(above.sum())
        return StakeTerms(self.cap.column, self.cap.cap, kept, total, n_above, beyond)

    @property
    def doubts(self) -> tuple[str, ...]:
        """Say so if the cap looks as if it came from the calibration rows."""
        if self.stakes.max() != self.cap.cap:
            return ()
        return (
            f"The cap {self.cap.cap:,.10g} is the largest stake of these rows: this holds only if "
            "it was fixed before they were looked at.",
        )


def staked_rows(
    stake: str | ArrayLike | None,
    cap: float | None,
    X: Any,
    layout: Layout,
    hashes: Hashes,
) -> StakedRows | None:
    """Read the stakes of calibration rows and toss the coin; None without a stake.

    `hashes` are those of the rows with their labels; equal rows are interchangeable.
    """
    if stake is None and cap is None:
        return None
    if stake is None or cap is None:
        raise CertificateError(
            Parameter("stake")
            + " and "
            + Parameter("cap")
            + " must be given together: the cap is the largest stake of a row that may be "
            "accepted, fixed before these rows are looked at, and rows above it go to review."
        )
    if isinstance(stake, str):
        column, stakes = stake, read_stakes(layout.read_column(X, stake))
    else:
        column, stakes = str(getattr(stake, "name", None) or STAKE), read_stakes(stake)
    limit = StakeCap(column, cap)
    if len(stakes) != len(hashes):
        raise CertificateError(
            Parameter("stake") + f" must have one number for each of {len(hashes)} rows, got "
            f"{len(stakes)}."
        )
    invalid = np.flatnonzero(~np.isfinite(stakes) | (stakes < 0))
    if invalid.size:
        raise CertificateError(
            f"A stake must be a number >= 0, and {invalid.size:,} of {len(stakes):,} rows have "
            f"another one: row {invalid[0]} has {stakes[invalid[0]]:g} in {column!r}.",
            parameter="stake",
        )
    if not stakes[stakes <= limit.cap].any():
        raise CertificateError(
            f"No row has a stake above 0 and up to the cap, {limit.cap:g}.", parameter="cap"
        )
    own = hashes + hash_exactly({"stake": stakes})
    seed = sha256(b"coin of stakes" + np.sort(own).tobytes()).digest()
    coins = np.empty(len(stakes))
    coins[np.argsort(own, kind="stable")] = np.random.default_rng(list(seed)).random(len(stakes))
    kept = (coins < stakes / limit.cap) & (stakes <= limit.cap)
    return StakedRows(limit, stakes, kept)


def with_cap(cascade: CascadeClassifier, cap: StakeCap) -> CascadeClassifier:
    """Return a cascade that rejects all rows with a stake above a cap."""
    return CascadeClassifier.of(
        cascade.decider_.capped(cap),
        cascade.fitted_rows_,
        estimator=cascade.estimator,
        threshold=cascade.threshold,
        guard=cascade.guard,
    )
