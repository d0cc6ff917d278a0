"""Filters: what the selected figures of a candidate must show for it to be tested at all.

They keep a certificate from being spent on candidates that nobody would use. They promise nothing,
because selected figures say little about fresh rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emsco.certify._targets import Targets
from emsco.core.front import Candidate
from emsco.core.selection import Bounds, Figures
from emsco.exceptions import Keyword
from emsco.search import CascadeSearchCV

UNSAID = 0.5  # the coverage if neither the search nor the question states one
_NO_BOUNDS = {"by", "error_cost"}


class Floors(NamedTuple):
    """Bounds on selected figures, as counted.

    Parameters
    ----------
    bounds : sequence of bounds
        The bounds of the search and of the last choice, except the coverage.
    coverage : float
        The minimum coverage; 0: any.
    is_said : bool
        Whether the user has asked for that coverage.
    """

    bounds: Sequence[Any] = ()
    coverage: float = 0.0
    is_said: bool = True

    @classmethod
    def of(cls, search: CascadeSearchCV, targets: Targets) -> Floors:
        """Return the filters that follow from a search, its last choice and a question."""
        chosen_by = _bounds_of_choice(search)
        coverage = chosen_by.pop("min_coverage", None)
        if coverage is None and isinstance(search.select, Mapping):
            coverage = search.select.get("min_coverage")
        own = Bounds(max_missed=search.max_missed, max_rejected=search.max_rejected)
        bounds = dict.fromkeys([*own.as_list(), *Bounds(**chosen_by).as_list()])
        if targets.min_coverage == 0:
            return cls(tuple(bounds))
        if coverage is not None:
            return cls(tuple(bounds), float(coverage))
        # Not needed with a final model, which answers every row, or if coverage is tested.
        is_needless = targets.min_coverage is not None or search.found_.final is not None
        return cls(tuple(bounds), 0.0 if is_needless else UNSAID, is_said=False)

    def passed_by(self, candidates: Sequence[Candidate]) -> NDArray[np.bool_]:
        """Return which candidates are to be tested."""
        figures = Figures([candidate.evaluation for candidate in candidates])
        bounds = [*self.bounds, *Bounds(min_coverage=self.coverage or None).as_list()]
        mask = np.ones(len(candidates), dtype=np.bool_)
        for bound in bounds:
            mask &= bound.shortfalls(figures, 0.0, 1.0) == 0
        return mask

    def missed_by(self, candidate: Candidate) -> list[str]:
        """Describe the bounds that the chosen candidate misses.

        The default coverage does not apply to it, because the user knows the chosen coverage.
        """
        figures = Figures([candidate.evaluation])
        coverage = Bounds(min_coverage=self.coverage or None).as_list() if self.is_said else []
        bounds = [*self.bounds, *coverage]
        return [str(bound) for bound in bounds if bound.shortfalls(figures, 0.0, 1.0)[0]]

    def describe(self) -> tuple[str, ...]:
        """Describe each filter."""
        coverage = f"coverage >= {self.coverage:g}"
        by_default = f"{coverage} (the default; " + Keyword("min_coverage", 0) + " removes it)"
        return (
            *map(str, self.bounds),
            *[coverage if self.is_said else by_default] * bool(self.coverage),
        )


def _bounds_of_choice(search: CascadeSearchCV) -> dict[str, Any]:
    """Return the bounds by which the candidate was chosen."""
    choice = search.__dict__.get("choice_")
    bounds = {} if choice is None else choice.bounds
    names = {field.name for field in fields(Bounds)} - _NO_BOUNDS
    return {name: bound for name, bound in bounds.items() if name in names and bound is not None}
