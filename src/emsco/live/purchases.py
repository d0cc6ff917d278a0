"""Rows bought from a source: their values, or why there are none, and what was paid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, overload

from emsco.core.decisions import ACCEPTED

FETCHED, CACHED, SHARED, KNOWN = "fetched", "cached", "shared", "known"


class Purchase(NamedTuple):
    """One row from a source: its values, or the reason why it has none."""

    values: tuple[Any, ...] | None
    reason: str = ACCEPTED
    how: str = FETCHED
    paid: float = 0.0
    billed: bool = True  # False: it is not known whether the source charges for it
    moment: float | None = None  # of the event, in seconds since 1970
    verified: bool = True


@dataclass(frozen=True, eq=False)
class PurchaseBatch(Sequence[Purchase]):
    """Rows from a source, stored by column, without an object per row.

    Parameters
    ----------
    columns : mapping of feature to list
        One value per row; the value of a row with a reason must not be used.
    reasons : list of str
        Why a row has no values; "" if it has.
    how : list of str
        Where the values came from: "fetched", "cached", "shared" or "known".
    paid : list of float
        The amount paid for each row.
    billed : list of bool
        Whether it is known that the source charges for the row.
    moments : list of float or None, default=None
        The time of each event, in seconds since 1970. None: the source gives no times.
    verified : bool, default=True
        Whether answers repeat the key that they are for.
    """

    columns: Mapping[str, list[Any]]
    reasons: list[str]
    how: list[str]
    paid: list[float]
    billed: list[bool]
    moments: list[float | None] | None = None
    verified: bool = True

    @classmethod
    def all_alike(
        cls, n_rows: int, reason: str, *, how: str = FETCHED, paid: float = 0.0, billed: bool = True
    ) -> PurchaseBatch:
        """Return rows without values, all for the same reason."""
        return cls({}, [reason] * n_rows, [how] * n_rows, [paid] * n_rows, [billed] * n_rows)

    @classmethod
    def of(cls, rows: Sequence[Purchase], features: Sequence[str]) -> PurchaseBatch:
        """Combine single rows."""
        moments = [row.moment for row in rows]
        return cls(
            {f: [row.values[j] if row.values else None for row in rows]
             for j, f in enumerate(features)},
            [row.reason for row in rows],
            [row.how for row in rows],
            [row.paid for row in rows],
            [row.billed for row in rows],
            moments if any(moment is not None for moment in moments) else None,
            all(row.verified for row in rows),
        )  # fmt: skip

    @property
    def known(self) -> float:
        """The amount that is known to be charged, for all rows."""
        return sum(paid for paid, sure in zip(self.paid, self.billed, strict=True) if sure)

    def unsure(self, price: float, rows: Sequence[int] | None = None) -> PurchaseBatch:
        """Return the same rows, some of which (None: all) may have been charged at a price."""
        paid, billed = list(self.paid), list(self.billed)
        for i in range(len(self)) if rows is None else rows:
            paid[i], billed[i] = price, False
        return replace(self, paid=paid, billed=billed)

    def padded(self, n_rows: int, reason: str) -> PurchaseBatch:
        """Return the same rows, padded to `n_rows` by rows without values, for a reason."""
        lacking = n_rows - len(self)
        if not lacking:
            return self
        return PurchaseBatch(
            {name: [*column, *[None] * lacking] for name, column in self.columns.items()},
            [*self.reasons, *[reason] * lacking],
            [*self.how, *[FETCHED] * lacking],
            [*self.paid, *[0.0] * lacking],
            [*self.billed, *[True] * lacking],
            None if self.moments is None else [*self.moments, *[None] * lacking],
            self.verified,
        )

    def __len__(self) -> int:
        return len(self.reasons)

    @overload
    def __getitem__(self, row: int) -> Purchase: ...
    @overload
    def __getitem__(self, row: slice) -> list[Purchase]: ...
    def __getitem__(self, row: int | slice) -> Purchase | list[Purchase]:
        if isinstance(row, slice):
            return [self[i] for i in range(*row.indices(len(self)))]
        reason = self.reasons[row]
        return Purchase(
            tuple(c[row] for c in self.columns.values()) if reason == ACCEPTED else None,
            reason,
            self.how[row],
            self.paid[row],
            self.billed[row],
            None if self.moments is None else self.moments[row],
            self.verified,
        )

    def __iter__(self) -> Iterator[Purchase]:
        return (self[row] for row in range(len(self)))


@dataclass
class SourceSpending:
    """The spending on one source.

    Parameters
    ----------
    paid : float, default=0.0
        The amount that is known to be charged, because answers came.
    unknown : float, default=0.0
        The amount that may be charged, for paid requests without an answer so far.
    """

    paid: float = 0.0
    unknown: float = 0.0
