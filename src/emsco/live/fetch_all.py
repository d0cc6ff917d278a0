"""Fetch all sources for some keys, each after those whose features it uses.

A cascade fetches only what it needs to decide. Before going live, everything is fetched: to
compare it with a table, and to time it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from emsco.core.costs import Costs
from emsco.core.fetch_order import in_order
from emsco.exceptions import EmscoError, Parameter, SourcesError, quoted
from emsco.live.coalescing import CoalescingGate
from emsco.live.fetch_result import Key, as_text
from emsco.live.purchases import Purchase
from emsco.live.source import LiveSource


class SourceFetcher:
    """Fetches sources for any keys; open it with `async with`.

    Parameters
    ----------
    sources : mapping of str to LiveSource
        How each source is fetched.
    costs : Costs
        The features, prices and requirements of the sources.
    names : sequence of str
        The sources to fetch.
    known : collection of str, default=()
        The names of the values that the caller has for each key, such as a domain.

    Examples
    --------
    >>> import asyncio
    >>> from emsco import Costs, Source
    >>> from emsco.live import CallableSource
    >>> from emsco.live.fetch_all import SourceFetcher
    >>> costs = Costs([Source("dns", cost=2, requires=["name"]), Source("name", cost=0)])
    >>> sources = {
    ...     "name": CallableSource(function=lambda keys, _: {k: {"name": k * 2} for k in keys}),
    ...     "dns": CallableSource(
    ...         function=lambda keys, values: {
    ...             key: {"dns": len(name)} for key, name in zip(keys, values["name"])
    ...         },
    ...         uses=["name"],
    ...     ),
    ... }
    >>> async def fetch(keys):
    ...     have = {}
    ...     async with SourceFetcher(sources, costs, ["dns", "name"]) as survey:
    ...         return {name: await survey.fetch(name, keys, have) for name in survey.names}
    >>> found = asyncio.run(fetch(["a", "bc"]))
    >>> {name: [row.values for row in rows] for name, rows in found.items()}
    {'name': [('aa',), ('bcbc',)], 'dns': [(2,), (4,)]}
    """

    def __init__(
        self,
        sources: Mapping[str, LiveSource],
        costs: Costs,
        names: Sequence[str],
        known: Collection[str] = (),
    ) -> None:
        self._sources, self._costs, self._known = sources, costs, frozenset(known)
        ordered = [source for source in in_order(costs.sources) if source.name in names]
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
            await self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        gates, self._gates = self._gates, {}
        await asyncio.gather(*(gate.close() for gate in gates.values()))

    async def fetch(
        self, name: str, keys: Sequence[Key], have: dict[str, list[Any]]
    ) -> list[Purchase | None]:
        """Fetch one source for some keys; None for a row without the values that a request uses.

        `have` holds the values of these rows so far, by name, one per key. The fetched values are
        added to it, for sources that use them.
        """
        gate, source = self._gates[name], self._sources[name]
        used = {need: have.get(need, [None] * len(keys)) for need in source.needs}
        rows = [
            i for i in range(len(keys)) if not any(is_empty(column[i]) for column in used.values())
        ]
        found: list[Purchase | None] = [None] * len(keys)
        if rows:
            values = {need: [column[i] for i in rows] for need, column in used.items()}
            got = await gate.fetch([keys[i] for i in rows], values)
            for i, row in zip(rows, got, strict=True):
                found[i] = row
        for place, feature in enumerate(self._costs.columns(name)):
            if feature not in self._known:
                have[feature] = [_value(row, place) for row in found]
        return found


def is_empty(value: object) -> bool:
    """Return whether a value is missing or empty, so that no request can use it."""
    return value is None or (isinstance(value, str) and not value)


def _value(row: Purchase | None, place: int) -> Any:
    if row is None or row.values is None:
        return None
    return as_text(row.values[place])


def open_gate(
    name: str, source: LiveSource, features: Sequence[str], price: float
) -> CoalescingGate:
    """Open a source; raise an error that says why it cannot be opened.

    A URL may contain a password, and the error messages of its parsers may contain parts of it: no
    such message is passed on.
    """
    try:
        return CoalescingGate(source, features, price)
    except SourcesError as error:
        raise SourcesError(f"Source {name!r}: {error}") from None
    except EmscoError:
        raise
    except ImportError as error:
        raise SourcesError(f"Source {name!r} needs a driver: {error}; install it.") from None
    except Exception as error:
        variable = getattr(source, "url_env", None)
        where = "" if variable is None else f" in the environment variable {variable}"
        raise SourcesError(
            f"Source {name!r}: its URL{where} cannot be used ({type(error).__name__})."
        ) from None


async def check_open(sources: Mapping[str, LiveSource], costs: Costs, names: Sequence[str]) -> None:
    """Open sources and close them again, so that errors show before anything is paid."""
    for name in names:
        await open_gate(name, sources[name], costs.columns(name), 0.0).close()


@dataclass
class Purse:
    """A budget for paid sources, and what was spent of it.

    Parameters
    ----------
    limit : float or None
        The maximum to spend. None: nothing may be spent.

    Examples
    --------
    >>> from emsco.live.fetch_all import Purse
    >>> purse = Purse(limit=0.3)
    >>> purse.times(0.1)
    3
    >>> purse.spend(0.1)
    >>> purse.times(0.1), purse.times(0.25), purse.times(0)
    (2, 0, None)
    """

    limit: float | None
    spending: float = 0.0
    unknown: float = 0.0  # the part of it that may not have been charged

    def times(self, price: float) -> int | None:
        """Return how often a price can still be paid; None for something free."""
        if price <= 0:
            return None
        left = (self.limit or 0.0) - self.spending
        return max(0, int(left / price + 1e-9))  # 0.3 / 0.1 is a little less than 3

    def spend(self, amount: float, *, billed: bool = True) -> None:
        """Count an amount that was paid, or may have been."""
        self.spending += amount
        self.unknown += 0.0 if billed else amount
