"""What candidates of a search must show where they were selected, to be tested at all.

These are filters: they keep a certificate from being spent on what nobody would take. None of it is
promised, because figures that something was selected by say little about fresh rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emsco.certify._targets import Targets
from emsco.search import CascadeSearchCV
from emsco.words.front import Candidate
from emsco.words.selection import Bounds, Figures

UNSAID = 0.5  # coverage, where neither the search nor the question says any
_NO_BOUNDS = {"by", "error_cost"}
_LIFTED = "min_coverage=0"


class Floors(NamedTuple):
    """Bounds on selected figures, as counted.

    Parameters
    ----------
    said : sequence of bounds
        Those of the search and of the last choice, but the coverage.
    coverage : float
        The least coverage; 0: any.
    is_said : bool
        Whether somebody has asked for that coverage.
    """

    said: Sequence[Any] = ()
    coverage: float = 0.0
    is_said: bool = True

    @classmethod
    def of(cls, search: CascadeSearchCV, targets: Targets) -> Floors:
        """Give what a search, its last choice and a question leave candidates out by."""
        asked = _asked_of(search)
        said = asked.pop("min_coverage", None)
        if said is None and isinstance(search.select, Mapping):
            said = search.select.get("min_coverage")
        own = Bounds(max_missed=search.max_missed, max_rejected=search.max_rejected)
        bounds = dict.fromkeys([*own.asked(), *Bounds(**asked).asked()])
        if targets.min_coverage == 0:
            return cls(tuple(bounds))
        if said is not None:
            return cls(tuple(bounds), float(said))
        # A final model answers every row, and a coverage that is tested needs no filter.
        is_needless = targets.min_coverage is not None or search.found_.final is not None
        return cls(tuple(bounds), 0.0 if is_needless else UNSAID, is_said=False)

    def kept_by(self, candidates: Sequence[Candidate]) -> NDArray[np.bool_]:
        """Say which candidates are to be tested."""
        figures = Figures([candidate.evaluation for candidate in candidates])
        bounds = [*self.said, *Bounds(min_coverage=self.coverage or None).asked()]
        kept = np.ones(len(candidates), dtype=np.bool_)
        for bound in bounds:
            kept &= bound.shortfalls(figures, 0.0, 1.0) == 0
        return kept

    def missed_by(self, candidate: Candidate) -> list[str]:
        """Say which bounds the candidate that was chosen misses.

        A coverage that nobody has asked for is none: whoever chose it has seen what it accepts.
        """
        figures = Figures([candidate.evaluation])
        coverage = Bounds(min_coverage=self.coverage or None).asked() if self.is_said else []
        bounds = [*self.said, *coverage]
        return [str(bound) for bound in bounds if bound.shortfalls(figures, 0.0, 1.0)[0]]

    def told(self) -> tuple[str, ...]:
        """Say each in words."""
        coverage = f"coverage >= {self.coverage:g}"
        unsaid = f"{coverage} (the default; {_LIFTED} removes it)"
        return (
            *map(str, self.said),
            *[coverage if self.is_said else unsaid] * bool(self.coverage),
        )


def _asked_of(search: CascadeSearchCV) -> dict[str, Any]:
    """Give the bounds that the candidate was chosen by."""
    choice = search.__dict__.get("choice_")
    asked = {} if choice is None else choice.asked
    names = {field.name for field in fields(Bounds)} - _NO_BOUNDS
    return {name: bound for name, bound in asked.items() if name in names and bound is not None}
