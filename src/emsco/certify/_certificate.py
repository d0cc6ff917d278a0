"""What is promised of which cascades, under which assumption; or how much was lacking."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

from emsco._fingerprint import fingerprint
from emsco._frozen import FrozenMapping
from emsco._table import html_table, shown, text_table
from emsco.cascade import CascadeClassifier
from emsco.certify._binomial import cost_upper, lower, upper
from emsco.certify._targets import Shortfall, Targets, percent
from emsco.evaluation import Evaluation
from emsco.exceptions import CertificateError, nearest
from emsco.front import Candidate
from emsco.search import CascadeSearchCV


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
        prices: Sequence[float],
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
    prices : tuple of float
        What a row has paid that bought each stage.
    p_value : float
        Of the hypothesis that some target is broken.
    bounds : Bounds
        Accuracy at least, coverage from and to, cost at most, and missed at most by class.
    """

    candidate: Candidate
    fingerprint: str
    evaluation: Evaluation
    reached: tuple[int, ...]
    prices: tuple[float, ...]
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
        How many candidates were to be tested: those whose selected figures meet the targets.
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
        return self._find(model) is not None

    def check(self, model: CascadeClassifier | CascadeSearchCV) -> CertifiedCandidate:
        """Give what is certified of a cascade, or of the one a search has chosen; else raise."""
        found = self._find(model)
        if found is None:
            raise CertificateError(
                "The certificate does not hold for this cascade: its fingerprint matches none of "
                f"the {len(self.candidates)} certified; it was fitted anew, changed, or never "
                "certified, and needs a certificate of its own on rows not used yet."
            )
        return found

    def _find(self, model: CascadeClassifier | CascadeSearchCV) -> CertifiedCandidate | None:
        cascade = model if isinstance(model, CascadeClassifier) else model.best_estimator_
        own = fingerprint(cascade)
        return next((c for c in self.candidates if c.fingerprint == own), None)

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
            f"All these bounds hold at once, with the same confidence again. They are adjusted for "
            f"the {self.tried:,} candidates that might have been listed, so they are wider "
            f"than the promise, which needs no adjusting. {self._told_rows()}"
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
