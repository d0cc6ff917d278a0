"""What is promised of which cascades, under which assumption; or how much was lacking."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from html import escape
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emsco._binomial import cost_upper, lower, rows_for, tail, upper
from emsco._fingerprint import fingerprint
from emsco._frozen import FrozenMapping
from emsco._table import html_table, shown, text_table
from emsco.cascade import CascadeClassifier
from emsco.evaluation import Evaluation
from emsco.exceptions import CertificateError, nearest
from emsco.front import Candidate
from emsco.search import CascadeSearchCV


def check_between(name: str, value: object) -> None:
    """Refuse what is no share strictly between none and all."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < float(value) < 1:
        raise CertificateError(f"`{name}` must be a number between 0 and 1, got {value!r}.")


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
    max_missed : mapping of label to float, default=None
        By true class, the largest share of its rows accepted under another label.
    min_coverage : float, default=None
        The least share of rows accepted.
    max_cost : float, default=None
        The most paid per row on the mean.
    """

    _: KW_ONLY
    accuracy: float | None = None
    max_missed: Mapping[Any, float] = None  # type: ignore[assignment]  # None until __post_init__
    min_coverage: float | None = None
    max_cost: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_missed", FrozenMapping(self.max_missed))
        if self.accuracy is None and not self.max_missed:
            raise CertificateError("Say what to certify: `accuracy`, `max_missed`, or both.")
        between = {"accuracy": self.accuracy, "min_coverage": self.min_coverage}
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
        bad = "rejected" if self.what == "rows" else "wrong"
        return (
            f"{self.rows:,} {self.what} with {self.events:,} {bad} are too few, it takes "
            f"{self.needed:,} with as many"
        )


class Bounds(NamedTuple):
    """What a candidate's true figures lie within; all bounds of a certificate hold at once."""

    accuracy: float
    coverage: tuple[float, float]
    cost: float
    missed: Mapping[Any, float]

    @classmethod
    def of(
        cls,
        evaluation: Evaluation,
        reached: Sequence[int],
        prices: NDArray[np.float64],
        labels: Sequence[Any],
        level: float,
    ) -> Bounds:
        """Give Clopper and Pearson's bounds, each false with a probability of at most `level`."""
        rows, accepted = evaluation.rows, evaluation.accepted
        known = evaluation.class_rows
        errors = {c: evaluation.class_accepted[c] - evaluation.class_right[c] for c in known}
        return cls(
            accuracy=float(lower(evaluation.right, accepted, level)),
            coverage=(float(lower(accepted, rows, level)), float(upper(accepted, rows, level))),
            cost=float(cost_upper(reached, prices, level)),
            missed=FrozenMapping(
                {c: float(upper(errors.get(c, 0), known.get(c, 0), level)) for c in labels}
            ),
        )


@dataclass(frozen=True)
class CertifiedCandidate:
    """A candidate that keeps the targets, and what was counted on the calibration rows.

    Parameters
    ----------
    candidate : Candidate
        Design and threshold; its own evaluation is the selected one.
    fingerprint : str
        Of the fitted cascade that was tested.
    evaluation : Evaluation
        On the calibration rows.
    reached : tuple of int
        How many of them bought each stage.
    p_value : float
        Of the hypothesis that some target is broken.
    bounds : Bounds
        Accuracy at least, coverage from and to, cost at most, and missed at most by class.
    """

    candidate: Candidate
    fingerprint: str
    evaluation: Evaluation
    reached: tuple[int, ...]
    p_value: float
    bounds: Bounds


_BEST: dict[str, Callable[[Evaluation], float]] = {
    "cost": lambda evaluation: evaluation.cost,
    "coverage": lambda evaluation: -evaluation.coverage,
    "accuracy": lambda evaluation: -evaluation.accuracy,
}


@dataclass(frozen=True, repr=False)
class Certificate:
    """What was promised of which cascades, on which rows; or that nothing could be.

    Parameters
    ----------
    targets : Targets
        What certified cascades keep.
    confidence : float
        One minus the chance of any false certificate on these rows.
    share : float
        The part of that chance given to this certificate.
    rows, rows_given : int
        Calibration rows used, and given; fewer are used where there are groups.
    tried : int
        How many candidates were tested.
    candidates : tuple of CertifiedCandidate
        Those certified, first those with the better selected figures.
    shortfalls : tuple of Shortfall
        Where none is: the targets that the closest candidate was not shown to keep.
    rows_fingerprint : str
        Of the calibration rows and their labels, whatever their order.
    twins : int or None
        Calibration rows that equal a fitted row in every value; None where that is not known.
    unit : str
        The unit of costs.
    """

    targets: Targets
    confidence: float
    share: float
    rows: int
    rows_given: int
    tried: int
    candidates: tuple[CertifiedCandidate, ...]
    shortfalls: tuple[Shortfall, ...]
    rows_fingerprint: str
    twins: int | None
    unit: str = ""

    @property
    def certified(self) -> bool:
        """Whether there is any certified candidate."""
        return bool(self.candidates)

    @property
    def needed_rows(self) -> int | None:
        """How many rows the closest candidate would have needed; None where one is certified.

        Accepted rows, with as many errors as it made; rows of a class where its accuracy is shown
        but too many of the class may be missed.
        """
        return next((s.needed for s in self.shortfalls if s.needed is not None), None)

    @property
    def sentence(self) -> str:
        """The promise and its assumption, or why there is none."""
        if not self.certified:
            return f"Not certified: {'; '.join(map(str, self.shortfalls))}."
        grouped = self.rows < self.rows_given
        drawn = f"{self.rows:,} calibration rows" + (", one of each group" if grouped else "")
        alike = "a random row of a random new group is" if grouped else "future rows are"
        return (
            f"Over the draw of the {drawn}, the chance that a certificate is issued for a cascade "
            f"that in truth {self.targets.broken(self.unit)} is at most "
            f"{percent((1 - self.confidence) * self.share)}, if {alike} exchangeable with them."
        )

    def select(self, by: str = "cost") -> CertifiedCandidate:
        """Choose among the certified: the lowest cost, or the highest coverage or accuracy.

        The promise holds for all of them at once, so that choosing costs nothing.
        """
        if by not in _BEST:
            raise CertificateError(
                f"`by` must be one of {', '.join(_BEST)}; got {by!r}" + nearest(by, _BEST)
            )
        if not self.candidates:
            raise CertificateError(self.sentence)
        return min(self.candidates, key=lambda c: _BEST[by](c.evaluation))

    def holds_for(self, model: CascadeClassifier | CascadeSearchCV) -> bool:
        """Say whether a cascade, or the one a search has chosen, is among the certified."""
        cascade = model if isinstance(model, CascadeClassifier) else model.best_estimator_
        return fingerprint(cascade) in {c.fingerprint for c in self.candidates}

    def check(self, model: CascadeClassifier | CascadeSearchCV) -> None:
        """Raise unless the certificate holds for a cascade, or for the one a search has chosen."""
        if not self.holds_for(model):
            raise CertificateError(
                "The certificate does not hold for this cascade: its fingerprint matches none of "
                f"the {len(self.candidates)} certified; it was fitted anew, changed, or never "
                "certified, and needs a certificate of its own on rows not used yet."
            )

    def to_data(self) -> dict[str, Any]:
        """Give what a file keeps beside a model: the promise, and the fingerprints it is about."""
        return {
            "sentence": self.sentence,
            "confidence": self.confidence,
            "share": self.share,
            "rows": self.rows,
            "rows_fingerprint": self.rows_fingerprint,
            "cascades": [c.fingerprint for c in self.candidates],
        }

    def _cells(self) -> tuple[list[str], list[list[object] | None], str]:
        header = ["", "design", "threshold", "accepted", "wrong", "accuracy >=", "coverage >=",
                  "coverage <=", "cost <="]  # fmt: skip
        labels = list(self.candidates[0].bounds.missed) if self.candidates else []
        rows: list[list[object] | None] = []
        for i in shown(len(self.candidates)):
            if i is None:
                rows.append(None)
                continue
            c = self.candidates[i]
            counts = int(c.evaluation.accepted), int(c.evaluation.accepted - c.evaluation.right)
            bounds = c.bounds
            told = [i, str(c.candidate.design), c.candidate.threshold, *counts, bounds.accuracy]
            missed = [bounds.missed[label] for label in labels]
            rows.append([*told, *bounds.coverage, bounds.cost, *missed])
        caption = (
            f"All these bounds hold at once, with the same confidence again; there are so many, of "
            f"{self.tried:,} candidates tested, that they are wider than the promise. "
            f"{self._told_rows()}"
        )
        return [*header, *(f"missed {label} <=" for label in labels)], rows, caption

    def _told_rows(self) -> str:
        used = f"{self.rows:,} of {self.rows_given:,} calibration rows used"
        if self.twins is None:
            return f"{used}; whether the model was fitted on them could not be told."
        return f"{used}; {self.twins:,} equal a fitted row in every value."

    def __repr__(self) -> str:
        table = text_table(*self._cells()) if self.candidates else self._told_rows()
        return f"{self.sentence}\n{table}"

    def _repr_html_(self) -> str:
        table = html_table(*self._cells()) if self.candidates else escape(self._told_rows())
        return f"<p>{escape(self.sentence)}</p>{table}"
