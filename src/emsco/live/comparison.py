"""Compare live values with those that a cascade was trained on."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from emsco._utils.progress import tell
from emsco.cascade import Decider
from emsco.core.costs import Costs
from emsco.core.decisions import ACCEPTED
from emsco.exceptions import ColumnsError, Keyword, SourcesError, ValuesError, quoted
from emsco.live.drift_table import ColumnDrift, difference
from emsco.live.fetch_all import Purse, SourceFetcher
from emsco.live.fetch_result import Key, first_places, key_text
from emsco.live.live_plan import LivePlan
from emsco.live.purchases import Purchase
from emsco.live.sources import Sources

_BLOCK = 500  # keys fetched at a time
_NO_ANSWER = "no answer"


@dataclass(frozen=True)
class ComparedColumn:
    """A compared column: its source, and how its live values differ."""

    name: str
    source: str
    difference: ColumnDrift


@dataclass(frozen=True)
class AnswerCounts:
    """How often a source answered, and how old its answers are.

    Parameters
    ----------
    source : str
        The name of the source.
    n_keys : int
        The number of keys that were requested.
    failed : mapping of str to int
        The number of keys without values, by reason, such as "missing" or "timeout".
    median_age, max_age : float or None
        The age of answers, in seconds. None: they have no times.
    verified : bool
        Whether answers repeat their key.
    """

    source: str
    n_keys: int
    failed: Mapping[str, int]
    median_age: float | None = None
    max_age: float | None = None
    verified: bool = True

    @property
    def answered(self) -> int:
        """The number of keys with values."""
        return self.n_keys - sum(self.failed.values())


@dataclass(frozen=True)
class Comparison:
    """The comparison of live values with those of a table.

    Parameters
    ----------
    columns : tuple of ComparedColumn
        How each column differs.
    sources : tuple of AnswerCounts
        How each source answered.
    keys : int
        The number of keys that were fetched.
    left : int
        The number of keys that were not fetched, because of `max_spend`.
    cost : float
        The amount paid, including requests that may not have been charged.
    unknown : float
        The part of it that may not have been charged.
    """

    columns: tuple[ComparedColumn, ...]
    sources: tuple[AnswerCounts, ...]
    keys: int
    left: int
    cost: float
    unknown: float

    @property
    def is_same(self) -> bool:
        """Whether every source answered for every key, with the values of the table."""
        fine = all(column.difference.is_same for column in self.columns)
        return fine and all(one.answered == self.keys for one in self.sources)


def align(keys: Sequence[Key], table_keys: Sequence[Key]) -> tuple[list[int], list[int]]:
    """Match keys to the rows of a table, as text; return the positions of both, each key once.

    Examples
    --------
    >>> from emsco.live.comparison import align
    >>> align(["7", "x", "07", "7"], [5, 7, "07"])
    ([0, 2], [1, 2])
    """
    rows: dict[str, int] = {}
    for row, key in enumerate(table_keys):
        if rows.setdefault(key_text(key), row) != row:
            raise ValuesError(
                "The table must have one row per key, but a key occurs more than once; remove "
                "duplicates.",
                row=row,
            )
    places = first_places(keys)
    found = sorted(place for text, place in places.items() if text in rows)
    if not found:
        raise ColumnsError(
            f"None of the {len(places):,} keys is in the table. Keys are compared as text: 7, 07 "
            "and 7.0 are different."
        )
    return found, [rows[key_text(keys[place])] for place in found]


async def compare(
    decider: Decider,
    sources: Sources,
    keys: Sequence[Key],
    table: Mapping[str, Sequence[Any]],
    known: Mapping[str, Sequence[Any]] | None = None,
    *,
    max_spend: float | None = None,
) -> Comparison:
    """Fetch all sources that a cascade can buy, and compare their values with a table.

    Parameters
    ----------
    decider : Decider
        The decider of the cascade: `cascade.decider_`.
    sources : Sources
        How each source is fetched.
    keys : sequence
        The keys, each once.
    table : mapping of feature to sequence
        The values that training had, in the order of the keys.
    known : mapping of str to sequence, default=None
        The values that requests use besides the key and features of required sources, one per key.
    max_spend : float, default=None
        The maximum to spend on paid sources. None: they must be free.
    """
    costs = decider.costs
    bought = LivePlan(decider).bought
    sources.check(costs, bought)
    names = [name for name in bought if sources[name].is_fetched]
    paid = _Bill(costs, [name for name in names if sources[name].paid], sources, max_spend)
    paid.check(len(keys))
    inputs = dict(known or {})
    found: dict[str, list[Purchase | None]] = {name: [] for name in names}
    ages: dict[str, list[float]] = {name: [] for name in names}
    done = 0
    async with SourceFetcher(sources, costs, names, inputs) as survey:
        while done < len(keys) and (size := paid.affords(min(_BLOCK, len(keys) - done))):
            tell("fetch", done / len(keys))
            block = slice(done, done + size)
            have = {name: list(column[block]) for name, column in inputs.items()}
            got = {name: await survey.fetch(name, keys[block], have) for name in survey.names}
            paid.add(got)
            now = time.time()
            for name, rows in got.items():
                found[name] += rows
                moments = [row.moment for row in rows if row is not None]
                ages[name] += [now - moment for moment in moments if moment is not None]
            done += size
    columns = tuple(
        ComparedColumn(feature, name, _compared(decider, sources, name, place, found[name], table))
        for name in names
        for place, feature in enumerate(costs.columns(name))
        if feature in decider.readers
    )
    counts = tuple(_answers(name, found[name], ages[name]) for name in names)
    purse = paid.purse
    return Comparison(columns, counts, done, len(keys) - done, purse.spending, purse.unknown)


def _compared(
    decider: Decider,
    sources: Sources,
    name: str,
    place: int,
    rows: Sequence[Purchase | None],
    table: Mapping[str, Sequence[Any]],
) -> ColumnDrift:
    """Compare one column, in the rows with answers."""
    feature = decider.costs.columns(name)[place]
    there = [i for i, row in enumerate(rows) if row is not None and row.values is not None]
    if not there:
        return ColumnDrift(0, 0, _NO_ANSWER)
    live = [rows[i].values[place] for i in there]  # type: ignore[union-attr,index]  # checked above
    then = [table[feature][i] for i in there]
    return difference(live, then, decider.readers[feature], spelled=sources[name].is_spelled)


def _answers(name: str, rows: Sequence[Purchase | None], ages: Sequence[float]) -> AnswerCounts:
    requested = [row for row in rows if row is not None]
    failed = Counter(row.reason for row in requested if row.reason != ACCEPTED)
    return AnswerCounts(
        name,
        len(requested),
        dict(failed.most_common()),
        median(ages) if ages else None,
        max(ages) if ages else None,
        all(row.verified for row in requested if row.reason == ACCEPTED),
    )


class _Bill:
    """The cost of rows from paid sources."""

    def __init__(
        self, costs: Costs, names: Sequence[str], sources: Sources, limit: float | None
    ) -> None:
        self._costs, self._names = costs, names
        self._setups = {source.name: source.setup for source in costs.sources}
        self._price = costs.of(names)  # of a row
        # An answer may state its own price, which is not known before.
        self._has_price_field = any(getattr(sources[name], "price_field", None) for name in names)
        self._is_first = True
        self.purse = Purse(limit)

    def check(self, n_keys: int) -> None:
        """Raise an error if there is no limit, or one below the price of a row."""
        limit, unit = self.purse.limit, f" {self._costs.unit}".rstrip()
        if not self._price and not self._has_price_field:
            return
        if limit is None:
            total = self._price * n_keys
            raise SourcesError(
                f"Fetching {n_keys:,} keys from {quoted(self._names)} costs {total:,.10g}{unit}; "
                "allow it with " + Keyword("max_spend", total) + ", or pass fewer keys."
            )
        if limit < self._price or limit <= 0:
            raise SourcesError(
                f"One row of {quoted(self._names)} costs {self._price:,.10g}{unit}, which is more "
                "than " + Keyword("max_spend", limit) + "."
            )

    def affords(self, wanted: int) -> int:
        """Return how many rows can be paid; only one at first, if answers state their prices."""
        times = self.purse.times(self._price)
        if self._has_price_field and self._is_first:
            wanted = min(wanted, 1)
        self._is_first = False
        return wanted if times is None else min(wanted, times)

    def add(self, got: Mapping[str, Sequence[Purchase | None]]) -> None:
        """Count the cost of rows; the most expensive one is the expected price of the next."""
        if not self._names:
            return
        for rows in zip(*(got[name] for name in self._names), strict=True):
            price, opened = 0.0, set()
            for name, row in zip(self._names, rows, strict=True):
                if row is None or not row.paid:
                    continue
                setup = self._setups[name]
                more = self._costs.setups[setup] if setup and setup not in opened else 0.0
                opened.add(setup)
                self.purse.spend(row.paid + more, billed=row.billed)
                price += row.paid + more
            self._price = max(self._price, price)
