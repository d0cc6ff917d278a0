"""A certificate as text: the chosen candidate, the certified ones, and their bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from emsco._utils.text_table import cell, row_positions
from emsco.certify._certified_candidate import CertifiedBounds, CertifiedCandidate, ChosenCandidate
from emsco.certify._targets import Targets
from emsco.exceptions import Message


class RequestedBound(NamedTuple):
    """One bound that was asked for: its name, label, sign, value, and a phrase."""

    name: str
    label: Any
    sign: str
    value: float
    phrase: str

    @property
    def head(self) -> str:
        """The header of its column in a table."""
        own = self.name if self.label is None else f"{self.name} {self.label}"
        return f"{own} {self.sign}"


def bounds_asked(targets: Targets, bounds: CertifiedBounds, unit: str = "") -> list[RequestedBound]:
    """Return the bounds on what was asked for; the others hold as well, but are not shown.

    Examples
    --------
    >>> from emsco.certify import CertifiedBounds, Targets
    >>> from emsco.certify._format import bounds_asked
    >>> bounds = CertifiedBounds(0.96, (0.8, 0.9), 3.2, {"sick": 0.1, "well": 0.02})
    >>> [bound.head for bound in bounds_asked(Targets(max_missed={"sick": 0.2}), bounds)]
    ['missed sick <=']
    """
    found = []
    if targets.accuracy is not None:
        phrase = f"is right on at least {bounds.accuracy:.1%} of the rows it accepts"
        found.append(RequestedBound("accuracy", None, ">=", bounds.accuracy, phrase))
    if targets.agreement is not None:
        phrase = f"leaves at least {bounds.accuracy:.1%} of decisions as the final model's"
        found.append(RequestedBound("agreement", None, ">=", bounds.accuracy, phrase))
    missed = {c: share for c, share in bounds.missed.items() if c in targets.max_missed}
    for label, share in missed.items():
        phrase = f"accepts at most {share:.1%} of class {label!r} under another label"
        found.append(RequestedBound("missed", label, "<=", share, phrase))
    for label, share in bounds.rejected.items():
        phrase = f"rejects at most {share:.1%} of class {label!r}"
        found.append(RequestedBound("rejected", label, "<=", share, phrase))
    for label, share in bounds.precision.items():
        phrase = f"is right on at least {share:.1%} of the rows it accepts as {label!r}"
        found.append(RequestedBound("precision", label, ">=", share, phrase))
    if targets.min_coverage:
        phrase = f"accepts at least {bounds.coverage[0]:.1%} of all rows"
        found.append(RequestedBound("coverage", None, ">=", bounds.coverage[0], phrase))
    if targets.max_cost is not None:
        phrase = f"costs at most {f'{bounds.cost:.4g} {unit}'.rstrip()} per row on average"
        found.append(RequestedBound("cost", None, "<=", bounds.cost, phrase))
    return found


def cells(
    targets: Targets,
    candidates: Sequence[CertifiedCandidate],
    chosen: CertifiedCandidate | None,
) -> tuple[list[str], list[list[object] | None]]:
    """Return the header and the rows of a table; a star marks the chosen candidate.

    Figures are as counted on the calibration rows, by class too; bounds come last.
    """
    labels = list(candidates[0].evaluation.class_rows)
    header = [
        "", "design", "threshold", "accepted", "wrong", "coverage", "cost",
        *(f"{word} {label}" for label in labels for word in ("rejected", "missed")),
        *(bound.head for bound in bounds_asked(targets, candidates[0].bounds)),
    ]  # fmt: skip
    rows: list[list[object] | None] = []
    for i in row_positions(len(candidates)):
        if i is None:
            rows.append(None)
            continue
        one = candidates[i]
        counted = one.evaluation
        by_class = (
            share.get(c, 0.0) for c in labels for share in (counted.rejected, counted.missed)
        )
        rows.append(
            [
                f"*{i}" if one is chosen else i,
                str(one.candidate.design),
                one.candidate.threshold,
                int(counted.accepted),
                int(counted.accepted - counted.right),
                counted.coverage,
                counted.cost,
                *by_class,
                *(bound.value for bound in bounds_asked(targets, one.bounds)),
            ]
        )
    return header, rows


def note_of_choice(
    chosen: ChosenCandidate | None, certified: CertifiedCandidate | None
) -> list[str]:
    """Describe the chosen candidate, its selected figures, and its result."""
    if chosen is None:
        return []
    own = chosen.candidate
    about = (
        f"Chosen: {own.design} at threshold {cell(own.threshold)}. As selected: {own.evaluation}."
    )
    if certified is not None:
        return [f"{about} It is certified; on the calibration rows: {certified.evaluation}."]
    if chosen.tested:
        return [f"{about} It was tested and is not certified: {chosen.why}."]
    return [f"{about} It was not tested, because of these figures: {chosen.why}."]


def note_of_filters(filters: Sequence[str]) -> list[str]:
    """Describe which candidates were left out, and that this is not a promise."""
    if not filters:
        return []
    return [
        "Candidates were left out unless their selected figures show: "
        + Message("; ").join(filters)
        + ". This is a filter, not a promise."
    ]
