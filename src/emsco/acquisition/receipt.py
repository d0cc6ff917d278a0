"""What one live decision fetched, paid and waited, and what it did not need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from emsco.acquisition.gate import Bought

KNOWN = "known"  # the caller had it already


@dataclass(frozen=True)
class Fetch:
    """What one source gave for one row.

    Parameters
    ----------
    source : str
        Its name.
    stage : int
        The stage that bought it.
    how : {"fetched", "cached", "shared", "known"}
        Where it came from: the source, what was kept, a call that somebody else had made, or the
        caller.
    reason : str
        Why it gave nothing; "" if it gave values.
    paid : float
        What was paid.
    waited : float
        How many seconds the row waited for it.
    age : float or None
        How many seconds old the answer was, where the source gives a time.
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
    """What one live decision fetched, paid and waited, and what it did not need.

    Parameters
    ----------
    fetches : tuple of Fetch
        What was asked for, in order.
    not_needed : tuple of str
        The sources that the cascade could have bought and did not.
    saved : float
        What they would have cost.
    prices : str
        The digest of the price list.
    model : str
        The digest of the cascade that decided.
    """

    fetches: tuple[Fetch, ...]
    not_needed: tuple[str, ...]
    saved: float
    prices: str
    model: str

    @property
    def paid(self) -> float:
        """What was paid, where it is known and where it is not."""
        return sum(fetch.paid for fetch in self.fetches)

    @property
    def unknown(self) -> tuple[str, ...]:
        """The sources that may or may not charge for a call without an answer."""
        return tuple(fetch.source for fetch in self.fetches if not fetch.billed)


class Asked:
    """What one source gave for some rows of a call, until receipts are made of it."""

    def __init__(
        self, source: str, stage: int, rows: Sequence[int], got: Sequence[Bought], waited: float,
        extra: Sequence[float], now: float,
    ) -> None:  # fmt: skip
        self._source, self._stage, self._waited, self._now = source, stage, waited, now
        self._got = dict(zip(rows, zip(got, extra, strict=True), strict=True))

    def fetch(self, row: int) -> Fetch | None:
        """Give what a row got; None where it was not asked for."""
        found = self._got.get(row)
        if found is None:
            return None
        bought, extra = found
        return Fetch(
            self._source, self._stage, bought.how, bought.reason, bought.paid + extra,
            self._waited, None if bought.moment is None else self._now - bought.moment,
            bought.verified, bought.billed,
        )  # fmt: skip


class Receipts(Sequence[Any]):
    """A receipt per row, made when it is looked at."""

    def __init__(
        self,
        asked: list[Asked],
        n_rows: int,
        sources: Sequence[str],
        costs: Any,
        prices: str,
        model: str,
    ) -> None:
        self._asked, self._n_rows = asked, n_rows
        self._sources, self._costs = tuple(sources), costs
        self._prices, self._model = prices, model

    def __len__(self) -> int:
        return self._n_rows

    def __getitem__(self, row: Any) -> Any:
        if isinstance(row, slice):
            return [self[i] for i in range(*row.indices(len(self)))]
        row = range(len(self))[row]
        fetches = [found for asked in self._asked if (found := asked.fetch(row)) is not None]
        had = {fetch.source for fetch in fetches}
        rest = tuple(name for name in self._sources if name not in had)
        saved = self._costs.of(rest, paid=had) if rest else 0.0
        return Receipt(tuple(fetches), rest, saved, self._prices, self._model)
