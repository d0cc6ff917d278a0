"""The part of a front whose gaps between groups are small enough, to choose from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from emsco._utils.text_table import cell
from emsco.core.caution import AUTO, standard_errors
from emsco.core.front import ParetoFront
from emsco.core.gap import LEAST_ROWS, GapBound
from emsco.core.group_labels import name_text
from emsco.core.selection import MAX_GAP, Figures, margin_text
from emsco.exceptions import Keyword, Message, SelectionError, SelectionWarning, warn

_TINY = 1e-9  # shares that are equal may round differently


class GapRule(NamedTuple):
    """Bounds of the gaps between groups, as they were given, and the groups of the rows."""

    max_gap: Mapping[str, Any]
    by: Any

    @classmethod
    def take(cls, bounds: dict[str, Any]) -> GapRule | None:
        """Take the rule out of the keywords of a choice; None if there is none."""
        max_gap, by = bounds.pop(MAX_GAP, None), bounds.get("by")
        is_goal = by is None or isinstance(by, str)  # what to optimise, not the group of each row
        if max_gap is None and is_goal:
            return None
        if max_gap is None:
            raise SelectionError(
                f"`by` with a group for each row needs `{MAX_GAP}`, the largest difference allowed "
                "between groups.",
                parameter="by",
            )
        if is_goal:
            raise SelectionError(
                f"`{MAX_GAP}` needs `by` with the group of each row given to `fit`, got {by!r}.",
                parameter=MAX_GAP,
            )
        del bounds["by"]
        if bounds.get("error_cost") is not None:
            bounds["by"] = "loss"
        return cls(max_gap, by)

    def bounds_kept(self, bounds: Mapping[str, Any]) -> dict[str, Any]:
        """Return the bounds of a choice with these, without the groups of the rows."""
        plain = {n: dict(v) if isinstance(v, Mapping) else v for n, v in self.max_gap.items()}
        return {**bounds, MAX_GAP: plain}


def within_gaps(
    front: ParetoFront,
    figures: Mapping[Any, Figures],
    bounds: Sequence[GapBound],
    caution: Any = AUTO,
) -> tuple[tuple[int, ...], str]:
    """Return the places of the candidates whose gaps are within their bounds, and a sentence.

    Every ordered pair of groups must keep a bound with the whole margin of a choice. Groups with
    few rows are left out, whatever was decided about them.
    """
    z, repeats = standard_errors(caution, front.luck), front.repeats
    values = [bound.values(figures, z, repeats) for bound in bounds]
    _warn_of_small(bounds, figures, repeats)
    limits = np.array([bound.limit for bound in bounds])[:, None]
    over = np.maximum(np.array(values) - limits - _TINY, 0.0)
    places = np.flatnonzero(over.sum(axis=0) == 0)
    listed = " and ".join(f"{bound.name} <= {cell(bound.limit)}" for bound in bounds)
    margin = f", for every two groups with a margin of {margin_text(z)} of their difference"
    if not places.size:
        closest = int(np.argmin(over.sum(axis=0)))
        best = "; ".join(
            f"{bound.name} {cell(float(value.min()))}"
            for bound, value in zip(bounds, values, strict=True)
        )
        without = np.array([bound.values(figures, 0.0, repeats) for bound in bounds])
        counted = int((without <= limits + _TINY).all(axis=0).sum())
        raise SelectionError(
            Message(
                f"No candidate keeps {listed}{margin * bool(z)}; the closest is {front[closest]}. "
                f"Each by itself, at best: {best}. ",
                Keyword("caution", 0),
                f" would leave {counted:,} of {len(front):,} candidates.",
            ),
            closest=front[closest],
        )
    note = f"Of {len(front):,} candidates, {len(places):,} keep {listed}{margin * bool(z)}."
    return tuple(places.tolist()), note


def _warn_of_small(
    bounds: Sequence[GapBound], figures: Mapping[Any, Figures], repeats: float
) -> None:
    """Warn of the groups that no bound says anything about."""
    small: dict[str, list[str]] = {}
    for bound in bounds:
        of_class = "" if bound.label is None else f" of class {bound.label!r}"
        names = [repr(name_text(name)) for name in bound.left_out(figures, repeats)]
        if names:
            small[of_class] = names
    if small:
        listed = "; ".join(f"{', '.join(names)}{of}" for of, names in small.items())
        warn(
            f"`{MAX_GAP}` says nothing about groups with fewer than {LEAST_ROWS} rows: {listed}.",
            SelectionWarning,
        )
