"""A front compared with fresh rows: selected figures, fresh figures, and the gap between them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isclose, sqrt
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike

from emsco._utils.text_table import cell, html_table, numbered_rows, text_table
from emsco.core.decisions import Decisions
from emsco.core.evaluation import Evaluation, evaluate_known
from emsco.core.front import Candidate, learners_of
from emsco.core.measure import Measure, rows_of, share_of
from emsco.core.measures import MEASURES, columns
from emsco.exceptions import require

_MANY_ERRORS = 2.0  # standard errors; a figure that differs by more is listed


@dataclass(frozen=True)
class ScoredCandidate:
    """A candidate, with its evaluation on fresh rows beside the one it was selected by.

    Examples
    --------
    >>> from emsco import Candidate, Evaluation, StageDesign
    >>> from emsco.core.scored_front import ScoredCandidate
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
        """The selected accuracy minus the accuracy on fresh rows."""
        return self.selected.accuracy - self.fresh.accuracy


class ScoredFront(Sequence[ScoredCandidate]):
    """The candidates of a front with their fresh evaluations, in the front's order.

    Parameters
    ----------
    scored : iterable of ScoredCandidate
        Every candidate with its fresh evaluation.
    measured_on : str, default=""
        What both evaluations were measured on, shown under every table.
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
        table: dict[str, list[Any]] = {
            "design": [str(s.candidate.design) for s in self._scored],
            "threshold": [s.candidate.threshold for s in self._scored],
            **learners_of([s.candidate for s in self._scored]),
        }
        for measure in columns(by_class=False):
            table[f"{measure.name} selected"] = [measure.of(s.selected) for s in self._scored]
            table[f"{measure.name} fresh"] = [measure.of(s.fresh) for s in self._scored]
        table["optimism"] = [s.optimism for s in self._scored]
        labels = dict.fromkeys(label for s in self._scored for label in s.selected.class_rows)
        for label in labels:
            for measure in columns(by_class=True):
                for when in ("selected", "fresh"):
                    shares = [_share_of(getattr(s, when), measure, label) for s in self._scored]
                    if not all(share is None for share in shares):
                        table[f"{measure.name_of(label)} {when}"] = [
                            float("nan") if share is None else share for share in shares
                        ]
        return table

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row per candidate."""
        return require("pandas").DataFrame(self._columns())

    def __repr__(self) -> str:
        if not self._scored:
            return "ScoredFront([])"
        return text_table(*numbered_rows(self._columns()), self.measured_on)

    def _repr_html_(self) -> str:
        return html_table(*numbered_rows(self._columns()), self.measured_on)


def _share_of(evaluation: Evaluation, measure: Measure, label: Any) -> float | None:
    """Return a share by class: NaN if the class has no rows, None if it is unknown."""
    if not evaluation.class_rows.get(label):  # fresh rows may hold none; nothing is known then
        return float("nan")
    known = label in measure.labels(evaluation)
    return share_of(*measure.count(evaluation, label)) if known else None


class FreshDifference(NamedTuple):
    """A figure that differs between fresh rows and the rows that a candidate was selected on."""

    figure: str  # the name of its measure
    label: Any  # the class that it is about; None: all rows
    selected: float
    fresh: float
    errors: float  # the difference, in standard errors

    def __str__(self) -> str:
        of = "" if self.label is None else f" of {self.label!r}"
        show = cell if self.figure == "cost" else "{:.1%}".format
        return (
            f"{MEASURES[self.figure].in_words}{of}: {show(self.fresh)} fresh, "
            f"{show(self.selected)} selected, {self.errors:.2g} standard errors"
        )


def differences(
    selected: Evaluation,
    decisions: Decisions,
    truth: ArrayLike,
    *,
    repeats: float = 1.0,
    within_classes: bool = False,
    stake: ArrayLike | None = None,
) -> list[FreshDifference]:
    """List the figures that differ on fresh rows by more than two standard errors.

    The standard errors assume that both samples come from the same population. For the mean cost,
    the spread of the fresh decisions is used. Of twenty figures that do not really differ, about
    one is listed by chance.

    Rows were counted `repeats` times on average when the candidate was selected. With
    `within_classes`, only shares of the rows of a class are compared, which do not depend on how
    many rows each class has. `stake` is what is at stake on the fresh rows, if shares are of that.
    """
    fresh = evaluate_known(decisions, np.asarray(truth), stake=stake)
    compared: list[FreshDifference] = []
    for measure in columns(by_class=False) if not within_classes else ():
        if measure.is_share:
            compared += _compared(measure, None, selected, fresh, repeats)
    if not within_classes:
        compared += _compared_costs(selected, decisions, repeats)
    for label in fresh.class_rows:
        for measure in columns(by_class=True):
            if measure.is_within_class or not within_classes:
                compared += _compared(measure, label, selected, fresh, repeats)
    return [one for one in compared if one.errors > _MANY_ERRORS]


def _compared(
    measure: Measure, label: Any, selected: Evaluation, fresh: Evaluation, repeats: float
) -> list[FreshDifference]:
    """Compare a share; the list is empty if one of the two is a share of no rows."""
    part, whole = measure.effective(selected, label, repeats)
    fresh_part, fresh_whole = measure.effective(fresh, label)
    if not whole or not fresh_whole:
        return []
    before, now = part / whole, fresh_part / fresh_whole
    together = (part + fresh_part) / (whole + fresh_whole)
    error = sqrt(together * (1 - together) * (1 / whole + 1 / fresh_whole))
    errors = abs(now - before) / error if error else 0.0
    return [FreshDifference(measure.name, label, before, now, errors)]


def _compared_costs(
    selected: Evaluation, decisions: Decisions, repeats: float
) -> list[FreshDifference]:
    before, now = selected.cost, float(np.mean(decisions.cost)) if len(decisions) else 0.0
    n_before, n_now = rows_of(selected).rows / repeats, len(decisions)
    if not n_before or not n_now or isclose(before, now, rel_tol=1e-9, abs_tol=1e-12):
        return []
    # The variance of both samples as one: within the samples, and between their means.
    share = n_now / (n_before + n_now)
    variance = float(np.var(decisions.cost)) + share * (1 - share) * (now - before) ** 2
    error = sqrt(variance * (1 / n_before + 1 / n_now))
    return [FreshDifference("cost", None, before, now, abs(now - before) / error)]
