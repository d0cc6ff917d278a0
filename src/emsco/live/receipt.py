"""Receipts: what each live decision fetched, paid and waited for, and what it did not need."""

from __future__ import annotations

import uuid
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

from emsco.live.live_plan import LivePlan
from emsco.live.purchases import PurchaseBatch


@dataclass(frozen=True)
class Fetch:
    """The answer of one source for one row.

    Parameters
    ----------
    source : str
        The name of the source.
    stage : int
        The stage that bought it.
    how : {"fetched", "cached", "shared", "known"}
        Where the values came from: the source, the cache, a call of another caller, or the caller.
    reason : str
        Why there are no values; "" if there are.
    paid : float
        The amount paid.
    waited : float
        How many seconds the row waited for the answer.
    age : float or None
        The age of the answer in seconds, if the source gives a time.
    verified : bool
        Whether the answer repeated the key.
    billed : bool
        Whether it is known that the source charges for it; False for a paid call without an answer.
    """

    source: str
    stage: int
    how: str
    reason: str = ""
    paid: float = 0.0
    waited: float = 0.0
    age: float | None = None
    verified: bool = True
    billed: bool = True


@dataclass(frozen=True)
class Receipt:
    """What one live decision fetched, paid and waited for, and what it did not need.

    Parameters
    ----------
    id : str
        The id of the decision, which is also in the log.
    fetches : tuple of Fetch
        What was fetched, in order.
    not_needed : tuple of str
        The sources that the cascade could have bought but did not.
    saved : float
        What these would have cost.
    prices : str
        The digest of the price list.
    model : str
        The digest of the cascade that decided.
    promise : str
        What a certificate of the cascade means for live decisions.
    """

    id: str
    fetches: tuple[Fetch, ...]
    not_needed: tuple[str, ...]
    saved: float
    prices: str
    model: str
    promise: str

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
        self.answers: list[PurchaseBatch] = []

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
        fetches = [found for answer in self.answers if (found := _fetch(answer, row)) is not None]
        had = {fetch.source for fetch in fetches}
        rest = tuple(name for name in terms.bought if name not in had)
        saved = terms.costs.of(rest, paid=had) if rest else 0.0
        call = self._call
        own = f"{call}-{row}" if isinstance(call, str) else call[row]
        return Receipt(
            own, tuple(fetches), rest, saved, terms.prices, terms.model,
            terms.promise,
        )  # fmt: skip


def _fetch(answer: PurchaseBatch, row: int) -> Fetch | None:
    """Return the answer of a source for a row; None if it was not requested."""
    i = bisect_left(answer.rows, row)
    if i == len(answer.rows) or answer.rows[i] != row:
        return None
    moment = None if answer.moments is None else answer.moments[i]
    return Fetch(
        answer.source, answer.stage, answer.how[i], answer.reasons[i], answer.paid[i],
        answer.waited, None if moment is None else answer.now - moment,
        answer.verified, answer.billed[i],
    )  # fmt: skip
