"""A measure of a cascade: what it counts, how cautiously, and in which words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any

from emsco._utils.frozen_mapping import FrozenMapping
from emsco.exceptions import (
    DecisionsError,
    Parameter,
    SelectionError,
    nearest,
    nearest_class,
    quoted,
)

if TYPE_CHECKING:  # the command line has an option for each measure, and starts without numpy
    import numpy as np
    from numpy.typing import NDArray

    from emsco.core.caution import Shares
    from emsco.core.costs import Costs, Review

# The counts of an `Evaluation`.
COUNTS = (
    "rows", "accepted", "right", "paid", "waited", "worst_latency", "class_rows", "class_accepted",
    "class_right", "label_accepted", "class_reference", "class_both",
)  # fmt: skip

# How a figure is moved by the margin of a choice before it is compared with a bound.
COUNTED = "counted"  # not at all, because luck changes it little
LESS_ERRORS = "less errors"  # a share that should be high, less its standard errors
WILSON = "Wilson"  # the worse one of Wilson's bounds of a share

# What a monitor has to see of rows to watch a promise.
DECISIONS, LABELS, DRAWN_LABELS, DRAWN_ANSWERS = "decisions", "labels", "drawn labels", "answers"

_CHOICES = {
    "margin": (COUNTED, LESS_ERRORS, WILSON),
    "unit": ("share", "money", "seconds"),
    "watched_by": ("", DECISIONS, LABELS, DRAWN_LABELS, DRAWN_ANSWERS),
}


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A measure: counts of an evaluation divided by others, and all that is said about it.

    In phrases, `{limit}` stands for words like "at most 5%", and `{label!r}` for the class.

    Parameters
    ----------
    name : str
        Its name in tables, files and messages.
    part, whole : tuple of str
        The names of the counts that are divided: the first, less the others. If the counts are by
        class (`class_...` or `label_...`), so is the measure. No `whole`: the part itself.
    is_better_high : bool, default=False
        Whether a higher figure is better.
    margin : {"counted", "less errors", "Wilson"}, default="counted"
        How a figure is moved by the margin of a choice.
    unit : {"share", "money", "seconds"}, default="share"
        What the figure is.
    parameter : str, default=""
        The keyword of a bound of a choice, and its flag on the command line. "": there is none.
    target : str, default=""
        The keyword of a target of a certificate. "": it cannot be certified.
    certifies_alone : bool, default=True
        Whether a certificate of this target alone is worth its rows.
    in_tables : bool, default=True
        Whether tables have a column of it; latencies have one only if there are any.
    help : str, default=""
        What the bound is, for the help of the command line.
    words : str, default=""
        Its name within a sentence. "": the name, with spaces.
    figure : str, default=""
        The figure within a sentence, with `{share}`. "": the words, then the figure.
    best : str, default=""
        What the candidate with the best figure is called. "": no choice optimises it.
    rows, bad : str, default=""
        What a certificate counts: the rows of the whole, and the word for one that counts against
        the target.
    promise, does : str, default=""
        The target as a sentence, and as what a cascade does, which also says how it is broken.
    watched_by : str, default=""
        What a monitor has to see: "decisions", the "labels" of accepted rows, the "drawn labels" of
        any rows, or the "answers" of a final model on drawn rows. "": it is not watched.
    observed : str, default=""
        What was observed of bad rows, after the words "of the last 100".

    Examples
    --------
    >>> from emsco import Evaluation
    >>> from emsco.core.measure import Measure
    >>> errors = Measure(name="errors", part=("accepted", "right"), whole=("rows",))
    >>> errors.of(Evaluation(rows=10, accepted=8, right=6, paid=50))
    0.2
    """

    name: str
    part: tuple[str, ...]
    whole: tuple[str, ...] = ()
    is_better_high: bool = False
    margin: str = COUNTED
    unit: str = "share"
    parameter: str = ""
    target: str = ""
    certifies_alone: bool = True
    in_tables: bool = True
    help: str = ""
    words: str = ""
    figure: str = ""
    best: str = ""
    rows: str = ""
    bad: str = "wrong"
    promise: str = ""
    does: str = ""
    watched_by: str = ""
    observed: str = ""

    def __post_init__(self) -> None:
        if not self.name.isidentifier():
            raise SelectionError(f"The name of a measure must be an identifier, got {self.name!r}.")
        for count in (*self.part, *self.whole):
            if count not in COUNTS:
                raise SelectionError(
                    f"Measure {self.name!r} counts {count!r}, which no evaluation holds"
                    + nearest(count, COUNTS)
                )
        for field, known in _CHOICES.items():
            if getattr(self, field) not in known:
                raise SelectionError(
                    f"`{field}` of measure {self.name!r} must be one of {quoted(known)}, got "
                    f"{getattr(self, field)!r}."
                )

    @cached_property
    def is_by_class(self) -> bool:
        """Whether there is a figure for each class."""
        return any(name.startswith(("class_", "label_")) for name in self.part)

    @property
    def is_share(self) -> bool:
        """Whether it is a share of rows, which a certificate can test."""
        return self.unit == "share" and bool(self.whole)

    @property
    def is_within_class(self) -> bool:
        """Whether it is a share of the rows of a true class, however many rows others have."""
        return self.is_by_class and self.whole[0].startswith("class_")

    @property
    def sign(self) -> int:
        """+1 if a higher figure is worse, -1 if it is better."""
        return -1 if self.is_better_high else 1

    @property
    def in_words(self) -> str:
        """Its name within a sentence."""
        return self.words or self.name.replace("_", " ")

    def name_of(self, label: Any) -> str:
        """Return the name of its figure for a class; None: for all rows."""
        return self.name if label is None else f"{self.name} {label}"

    def text(self, figure: str) -> str:
        """Return a figure within a sentence."""
        return (self.figure or f"{self.in_words} {{share}}").format(share=figure)

    def count(self, counts: Any, label: Any = None) -> tuple[Any, Any]:
        """Return how much it counts, and out of how much; None if it is not a share.

        `counts` is an evaluation, or has arrays under the names of one. Money and seconds are
        counted by row, even if shares are of the stake.
        """
        if self.unit != "share":
            counts = rows_of(counts)
        return _difference(counts, self.part, label), _difference(counts, self.whole, label)

    def effective(self, counts: Any, label: Any = None, repeats: float = 1.0) -> tuple[Any, Any]:
        """Return what `count` does, per row: rows were counted `repeats` times on average.

        Of stakes, it is the number of equal rows that would show the share as precisely.
        """
        part, whole = self.count(counts, label)
        squares = getattr(counts, "squares", None)
        if squares is not None:
            from emsco.core.caution import effective_rows

            part, whole = effective_rows(part, whole, *self.count(squares, label))
        return part / repeats, whole / repeats

    def bad_count(self, counts: Any, label: Any = None) -> tuple[Any, Any]:
        """Return how many rows count against a target of a share, and out of how many."""
        part, whole = self.count(counts, label)
        return whole - part if self.is_better_high else part, whole

    def labels(self, counts: Any) -> list[Any]:
        """List the classes that it has a figure for, or None for all rows."""
        return list(getattr(counts, self.whole[0])) if self.is_by_class else [None]

    def of(self, evaluation: Any) -> Any:
        """Return the figure of an evaluation, or its figures by class; a share of nothing is 0."""
        if not self.whole:
            return getattr(evaluation, self.part[0])
        return self.by_class(evaluation) if self.is_by_class else share_of(*self.count(evaluation))

    def by_class(self, evaluation: Any) -> FrozenMapping[Any, float]:
        """Return the figures of an evaluation by class."""
        labels = self.labels(evaluation)
        return FrozenMapping({label: share_of(*self.count(evaluation, label)) for label in labels})

    def values(
        self, figures: Any, label: Any = None, z: float = 0.0, repeats: float = 1.0
    ) -> Shares:
        """Return the figures of many evaluations, made worse by `z` standard errors.

        Rows were counted `repeats` times on average.
        """
        from emsco.core.caution import less_margin, shares_of, wilson

        part, whole = self.count(figures, label)
        if whole is None:
            figure: Shares = part
            return figure
        if not z or self.margin == COUNTED:
            return shares_of(part, whole)
        part, whole = self.effective(figures, label, repeats)
        if self.margin == LESS_ERRORS:
            return less_margin(part, whole, z)
        low, high = wilson(part, whole, z)
        return low if self.is_better_high else high

    def scores(
        self,
        figures: Any,
        within: NDArray[np.intp],
        costs: Costs,
        error_cost: float | Mapping[Any, float],
        z: float,
        repeats: float,
    ) -> Shares:
        """Return what a choice makes as low as possible, for the candidates at some places."""
        del costs, error_cost
        score: Shares = self.sign * self.values(figures, None, z, repeats)[within]
        return score


class FitnessMeasure(Measure):
    """The paper's fitness, of accuracy, coverage and what is saved of the full price.

    It depends on the full price, so only a choice uses it.
    """

    def scores(self, figures: Any, within: NDArray[np.intp], costs: Costs, *_: Any) -> Shares:
        """Return the fitness, negated."""
        import numpy as np

        from emsco.core.caution import shares_of

        accuracy = shares_of(figures.right, figures.accepted)[within]
        coverage = shares_of(figures.accepted, figures.rows)[within]
        cost = shares_of(figures.paid, rows_of(figures).rows)[within]
        saved = 1 - shares_of(cost, np.full(len(within), costs.total))
        score: Shares = -np.hypot(np.hypot(accuracy, coverage), saved)
        return score


class LossMeasure(Measure):
    """The mean expense per row for sources, review and errors; the last two need prices."""

    def scores(
        self,
        figures: Any,
        within: NDArray[np.intp],
        costs: Costs,
        error_cost: float | Mapping[Any, float],
        *_: Any,
    ) -> Shares:
        """Return the loss of the candidates."""
        from emsco.core.caution import shares_of

        some = figures.take(within)  # others may reject rows, which needs the price of a review
        return shares_of(total_loss(some, costs.review, error_cost), rows_of(some).rows)

    def of(
        self,
        evaluation: Any,
        review: Review | None = None,
        error_cost: float | Mapping[Any, float] = 0.0,
    ) -> float:
        """Return the loss of an evaluation."""
        return share_of(total_loss(evaluation, review, error_cost), rows_of(evaluation).rows)


def total_loss(counts: Any, review: Review | None, error_cost: float | Mapping[Any, float]) -> Any:
    """Add up what was paid for sources and reviews and what errors cost, those of reviews too.

    `counts` is an evaluation, or has arrays under the names of one. Reviews are paid by row, also
    if errors are sums of stakes.
    """
    import numpy as np

    rejected = counts.rows - counts.accepted
    if review is None and np.any(rejected):
        raise DecisionsError(
            "The loss of rejected rows needs a price of their review; give the costs a "
            "Review(cost)."
        )
    errs = 0.0 if review is None else 1 - review.accuracy
    if isinstance(error_cost, Mapping):
        for label in error_cost:
            if label not in counts.class_rows:
                raise DecisionsError(
                    f"{label!r} is not a class" + nearest_class(label, counts.class_rows)
                )
        errors = sum(
            price
            * (
                counts.class_accepted[label]
                - counts.class_right[label]
                + errs * (counts.class_rows[label] - counts.class_accepted[label])
            )
            for label, price in error_cost.items()
        )
    else:
        errors = error_cost * (counts.accepted - counts.right + errs * rejected)
    by_row = rows_of(counts)
    reviewed = 0.0 if review is None else review.cost * (by_row.rows - by_row.accepted)
    return counts.paid + reviewed + errors


def check_error_cost(error_cost: Any) -> None:
    """Refuse prices of errors that are neither one number nor by class: counts know no rows."""
    if error_cost is None or isinstance(error_cost, Real | Mapping):
        return
    raise SelectionError(
        Parameter("error_cost")
        + " must be a number, or a mapping of label to number; prices by row are a stake: search "
        "with `fit(X, y, stake=prices)`, and choose with an error cost of 1.",
        value=error_cost,
    )


def rows_of(counts: Any) -> Any:
    """Return the counts of rows: those that belong to sums of stakes, or the counts themselves."""
    by_row = getattr(counts, "by_row", None)
    return counts if by_row is None else by_row


def share_of(part: float, whole: float) -> float:
    """Return a share; 0 of nothing."""
    return part / whole if whole else 0.0


def _difference(counts: Any, names: tuple[str, ...], label: Any) -> Any:
    """Return the first of several counts less the others; None if there are none."""
    difference = None
    for name in names:
        count = getattr(counts, name)
        if label is not None:
            count = count.get(label, 0.0)
        difference = count if difference is None else difference - count
    return difference
