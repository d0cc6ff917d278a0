"""What a certificate says about one candidate: figures and bounds, or why it is not certified."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from emsco._utils.frozen_mapping import FrozenMapping
from emsco.certify._binomial import cost_upper, lower, upper
from emsco.certify._serialization import (
    by_label,
    candidate_from,
    candidate_to,
    evaluation_from,
    evaluation_keys,
    evaluation_to,
    expect_keys,
    listed,
    number,
    text,
    whole,
)
from emsco.certify._targets import Targets
from emsco.core.evaluation import Evaluation
from emsco.core.front import Candidate
from emsco.exceptions import CertificateError

_FOR_ALL = 4  # bounds, besides those by label: accuracy, coverage twice, cost


class CertifiedBounds(NamedTuple):
    """Bounds on a candidate's true figures; all bounds of a certificate hold at once."""

    accuracy: float
    coverage: tuple[float, float]
    cost: float
    missed: Mapping[Any, float]
    rejected: Mapping[Any, float] = FrozenMapping()  # only for labels that were asked for
    precision: Mapping[Any, float] = FrozenMapping()

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
        n_own = len(targets.max_rejected) + len(targets.min_precision)
        level /= _FOR_ALL + len(labels) + n_own
        rows, accepted = evaluation.rows, evaluation.accepted
        known, assigned = evaluation.class_rows, evaluation.label_accepted
        errors = {c: evaluation.class_accepted[c] - evaluation.class_right[c] for c in known}
        rejected = {c: known[c] - evaluation.class_accepted[c] for c in known}
        right = evaluation.class_right
        return cls(
            accuracy=float(lower(evaluation.right, accepted, level)),
            coverage=(float(lower(accepted, rows, level)), float(upper(accepted, rows, level))),
            cost=float(cost_upper(reached, prices, level)),
            missed=FrozenMapping(
                {c: float(upper(errors.get(c, 0), known.get(c, 0), level)) for c in labels}
            ),
            rejected=FrozenMapping(
                {
                    c: float(upper(rejected.get(c, 0), known.get(c, 0), level))
                    for c in targets.max_rejected
                }
            ),
            precision=FrozenMapping(
                {
                    c: float(lower(right.get(c, 0), assigned.get(c, 0), level))
                    for c in targets.min_precision
                }
            ),
        )


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
    """

    candidate: Candidate
    fingerprint: str
    evaluation: Evaluation
    reached: tuple[int, ...]
    prices: tuple[float, ...]
    p_value: float
    bounds: CertifiedBounds

    def to_data(self) -> dict[str, Any]:
        """Return the candidate as plain values and lists of them."""
        return {
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
            "rejected_labels": list(self.bounds.rejected),
            "most_rejected": list(self.bounds.rejected.values()),
            "precision_labels": list(self.bounds.precision),
            "least_precision": list(self.bounds.precision.values()),
        }

    @classmethod
    def from_data(cls, data: Any, names: tuple[str, ...] | None) -> CertifiedCandidate:
        """Rebuild it from the values of `to_data`; `names` are the names of the sources."""
        expect_keys(data, _KEYS)
        candidate = candidate_from(data, names)
        evaluation = evaluation_from(data, "fresh")
        reached = tuple(
            whole(n, "rows that bought a stage") for n in listed(data["reached"], "reached")
        )
        prices = tuple(number(price, "price") for price in listed(data["prices"], "prices"))
        low, high = (
            number(share, "coverage", 0, 1) for share in listed(data["coverage"], "coverage")
        )
        missed = by_label(data["labels"], data["most_missed"], "bounds of missed rows")
        rejected, precision = (
            by_label(data[f"{name}_labels"], data[bounds], f"bounds of {name}")
            for name, bounds in (("rejected", "most_rejected"), ("precision", "least_precision"))
        )
        if (
            {len(reached), len(prices)} != {candidate.design.n_stages}
            or reached[0] != evaluation.rows
            or list(reached) != sorted(reached, reverse=True)
            or low > high
            or max([*missed.values(), *rejected.values(), *precision.values()], default=0) > 1
        ):
            raise CertificateError(
                "A certificate has counts or bounds that contradict one another."
            )
        return cls(
            candidate,
            text(data["fingerprint"], "fingerprint"),
            evaluation,
            reached,
            prices,
            number(data["p_value"], "p-value", 0, 1),
            CertifiedBounds(
                accuracy=number(data["least_accuracy"], "accuracy", 0, 1),
                coverage=(low, high),
                cost=number(data["most_cost"], "cost"),
                missed=missed,
                rejected=rejected,
                precision=precision,
            ),
        )


_KEYS = [
    "assignment", "threshold", *evaluation_keys("selected"), "fingerprint",
    *evaluation_keys("fresh"), "reached", "prices", "p_value", "least_accuracy", "coverage",
    "most_cost", "labels", "most_missed", "rejected_labels", "most_rejected", "precision_labels",
    "least_precision",
]  # fmt: skip


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

    def to_data(self) -> dict[str, Any]:
        """Return it as plain values."""
        return candidate_to(self.candidate) | {"tested": self.tested, "why": self.why}

    @classmethod
    def from_data(cls, data: Any, names: tuple[str, ...] | None) -> ChosenCandidate:
        """Rebuild it from the values of `to_data`; `names` are the names of the sources."""
        expect_keys(
            data, ["assignment", "threshold", *evaluation_keys("selected"), "tested", "why"]
        )
        if not isinstance(data["tested"], bool):
            raise CertificateError(
                "A certificate must say whether the chosen candidate was tested."
            )
        return cls(candidate_from(data, names), data["tested"], text(data["why"], "reason"))
