"""What was bought: by source, with values or why there are none; and by row, as receipts."""

from __future__ import annotations

import uuid
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, overload

from emsco.live.live_plan import LivePlan

FETCHED, CACHED, SHARED, KNOWN = "fetched", "cached", "shared", "known"
NOT_FETCHED = ""  # nothing was requested for this row


@dataclass(frozen=True, eq=False)
class PurchaseBatch:
    """Rows bought from a source, stored by column, without an object per row."""

    columns: Mapping[str, list[Any]]  # the value of a row with a reason must not be used
    reasons: list[str]  # why a row has no values; "" if it has
    how: list[str]  # where the values came from, as above
    paid: list[float]
    billed: list[bool]  # whether it is known that the source charges for the row
    moments: list[float | None] | None = None  # of events, in seconds since 1970, if there are any
    verified: bool = True  # whether answers repeat the key that they are for

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


class Purchase(NamedTuple):
    """What a stage bought from a source, for receipts: for which rows, and when the answer came."""

    batch: PurchaseBatch
    source: str
    stage: int
    rows: Sequence[int]  # of the decision, in ascending order
    waited: float  # in seconds
    now: float  # in seconds since 1970


@dataclass
class SourceSpending:
    """The spending on one source: what answers cost, and what calls without one may have cost."""

    paid: float = 0.0
    unknown: float = 0.0


@dataclass(frozen=True)
class Fetch:
    """The answer of one source for one row."""

    source: str
    stage: int  # that bought it
    how: str  # where the values came from: "fetched", "cached", "shared" or "known"
    reason: str = ""  # why there are no values; "" if there are
    paid: float = 0.0
    waited: float = 0.0  # in seconds
    age: float | None = None  # of the answer in seconds, if the source gives a time
    verified: bool = True  # whether the answer repeated the key
    billed: bool = True  # whether it is known that the source charges for it


@dataclass(frozen=True)
class Receipt:
    """What one live decision fetched, paid and waited for, and what it did not need."""

    id: str  # of the decision, which is also in the log
    fetches: tuple[Fetch, ...]  # in order
    not_needed: tuple[str, ...]  # the sources that the cascade could have bought but did not
    saved: float  # what these would have cost
    prices: str  # the digest of the price list
    model: str  # the digest of the cascade that decided
    promise: str  # what a certificate of the cascade means for live decisions

    @property
    def paid(self) -> float:
        """The amount paid, including calls that may not have been charged."""
        return sum(fetch.paid for fetch in self.fetches)

    @property
    def unknown(self) -> tuple[str, ...]:
        """The sources that may or may not charge for a call without an answer."""
        return tuple(fetch.source for fetch in self.fetches if not fetch.billed)


class Receipts(Sequence[Receipt]):
    """A receipt per row, created on access from the answers of sources."""

    def __init__(
        self, terms: LivePlan, n_rows: int, call: str | Sequence[str] | None = None
    ) -> None:
        self._terms, self._n_rows, self._call_or_none = terms, n_rows, call
        self.purchases: list[Purchase] = []

    @cached_property
    def _call(self) -> str | Sequence[str]:
        return uuid.uuid4().hex if self._call_or_none is None else self._call_or_none

    def __len__(self) -> int:
        return self._n_rows

    @overload
    def __getitem__(self, row: int) -> Receipt: ...
    @overload
    def __getitem__(self, row: slice) -> list[Receipt]: ...
    def __getitem__(self, row: int | slice) -> Receipt | list[Receipt]:
        if isinstance(row, slice):
            return [self[i] for i in range(*row.indices(len(self)))]
        row = range(len(self))[row]
        terms = self._terms
        fetches = [found for one in self.purchases if (found := _fetch(one, row)) is not None]
        had = {fetch.source for fetch in fetches}
        rest = tuple(name for name in terms.bought if name not in had)
        saved = terms.costs.of(rest, paid=had) if rest else 0.0
        call = self._call
        own = f"{call}-{row}" if isinstance(call, str) else call[row]
        prices, model, promise = terms.prices, terms.model, terms.promise
        return Receipt(own, tuple(fetches), rest, saved, prices, model, promise)


def _fetch(purchase: Purchase, row: int) -> Fetch | None:
    """Return the answer of a source for a row; None if it was not requested."""
    batch, source, stage, rows, waited, now = purchase
    i = bisect_left(rows, row)
    if i == len(rows) or rows[i] != row:
        return None
    moment = None if batch.moments is None else batch.moments[i]
    return Fetch(
        source, stage, batch.how[i], batch.reasons[i], batch.paid[i], waited,
        None if moment is None else now - moment, batch.verified, batch.billed[i],
    )  # fmt: skip
