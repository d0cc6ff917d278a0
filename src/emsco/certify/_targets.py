"""What is asked of a cascade, all of it at once, as one test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, NamedTuple

from emsco._frozen import FrozenMapping
from emsco.certify._binomial import tail
from emsco.certify._required import check_between, rows_for
from emsco.evaluation import Evaluation
from emsco.exceptions import CertificateError


def percent(share: float) -> str:
    """Print a share."""
    return f"{100 * share:.4g}%"


@dataclass(frozen=True)
class Targets:
    """What a certified cascade keeps, all of it at once.

    Parameters
    ----------
    accuracy : float, default=None
        The least share of accepted rows labelled right.
    agreement : float, default=None
        The least share of rows decided as the final model would.
    max_missed : mapping of label to float, default=None
        By true class, the largest share of its rows accepted under another label.
    min_coverage : float, default=None
        The least share of rows accepted.
    max_cost : float, default=None
        The most paid per row on the mean.
    """

    _: KW_ONLY
    accuracy: float | None = None
    agreement: float | None = None
    max_missed: Mapping[Any, float] = None  # type: ignore[assignment]  # None until __post_init__
    min_coverage: float | None = None
    max_cost: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_missed", FrozenMapping(self.max_missed))
        if self.accuracy is self.agreement is None and not self.max_missed:
            raise CertificateError(
                "Say what to certify: `accuracy`, `max_missed`, both, or `agreement`."
            )
        if self.agreement is not None and (self.accuracy is not None or self.max_missed):
            raise CertificateError(
                "`agreement` is with the final model, other targets are with labels; certify one, "
                "then the other on other rows."
            )
        between = {
            "accuracy": self.accuracy,
            "agreement": self.agreement,
            "min_coverage": self.min_coverage,
        }
        between |= {f"max_missed of {label!r}": most for label, most in self.max_missed.items()}
        for name, value in between.items():
            if value is not None:
                check_between(name, value)
        if self.max_cost is not None and not self.max_cost >= 0:
            raise CertificateError(f"`max_cost` must be a number >= 0, got {self.max_cost!r}.")

    def p_value(self, evaluation: Evaluation, cost: float) -> float:
        """Give the p-value of "some target is broken": the largest of one a target.

        Each test is exact whatever the number of accepted rows, or of rows of a class, came out as.

        Parameters
        ----------
        evaluation : Evaluation
            The counts.
        cost : float
            The p-value of "the mean cost is above `max_cost`".
        """
        p_values = [0.0 if self.max_cost is None else cost]
        for share, rows, events in self._events(evaluation).values():
            p_values.append(float(tail(events, rows, share)))
        return max(p_values)

    def met_by(self, evaluation: Evaluation) -> bool:
        """Say whether figures reach the targets, as they are."""
        events = self._events(evaluation).values()
        within = self.max_cost is None or evaluation.cost <= self.max_cost
        return within and all(events <= share * rows for share, rows, events in events)

    def _events(self, evaluation: Evaluation) -> dict[str, tuple[float, float, float]]:
        """Give for each target the share of bad events allowed, the rows, and the events."""
        asked: dict[str, tuple[float, float, float]] = {}
        if self.accuracy is not None:
            errors = evaluation.accepted - evaluation.right
            asked["accepted rows"] = 1 - self.accuracy, evaluation.accepted, errors
        if self.agreement is not None:
            changed = evaluation.rows - evaluation.right
            asked["decisions"] = 1 - self.agreement, evaluation.rows, changed
        for label, most in self.max_missed.items():
            rows = evaluation.class_rows.get(label, 0)
            accepted, right = evaluation.class_accepted, evaluation.class_right
            asked[f"rows of {label!r}"] = most, rows, accepted.get(label, 0) - right.get(label, 0)
        if self.min_coverage is not None:
            rejected = evaluation.rows - evaluation.accepted
            asked["rows"] = 1 - self.min_coverage, evaluation.rows, rejected
        return asked

    def shortfalls(self, evaluation: Evaluation, cost: float, level: float) -> list[Shortfall]:
        """Say for each target that fails how many rows it would have taken, with as many events.

        `cost` is an upper bound of the mean cost.
        """
        found = []
        for what, (share, rows, events) in self._events(evaluation).items():
            if tail(events, rows, share) > level:
                needed = rows_for(share, level, int(events))
                found.append(Shortfall(what, int(rows), int(events), needed))
        if self.max_cost is not None and cost > self.max_cost:
            found.append(Shortfall("cost", int(evaluation.rows), None, None))
        return found

    def broken(self, unit: str) -> str:
        """Say what breaks them."""
        parts = []
        if self.accuracy is not None:
            parts.append(f"is right on fewer than {percent(self.accuracy)} of the rows it accepts")
        if self.agreement is not None:
            left = percent(self.agreement)
            parts.append(f"leaves fewer than {left} of decisions as the final model's")
        for label, most in self.max_missed.items():
            parts.append(f"accepts more than {percent(most)} of {label!r} under another label")
        if self.min_coverage is not None:
            parts.append(f"accepts fewer than {percent(self.min_coverage)} of all rows")
        if self.max_cost is not None:
            parts.append(f"costs more than {self.max_cost:g} {unit}".rstrip() + " a row")
        return " or ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


class Shortfall(NamedTuple):
    """A target that could not be shown to hold: rows there were, events, and rows needed.

    `events` are errors, misses or rejected rows; `needed` is how many rows would have been enough
    with as many of them. Both are None for the cost.
    """

    what: str
    rows: int
    events: int | None
    needed: int | None

    def __str__(self) -> str:
        if self.needed is None:
            return f"{self.rows:,} rows do not show that the cost is low enough"
        bad = {"rows": "rejected", "decisions": "changed"}.get(self.what, "wrong")
        return (
            f"{self.rows:,} {self.what} with {self.events:,} {bad} are too few, it takes "
            f"{self.needed:,} with as many"
        )
