"""Bounds on the true figures of a certified candidate, or of a group of rows that it decides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from emsco._utils.frozen_mapping import FrozenMapping
from emsco.certify._serialization import by_label, expect, number
from emsco.certify._targets import COMMON, Targets
from emsco.certify.binomial import cost_upper, lower, upper
from emsco.core.evaluation import Evaluation
from emsco.core.measure import Measure
from emsco.core.measures import MEASURES
from emsco.exceptions import CertificateError

_FOR_ALL = 4  # bounds, besides those by label: accuracy, coverage twice, cost
_ALWAYS = ("rejected", "precision")  # measures by label whose bounds, if any, are in every file


class CertifiedBounds(NamedTuple):
    """Bounds on a candidate's true figures; all bounds of a certificate hold at once.

    `others` has the bounds on measures that were asked for and have none otherwise, by label; they
    are attributes, too, such as `rejected`.
    """

    accuracy: float
    coverage: tuple[float, float]
    cost: float
    missed: Mapping[Any, float]
    others: Mapping[str, Mapping[Any, float]] = FrozenMapping()

    @classmethod
    def of(
        cls,
        evaluation: Evaluation,
        reached: Sequence[int],
        prices: Sequence[float],
        labels: Sequence[Any],
        targets: Targets,
        level: float,
    ) -> CertifiedBounds:
        """Return Clopper and Pearson's bounds, each false with a probability of at most its part.

        The level is shared evenly by all of them.
        """
        own = {
            measure: value if measure.is_by_class else [None]
            for measure, value in targets.measures()
            if measure.target not in COMMON
        }
        level /= _FOR_ALL + len(labels) + sum(map(len, own.values()))
        rows, accepted = evaluation.rows, evaluation.accepted

        def bounds(measure: Measure, labels: Iterable[Any]) -> Mapping[Any, float]:
            bound = lower if measure.is_better_high else upper
            counts = {label: measure.count(evaluation, label) for label in labels}
            return FrozenMapping({c: float(bound(*count, level)) for c, count in counts.items()})

        return cls(
            accuracy=float(lower(evaluation.right, accepted, level)),
            coverage=(float(lower(accepted, rows, level)), float(upper(accepted, rows, level))),
            cost=float(cost_upper(reached, prices, level)),
            missed=bounds(MEASURES["missed"], labels),
            others=FrozenMapping({m.name: bounds(m, labels) for m, labels in own.items()}),
        )

    @property
    def agreement(self) -> float:
        """The bound on the agreement: with a final model, every row is accepted."""
        return self.accuracy

    def __getattr__(self, name: str) -> Mapping[Any, float]:
        if name not in MEASURES:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}.")
        return self.others.get(name, FrozenMapping())

    def labels(self) -> frozenset[Any]:
        """Return the labels that bounds by label name, with their measures."""
        named = {"missed": self.missed, **self.others}
        return frozenset((name, label) for name, own in named.items() for label in own)

    def to_data(self) -> dict[str, Any]:
        """Return the bounds as plain values and lists of them."""
        data: dict[str, Any] = {
            "least_accuracy": self.accuracy,
            "coverage": list(self.coverage),
            "most_cost": self.cost,
            "labels": list(self.missed),
            "most_missed": list(self.missed.values()),
        }
        for name in dict.fromkeys([*_ALWAYS, *self.others]):
            bounds, (labels, limits) = getattr(self, name), _keys_of(name)
            data |= {labels: list(bounds), limits: list(bounds.values())}
        return data

    @classmethod
    def keys_in(cls, data: Any) -> list[str]:
        """List the keys of `to_data` that a certificate has, or must have."""
        return [*_KEYS, *(key for name in _others_in(data) for key in _keys_of(name))]

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> CertifiedBounds:
        """Rebuild the bounds from the values of `to_data`, among others."""
        low, high = (
            number(share, "coverage", 0, 1) for share in expect(data["coverage"], list, "coverage")
        )
        missed = by_label(data["labels"], data["most_missed"], "bounds of missed rows")
        own = {
            name: by_label(data[labels], data[limits], f"bounds of {name}")
            for name, (labels, limits) in ((name, _keys_of(name)) for name in _others_in(data))
        }
        if low > high or any(b > 1 for bounds in (missed, *own.values()) for b in bounds.values()):
            raise CertificateError("A certificate has bounds that contradict one another.")
        return cls(
            accuracy=number(data["least_accuracy"], "accuracy", 0, 1),
            coverage=(low, high),
            cost=number(data["most_cost"], "cost"),
            missed=missed,
            others=FrozenMapping({name: bounds for name, bounds in own.items() if bounds}),
        )

    def on(self, measure: Measure) -> Mapping[Any, float]:
        """Return the bounds on a measure by label; None stands for all rows."""
        own = getattr(self, measure.name)
        if isinstance(own, Mapping):
            return own
        return {None: own[0] if isinstance(own, tuple) else own}


class RequestedBound(NamedTuple):
    """One bound that was asked for: its measure, label, value, and a phrase."""

    measure: Measure
    label: Any
    value: float
    phrase: str

    @property
    def head(self) -> str:
        """The header of its column in a table."""
        return f"{self.measure.name_of(self.label)} {'>=' if self.measure.is_better_high else '<='}"


_KEYS = ["least_accuracy", "coverage", "most_cost", "labels", "most_missed"]


def _keys_of(name: str) -> tuple[str, str]:
    """Return the keys of the labels and the bounds of a measure in a file."""
    return f"{name}_labels", f"{'least' if MEASURES[name].is_better_high else 'most'}_{name}"


def _others_in(data: Any) -> list[str]:
    """List the measures by label, besides missed rows, that have bounds in a file."""
    return [name for name in MEASURES if name in _ALWAYS or _keys_of(name)[0] in data]
