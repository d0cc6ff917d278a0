"""The contract of a driver of the decision loop: decisions as offline, no unneeded fetches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from emsco.cascade import CascadeClassifier, Decider
from emsco.exceptions import ValuesError
from emsco.rows.guard import InputGuard
from emsco.testing._demand import demand
from emsco.words.costs import Costs, Source
from emsco.words.decisions import INVALID_VALUE, Decisions, kind_of
from emsco.words.design import StageDesign

Function: TypeAlias = Callable[[Any], Any]
Driver: TypeAlias = Callable[[Decider, Mapping[str, Function], Sequence[Any]], Decisions]

_ROWS = 60
_FIELDS = ("label", "accepted", "exit_stage", "confidence", "cost", "reason", "latency")


def check_driver(driver: Driver) -> None:
    """Check a driver of the decision loop against everything that its users rely on.

    It must decide as the cascade itself does: label, accepted, exit stage, confidence, cost, reason
    and latency. It must fetch a value only for a row that is still undecided when its stage is
    reached, and no value twice. Rows must be decided in the same way one by one, all together and
    in another order, and no rows must give no decisions. With a guard, a row with a faulty value
    must be rejected with a reason; without one, the value must raise a `ValuesError`.

    Parameters
    ----------
    driver : callable
        `driver(decider, functions, keys)` decides the rows that `keys` name. The value of a column
        for a key is what the function with the name of that column returns for that key.

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
    for guard in (None, InputGuard()):
        for n_classes in (2, 3):
            _check_decisions(driver, _Source(n_classes, guard))
    _check_faults(driver)


class _Source:
    """A cascade, rows, and functions that note what they are asked for."""

    def __init__(self, n_classes: int, guard: Any) -> None:
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
        self.cascade = CascadeClassifier(design=design, costs=costs, threshold=0.8, guard=guard)
        self.cascade.fit(self.matrix, labels)
        self.asked: list[tuple[str, int]] = []

    def functions(self) -> dict[str, Function]:
        """Give a function a column, which notes what it is asked for."""

        def function(place: int) -> Function:
            def value(key: int) -> float:
                self.asked.append((f"x{place}", key))
                return float(self.matrix[key, place])

            return value

        return {f"x{place}": function(place) for place in range(self.matrix.shape[1])}

    def decide(self, driver: Driver, keys: Sequence[int]) -> Decisions:
        """Let a driver decide, noting anew what is asked for."""
        self.asked.clear()
        return driver(self.cascade.decider_, self.functions(), list(keys))


def _check_decisions(driver: Driver, source: _Source) -> None:
    keys = list(range(_ROWS))
    expected = source.cascade.decide(source.matrix[:_ROWS])
    found = source.decide(driver, keys)
    demand(isinstance(found, Decisions), "The driver gives no Decisions.")
    for name in _FIELDS:
        same = np.array_equal(getattr(found, name), getattr(expected, name))
        demand(same, f"The driver's `{name}` is not the cascade's own.")
    asked = set(source.asked)
    demand(len(asked) == len(source.asked), "The driver fetches a value twice.")
    stages = source.cascade.decider_.plan.stages
    needed = {
        (feature, key)
        for key in keys
        for stage in stages[: expected.exit_stage[key] + 1]
        for feature in stage.features
    }
    idle = asked - needed
    demand(not idle, f"The driver fetches what no stage needed: {sorted(idle)[:3]}.")
    demand(asked == needed, "The driver decides without fetching what a stage needs.")
    turned = source.decide(driver, keys[::-1])
    same = np.array_equal(turned.confidence[::-1], expected.confidence)
    demand(same, "The driver decides rows otherwise in another order.")
    for key in keys[:5]:
        alone = source.decide(driver, [key])
        demand(alone[0] == expected[key], "The driver decides a row alone otherwise.")
    demand(len(source.decide(driver, [])) == 0, "The driver must give no decisions for no rows.")
    demand(not source.asked, "The driver fetches something for no rows.")


def _check_faults(driver: Driver) -> None:
    for fault in (np.nan, np.inf, "text", None):
        for guard in (None, InputGuard()):
            source = _Source(2, guard)
            functions = source.functions()
            functions["x0"] = _with_fault(functions["x0"], fault)
            try:
                decisions = driver(source.cascade.decider_, functions, [0, 1, 2])
            except ValuesError:
                demand(guard is None, f"The driver raises for {fault!r} although there is a guard.")
                continue
            except Exception as error:
                kind = type(error).__name__
                demand(False, f"The driver raises {kind} for {fault!r}, and not a ValuesError.")
            demand(guard is not None, f"The driver judges a row whose value is {fault!r}.")
            demand(not decisions.accepted[1], f"The driver accepts a row with {fault!r}.")
            rejected = kind_of(decisions.reason[1]) == INVALID_VALUE
            demand(rejected, f"The driver gives no reason for a row with {fault!r}.")


def _with_fault(function: Function, fault: Any) -> Function:
    return lambda key: fault if key == 1 else function(key)
