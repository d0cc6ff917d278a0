"""Measure the latency of sources, and write it into a file of costs that keeps its layout."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from pathlib import Path
from typing import Any

import numpy as np

from emsco._utils.atomic_write import write_whole
from emsco._utils.progress import tell
from emsco.core.costs import Costs
from emsco.core.decisions import ACCEPTED, BUDGET, CIRCUIT_OPEN, DEADLINE, ERROR, TIMEOUT
from emsco.exceptions import CostsError, Keyword, SourcesError, require
from emsco.live.accounts import SpendingLimit
from emsco.live.fetch_all import SourceFetcher
from emsco.live.fetch_result import Key, first_places
from emsco.live.purchases import NOT_FETCHED
from emsco.live.sources import Sources

_SOURCES, _LATENCY = "sources", "latency"  # in a file of costs
MOST_ROWS = 100  # of a batch
_UNANSWERED = (TIMEOUT, ERROR, DEADLINE, CIRCUIT_OPEN, BUDGET)
_OVER = (CIRCUIT_OPEN, BUDGET)  # further requests are pointless


@dataclass
class Timing:
    """The measured times of one source, in seconds; infinity for requests that failed."""

    source: str
    one: list[float] = field(default_factory=list)  # of requests for one row
    many: list[float] = field(default_factory=list)  # of requests for many rows
    rows: int = 0  # in a request for many
    failed: Counter[str] = field(default_factory=Counter)  # the number of requests, by reason
    found: int = 0  # the number of rows that got values
    why: str = ""  # why measuring was skipped or stopped; "" if it was not

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
    request for many rows, and none without `max_spend`. `known` are the values that requests use
    besides the key and features of required sources, one per key.
    """
    sources.check(costs, ())
    timed = [name for name, source in sources.items() if source.is_fetched]
    if not timed:
        raise SourcesError("There is no source to measure.")
    plain = {name: replace(source, ttl=None, retries=0) for name, source in sources.items()}
    inputs = dict(known or {})
    places = sorted(first_places(keys).values())
    async with SourceFetcher(plain, costs, timed, inputs) as survey:
        clock = _Clock(survey, costs, sources, rounds, SpendingLimit(max_spend))
        for number in range(rounds):
            place = places[number % len(places)]
            have = {name: [column[place]] for name, column in inputs.items()}
            await clock.time_all([keys[place]], have, number, at_once=False)
        many = [keys[place] for place in places[:MOST_ROWS]]
        if len(many) > 1:
            have = {
                name: [column[p] for p in places[:MOST_ROWS]] for name, column in inputs.items()
            }
            for number in range(rounds):
                await clock.time_all(many, have, number, at_once=True)
    timings = tuple(clock.timings[name] for name in costs.names if name in clock.timings)
    return LatencyMeasurement(timings, clock.budget.spending, clock.budget.unknown)


class _Clock:
    """Times sources, within a budget."""

    def __init__(
        self,
        survey: SourceFetcher,
        costs: Costs,
        sources: Sources,
        rounds: int,
        budget: SpendingLimit,
    ) -> None:
        self._survey, self._rounds, self.budget = survey, rounds, budget
        self._unit = f" {costs.unit}".rstrip()
        self._paid = {name for name in survey.names if sources[name].paid}
        self._prices = {name: costs.of([name]) * (name in self._paid) for name in survey.names}
        self._setups = {s.name: costs.of([s.name]) - s.cost for s in costs.sources}
        self.timings = {name: Timing(name) for name in survey.names}
        for name in self._paid:
            may_cost = self._prices[name] or getattr(sources[name], "price_field", None)
            if may_cost and budget.limit is None:
                total = self._prices[name] * rounds
                limit = Keyword("max_spend", total)
                self.timings[name].why = "it is paid; " + limit + f" allows {rounds} rows"

    async def time_all(
        self, keys: Sequence[Key], have: dict[str, list[Any]], number: int, *, at_once: bool
    ) -> None:
        """Time every source for one row, or for many at once; a paid one for many only once."""
        for place, name in enumerate(self._survey.names):
            what = "time batches" if at_once else "time single rows"
            tell(what, (number + place / len(self._survey.names)) / self._rounds)
            timing = self.timings[name]
            is_timed = at_once and number and name in self._paid
            is_failing = at_once and quantile(timing.one, 0.5) is None
            if timing.why or is_timed or is_failing:
                continue
            if self.budget.affords(len(keys), self._prices[name]) < len(keys):
                if not at_once:
                    limit = Keyword("max_spend", self.budget.limit)
                    timing.why = limit + f"{self._unit} is used up"
                continue
            if at_once:
                timing.rows = len(keys)
            await self._time(name, keys, have, timing.many if at_once else timing.one)

    async def _time(
        self, name: str, keys: Sequence[Key], have: dict[str, list[Any]], times: list[float]
    ) -> None:
        timing = self.timings[name]
        begin = time.perf_counter()
        got = await self._survey.fetch(name, keys, have)
        took = time.perf_counter() - begin
        for how, paid, billed in zip(got.how, got.paid, got.billed, strict=True):
            if name in self._paid and how != NOT_FETCHED:
                price = paid + (self._setups[name] if paid else 0.0)
                self.budget.spend(price, billed=billed)
                self._prices[name] = max(self._prices[name], price)
        reasons = [r for r, how in zip(got.reasons, got.how, strict=True) if how != NOT_FETCHED]
        over = [reason for reason in reasons if reason in _OVER]
        if over:
            timing.why = f"it is no longer called ({over[0]})"
        if len(over) == len(reasons):
            return
        failed = [reason for reason in reasons if reason in _UNANSWERED]
        timing.found += reasons.count(ACCEPTED)
        times.append(inf if failed else took)
        if failed:
            timing.failed[failed[0]] += 1


def with_latencies(text: str, latencies: Mapping[str, float]) -> str:
    """Return the text of a file of costs with these latencies, by source."""
    tomlkit = require("tomlkit", "live")
    try:
        document = tomlkit.parse(text)
        for name, latency in latencies.items():
            _set_latency(tomlkit, document[_SOURCES], name, float(latency))
        written = str(document.as_string())
    except (tomlkit.exceptions.TOMLKitError, KeyError) as error:
        raise CostsError(f"The file cannot be edited: {error}.") from None
    if 0 < text.count("\n") == text.count("\r\n"):  # tomlkit ends new lines without "\r"
        written = re.sub("(?<!\r)\n", "\r\n", written)
    return written


def _set_latency(tomlkit: Any, sources: Any, name: str, latency: float) -> None:
    """Set the latency of a source, in the way in which the file writes the source."""
    source: Any = sources[name]
    is_inline = isinstance(source, tomlkit.items.InlineTable)
    if isinstance(source, Mapping) and _LATENCY not in source and not is_inline:
        first = next(iter(source.values())).trivia
        if getattr(source, "display_name", None) is not None:  # [sources.page]
            # tomlkit would add it at the end, below a comment on the next table.
            newline = first.trail or "\n"
            first.trail = f"{newline}{first.indent}{_LATENCY} = {latency!r}{first.trail}"
            return
    if isinstance(source, Mapping) and (_LATENCY in source or not is_inline):
        sources[name][_LATENCY] = latency
        return
    written = source.as_string()
    if is_inline:  # page = { cost = 3 }: the spaces before the brace stay
        inner = written[:-1].rstrip()
        whole = f"{inner}, {_LATENCY} = {latency!r}{written[len(inner) :]}"
    else:  # page = 3
        whole = f"{{ cost = {written}, {_LATENCY} = {latency!r} }}"
    sources[name] = tomlkit.value(whole)


def write_latencies(path: str | os.PathLike[str], latencies: Mapping[str, float]) -> None:
    """Write latencies, in seconds, into a file of costs, and change nothing else in it.

    If the result would differ from the file in anything else, the file stays unchanged, and an
    error says what to write.
    """
    before = Costs.from_toml(path)
    lines = ", ".join(f"`latency = {value!r}` for {name!r}" for name, value in latencies.items())
    refused = CostsError(
        f"{os.fspath(path)} cannot be edited automatically and is unchanged; add the latencies "
        f"yourself: {lines}."
    )
    sources = [
        replace(source, latency=latencies.get(source.name, source.latency))
        for source in before.sources
    ]
    try:
        written = with_latencies(Path(path).read_bytes().decode("utf-8"), latencies).encode()
        with tempfile.TemporaryDirectory() as folder:
            draft = Path(folder) / "costs.toml"
            draft.write_bytes(written)
            found = Costs.from_toml(draft)
    except CostsError:
        raise refused from None
    if found != replace(before, sources=tuple(sources)):
        raise refused
    write_whole(path, [written])
