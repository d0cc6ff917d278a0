"""What is promised of which cascades, under which assumption; or how much was lacking."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

from emsco._ground.frozen import FrozenMapping
from emsco._ground.table import html_table, shown, text_table
from emsco.cascade import CascadeClassifier
from emsco.cascade.fingerprint import fingerprint
from emsco.certify._binomial import cost_upper, lower, upper
from emsco.certify._kinds import percent
from emsco.certify._plain import (
    by_label,
    candidate_from,
    candidate_to,
    evaluation_from,
    evaluation_keys,
    evaluation_to,
    expect_keys,
    listed,
    names_of,
    number,
    shortfall_from,
    targets_from,
    text,
    whole,
)
from emsco.certify._required import check_between
from emsco.certify._targets import Shortfall, Targets
from emsco.exceptions import CertificateError, EmscoError, nearest
from emsco.search import CascadeSearchCV
from emsco.words.evaluation import Evaluation
from emsco.words.front import Candidate


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

    def to_data(self) -> dict[str, Any]:
        """Tell it as plain values, none of them nested deeper than in lists."""
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
        }

    @classmethod
    def from_data(cls, data: Any, names: tuple[str, ...] | None) -> CertifiedCandidate:
        """Give back what `to_data` told; `names` are those of the sources."""
        expect_keys(data, _TOLD)
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
        if (
            {len(reached), len(prices)} != {candidate.design.n_stages}
            or reached[0] != evaluation.rows
            or list(reached) != sorted(reached, reverse=True)
            or low > high
            or max(missed.values(), default=0) > 1
        ):
            raise CertificateError(
                "A certificate tells counts or bounds that contradict one another."
            )
        return cls(
            candidate,
            text(data["fingerprint"], "fingerprint"),
            evaluation,
            reached,
            prices,
            number(data["p_value"], "p-value", 0, 1),
            Bounds(
                accuracy=number(data["least_accuracy"], "accuracy", 0, 1),
                coverage=(low, high),
                cost=number(data["most_cost"], "cost"),
                missed=missed,
            ),
        )


_TOLD = [
    "assignment", "threshold", *evaluation_keys("selected"), "fingerprint",
    *evaluation_keys("fresh"), "reached", "prices", "p_value", "least_accuracy", "coverage",
    "most_cost", "labels", "most_missed",
]  # fmt: skip

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
    doubts : tuple of str, default=()
        Sentences that say what could not be told of the rows; told with the promise.
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
    doubts: tuple[str, ...] = ()

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
        """The promise, its assumption and what is in doubt; or why there is no promise."""
        if not self.certified:
            return f"Not certified: {'; '.join(map(str, self.shortfalls))}."
        grouped = self.rows < self.rows_given
        drawn = f"{self.rows:,} calibration rows" + (", one of each group" if grouped else "")
        alike = "a random row of a random new group is" if grouped else "future rows are"
        promise = (
            f"Over the draw of the {drawn}, the chance that a certificate is issued for a cascade "
            f"that in truth {self.targets.broken(self.unit)} is at most "
            f"{percent((1 - self.confidence) * self.share)}, if {alike} exchangeable with them."
        )
        return " ".join([promise, *self.doubts])

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
        cascade = model if isinstance(model, CascadeClassifier) else _chosen(model)
        if cascade is None:
            return None
        own = fingerprint(cascade)
        return next((c for c in self.candidates if c.fingerprint == own), None)

    def to_data(self) -> dict[str, Any]:
        """Tell all of it as plain values, for files.

        Examples
        --------
        >>> from emsco import CascadeClassifier
        >>> from emsco.certify import Certificate, certify
        >>> from emsco.datasets import make_costly_classification
        >>> X, y, costs = make_costly_classification(800, 3, class_sep=3, random_state=0)
        >>> cascade = CascadeClassifier(costs=costs).fit(X[:400], y[:400])
        >>> certificate = certify(cascade, X[400:], y[400:], accuracy=0.8)
        >>> Certificate.from_data(certificate.to_data()) == certificate
        True
        """
        told = {name: getattr(self, name) for name in names_of(Certificate)}
        names = self.candidates[0].candidate.design.names if self.candidates else None
        return told | {
            "targets": self.targets.to_dict(),
            "sources": None if names is None else list(names),
            "candidates": [candidate.to_data() for candidate in self.candidates],
            "shortfalls": [shortfall._asdict() for shortfall in self.shortfalls],
            "doubts": list(self.doubts),
        }

    @classmethod
    def from_data(cls, data: Any) -> Certificate:
        """Give back the certificate that `to_data` told, if it can be one; else raise."""
        try:
            return cls._from_data(data)
        except CertificateError:
            raise
        except (EmscoError, TypeError, ValueError) as error:  # of a part that checks itself
            raise CertificateError(f"What was told is no certificate: {error}") from error

    @classmethod
    def _from_data(cls, data: Any) -> Certificate:
        expect_keys(data, [*names_of(Certificate), "sources"])
        check_between("confidence", number(data["confidence"], "confidence"))
        sources = data["sources"]
        names = (
            None
            if sources is None
            else tuple(text(n, "source") for n in listed(sources, "sources"))
        )
        rows_given = whole(data["rows_given"], "rows given")
        twins = data["twins"]
        certificate = cls(
            targets=targets_from(data["targets"]),
            confidence=data["confidence"],
            share=number(data["share"], "share", 0, 1),
            rows=whole(data["rows"], "rows", rows_given),
            rows_given=rows_given,
            tried=whole(data["tried"], "number of candidates"),
            candidates=tuple(
                CertifiedCandidate.from_data(told, names)
                for told in listed(data["candidates"], "candidates")
            ),
            shortfalls=tuple(map(shortfall_from, listed(data["shortfalls"], "shortfalls"))),
            rows_fingerprint=text(data["rows_fingerprint"], "fingerprint of rows"),
            twins=None if twins is None else whole(twins, "twins", rows_given),
            unit=text(data["unit"], "unit"),
            doubts=tuple(text(doubt, "doubt") for doubt in listed(data["doubts"], "doubts")),
        )
        if (
            not certificate.rows
            or not certificate.share
            or len(certificate.candidates) > certificate.tried
            or (certificate.candidates and certificate.shortfalls)
            or any(c.evaluation.rows != certificate.rows for c in certificate.candidates)
            or len({frozenset(c.bounds.missed) for c in certificate.candidates}) > 1
        ):
            raise CertificateError("A certificate tells counts that contradict one another.")
        return certificate

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
            f"than the promise, which needs no adjusting. {self._rows_sentence()}"
        )
        return [*header, *(f"missed {label} <=" for label in labels)], rows, caption

    def _rows_sentence(self) -> str:
        used = f"{self.rows:,} of {self.rows_given:,} calibration rows used"
        if self.twins is None:
            return f"{used}."
        return f"{used}; {self.twins:,} equal a fitted row in every value."

    def __repr__(self) -> str:
        table = text_table(*self._cells()) if self.candidates else self._rows_sentence()
        return f"{self.sentence}\n{table}"

    def _repr_html_(self) -> str:
        table = html_table(*self._cells()) if self.candidates else escape(self._rows_sentence())
        return f"<p>{escape(self.sentence)}</p>{table}"


def problem_with(certificate: Any, model: CascadeClassifier | CascadeSearchCV) -> str:
    """Say why a certificate, of any format, does not hold for a model; "" where it does."""
    try:
        certificate.check(model)
    except CertificateError as error:
        return str(error)
    return ""


def _chosen(search: CascadeSearchCV) -> CascadeClassifier | None:
    return getattr(search, "best_cascade_", None)
