"""A front compared with fresh rows: selected figures, fresh figures, and the gap between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isclose, sqrt
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike

from emsco._utils.text_table import cell, html_table, row_positions, text_table
from emsco.core.decisions import Decisions
from emsco.core.evaluation import Evaluation, evaluate_known, share_counts
from emsco.core.front import Candidate
from emsco.exceptions import require

_MANY_ERRORS = 2.0  # standard errors; a figure that differs by more is listed
_BY_CLASS = ("rejected", "missed", "recall", "precision")


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
            for word in _BY_CLASS:
                for when in ("selected", "fresh"):
                    shares = [_share_of(getattr(s, when), word, label) for s in self._scored]
                    if not all(share is None for share in shares):
                        columns[f"{word} {label} {when}"] = [
                            float("nan") if share is None else share for share in shares
                        ]
        return columns

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row per candidate."""
        return require("pandas").DataFrame(self._columns())

    def _cells(self) -> tuple[list[str], list[list[object] | None], str]:
        columns = self._columns()
        rows: list[list[object] | None] = [
            None if i is None else [i, *(column[i] for column in columns.values())]
            for i in row_positions(len(self))
        ]
        return ["", *columns], rows, self.measured_on

    def __repr__(self) -> str:
        return text_table(*self._cells()) if self._scored else "ScoredFront([])"

    def _repr_html_(self) -> str:
        return html_table(*self._cells())


def _share_of(evaluation: Evaluation, word: str, label: Any) -> float | None:
    """Return a share by class: NaN if the class has no rows, None if it is unknown."""
    shares: Mapping[Any, float] = getattr(evaluation, word)
    if not evaluation.class_rows.get(label):  # fresh rows may hold none; nothing is known then
        return float("nan")
    return shares.get(label)


class FreshDifference(NamedTuple):
    """A figure that differs between fresh rows and the rows that a candidate was selected on.

    Parameters
    ----------
    figure : str
        The name of the figure: accuracy, coverage, cost, rejected, missed, recall or precision.
    label : object
        The class that the figure is about. None: all rows.
    selected, fresh : float
        Its value on the rows that the candidate was selected on, and on fresh rows.
    errors : float
        The difference between the two, in standard errors.
    """

    figure: str
    label: Any
    selected: float
    fresh: float
    errors: float

    def __str__(self) -> str:
        of = "" if self.label is None else f" of {self.label!r}"
        show = cell if self.figure == "cost" else "{:.1%}".format
        return (
            f"{self.figure}{of}: {show(self.fresh)} fresh, {show(self.selected)} selected, "
            f"{self.errors:.2g} standard errors"
        )


def differences(
    selected: Evaluation,
    decisions: Decisions,
    truth: ArrayLike,
    *,
    repeats: float = 1.0,
    within_classes: bool = False,
) -> list[FreshDifference]:
    """List the figures that differ on fresh rows by more than two standard errors.

    The standard errors assume that both samples come from the same population. For the mean cost,
    the spread of the fresh decisions is used. Of twenty figures that do not really differ, about
    one is listed by chance.

    Parameters
    ----------
    selected : Evaluation
        The figures on the rows that the candidate was selected on.
    decisions : Decisions
        The decisions of its cascade about fresh rows.
    truth : array
        The true label of each fresh row.
    repeats : float, default=1.0
        How often a row was counted on average when the candidate was selected.
    within_classes : bool, default=False
        Whether to compare only shares of the rows of a class, which do not depend on how many rows
        each class has.

    Examples
    --------
    >>> from emsco import Decisions, Evaluation
    >>> from emsco.core.scored_front import differences
    >>> selected = Evaluation(rows=100, accepted=90, right=88, paid=100)
    >>> decisions = Decisions(["a"] * 50, [True] * 50, [0] * 50, [0.9] * 50, [1.0] * 50)
    >>> for one in differences(selected, decisions, ["a"] * 40 + ["b"] * 10):
    ...     print(one)
    accuracy: 80.0% fresh, 97.8% selected, 3.6 standard errors
    coverage: 100.0% fresh, 90.0% selected, 2.3 standard errors
    """
    fresh = evaluate_known(decisions, np.asarray(truth))
    compared: list[FreshDifference] = []
    if not within_classes:
        compared += _compared("accuracy", None, selected, fresh, repeats)
        compared += _compared("coverage", None, selected, fresh, repeats)
        compared += _compared_costs(selected, decisions, repeats)
    for label in fresh.class_rows:
        for word in _BY_CLASS[: 3 if within_classes else 4]:
            compared += _compared(word, label, selected, fresh, repeats)
    return [one for one in compared if one.errors > _MANY_ERRORS]


def _compared(
    word: str, label: Any, selected: Evaluation, fresh: Evaluation, repeats: float
) -> list[FreshDifference]:
    """Compare a share; the list is empty if one of the two is a share of no rows."""
    part, whole = (count / repeats for count in _counts(selected, word, label))
    fresh_part, fresh_whole = _counts(fresh, word, label)
    if not whole or not fresh_whole:
        return []
    before, now = part / whole, fresh_part / fresh_whole
    together = (part + fresh_part) / (whole + fresh_whole)
    error = sqrt(together * (1 - together) * (1 / whole + 1 / fresh_whole))
    return [FreshDifference(word, label, before, now, abs(now - before) / error if error else 0.0)]


def _counts(e: Evaluation, word: str, label: Any) -> tuple[float, float]:
    """Return how many rows a share counts, and out of how many."""
    if word == "accuracy":
        return e.right, e.accepted
    if word == "coverage":
        return e.accepted, e.rows
    return share_counts(e, word, label)


def _compared_costs(
    selected: Evaluation, decisions: Decisions, repeats: float
) -> list[FreshDifference]:
    before, now = selected.cost, float(np.mean(decisions.cost)) if len(decisions) else 0.0
    n_before, n_now = selected.rows / repeats, len(decisions)
    if not n_before or not n_now or isclose(before, now, rel_tol=1e-9, abs_tol=1e-12):
        return []
    # The variance of both samples as one: within the samples, and between their means.
    share = n_now / (n_before + n_now)
    variance = float(np.var(decisions.cost)) + share * (1 - share) * (now - before) ** 2
    error = sqrt(variance * (1 / n_before + 1 / n_now))
    return [FreshDifference("cost", None, before, now, abs(now - before) / error)]
