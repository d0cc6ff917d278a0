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
from emsco.live.accounts import SpendingLimit
from emsco.live.drift_table import ColumnDrift, difference
from emsco.live.fetch_all import SourceFetcher
from emsco.live.fetch_result import Key, first_places, key_text
from emsco.live.live_plan import LivePlan
from emsco.live.purchases import NOT_FETCHED, PurchaseBatch
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
    """How often a source answered, and how old its answers are, in seconds."""

    source: str
    n_keys: int  # requested
    failed: Mapping[str, int]  # the number of keys without values, by reason, such as "missing"
    median_age: float | None = None  # None: answers have no times
    max_age: float | None = None
    verified: bool = True  # whether answers repeat their key

    @property
    def answered(self) -> int:
        """The number of keys with values."""
        return self.n_keys - sum(self.failed.values())


@dataclass(frozen=True)
class Comparison:
    """The comparison of live values with those of a table."""

    columns: tuple[ComparedColumn, ...]
    sources: tuple[AnswerCounts, ...]
    keys: int  # fetched
    left: int  # not fetched, because of `max_spend`
    cost: float  # what was paid, including requests that may not have been charged
    unknown: float  # the part of it that may not have been charged

    @property
    def is_same(self) -> bool:
        """Whether every source answered for every key, with the values of the table."""
        fine = all(column.difference.is_same for column in self.columns)
        return fine and all(one.answered == self.keys for one in self.sources)


def align(keys: Sequence[Key], table_keys: Sequence[Key]) -> tuple[list[int], list[int]]:
    """Match keys to the rows of a table, as text; return the positions of both, each key once."""
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

    `keys` come once each; `table` has the values of training in their order. `known` are the values
    that requests use besides the key and features of required sources. Without `max_spend`, sources
    that are paid raise an error.
    """
    costs = decider.costs
    bought = LivePlan(decider).bought
    sources.check(costs, bought)
    names = [name for name in bought if sources[name].is_fetched]
    paid = _Bill(costs, [name for name in names if sources[name].paid], sources, max_spend)
    paid.check(len(keys))
    inputs = dict(known or {})
    blocks: dict[str, list[PurchaseBatch]] = {name: [] for name in names}
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
            for name, batch in got.items():
                blocks[name].append(batch)
                ages[name] += [now - moment for moment in batch.moments or () if moment is not None]
            done += size
    found = {
        name: PurchaseBatch.of(
            [(batch, i) for batch in blocks[name] for i in range(len(batch))], costs.columns(name)
        )
        for name in names
    }
    columns = tuple(
        ComparedColumn(
            feature, name, _compared(found[name], feature, table, decider, sources[name].is_spelled)
        )
        for name in names
        for feature in costs.columns(name)
        if feature in decider.readers
    )
    counts = tuple(_answers(name, found[name], ages[name]) for name in names)
    budget = paid.budget
    return Comparison(columns, counts, done, len(keys) - done, budget.spending, budget.unknown)


def _compared(
    batch: PurchaseBatch,
    feature: str,
    table: Mapping[str, Sequence[Any]],
    decider: Decider,
    spelled: bool,
) -> ColumnDrift:
    """Compare one column, in the rows with answers."""
    there = [i for i, reason in enumerate(batch.reasons) if reason == ACCEPTED]
    if not there:
        return ColumnDrift(0, 0, _NO_ANSWER)
    live = [batch.columns[feature][i] for i in there]
    then = [table[feature][i] for i in there]
    return difference(live, then, decider.readers[feature], spelled=spelled)


def _answers(name: str, batch: PurchaseBatch, ages: Sequence[float]) -> AnswerCounts:
    reasons = [r for r, how in zip(batch.reasons, batch.how, strict=True) if how != NOT_FETCHED]
    failed = Counter(reason for reason in reasons if reason != ACCEPTED)
    return AnswerCounts(
        name,
        len(reasons),
        dict(failed.most_common()),
        median(ages) if ages else None,
        max(ages) if ages else None,
        batch.verified or ACCEPTED not in reasons,
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
        self.budget = SpendingLimit(limit)

    def check(self, n_keys: int) -> None:
        """Raise an error if there is no limit, or one below the price of a row."""
        limit, unit = self.budget.limit, f" {self._costs.unit}".rstrip()
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
        if self._has_price_field and self._is_first:
            wanted = min(wanted, 1)
        self._is_first = False
        return self.budget.affords(wanted, self._price)

    def add(self, got: Mapping[str, PurchaseBatch]) -> None:
        """Count the cost of rows; the most expensive one is the expected price of the next."""
        for i in range(len(got[self._names[0]]) if self._names else 0):
            price, opened = 0.0, set()
            for name in self._names:
                paid, setup = got[name].paid[i], self._setups[name]
                if not paid:
                    continue
                paid += self._costs.setups[setup] if setup and setup not in opened else 0.0
                opened.add(setup)
                self.budget.spend(paid, billed=got[name].billed[i])
                price += paid
            self._price = max(self._price, price)
