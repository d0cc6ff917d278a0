"""What every source costs: own prices, shared setups, latencies, requirements, and review."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from decimal import Decimal
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from math import isfinite
from typing import Any

from emsco._utils.frozen_mapping import FrozenMapping
from emsco._utils.toml_writer import fields_beside
from emsco.core.costs_fields import LATER, WORDS, amount, as_names, as_text
from emsco.core.costs_file import read_csv, read_toml, unreadable, write_toml
from emsco.core.value_type import check_types, types_by_feature
from emsco.exceptions import ColumnsError, CostsError, nearest, quoted


@dataclass(frozen=True, repr=False)
class Source:
    """A source: what is bought as a unit and yields one or more features for a cost.

    Parameters
    ----------
    name : str
        Its name, unique among the sources.
    features : sequence of str, default=None
        The columns it yields. None: the one feature of that name.
    cost : float
        Its own price per row; 0 is allowed for free sources.
    latency : float, default=0.0
        How long it takes to answer. The sources of one stage are fetched at the same time, but each
        waits for those that it requires.
    setup : str, default=None
        The name of a cost that it shares with other sources, paid once per row.
    requires : sequence of str, default=()
        Sources that must be bought before this one, or in the same stage. No source may require
        itself, directly or through others.
    type : str or mapping of feature to str, default=None
        What its columns hold: "text" (04300 keeps its zero), "number", "category" (7, 7.0 and 07
        are the same) or "date" (becomes the days since 1970-01-01); one type for all of its
        columns, or one for each of some. None: what the values of training show.
    kind : {"text"}, default=None
        "text": its columns hold long text, such as messages, of which the default classifier sees
        the log-odds of a linear model of words and characters; those with a `type` are excepted.
    description : str, default=""
        What it is, for people who read a report. It changes no decision and no fingerprint.

    Examples
    --------
    >>> from emsco import Source
    >>> Source("cholesterol", cost=5.17, setup="blood").features
    ('cholesterol',)
    """

    name: str
    _: KW_ONLY
    features: Sequence[str] = None  # type: ignore[assignment]  # None until __post_init__
    cost: float
    latency: float = 0.0
    setup: str | None = None
    requires: Sequence[str] = ()
    type: str | Mapping[str, str] | None = field(default=None, metadata=LATER)
    kind: str | None = field(default=None, metadata=LATER)
    description: str = field(default="", metadata=WORDS)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise CostsError(f"A source's name must be text and not empty, got {self.name!r}.")
        features = (self.name,) if self.features is None else as_names(self.features)
        if not features:
            raise CostsError(f"Source {self.name!r} must yield at least one feature, got none.")
        set_field = object.__setattr__  # the one way to normalise a frozen value
        set_field(self, "features", features)
        set_field(self, "requires", as_names(self.requires))
        set_field(self, "type", check_types(self.type, features, self.name, self.kind))
        as_text(self.description, f"source {self.name!r}")
        set_field(self, "cost", amount(self.cost, f"cost of source {self.name!r}"))
        set_field(self, "latency", amount(self.latency, f"latency of source {self.name!r}"))

    def __repr__(self) -> str:
        fields = fields_beside(self, Source(self.name, cost=self.cost))
        more = "".join(f", {name}={value!r}" for name, value in fields.items())
        return f"Source({self.name!r}, cost={self.cost!r}{more})"


@dataclass(frozen=True)
class Review:
    """What happens to a rejected row next: the price, latency and accuracy of its review.

    Examples
    --------
    >>> from emsco import Review
    >>> Review(25.0, accuracy=0.98)
    Review(cost=25.0, latency=0.0, accuracy=0.98)
    """

    cost: float
    _: KW_ONLY
    latency: float = 0.0
    accuracy: float = 1.0

    def __post_init__(self) -> None:
        for name in ("cost", "latency", "accuracy"):
            object.__setattr__(self, name, amount(getattr(self, name), f"{name} of review"))
        if self.accuracy > 1:
            raise CostsError(f"The accuracy of review must be at most 1, got {self.accuracy!r}.")


@dataclass(frozen=True, repr=False)
class Costs:
    """All sources with their prices, which give the cost of any set of sources.

    Parameters
    ----------
    sources : sequence of Source
        Everything that can be bought, in the order that unnamed designs refer to.
    setups : mapping of str to float, default=None
        Costs shared by the sources that name them, paid once per row, with the first of them.
    review : Review, default=None
        The review of rejected rows.
    errors : mapping of label to float, default=None
        The price of a wrong label, for each true class; numbers may be named by their text. They
        are label weights: a row gets the label with the least expected price of an error.
    unit : str, default=""
        The unit of every price, for tables and plots.
    skipped : sequence of str, default=()
        Columns that are left out on purpose, so that no warning names them; in a file, those of
        `type = "skip"`.
    descriptions : mapping of str to str, default=None
        What setups are, for people who read a report; sources have their own. They change no
        decision and no fingerprint.

    Examples
    --------
    Two blood tests share the draw, which is paid once:

    >>> from emsco import Costs, Source
    >>> costs = Costs(
    ...     [
    ...         Source("age", cost=1),
    ...         Source("cholesterol", cost=5.17, setup="blood"),
    ...         Source("sugar", cost=3.10, setup="blood"),
    ...     ],
    ...     setups={"blood": 2.10},
    ... )
    >>> costs.of(["cholesterol"]), costs.of(["cholesterol", "sugar"])
    (7.27, 10.37)
    >>> costs.of(["sugar"], paid=["cholesterol"])
    3.1
    """

    sources: Sequence[Source]
    _: KW_ONLY
    setups: Mapping[str, float] = None  # type: ignore[assignment]  # None until __post_init__
    review: Review | None = None
    unit: str = ""
    skipped: Sequence[str] = field(default=(), metadata=LATER)
    errors: Mapping[Any, float] = field(default=FrozenMapping(), metadata=LATER)
    descriptions: Mapping[str, str] = field(default=FrozenMapping(), metadata=WORDS)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sources", tuple(self.sources))
        object.__setattr__(self, "skipped", as_names(self.skipped))
        errors = {c: amount(p, f"error on {c!r}") for c, p in (self.errors or {}).items()}
        object.__setattr__(self, "errors", FrozenMapping(errors))
        setups = {n: amount(p, f"cost of setup {n!r}") for n, p in (self.setups or {}).items()}
        object.__setattr__(self, "setups", FrozenMapping(setups))
        words = {n: as_text(w, f"setup {n!r}") for n, w in (self.descriptions or {}).items()}
        object.__setattr__(self, "descriptions", FrozenMapping(words))
        if not self.sources:
            raise CostsError("Costs must have at least one source, got none.")
        for source in self.sources:
            if not isinstance(source, Source):
                raise CostsError(f"`sources` must be Source objects, got {source!r}.")
        self._refuse_twice("source", self.names)
        self._refuse_twice("feature", [*self.features, *self.skipped])
        for source in self.sources:
            for name in source.requires:
                if name not in self._by_name:
                    raise CostsError(
                        f"Source {source.name!r} requires {name!r}, which is not a source"
                        + nearest(name, self.names)
                    )
            if source.setup is not None and source.setup not in setups:
                raise CostsError(
                    f"Source {source.name!r} names the setup {source.setup!r}, which has no price"
                    + nearest(source.setup, setups)
                )
        _ = self.in_order  # which refuses requirements in a circle
        latencies = sum(source.latency for source in self.sources)
        if not isfinite(self.total) or not isfinite(latencies):
            raise CostsError("The sum of all prices, and that of all latencies, must be finite.")
        for name in words:
            if name not in setups:
                raise CostsError(
                    f"`descriptions` must name setups, got {name!r}; a source has its own "
                    "description" + nearest(name, setups)
                )
        idle = set(setups) - {source.setup for source in self.sources}
        if idle:
            raise CostsError(f"No source names the setup {quoted(sorted(idle))}; remove it.")

    def __repr__(self) -> str:
        names = ("setups", "review", "unit", "skipped", "errors", "descriptions")
        fields = {name: getattr(self, name) for name in names}
        more = "".join(f", {name}={value!r}" for name, value in fields.items() if value)
        return f"Costs({list(self.sources)!r}{more})"

    @staticmethod
    def _refuse_twice(what: str, names: Sequence[str]) -> None:
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise CostsError(f"Every {what} must be named only once; repeated: {quoted(twice)}.")

    @classmethod
    def per_feature(
        cls,
        costs: Mapping[str, float] | Sequence[float],
        feature_names: Sequence[str] | None = None,
    ) -> Costs:
        """Make every feature its own source.

        Parameters
        ----------
        costs : mapping of feature to price, or sequence of prices
            A sequence matches `feature_names` by position.
        feature_names : sequence of str, default=None
            The features; None takes the mapping's own, or x0, x1, ... for a sequence.

        Examples
        --------
        >>> from emsco import Costs
        >>> Costs.per_feature({"age": 1, "lab": 20}).total
        21.0
        >>> Costs.per_feature([1, 20]).names
        ('x0', 'x1')
        """
        if isinstance(costs, Mapping):
            names = list(costs) if feature_names is None else list(feature_names)
            missing = [name for name in names if name not in costs]
            unknown = [name for name in costs if name not in names]
            if missing or unknown:
                raise ColumnsError(
                    f"`costs` must have one price per feature; missing: "
                    f"{quoted(missing) or 'none'}; not a feature: {quoted(unknown) or 'none'}."
                )
            return cls([Source(name, cost=costs[name]) for name in names])
        prices = list(costs)
        numbered = [f"x{i}" for i in range(len(prices))]  # as scikit-learn names columns
        names = numbered if feature_names is None else list(feature_names)
        if len(prices) != len(names):
            raise ColumnsError(f"`costs` has {len(prices)} prices for {len(names)} features.")
        return cls([Source(name, cost=price) for name, price in zip(names, prices, strict=True)])

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the sources, in order."""
        return tuple(source.name for source in self.sources)

    @cached_property
    def _by_name(self) -> dict[str, Source]:
        return {source.name: source for source in self.sources}

    @cached_property
    def in_order(self) -> tuple[Source, ...]:
        """The sources, each after those that it requires."""
        needs = {source.name: source.requires for source in self.sources}
        try:
            return tuple(self._by_name[name] for name in TopologicalSorter(needs).static_order())
        except CycleError as error:
            circle = quoted(dict.fromkeys(error.args[1]))
            raise CostsError(
                f"A source waits for those that it requires, and {circle} would wait for ever; "
                "remove a requirement, or make one source of them."
            ) from error

    def _known(self, sources: Iterable[str]) -> dict[str, Source]:
        """Look sources up by name, each once."""
        found = {}
        for name in (sources,) if isinstance(sources, str) else sources:
            if name not in self._by_name:
                raise CostsError(f"{name!r} is not a source" + nearest(name, self.names))
            found[name] = self._by_name[name]
        return found

    def of(self, sources: Iterable[str], *, paid: Iterable[str] = ()) -> float:
        """Return the price of a set of sources, setups included, beyond those already `paid`."""
        had = self._known(paid)
        bought = [source for name, source in self._known(sources).items() if name not in had]
        setups = {source.setup for source in bought} - {source.setup for source in had.values()}
        prices = [source.cost for source in bought]
        prices += [self.setups[setup] for setup in setups if setup is not None]
        # As the decimals they were written as: 5.17 + 3.1 + 2.1 is 10.37 to the cent.
        return float(sum((Decimal(repr(price)) for price in prices), start=Decimal(0)))

    def latency_of(self, sources: Iterable[str]) -> float:
        """Return the latency of a set of sources fetched in one stage.

        All are fetched at the same time, but each waits for those of the set that it requires: the
        latency is that of the slowest chain. What is required and not in the set was bought before,
        and adds nothing.

        Examples
        --------
        >>> from emsco import Costs, Source
        >>> whois = Source("whois", cost=5, latency=0.2)
        >>> dns = Source("dns", cost=20, latency=0.4, requires=["whois"])
        >>> costs = Costs([whois, dns, Source("page", cost=9, latency=0.5)])
        >>> costs.latency_of(["page", "dns"]), round(costs.latency_of(costs.names), 3)
        (0.5, 0.6)
        """
        bought = self._known(sources)
        answered: dict[str, float] = {}
        for source in self.in_order:
            if source.name in bought:
                begin = max((answered.get(name, 0.0) for name in source.requires), default=0.0)
                answered[source.name] = begin + source.latency
        return max(answered.values(), default=0.0)

    @cached_property
    def total(self) -> float:
        """The price of every source, setups included."""
        return self.of(self.names)

    def columns(self, source: str | Source) -> tuple[str, ...]:
        """Return the names of the features that a source yields."""
        if not isinstance(source, Source):
            (source,) = self._known([source]).values()
        return tuple(source.features)

    @property
    def features(self) -> tuple[str, ...]:
        """Every feature that a source yields."""
        return tuple(feature for source in self.sources for feature in source.features)

    @cached_property
    def types(self) -> Mapping[str, str]:
        """The declared type of each feature that has one."""
        return FrozenMapping(types_by_feature(self.sources))

    def unmet(self, sources: Iterable[str]) -> tuple[tuple[str, str], ...]:
        """List (source, what it requires) for every requirement that a set leaves out."""
        known = self._known(sources)
        return tuple(
            (source.name, name)
            for source in known.values()
            for name in source.requires
            if name not in known
        )

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> Costs:
        """Read costs from a TOML file.

        A source is a price, or a table with the parameters of `Source`::

            unit = "CAD"

            [sources]
            age = 1.0
            cholesterol = { cost = 5.17, setup = "blood", description = "in mg/dl" }

            [setups]
            blood = 2.1

            [descriptions]
            blood = "drawing blood"

            [review]
            cost = 25.0

        Columns of ``type = "skip"`` need no price: they are left out.
        """
        fields = [*Source.__dataclass_fields__][1:]
        data = read_toml(path, fields, [*Review.__dataclass_fields__])
        sources, review = data.pop("sources"), data.pop("review", None)
        try:
            return cls(
                [Source(name, **entry) for name, entry in sources.items()],
                review=None if review is None else Review(**review),
                **data,
            )
        except (TypeError, KeyError, AttributeError) as error:
            raise unreadable(path, error) from error

    @classmethod
    def from_csv(cls, path: str | os.PathLike[str]) -> Costs:
        """Read a CSV file with a column and its price on each line; the first may name the two."""
        return cls.per_feature(read_csv(path))

    def to_toml(self, path: str | os.PathLike[str] | None = None) -> str:
        """Return the costs as TOML text for `from_toml`, and write it if a path is given."""
        return write_toml(self, path)
