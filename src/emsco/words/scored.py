"""A front held against fresh rows: what was selected beside what is true, and the gap between."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, overload

from emsco._ground.table import html_table, shown, text_table
from emsco.exceptions import require
from emsco.words.evaluation import Evaluation
from emsco.words.front import Candidate


@dataclass(frozen=True)
class ScoredCandidate:
    """A candidate, evaluated where it was selected, and its evaluation on fresh rows.

    Examples
    --------
    >>> from emsco import Candidate, Evaluation, StageDesign
    >>> from emsco.scored import ScoredCandidate
    >>> candidate = Candidate(StageDesign([0]), 0.75, Evaluation(100, 80, 76, paid=100))
    >>> print(f"{ScoredCandidate(candidate, Evaluation(50, 40, 36, paid=50)).optimism:.2f}")
    0.05
    """

    candidate: Candidate
    fresh: Evaluation

    @property
    def selected(self) -> Evaluation:
        """The evaluation on the rows that the candidate was selected on."""
        return self.candidate.evaluation

    @property
    def optimism(self) -> float:
        """By how much accuracy looked better than it is."""
        return self.selected.accuracy - self.fresh.accuracy


class ScoredFront(Sequence[ScoredCandidate]):
    """The candidates of a front with their fresh evaluations, in the front's order.

    Parameters
    ----------
    scored : iterable of ScoredCandidate
        Every candidate with its fresh evaluation.
    measured_on : str, default=""
        What both evaluations were measured on, told under every table.
    """

    __slots__ = ("_scored", "measured_on")

    def __init__(self, scored: Iterable[ScoredCandidate], measured_on: str = "") -> None:
        self._scored = tuple(scored)
        self.measured_on = measured_on

    def __len__(self) -> int:
        return len(self._scored)

    @overload
    def __getitem__(self, index: int) -> ScoredCandidate: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[ScoredCandidate]: ...

    def __getitem__(self, index: Any) -> Any:
        return self._scored[index]

    def _columns(self) -> dict[str, list[Any]]:
        columns: dict[str, list[Any]] = {
            "design": [str(s.candidate.design) for s in self._scored],
            "threshold": [s.candidate.threshold for s in self._scored],
        }
        for rate in ("accuracy", "coverage", "cost"):
            columns[f"{rate} selected"] = [getattr(s.selected, rate) for s in self._scored]
            columns[f"{rate} fresh"] = [getattr(s.fresh, rate) for s in self._scored]
        columns["optimism"] = [s.optimism for s in self._scored]
        labels = dict.fromkeys(label for s in self._scored for label in s.selected.class_rows)
        for label in labels:
            columns[f"missed {label} selected"] = [s.selected.missed[label] for s in self._scored]
            # Fresh rows may hold no row of a class; nothing is known of it then.
            columns[f"missed {label} fresh"] = [
                s.fresh.missed[label] if s.fresh.class_rows.get(label) else float("nan")
                for s in self._scored
            ]
        return columns

    def to_frame(self) -> Any:
        """Give a pandas DataFrame, one row a candidate."""
        return require("pandas").DataFrame(self._columns())

    def _cells(self) -> tuple[list[str], list[list[object] | None], str]:
        columns = self._columns()
        rows: list[list[object] | None] = [
            None if i is None else [i, *(column[i] for column in columns.values())]
            for i in shown(len(self))
        ]
        return ["", *columns], rows, self.measured_on

    def __repr__(self) -> str:
        return text_table(*self._cells()) if self._scored else "ScoredFront([])"

    def _repr_html_(self) -> str:
        return html_table(*self._cells())
