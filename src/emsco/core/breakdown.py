"""An evaluation of each group of rows, with intervals, and the largest gaps between groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from emsco._utils.frozen_mapping import FrozenMapping
from emsco._utils.text_table import cell, html_table, text_table
from emsco.core.decisions import Decisions
from emsco.core.evaluation import Evaluation, evaluate_known, row_weights
from emsco.core.gap import LEAST_ROWS, Gap, comparable, largest_gap
from emsco.core.group_labels import GroupLabels, name_text
from emsco.core.interval import LEVEL, Z_OF_LEVEL, interval, interval_text
from emsco.core.measure import Measure
from emsco.core.measures import MEASURES, columns
from emsco.exceptions import DecisionsError, require

_MARK = " *"  # of a group, or a class of a group, with few rows
_NAN = float("nan")


@dataclass(frozen=True)
class Breakdown(Mapping[Any, Evaluation]):
    """The evaluation of each group of rows: a read-only mapping from a group to its `Evaluation`.

    Printed, it is a table for all rows and one for each class, with 95% intervals (Wilson's for
    shares), and the largest gaps between groups. Groups of fewer than 30 rows, of a class or in
    all, are marked with a star, and no gap is about them: so few rows say too little.

    Parameters
    ----------
    overall : Evaluation
        The evaluation of all rows.
    groups : mapping of group to Evaluation
        The evaluation of each group. The group of rows without one is None.
    cost_errors : mapping of group to float, default=None
        The standard error of the mean cost of each group. None: there is no interval of the cost.
    repeats : float, default=1.0
        How often a row was counted on average. None: rows are weighted, so nothing has an interval.
    class_sizes : mapping of group to mapping of label to float, default=None
        If rows are weighted: how many rows of each class a group has.

    Examples
    --------
    >>> from emsco import Breakdown, Evaluation
    >>> women = Evaluation(rows=120, accepted=90, right=81, paid=300.0)
    >>> men = Evaluation(rows=80, accepted=76, right=72, paid=240.0)
    >>> breakdown = Breakdown(Evaluation(200, 166, 153, 540.0), {"F": women, "M": men})
    >>> breakdown["F"].coverage
    0.75
    >>> breakdown
    group  rows  accuracy               coverage               cost
    F       120  90.0% (82 to 95%)      75.0% (66.6 to 81.9%)  2.5
    M        80  94.7% (87 to 98%)      95.0% (88 to 98%)      3
    all     200  92.2% (87.1 to 95.4%)  83.0% (77.2 to 87.6%)  2.7
    In brackets: 95% intervals.
    Largest gaps between groups:
      accuracy: 4.7 points, 'M' over 'F' (95% interval: 0.0 to 14.0)
      coverage: 20.0 points, 'M' over 'F' (95% interval: 7.6 to 29.5)
    """

    overall: Evaluation
    groups: Mapping[Any, Evaluation]
    cost_errors: Mapping[Any, float] | None = None
    repeats: float | None = 1.0
    class_sizes: Mapping[Any, Mapping[Any, float]] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", FrozenMapping(self.groups))
        for name in ("cost_errors", "class_sizes"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, FrozenMapping(getattr(self, name)))
        rows = sum(one.rows for one in self.groups.values())
        if not self.groups or abs(rows - self.overall.rows) > 1e-6 * max(rows, 1):
            raise DecisionsError(
                f"The rows of groups must sum to all {self.overall.rows:g} rows, got {rows:g} of "
                f"{len(self.groups)} groups."
            )
        if (self.repeats is None) != (self.class_sizes is not None):
            raise DecisionsError("`class_sizes` are needed exactly where rows are weighted.")

    def __getitem__(self, group: Any) -> Evaluation:
        return self.groups[group]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.groups)

    def __len__(self) -> int:
        return len(self.groups)

    def size(self, group: Any, label: Any = None) -> float:
        """Return how many rows a group has; with a label, rows of that class."""
        evaluation = self.groups[group]
        if self.class_sizes is not None:
            sizes = self.class_sizes[group]
            return float(sum(sizes.values()) if label is None else sizes.get(label, 0))
        counted = evaluation.rows if label is None else evaluation.class_rows.get(label, 0)
        return float(counted / (self.repeats or 1.0))

    def is_small(self, group: Any, label: Any = None) -> bool:
        """Return whether a group has too few rows, or too few of a class, to conclude from them."""
        return self.size(group, label) < LEAST_ROWS

    @cached_property
    def gaps(self) -> tuple[Gap, ...]:
        """The largest difference of each share between two groups that are not small.

        An interval begins above 0 only if some two groups differ, whichever were compared.
        """
        found = []
        for measure in _compared():
            if measure.name not in comparable():
                continue
            for label in self.overall.class_rows if measure.is_by_class else [None]:
                large = {n: one for n, one in self.groups.items() if not self.is_small(n, label)}
                gap = largest_gap(large, measure, label, self.repeats)
                found += [] if gap is None else [gap]
        return tuple(found)

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row per group.

        Every figure has two more columns with the ends of its interval, if it has one.
        """
        table: dict[str, list[Any]] = {
            "group": list(self.groups),
            "rows": [one.rows for one in self.groups.values()],
            "small": [self.is_small(group) for group in self.groups],
        }
        for label in [None, *self.overall.class_rows]:
            if label is not None:
                rows = [one.class_rows.get(label, 0) for one in self.groups.values()]
                table[f"rows {label}"] = rows
            for measure in columns(by_class=label is not None):
                figures = [self._figure(group, measure, label) for group in self.groups]
                ends = zip(("", " low", " high"), zip(*figures, strict=True), strict=True)
                for end, values in ends:
                    if not end or not all(value != value for value in values):
                        table[f"{measure.name_of(label)}{end}"] = list(values)
        return require("pandas").DataFrame(table)

    def _figure(
        self, group: Any, measure: Measure, label: Any = None
    ) -> tuple[float, float, float]:
        """Return a figure of a group with its interval; NaN where it is unknown."""
        evaluation, is_all = self.groups.get(group, self.overall), group is _ALL
        part, whole = measure.count(evaluation, label)
        if not whole:
            return _NAN, _NAN, _NAN
        figure = part / whole
        if self.repeats is not None and measure.is_share:
            return figure, *interval(part, whole, self.repeats)
        if self.cost_errors is not None and measure.name == "cost" and not is_all:
            half = Z_OF_LEVEL * self.cost_errors[group]
            return figure, max(0.0, figure - half), figure + half
        return figure, _NAN, _NAN

    def tables(self) -> list[tuple[list[str], list[list[object]]]]:
        """Return the header and the rows of a table for all rows, and of one for each class."""
        return [self._table(label) for label in [None, *self.overall.class_rows]]

    def _table(self, label: Any) -> tuple[list[str], list[list[object]]]:
        measures = [m for m in _compared() if m.is_by_class == (label is not None)]
        head = "group" if label is None else f"of {label!r}"
        rows: list[list[object]] = []
        for group in [*self.groups, _ALL]:
            counts = self.groups.get(group, self.overall)
            n = counts.rows if label is None else counts.class_rows.get(label, 0)
            small = group is not _ALL and self.is_small(group, label)
            name = "all" if group is _ALL else name_text(group)
            cells: list[object] = [self._cell(group, measure, label) for measure in measures]
            rows.append([name + _MARK * small, round(n / (self.repeats or 1.0)), *cells])
        return [head, "rows", *(measure.in_words for measure in measures)], rows

    def _cell(self, group: Any, measure: Measure, label: Any) -> str:
        figure, low, high = self._figure(group, measure, label)
        if figure != figure:
            return "-"
        text = cell(figure) if not measure.is_share else f"{figure:.1%}"
        if low != low:
            return text
        if not measure.is_share:
            return f"{text} ({cell(low)} to {cell(high)})"
        part, whole = measure.count(self.groups.get(group, self.overall), label)
        return f"{text} ({interval_text(part, whole, self.repeats or 1.0)})"

    def notes(self) -> list[str]:
        """Say which figures have intervals, what a star means, and what the largest gaps are."""
        marked = any(
            self.is_small(group, label)
            for group in self.groups
            for label in [None, *self.overall.class_rows]
        )
        lines = [f"* fewer than {LEAST_ROWS} rows: too few to conclude from"] * marked
        if self.repeats is None:
            lines.append("Rows are weighted, so figures have no intervals.")
        else:
            lines.append(f"In brackets: {LEVEL:.0%} intervals.")
        return lines

    def __str__(self) -> str:
        texts = [text_table(*table) for table in self.tables()]
        gaps = [f"  {gap}" for gap in self.gaps]
        return "\n".join(
            [*texts, *self.notes(), *["Largest gaps between groups:"] * bool(gaps), *gaps]
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        tables = "".join(html_table(*table) for table in self.tables())
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes())
        gaps = "".join(f"<li>{escape(str(gap))}</li>" for gap in self.gaps)
        listed = f"<p>Largest gaps between groups:</p><ul>{gaps}</ul>" if gaps else ""
        return f"{tables}{notes}{listed}"


_ALL = object()  # in place of a group: all rows


def _compared() -> list[Measure]:
    """Return the measures that a person compares: for all rows, and the shares of a class."""
    by_class = [MEASURES[name] for name in ("rejected", "missed")]
    return [*columns(by_class=False), *by_class]


def break_down(
    decisions: Decisions,
    truth: NDArray[Any],
    groups: GroupLabels,
    *,
    sample_weight: ArrayLike | None = None,
    population: Mapping[Any, float] | None = None,
    repeats: float = 1.0,
) -> Breakdown:
    """Evaluate every group of rows, whose labels were read and compared with the classes before."""
    overall = evaluate_known(decisions, truth, sample_weight=sample_weight, population=population)
    weight = row_weights(truth, sample_weight, population)
    found, errors, sizes = {}, {}, {}
    for name, rows in zip(groups.names, groups.masks(), strict=True):
        own = None if weight is None else weight[rows]
        found[name] = evaluate_known(decisions[rows], truth[rows], sample_weight=own)
        errors[name] = _cost_error(decisions.cost, rows, repeats)
        labels, counts = np.unique(truth[rows], return_counts=True)
        sizes[name] = FrozenMapping(dict(zip(labels.tolist(), counts.tolist(), strict=True)))
    if weight is None:
        return Breakdown(overall, found, errors, repeats)
    return Breakdown(overall, found, None, None, sizes)


def _cost_error(cost: NDArray[np.float64], rows: NDArray[np.bool_], repeats: float) -> float:
    """Return the standard error of a group's mean cost.

    As if the group had two more rows, the cheapest and the dearest of all rows: it is then not 0
    just because a few rows cost the same.
    """
    own = np.append(cost[rows], [cost.min(), cost.max()])
    return float(own.std() / sqrt(rows.sum() / repeats))
