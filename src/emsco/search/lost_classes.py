"""Warn of a choice that loses a class: almost none of its rows are labelled right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco.core.caution import shares_of
from emsco.core.evaluation import Evaluation
from emsco.core.measure import share_of
from emsco.core.selection import Figures
from emsco.exceptions import Keyword, Message, SelectionWarning, warn

MOST_LOST = 0.9  # of a class, missed or rejected
_ENOUGH = 0.5  # of a class, to be asked for where it was lost


def loses(figures: Figures, label: Any) -> NDArray[np.bool_]:
    """Return which candidates miss or reject more than 90% of a class."""
    rows = figures.class_rows[label]
    lost: NDArray[np.bool_] = shares_of(rows - figures.class_right[label], rows) > MOST_LOST
    return lost


def warn_of_lost_classes(
    own: Evaluation, reference: Evaluation, bounds: Mapping[str, Any], *, is_reviewed: bool
) -> None:
    """Warn of each class that a chosen candidate loses, and say what to write instead.

    Rows that are rejected are not lost if their review has a price and a loss was minimised.
    """
    for label, rows in own.class_rows.items():
        missed, rejected = own.missed[label], own.rejected[label]
        lost = missed if is_reviewed else share_of(rows - own.class_right[label], rows)
        if lost <= MOST_LOST:
            continue
        share = f"{own.class_right[label]:g} of {rows:g}"
        warn(
            Message(
                f"The chosen candidate labels {share} rows of class {label!r} right: it misses "
                f"{missed:.1%} and rejects {rejected:.1%} of them",
                _bound_met(label, bounds) if rejected > MOST_LOST else "",
                ". ",
                _instead(label, reference),
            ),
            SelectionWarning,
        )


def _bound_met(label: Any, bounds: Mapping[str, Any]) -> str:
    """Say that a bound on rows missed is met by rejecting them."""
    missed, rejected = bounds.get("max_missed") or {}, bounds.get("max_rejected") or {}
    if label not in missed or label in rejected:
        return ""
    return "; " + Keyword("max_missed", {label: missed[label]}) + " is met by rejecting the class"


def _instead(label: Any, reference: Evaluation) -> Message:
    """Say what to write so that a class is not lost."""
    rows = reference.class_rows.get(label, 0)
    recall = share_of(reference.class_right.get(label, 0), rows)
    if recall <= 1 - MOST_LOST:
        return Message(
            f"All sources at once label {recall:.1%} of it right, because the most probable label "
            "is hardly ever this one; give the costs prices of errors by class (`[errors]` in the "
            'file) or label_weights="balanced", and search again.'
        )
    return Message(
        f"All sources at once label {recall:.1%} of it right; choose with ",
        Keyword("max_rejected", {label: _ENOUGH}),
        " and ",
        Keyword("max_missed", {label: max(round(1 - recall, 2), 0.05)}),
        ".",
    )
