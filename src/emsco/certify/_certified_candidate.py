"""What a certificate says about one candidate: figures and bounds, or why it is not certified."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from emsco._utils.frozen_mapping import FrozenMapping
from emsco._utils.text_table import cell
from emsco.certify._serialization import (
    by_label,
    candidate_from,
    candidate_to,
    evaluation_from,
    evaluation_keys,
    evaluation_to,
    expect,
    expect_keys,
    number,
    whole,
)
from emsco.certify._targets import COMMON, Targets
from emsco.certify.binomial import cost_upper, lower, upper
from emsco.core.evaluation import Evaluation
from emsco.core.front import Candidate
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


@dataclass(frozen=True)
class CertifiedCandidate:
    """A certified candidate, with its counts on the calibration rows.

    Parameters
    ----------
    candidate : Candidate
        Design and threshold; its own evaluation is the selected one.
    fingerprint : str
        The fingerprint of the fitted cascade that was tested.
    evaluation : Evaluation
        The evaluation on the calibration rows.
    reached : tuple of int
        The number of calibration rows that bought each stage.
    prices : tuple of float
        What a row has paid in total after buying each stage.
    p_value : float
        The p-value of the hypothesis that some target is broken.
    bounds : CertifiedBounds
        Lower bound of accuracy, both bounds of coverage, upper bounds of cost and of the share
        missed per class; upper bounds of the share rejected and lower bounds of precision for the
        labels that were asked for.
    keeps : bool, default=True
        Whether it keeps, on the searched rows, what the choice of the search kept: the conditions
        of the default choice, and every class. Others are listed, but not used in its place.
    """

    candidate: Candidate
    fingerprint: str
    evaluation: Evaluation
    reached: tuple[int, ...]
    prices: tuple[float, ...]
    p_value: float
    bounds: CertifiedBounds
    keeps: bool = True

    def to_data(self) -> dict[str, Any]:
        """Return the candidate as plain values and lists of them."""
        data = {
            **candidate_to(self.candidate),
            "fingerprint": self.fingerprint,
            **evaluation_to(self.evaluation, "fresh"),
            "reached": list(self.reached),
            "prices": list(self.prices),
            "p_value": self.p_value,
            "least_accuracy": self.bounds.accuracy,
            "coverage": list(self.bounds.coverage),
            "most_cost": self.bounds.cost,
            "labels": list(self.bounds.missed),
            "most_missed": list(self.bounds.missed.values()),
        }
        for name in dict.fromkeys([*_ALWAYS, *self.bounds.others]):
            bounds, (labels, limits) = getattr(self.bounds, name), _keys_of(name)
            data |= {labels: list(bounds), limits: list(bounds.values())}
        return data if self.keeps else data | {"keeps": False}

    @classmethod
    def from_data(cls, data: Any, names: tuple[str, ...] | None) -> CertifiedCandidate:
        """Rebuild it from the values of `to_data`; `names` are the names of the sources."""
        others = [name for name in MEASURES if name in _ALWAYS or _keys_of(name)[0] in data]
        more = {"keeps", "learner"} & data.keys() if isinstance(data, dict) else ()
        expect_keys(data, [*_KEYS, *more, *(key for name in others for key in _keys_of(name))])
        if "keeps" in data and data["keeps"] is not False:
            raise CertificateError("A certificate says `keeps` only of a candidate that does not.")
        candidate = candidate_from(data, names)
        evaluation = evaluation_from(data, "fresh")
        reached = tuple(
            whole(n, "rows that bought a stage") for n in expect(data["reached"], list, "reached")
        )
        prices = tuple(number(price, "price") for price in expect(data["prices"], list, "prices"))
        low, high = (
            number(share, "coverage", 0, 1) for share in expect(data["coverage"], list, "coverage")
        )
        missed = by_label(data["labels"], data["most_missed"], "bounds of missed rows")
        own = {
            name: by_label(data[labels], data[limits], f"bounds of {name}")
            for name, (labels, limits) in ((name, _keys_of(name)) for name in others)
        }
        if (
            {len(reached), len(prices)} != {candidate.design.n_stages}
            or reached[0] != evaluation.rows
            or list(reached) != sorted(reached, reverse=True)
            or low > high
            or any(bound > 1 for bounds in (missed, *own.values()) for bound in bounds.values())
        ):
            raise CertificateError(
                "A certificate has counts or bounds that contradict one another."
            )
        return cls(
            candidate,
            expect(data["fingerprint"], str, "fingerprint"),
            evaluation,
            reached,
            prices,
            number(data["p_value"], "p-value", 0, 1),
            CertifiedBounds(
                accuracy=number(data["least_accuracy"], "accuracy", 0, 1),
                coverage=(low, high),
                cost=number(data["most_cost"], "cost"),
                missed=missed,
                others=FrozenMapping({name: bounds for name, bounds in own.items() if bounds}),
            ),
            keeps="keeps" not in data,
        )


_KEYS = [
    "assignment", "threshold", *evaluation_keys("selected"), "fingerprint",
    *evaluation_keys("fresh"), "reached", "prices", "p_value", "least_accuracy", "coverage",
    "most_cost", "labels", "most_missed",
]  # fmt: skip


def _keys_of(name: str) -> tuple[str, str]:
    """Return the keys of the labels and the bounds of a measure in a file."""
    return f"{name}_labels", f"{'least' if MEASURES[name].is_better_high else 'most'}_{name}"


@dataclass(frozen=True)
class ChosenCandidate:
    """The candidate that a search had chosen at the time of a certificate.

    Parameters
    ----------
    candidate : Candidate
        The candidate with its selected figures.
    tested : bool
        Whether it was tested.
    why : str
        Why it was not tested, or what its test lacked; "" if it is certified.
    """

    candidate: Candidate
    tested: bool
    why: str

    def sentence(self, certified: CertifiedCandidate | None) -> str:
        """Say what was chosen, and what became of it; `certified` is what it is listed as."""
        own = self.candidate
        if certified is not None:
            counted = certified.evaluation.in_one_line
            result = f"It is certified; on the calibration rows: {counted}"
        elif self.tested:
            result = f"It was tested and is not certified: {self.why}"
        else:
            result = f"It was not tested: {self.why}"
        return (
            f"Chosen: {own.title} at threshold {cell(own.threshold)}. As selected: "
            f"{own.evaluation.in_one_line}. {result}."
        )

    def to_data(self) -> dict[str, Any]:
        """Return it as plain values."""
        return candidate_to(self.candidate) | {"tested": self.tested, "why": self.why}

    @classmethod
    def from_data(cls, data: Any, names: tuple[str, ...] | None) -> ChosenCandidate:
        """Rebuild it from the values of `to_data`; `names` are the names of the sources."""
        more = {"learner"} & data.keys() if isinstance(data, dict) else ()
        selected = evaluation_keys("selected")
        expect_keys(data, ["assignment", "threshold", *more, *selected, "tested", "why"])
        if not isinstance(data["tested"], bool):
            raise CertificateError(
                "A certificate must say whether the chosen candidate was tested."
            )
        return cls(candidate_from(data, names), data["tested"], expect(data["why"], str, "reason"))
