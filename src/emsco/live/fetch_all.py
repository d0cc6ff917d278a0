"""Fetch all sources for some keys, each after those whose features it uses.

A cascade fetches only what it needs to decide. Before going live, everything is fetched: to
compare it with a table, and to time it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Self

from emsco.core.costs import Costs
from emsco.core.decisions import MISSING
from emsco.exceptions import Parameter, SourcesError, quoted
from emsco.live.coalescing import CoalescingGate, open_gate
from emsco.live.fetch_result import Key, as_text
from emsco.live.purchases import NOT_FETCHED, PurchaseBatch
from emsco.live.source import LiveSource


class SourceFetcher:
    """Fetches sources for any keys; open it with `async with`.

    `known` are the names of the values that the caller has for each key, such as a domain.
    """

    def __init__(
        self,
        sources: Mapping[str, LiveSource],
        costs: Costs,
        names: Sequence[str],
        known: Collection[str] = (),
    ) -> None:
        self._sources, self._costs, self._known = sources, costs, frozenset(known)
        ordered = [source for source in costs.in_order if source.name in names]
        self.names = tuple(source.name for source in ordered)
        self._prices = {source.name: source.cost for source in ordered}
        self._gates: dict[str, CoalescingGate] = {}
        for source in ordered:
            required = [name for name in source.requires if name in self.names]
            yielded = {feature for name in required for feature in costs.columns(name)}
            lacking = sorted(sources[source.name].needs - self._known - yielded)
            if lacking:
                raise SourcesError(
                    f"Source {source.name!r} uses {quoted(lacking)}: pass it in "
                    + Parameter("known")
                    + ", or let the source require one that yields it and that can be fetched."
                )

    async def __aenter__(self) -> Self:
        try:
            for name in self.names:
                features = self._costs.columns(name)
                self._gates[name] = open_gate(
                    name, self._sources[name], features, self._prices[name]
                )
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        gates, self._gates = self._gates, {}
        await asyncio.gather(*(gate.close() for gate in gates.values()))

    async def fetch(
        self, name: str, keys: Sequence[Key], have: dict[str, list[Any]]
    ) -> PurchaseBatch:
        """Fetch one source for some keys, except for rows without the values that a request uses.

        `have` holds the values of these rows so far, by name, one per key. The fetched values are
        added to it, for sources that use them.
        """
        gate, source = self._gates[name], self._sources[name]
        used = {need: have.get(need, [None] * len(keys)) for need in source.needs}
        lacking = {  # values that are missing or empty, which no request can use
            i
            for column in used.values()
            for i, value in enumerate(column)
            if value is None or (isinstance(value, str) and not value)
        }
        rows = [i for i in range(len(keys)) if i not in lacking]
        found = PurchaseBatch.failed([MISSING] * len(keys), how=NOT_FETCHED)
        if rows:
            values = {need: [column[i] for i in rows] for need, column in used.items()}
            found = found.replaced(rows, await gate.fetch([keys[i] for i in rows], values))
        for feature in self._costs.columns(name):
            if feature not in self._known:
                column = found.columns.get(feature, [None] * len(keys))
                have[feature] = [as_text(value) for value in column]
        return found


async def check_open(sources: Mapping[str, LiveSource], costs: Costs, names: Sequence[str]) -> None:
    """Open sources and close them again, so that errors show before anything is paid."""
    for name in names:
        await open_gate(name, sources[name], costs.columns(name), 0.0).close()
