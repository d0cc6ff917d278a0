"""The data that all decisions of a live cascade share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from emsco.cascade import Decider
from emsco.cascade.fingerprint import digest_of, fingerprint
from emsco.core.costs import Costs, Source


@dataclass(frozen=True)
class LivePlan:
    """The data that all decisions of a live cascade share."""

    decider: Decider
    max_cost: float | None = None

    @property
    def costs(self) -> Costs:
        """The prices."""
        return self.decider.costs

    @cached_property
    def bought(self) -> tuple[str, ...]:
        """The sources that the cascade can buy."""
        return tuple(s for stage in self.decider.plan.stages for s in stage.sources)

    @cached_property
    def priced(self) -> dict[str, Source]:
        """The sources with their prices, by name."""
        return {source.name: source for source in self.costs.sources}

    @cached_property
    def features(self) -> dict[str, list[str]]:
        """The features of each source."""
        return {name: list(self.costs.columns(name)) for name in self.bought}

    @cached_property
    def every_feature(self) -> frozenset[str]:
        """The features of all sources that the cascade can buy."""
        return frozenset(feature for features in self.features.values() for feature in features)

    @cached_property
    def is_of_numbers(self) -> dict[str, bool]:
        """Whether each source yields only numbers."""
        readers = [[self.decider.readers.get(f) for f in self.features[n]] for n in self.bought]
        numbers = [all(r is not None and r.is_number for r in own) for own in readers]
        return dict(zip(self.bought, numbers, strict=True))

    @cached_property
    def requirements(self) -> list[dict[str, list[str]]]:
        """The sources of each stage in order of requirements, and which of them each requires."""
        found = []
        for stage in self.decider.plan.stages:
            left, order = list(stage.sources), {}
            while left:
                for name in left:
                    needed = [r for r in self.priced[name].requires if r in stage.sources]
                    if all(other in order for other in needed):
                        order[name] = needed
                left = [name for name in left if name not in order]
            found.append(order)
        return found

    @cached_property
    def prices(self) -> str:
        """The digest of the price list."""
        return digest_of(self.costs.to_toml())

    @cached_property
    def model(self) -> str:
        """The digest of the cascade."""
        return fingerprint(self.decider)

    @cached_property
    def promise(self) -> str:
        """What a certificate means for live decisions; a low `max_cost` voids it."""
        full = self.costs.of(self.bought)
        if self.max_cost is None or self.max_cost >= full:
            return _ALL_ANSWER
        return (
            f"No certificate of this cascade holds: `max_cost` is {self.max_cost:g}, and all of "
            f"its sources cost {full:g}."
        )


_ALL_ANSWER = (
    "A certificate of this cascade is about decisions for which every source answers. A source "
    "that fails rejects rows: coverage falls and the shares of rejected rows rise. The share of a "
    "class that is missed can only fall. Accuracy and precision on accepted rows may move either "
    "way. Agreement counts such rows as changed."
)
