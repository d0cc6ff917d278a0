"""The contract of a driver of the decision loop: decisions as offline, no unneeded fetches."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from emsco.cascade import CascadeClassifier, Decider
from emsco.core.costs import Costs, Source
from emsco.core.decisions import INVALID_VALUE, Decisions, kind_of
from emsco.core.design import StageDesign
from emsco.exceptions import ContractError, ValuesError
from emsco.rows.guard import InputGuard
from emsco.testing._contract import demand

Function: TypeAlias = Callable[[Any], Any]
Driver: TypeAlias = Callable[
    [Decider, Mapping[str, Function], Sequence[Any]], Decisions | Awaitable[Decisions]
]

_ROWS = 60
# What a row is decided by its values alone; and what else it takes as planned, where nothing is
# cached, shared or priced by the row.
_DECIDED = ("label", "accepted", "exit_stage", "confidence", "share", "reason")
_CHARGES = ("cost", "latency")
_FAULTS: tuple[Any, ...] = (np.nan, np.inf, "text", None)
_LIVE_FAULTS: tuple[Any, ...] = (  # a source answers whatever it holds
    [1.0], {}, 10**400, b"1", 1j, np.complex128(1), np.timedelta64(1, "D"),
)  # fmt: skip


def check_driver(driver: Driver, *, live: bool = False) -> None:
    """Check a driver of the decision loop against everything that its users rely on.

    It must decide as the cascade itself does: label, accepted, exit stage, confidence, share,
    reason, and, unless it is live, cost and latency. It must fetch a value only for a row that is
    still undecided when its stage is reached, and no value twice. Rows must be decided in the same
    way one by one, all together and in another order, and no rows must give no decisions.

    With a guard, a row with a faulty value must be rejected with a reason; without one, the value
    must raise a `ValuesError`. A live driver must reject the row in both cases, and never raise.
    The other rows must be decided as if nothing were wrong.

    Parameters
    ----------
    driver : callable
        `driver(decider, functions, keys)` decides the rows that `keys` name, or returns an
        awaitable that does. The value of a column for a key is what the function with the name of
        that column returns for that key.
    live : bool, default=False
        Whether the driver tells what was really paid and waited, and rejects what it cannot judge.

    Raises
    ------
    ContractError
        At the first broken promise; the message says which one.

    Examples
    --------
    >>> import numpy as np
    >>> from emsco.testing import check_driver
    >>> def decide_by_functions(decider, functions, keys):
    ...     def answer(ask):
    ...         values = {
    ...             feature: np.array([functions[feature](keys[row]) for row in ask.rows])
    ...             for feature in ask.features
    ...         }
    ...         return decider.answer(values, ask.rows)
    ...
    ...     return decider.drive(len(keys), answer)
    >>> check_driver(decide_by_functions)
    """
    contract = _Contract(driver, live)
    for guard in (None, InputGuard()):
        for n_classes in (2, 3):
            contract.check_decisions(_Source(n_classes, guard))
    contract.check_decisions(_Source(3, None, label_weights={0: 1.0, 1: 4.0, 2: 2.5}))
    contract.check_faults()


class _Source:
    """A cascade, rows, and functions that note what they are asked for."""

    def __init__(
        self, n_classes: int, guard: Any, label_weights: dict[int, float] | None = None
    ) -> None:
        rng = np.random.default_rng(n_classes)
        labels = rng.permutation(np.arange(4 * _ROWS) % n_classes)
        names = ("cheap", "usual", "more", "dear")
        X = {f: labels * (0.3 + i) + rng.normal(size=len(labels)) for i, f in enumerate(names)}
        self.matrix = np.column_stack(list(X.values()))
        costs = Costs(
            [
                Source("x0", cost=1, latency=0.5),
                Source("page", features=["x1", "x2"], cost=5, latency=2.0),
                Source("x3", cost=20),
            ]
        )
        design = StageDesign.from_stages([["x0"], ["page"], ["x3"]])
        self.cascade = CascadeClassifier(
            design=design, costs=costs, threshold=0.8, label_weights=label_weights, guard=guard
        )
        self.cascade.fit(self.matrix, labels)
        self.requests: list[tuple[str, int]] = []

    def functions(self) -> dict[str, Function]:
        """Give a function a column, which notes what it is asked for."""

        def function(place: int) -> Function:
            def value(key: int) -> float:
                self.requests.append((f"x{place}", key))
                return float(self.matrix[key, place])

            return value

        return {f"x{place}": function(place) for place in range(self.matrix.shape[1])}

    def faulty(self, column: str, key: int, fault: Any) -> dict[str, Function]:
        """Give the same functions, of which one has a faulty value for one key."""
        functions = self.functions()
        right = functions[column]
        functions[column] = lambda other: fault if other == key else right(other)
        return functions


class _Contract:
    """What a driver promises, checked promise by promise."""

    def __init__(self, driver: Driver, live: bool) -> None:
        self.driver, self.live = driver, live
        self.fields = _DECIDED if live else (*_DECIDED, *_CHARGES)

    def decide(
        self, source: _Source, keys: Sequence[int], functions: Mapping[str, Function] | None = None
    ) -> Decisions:
        """Let the driver decide, noting anew what is asked for."""
        source.requests.clear()
        functions = source.functions() if functions is None else functions
        found = self.driver(source.cascade.decider_, functions, list(keys))
        decided = asyncio.run(_waited(found)) if inspect.isawaitable(found) else found
        demand(isinstance(decided, Decisions), "The driver gives no Decisions.")
        return decided

    def demand_same(self, found: Decisions, expected: Decisions, when: str = "") -> None:
        """Demand that decisions are as expected, in all that this driver promises."""
        for name in self.fields:
            same = np.array_equal(getattr(found, name), getattr(expected, name))
            demand(same, f"The driver's `{name}` is not the cascade's own{when}.")

    def check_decisions(self, source: _Source) -> None:
        """Check that rows are decided as by the cascade, by no more than they need."""
        keys = list(range(_ROWS))
        expected = source.cascade.decide(source.matrix[:_ROWS])
        self.demand_same(self.decide(source, keys), expected)
        _check_asked(source, expected)
        turned = self.decide(source, keys[::-1])
        self.demand_same(turned, expected[::-1], " where rows come in another order")
        for key in keys[:5]:
            alone = self.decide(source, [key])
            self.demand_same(alone, expected[[key]], " where a row comes alone")
        nothing = self.decide(source, [])
        demand(len(nothing) == 0, "The driver must give no decisions for no rows.")
        demand(not source.requests, "The driver fetches something for no rows.")

    def check_faults(self) -> None:
        """Check that no faulty value is judged, and that no other row suffers."""
        for guard in (None, InputGuard()):
            source = _Source(2, guard)
            expected = source.cascade.decide(source.matrix[:_ROWS])
            later = int(np.argmax(expected.exit_stage > 0))
            for fault in (*_FAULTS, *(_LIVE_FAULTS if self.live else ())):
                for column, key in (("x0", 1), ("x1", later)):
                    functions = source.faulty(column, key, fault)
                    for keys in (sorted({0, 1, 2, key}), [key]):
                        self.check_fault(source, expected, keys, functions, key, fault)

    def check_fault(
        self,
        source: _Source,
        expected: Decisions,
        keys: list[int],
        functions: Mapping[str, Function],
        key: int,
        fault: Any,
    ) -> None:
        """Check what becomes of one faulty value, among other rows or alone."""
        rejects = self.live or source.cascade.guard is not None
        try:
            decisions = self.decide(source, keys, functions)
        except ContractError:
            raise
        except Exception as error:
            kind = type(error).__name__
            demand(not self.live, f"The driver raises {kind} for {fault!r}; live, it must reject.")
            named = isinstance(error, ValuesError)
            demand(named, f"The driver raises {kind} for {fault!r}, and not a ValuesError.")
            demand(not rejects, f"The driver raises for {fault!r} although there is a guard.")
            return
        demand(rejects, f"The driver judges a row whose value is {fault!r}.")
        place = keys.index(key)
        decision = decisions[place]
        demand(not decision.accepted, f"The driver accepts a row with {fault!r}.")
        rejected = kind_of(decision.reason) == INVALID_VALUE
        demand(rejected, f"The driver gives no reason for a row with {fault!r}.")
        others = [i for i in range(len(keys)) if i != place]
        beside = f" for rows beside one with {fault!r}"
        self.demand_same(decisions[others], expected[[keys[i] for i in others]], beside)


async def _waited(found: Awaitable[Decisions]) -> Decisions:
    return await found


def _check_asked(source: _Source, expected: Decisions) -> None:
    """Check that every value was fetched that a stage needed, once, and no other."""
    requests = set(source.requests)
    demand(len(requests) == len(source.requests), "The driver fetches a value twice.")
    stages = source.cascade.decider_.plan.stages
    needed = {
        (feature, key)
        for key in range(len(expected))
        for stage in stages[: expected.exit_stage[key] + 1]
        for feature in stage.features
    }
    idle = requests - needed
    demand(not idle, f"The driver fetches what no stage needed: {sorted(idle)[:3]}.")
    demand(requests == needed, "The driver decides without fetching what a stage needs.")
