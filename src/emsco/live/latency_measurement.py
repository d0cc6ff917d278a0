"""Measure the latency of sources, for one row and for many rows at once."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from typing import Any

import numpy as np

from emsco._utils.progress import tell
from emsco.core.costs import Costs
from emsco.core.decisions import ACCEPTED, BUDGET, CIRCUIT_OPEN, DEADLINE, ERROR, TIMEOUT
from emsco.exceptions import Keyword, SourcesError
from emsco.live.fetch_all import Purse, SourceFetcher
from emsco.live.fetch_result import Key, first_places
from emsco.live.purchases import Purchase
from emsco.live.sources import Sources

MOST_ROWS = 100  # of a batch
_UNANSWERED = (TIMEOUT, ERROR, DEADLINE, CIRCUIT_OPEN, BUDGET)
_OVER = (CIRCUIT_OPEN, BUDGET)  # further requests are pointless


@dataclass
class Timing:
    """The measured times of one source.

    Parameters
    ----------
    source : str
        The name of the source.
    one, many : list of float
        The duration of each request in seconds, for one row and for many; infinity if it failed.
    rows : int
        The number of rows in a request for many.
    failed : Counter of str
        The number of failed requests, by reason.
    found : int
        The number of rows that got values.
    why : str
        Why measuring was skipped or stopped; "" if it was not.
    """

    source: str
    one: list[float] = field(default_factory=list)
    many: list[float] = field(default_factory=list)
    rows: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    found: int = 0
    why: str = ""

    @property
    def latency(self) -> float | None:
        """The median time of one row in seconds, to three digits; None if it is not known."""
        middle = quantile(self.one, 0.5)
        if middle is None or not self.found:
            return None
        return float(f"{middle:.3g}")

    @property
    def problem(self) -> str:
        """Why there is no latency; "" if there is one."""
        if self.latency is not None:
            return ""
        if not self.one:
            return self.why or "no key has the values that its requests use"
        if quantile(self.one, 0.5) is None:
            counts = ", ".join(f"{reason} {count}" for reason, count in self.failed.most_common())
            return f"at least half of its requests failed ({counts})"
        return "it has none of the keys"


@dataclass(frozen=True)
class LatencyMeasurement:
    """The measured times of sources, and the cost of measuring."""

    timings: tuple[Timing, ...]
    cost: float
    unknown: float  # the part of it that may not have been charged

    @property
    def latencies(self) -> dict[str, float]:
        """The median time of one row in seconds, by source, as far as it was measured."""
        found = {timing.source: timing.latency for timing in self.timings}
        return {name: latency for name, latency in found.items() if latency is not None}


def quantile(times: Sequence[float], share: float) -> float | None:
    """Return the time within which a share of requests was answered; None if fewer were answered.

    The first request also opens the connection, so it is left out if there are others.

    Examples
    --------
    >>> from emsco.live.latency_measurement import quantile
    >>> quantile([9.0, 0.1, 0.2, 0.3], 0.5)
    0.2
    >>> quantile([0.1, 0.2, float("inf")], 0.95) is None
    True
    """
    counted = times[1:] if len(times) > 1 else times
    if not counted:
        return None
    found = float(np.quantile(counted, share, method="inverted_cdf"))
    return found if isfinite(found) else None


async def measure(
    costs: Costs,
    sources: Sources,
    keys: Sequence[Key],
    known: Mapping[str, Sequence[Any]] | None = None,
    *,
    rounds: int = 20,
    max_spend: float | None = None,
) -> LatencyMeasurement:
    """Time sources, one row at a time and then many rows at once.

    Nothing is answered from a cache, and no request is repeated. A paid source gets only one
    request for many rows.

    Parameters
    ----------
    costs : Costs
        The features, prices and requirements of the sources.
    sources : Sources
        The sources to time.
    keys : sequence
        The keys to request.
    known : mapping of str to sequence, default=None
        The values that requests use besides the key and features of required sources, one per key.
    rounds : int, default=20
        The number of requests to each source for one row, and for many.
    max_spend : float, default=None
        The maximum to spend on paid sources. None: they are not measured.
    """
    sources.check(costs, ())
    timed = [name for name, source in sources.items() if source.is_fetched]
    if not timed:
        raise SourcesError("There is no source to measure.")
    plain = {name: replace(source, ttl=None, retries=0) for name, source in sources.items()}
    inputs = dict(known or {})
    places = sorted(first_places(keys).values())
    async with SourceFetcher(plain, costs, timed, inputs) as survey:
        clock = _Clock(survey, costs, sources, rounds, Purse(max_spend))
        for number in range(rounds):
            place = places[number % len(places)]
            have = {name: [column[place]] for name, column in inputs.items()}
            await clock.time_one(keys[place], have, number)
        many = [keys[place] for place in places[:MOST_ROWS]]
        if len(many) > 1:
            have = {
                name: [column[p] for p in places[:MOST_ROWS]] for name, column in inputs.items()
            }
            for number in range(rounds):
                await clock.time_many(many, have, number)
    timings = tuple(clock.timings[name] for name in costs.names if name in clock.timings)
    return LatencyMeasurement(timings, clock.purse.spending, clock.purse.unknown)


class _Clock:
    """Times sources, within a budget."""

    def __init__(
        self, survey: SourceFetcher, costs: Costs, sources: Sources, rounds: int, purse: Purse
    ) -> None:
        self._survey, self._rounds, self.purse = survey, rounds, purse
        self._unit = f" {costs.unit}".rstrip()
        self._paid = {name for name in survey.names if sources[name].paid}
        self._prices = {name: costs.of([name]) * (name in self._paid) for name in survey.names}
        self._setups = {s.name: costs.of([s.name]) - s.cost for s in costs.sources}
        self.timings = {name: Timing(name) for name in survey.names}
        for name in self._paid:
            may_cost = self._prices[name] or getattr(sources[name], "price_field", None)
            if may_cost and purse.limit is None:
                total = self._prices[name] * rounds
                limit = Keyword("max_spend", total)
                self.timings[name].why = "it is paid; " + limit + f" allows {rounds} rows"

    async def time_one(self, key: Key, have: dict[str, list[Any]], number: int) -> None:
        """Time every source for one row."""
        for place, name in enumerate(self._survey.names):
            tell("time single rows", (number + place / len(self._survey.names)) / self._rounds)
            timing = self.timings[name]
            if timing.why:
                continue
            if self.purse.times(self._prices[name]) == 0:
                limit = Keyword("max_spend", self.purse.limit)
                timing.why = limit + f"{self._unit} is used up"
                continue
            await self._time(name, [key], have, timing.one)

    async def time_many(self, keys: Sequence[Key], have: dict[str, list[Any]], number: int) -> None:
        """Time every source for many rows at once; a paid one only the first time."""
        for place, name in enumerate(self._survey.names):
            tell("time batches", (number + place / len(self._survey.names)) / self._rounds)
            timing, times = self.timings[name], self.purse.times(self._prices[name])
            if timing.why or (number and name in self._paid):
                continue
            if quantile(timing.one, 0.5) is None:  # it fails
                continue
            if times is not None and times < len(keys):
                continue
            timing.rows = len(keys)
            await self._time(name, keys, have, timing.many)

    async def _time(
        self, name: str, keys: Sequence[Key], have: dict[str, list[Any]], times: list[float]
    ) -> None:
        timing = self.timings[name]
        begin = time.perf_counter()
        got = await self._survey.fetch(name, keys, have)
        took = time.perf_counter() - begin
        rows = [row for row in got if row is not None]
        self._charge(name, rows)
        over = [row.reason for row in rows if row.reason in _OVER]
        if over:
            timing.why = f"it is no longer called ({over[0]})"
        if not rows or len(over) == len(rows):
            return
        answered = [row for row in rows if row.reason not in _UNANSWERED]
        timing.found += sum(row.reason == ACCEPTED for row in rows)
        times.append(took if len(answered) == len(rows) else inf)
        if len(answered) < len(rows):
            timing.failed[next(row.reason for row in rows if row.reason in _UNANSWERED)] += 1

    def _charge(self, name: str, rows: Sequence[Purchase]) -> None:
        if name not in self._paid:
            return
        for row in rows:
            price = row.paid + (self._setups[name] if row.paid else 0.0)
            self.purse.spend(price, billed=row.billed)
            self._prices[name] = max(self._prices[name], price)
