"""Rows bought from a source: their values, or why there are none, and what was paid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

FETCHED, CACHED, SHARED, KNOWN = "fetched", "cached", "shared", "known"
NOT_FETCHED = ""  # nothing was requested for this row


@dataclass(frozen=True, eq=False)
class PurchaseBatch:
    """Rows bought from a source, stored by column, without an object per row.

    The last fields are for receipts: who bought the rows, and when the answer came.
    """

    columns: Mapping[str, list[Any]]  # the value of a row with a reason must not be used
    reasons: list[str]  # why a row has no values; "" if it has
    how: list[str]  # where the values came from, as above
    paid: list[float]
    billed: list[bool]  # whether it is known that the source charges for the row
    moments: list[float | None] | None = None  # of events, in seconds since 1970, if there are any
    verified: bool = True  # whether answers repeat the key that they are for
    source: str = ""
    stage: int = 0
    rows: Sequence[int] = ()  # of the decision, in ascending order
    waited: float = 0.0  # in seconds
    now: float = 0.0  # in seconds since 1970

    def __len__(self) -> int:
        return len(self.reasons)

    @classmethod
    def failed(cls, reasons: list[str], *, how: str = FETCHED) -> PurchaseBatch:
        """Return rows without values, for these reasons, at no cost."""
        n_rows = len(reasons)
        return cls({}, reasons, [how] * n_rows, [0.0] * n_rows, [True] * n_rows)

    @classmethod
    def of(
        cls, rows: Sequence[tuple[PurchaseBatch, int]], features: Sequence[str]
    ) -> PurchaseBatch:
        """Combine rows, each given by its batch and its position there."""
        moments = [None if batch.moments is None else batch.moments[i] for batch, i in rows]
        return cls(
            {
                feature: [
                    None if batch.reasons[i] else batch.columns[feature][i] for batch, i in rows
                ]
                for feature in features
            },
            [batch.reasons[i] for batch, i in rows],
            [batch.how[i] for batch, i in rows],
            [batch.paid[i] for batch, i in rows],
            [batch.billed[i] for batch, i in rows],
            moments if any(moment is not None for moment in moments) else None,
            all(batch.verified for batch, _ in rows),
        )

    def replaced(self, places: Sequence[int], batch: PurchaseBatch) -> PurchaseBatch:
        """Return the same rows, those at some places replaced by the rows of a batch."""
        rows = [(self, i) for i in range(len(self))]
        for i, place in enumerate(places):
            rows[place] = batch, i
        return PurchaseBatch.of(rows, [*batch.columns])

    def free(self, how: str) -> PurchaseBatch:
        """Return the same rows for somebody who pays nothing for them."""
        n_rows = len(self)
        return replace(self, how=[how] * n_rows, paid=[0.0] * n_rows, billed=[True] * n_rows)

    def unsure(self, price: float, rows: Sequence[int] | None = None) -> PurchaseBatch:
        """Return the same rows, some of which (None: all) may have been charged at a price."""
        paid, billed = list(self.paid), list(self.billed)
        for i in range(len(self)) if rows is None else rows:
            paid[i], billed[i] = price, False
        return replace(self, paid=paid, billed=billed)

    @property
    def known(self) -> float:
        """The amount that is known to be charged, for all rows."""
        return sum(paid for paid, sure in zip(self.paid, self.billed, strict=True) if sure)


@dataclass
class SourceSpending:
    """The spending on one source: what answers cost, and what calls without one may have cost."""

    paid: float = 0.0
    unknown: float = 0.0
