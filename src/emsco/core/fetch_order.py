"""Which source waits for which: it is fetched once those that it requires have answered."""

from __future__ import annotations

from collections.abc import Container, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Protocol, TypeVar

from emsco.exceptions import CostsError, quoted


class Waiting(Protocol):
    """The part of a source that its place in the order depends on."""

    @property
    def name(self) -> str:
        """The name of the source."""

    @property
    def requires(self) -> Sequence[str]:
        """The sources that must have answered before."""

    @property
    def latency(self) -> float:
        """The seconds until it answers."""


_Source = TypeVar("_Source", bound=Waiting)


def in_order(sources: Sequence[_Source]) -> tuple[_Source, ...]:
    """Put each source after those that it requires.

    Raises
    ------
    CostsError
        If sources require one another in a circle: none of them could be fetched first.
    """
    by_name = {source.name: source for source in sources}
    needs = {source.name: source.requires for source in sources}
    try:
        return tuple(by_name[name] for name in TopologicalSorter(needs).static_order())
    except CycleError as error:
        circle = quoted(dict.fromkeys(error.args[1]))
        raise CostsError(
            f"A source waits for those that it requires, and {circle} would wait for ever; remove "
            "a requirement, or make one source of them."
        ) from error


def longest_wait(ordered: Sequence[Waiting], bought: Container[str]) -> float:
    """Return when the last of the sources bought has answered, given all sources in order.

    Examples
    --------
    >>> from emsco import Source
    >>> from emsco.core.fetch_order import longest_wait
    >>> name, price = Source("name", cost=0, latency=2), Source("price", cost=0, latency=3)
    >>> score = Source("score", cost=0, latency=2, requires=["name"])
    >>> longest_wait([name, price, score], {"name", "price", "score"})
    4.0
    >>> longest_wait([name, price, score], {"price", "score"})  # the name was bought before
    3.0
    """
    answered: dict[str, float] = {}
    for source in ordered:
        if source.name in bought:
            begin = max((answered.get(name, 0.0) for name in source.requires), default=0.0)
            answered[source.name] = begin + source.latency
    return max(answered.values(), default=0.0)
