"""How good decisions were: counts, also per true class, and the rates derived from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf, isclose
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from emsco._utils.frozen_mapping import FrozenMapping
from emsco._utils.text_table import cell
from emsco.core.costs import Review
from emsco.core.decisions import Decisions
from emsco.core.measure import check_error_cost, rows_of, share_of
from emsco.core.measures import LOSS, MEASURES, columns
from emsco.core.stakes import read_stake
from emsco.core.validation import (
    read_given_labels,
    refuse_other_kind,
    warn_similar,
    weights_of,
)
from emsco.exceptions import DecisionsError


@dataclass(frozen=True)
class Evaluation:
    """Counts of decisions compared with the truth; every rate is derived from them.

    Counts may be sums of what is at stake on rows instead of numbers of rows. Rates are then shares
    of the stake; cost and latency are means per row in any case.

    Printed, an evaluation is a line with accuracy, coverage and cost, then a line for each class.

    Parameters
    ----------
    rows, accepted, right : float
        The number of rows, of accepted rows, and of rows accepted under their true label; sums of
        weights if rows are weighted, and sums of stakes if these were given.
    paid : float
        The total paid for sources over all rows, rejected ones included.
    class_rows, class_accepted, class_right : mapping of label to float, default=None
        The same three counts per true class.
    label_accepted : mapping of label to float, default=None
        The number of rows accepted under each label, whatever their true label. With two classes
        this follows from the counts per class.
    class_reference, class_both : mapping of label to float, default=None
        Per true class, how many accepted rows the reference (all sources at once) labels right, and
        how many both label right. They belong to a comparison, so equality ignores them.
    waited : float, default=0.0
        The total latency of all rows.
    worst_latency : float, default=0.0
        The largest latency of any row.
    by_row : Evaluation, default=None
        The same decisions counted by row, if the counts are sums of stakes.
    squares : Evaluation, default=None
        The same counts as sums of squared stakes, which standard errors need.

    Examples
    --------
    >>> from emsco import Evaluation
    >>> evaluation = Evaluation(
    ...     rows=10, accepted=8, right=6, paid=50.0,
    ...     class_rows={"sick": 4, "well": 6},
    ...     class_accepted={"sick": 3, "well": 5},
    ...     class_right={"sick": 1, "well": 5},
    ... )
    >>> evaluation.accuracy, evaluation.coverage, evaluation.cost
    (0.75, 0.8, 5.0)
    >>> evaluation.missed["sick"], evaluation.rejected["sick"], evaluation.precision["sick"]
    (0.5, 0.25, 1.0)
    """

    rows: float
    accepted: float
    right: float
    paid: float
    class_rows: Mapping[Any, float] = None  # type: ignore[assignment]  # None until __post_init__
    class_accepted: Mapping[Any, float] = None  # type: ignore[assignment]
    class_right: Mapping[Any, float] = None  # type: ignore[assignment]
    waited: float = 0.0
    worst_latency: float = 0.0
    label_accepted: Any = None  # mappings, once checked
    class_reference: Any = field(default=None, compare=False)
    class_both: Any = field(default=None, compare=False)
    by_row: Evaluation | None = None
    squares: Evaluation | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.right <= self.accepted <= self.rows < inf:
            raise DecisionsError(f"0 <= right <= accepted <= rows must hold: {self!r}.")
        for total in ("paid", "waited", "worst_latency"):
            if not 0 <= getattr(self, total) < inf:
                raise DecisionsError(f"{total} must be a number >= 0: {self!r}.")
        for count in ("rows", "accepted", "right"):
            by_class = FrozenMapping(getattr(self, f"class_{count}"))
            object.__setattr__(self, f"class_{count}", by_class)
            if by_class and not isclose(
                sum(by_class.values()), getattr(self, count), rel_tol=1e-5, abs_tol=1e-8
            ):
                raise DecisionsError(f"class_{count} must sum to {count}: {self!r}.")
        if not self.class_rows.keys() == self.class_accepted.keys() == self.class_right.keys():
            raise DecisionsError(f"The counts by class must name the same classes: {self!r}.")
        for label, rows in self.class_rows.items():
            if not 0 <= self.class_right[label] <= self.class_accepted[label] <= rows:
                raise DecisionsError(
                    f"0 <= right <= accepted <= rows must hold for {label!r}: {self!r}."
                )
        self._freeze_label_accepted()
        self._freeze_comparison()
        if (self.by_row is None) != (self.squares is None):
            raise DecisionsError(f"Sums of stakes need `by_row` and `squares`: {self!r}.")

    def _freeze_label_accepted(self) -> None:
        accepted = FrozenMapping(self.label_accepted)
        if not accepted and len(self.class_rows) == 2:
            # Accepted under a label: the right rows of its class, the wrong ones of the other.
            first, second = self.class_rows
            wrong = {c: self.class_accepted[c] - self.class_right[c] for c in self.class_rows}
            right = self.class_right
            accepted = FrozenMapping(
                {first: right[first] + wrong[second], second: right[second] + wrong[first]}
            )
        object.__setattr__(self, "label_accepted", accepted)
        if not accepted:
            return
        if not isclose(sum(accepted.values()), self.accepted, rel_tol=1e-5, abs_tol=1e-8):
            raise DecisionsError(f"label_accepted must sum to accepted: {self!r}.")
        for label, count in self.class_right.items():
            # The two counts sum the same weights in different orders.
            if accepted.get(label, 0) < count * (1 - 1e-9):
                raise DecisionsError(f"More are right than accepted as {label!r}: {self!r}.")

    def _freeze_comparison(self) -> None:
        for name in ("class_reference", "class_both"):
            object.__setattr__(self, name, FrozenMapping(getattr(self, name)))
        reference, both = self.class_reference, self.class_both
        if reference.keys() != both.keys() or not reference.keys() <= self.class_rows.keys():
            raise DecisionsError(f"A comparison must name the classes that there are: {self!r}.")
        for label, count in reference.items():
            accepted, right = self.class_accepted[label], self.class_right[label]
            if not 0 <= both[label] <= min(count, right) <= max(count, right) <= accepted:
                raise DecisionsError(
                    f"0 <= both <= reference <= accepted must hold for {label!r}: {self!r}."
                )

    @property
    def is_by_stake(self) -> bool:
        """Whether the counts are sums of stakes, and not numbers of rows."""
        return self.by_row is not None

    @property
    def accuracy(self) -> float:
        """The share of accepted rows that are labelled right; 0 if nothing is accepted."""
        return share_of(self.right, self.accepted)

    @property
    def coverage(self) -> float:
        """The share of rows accepted."""
        return share_of(self.accepted, self.rows)

    @property
    def cost(self) -> float:
        """The mean amount paid for sources per row, rejected rows included."""
        return share_of(self.paid, rows_of(self).rows)

    @cached_property
    def missed(self) -> Mapping[Any, float]:
        """Per true class, the share of its rows accepted under another label."""
        return MEASURES["missed"].by_class(self)

    @cached_property
    def rejected(self) -> Mapping[Any, float]:
        """Per true class, the share of its rows rejected."""
        return MEASURES["rejected"].by_class(self)

    @cached_property
    def precision(self) -> Mapping[Any, float]:
        """Per assigned label, the share of rows accepted under it that are right; 0 if none is.

        Empty if the number of rows accepted under each label is unknown.
        """
        return MEASURES["precision"].by_class(self)

    @cached_property
    def recall(self) -> Mapping[Any, float]:
        """Per true class, the share of its accepted rows labelled right; 0 if none is."""
        return MEASURES["recall"].by_class(self)

    @property
    def latency(self) -> float:
        """The mean latency per row."""
        return share_of(self.waited, rows_of(self).rows)

    def __str__(self) -> str:
        return "\n".join([self._summary(), *self.class_lines().values()])

    @property
    def in_one_line(self) -> str:
        """The same as `str`, for use within a sentence."""
        by_class = (f"of {label!r} {words}" for label, words in self.by_class().items())
        return "; ".join([self._summary(), *by_class])

    def _summary(self) -> str:
        stake = " of the stake" if self.is_by_stake else ""
        return (
            f"{self.accuracy:.1%} right of the {self.coverage:.1%}{stake} accepted, for "
            f"{cell(self.cost)} per row"
        )

    def class_lines(self) -> dict[Any, str]:
        """Return for each class a line with what `by_class` says, aligned with the other lines."""
        texts = {label: f"of {label!r}" for label in self.class_rows}
        widest = max(map(len, texts.values()), default=0)
        by_class = self.by_class(width=6)
        return {label: f"  {texts[label]:<{widest}} {by_class[label]}" for label in texts}

    def by_class(self, width: int = 0) -> dict[Any, str]:
        """Describe for each class its shares rejected and missed, recall and precision.

        Figures that are unknown for a class are left out. Shares take at least `width` characters,
        so that the lines of several classes can be aligned.
        """
        texts = {}
        for label, rows in self.class_rows.items():
            parts = []
            for measure in columns(by_class=True):
                part, whole = measure.count(self, label)
                if whole:
                    parts.append(measure.text(f"{part / whole:>{width}.1%}"))
            texts[label] = ", ".join(parts) if rows else "no rows of this class"
        return texts

    def loss(
        self, *, review: Review | None = None, error_cost: float | Mapping[Any, float] = 0.0
    ) -> float:
        """Return the mean expense per row when errors and review have prices.

        Parameters
        ----------
        review : Review, default=None
            The review of rejected rows; a review can be wrong too. None: nothing is rejected.
        error_cost : float or mapping of label to float, default=0.0
            The price of a row that ends with a wrong label, one for all or one per true class; if
            counts are sums of stakes, the price of one unit at stake.
        """
        check_error_cost(error_cost)
        return LOSS.of(self, review, error_cost or 0.0)


def evaluate(
    decisions: Decisions,
    y: ArrayLike,
    *,
    sample_weight: ArrayLike | None = None,
    stake: ArrayLike | None = None,
    population: Mapping[Any, float] | None = None,
) -> Evaluation:
    """Compare decisions with the truth.

    Parameters
    ----------
    decisions : Decisions
        The decision about each row.
    y : array
        The true label of each row. A label that no decision has is a class of its own, of which no
        row is right.
    sample_weight : array, default=None
        How much each row counts. None: every row counts 1.
    stake : array, default=None
        What is at stake on each row, such as an amount of money. Accuracy, coverage and the other
        shares are then shares of the stake; cost and latency are means per row, as they are paid by
        row. None: shares of rows.
    population : mapping of label to float, default=None
        The shares of the classes among future rows, if these rows were drawn differently, for
        example half of them fraud. The rows are then weighted so that the classes have these
        shares; classes that are not named divide the rest in proportion to their rows here. None:
        the shares that the rows have.

    Examples
    --------
    >>> from emsco import Decisions, evaluate
    >>> decisions = Decisions(["a", "b"], [True, False], [0, 1], [0.9, 0.6], [1.0, 3.0])
    >>> evaluation = evaluate(decisions, ["a", "a"])
    >>> evaluation.accuracy, evaluation.coverage, evaluation.cost
    (1.0, 0.5, 2.0)
    >>> evaluate(decisions, ["a", "b"], population={"a": 0.9}).coverage
    0.9
    >>> evaluate(decisions, ["a", "a"], stake=[4, 36]).coverage
    0.1
    """
    truth = np.asarray(read_given_labels(y))
    known, decided = np.unique(truth).tolist(), np.unique(decisions.label).tolist()
    refuse_other_kind(known, decided)
    warn_similar(known, decided)
    return evaluate_known(
        decisions, truth, sample_weight=sample_weight, stake=stake, population=population
    )


def evaluate_known(
    decisions: Decisions,
    truth: NDArray[Any],
    *,
    sample_weight: ArrayLike | None = None,
    stake: ArrayLike | None = None,
    population: Mapping[Any, float] | None = None,
) -> Evaluation:
    """Compare decisions with labels that were read and compared with the classes before."""
    if truth.shape != (len(decisions),):
        raise DecisionsError(f"`y` must hold {len(decisions)} labels, has shape {truth.shape}.")
    weight: NDArray[Any] | None = None
    if sample_weight is not None:
        weight = np.asarray(sample_weight, dtype=np.float64)
        if weight.shape != truth.shape or not (weight >= 0).all():
            raise DecisionsError("`sample_weight` must be one number >= 0 for each row.")
    labels, codes = np.unique(truth, return_inverse=True)
    if population is not None:
        own = np.bincount(codes, weight, minlength=len(labels))
        by_class = weights_of(population, dict(zip(labels.tolist(), own.tolist(), strict=True)))
        factor = np.array([by_class[label] for label in labels.tolist()])[codes]
        weight = factor if weight is None else weight * factor
    by_row = _counted(decisions, truth, labels, codes, weight)
    if stake is None:
        return by_row
    weighed = read_stake(stake, len(truth)) * (1.0 if weight is None else weight)
    squares = _counted(decisions, truth, labels, codes, weighed**2)
    return replace(
        _counted(decisions, truth, labels, codes, weighed),
        paid=by_row.paid,
        waited=by_row.waited,
        by_row=by_row,
        squares=squares,
    )


def _counted(
    decisions: Decisions,
    truth: NDArray[Any],
    labels: NDArray[Any],
    codes: NDArray[np.intp],
    weight: NDArray[Any] | None,
) -> Evaluation:
    """Count decisions with these weights; `codes` are the places of the truth in `labels`."""
    right = decisions.accepted & (decisions.label == truth)

    def count(rows: NDArray[np.bool_] | None) -> dict[Any, float]:
        chosen = codes if rows is None else codes[rows]
        weights = weight if weight is None or rows is None else weight[rows]
        counts = np.bincount(chosen, weights, minlength=len(labels))
        return dict(zip(labels.tolist(), counts.tolist(), strict=True))

    class_rows, class_accepted, class_right = count(None), count(decisions.accepted), count(right)
    weights = np.ones(len(truth)) if weight is None else weight
    assigned, places = np.unique(decisions.label[decisions.accepted], return_inverse=True)
    of_each = None if weight is None else weight[decisions.accepted]
    as_label = np.bincount(places, of_each, minlength=len(assigned)).tolist()
    return Evaluation(
        rows=sum(class_rows.values()),
        accepted=sum(class_accepted.values()),
        right=sum(class_right.values()),
        paid=float(decisions.cost @ weights),
        class_rows=class_rows,
        class_accepted=class_accepted,
        class_right=class_right,
        waited=float(decisions.latency @ weights),
        worst_latency=float(decisions.latency.max(initial=0.0)),
        label_accepted=dict.fromkeys(class_rows, 0)
        | dict(zip(assigned.tolist(), as_label, strict=True)),
    )
