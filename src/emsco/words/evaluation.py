"""How good decisions were: counts, also by true class, and the rates that follow from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isclose
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from emsco._ground.frozen import FrozenMapping
from emsco._ground.table import cell
from emsco.exceptions import DecisionsError, nearest
from emsco.words.costs import Review
from emsco.words.decisions import Decisions


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


@dataclass(frozen=True)
class Evaluation:
    """Counts of decisions held against the truth; every rate is derived from them.

    Parameters
    ----------
    rows, accepted, right : float
        How many rows there were, were accepted, and were accepted under their true label; sums of
        weights where rows are weighted.
    paid : float
        What was paid for sources over all rows, rejected ones included.
    class_rows, class_accepted, class_right : mapping of label to float, default=None
        The same three counts by true class.
    waited : float, default=0.0
        How long all rows together waited.
    worst_latency : float, default=0.0
        How long the row that waited longest did.

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
    >>> evaluation.missed["sick"]
    0.5
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

    @property
    def accuracy(self) -> float:
        """The share of accepted rows labelled right; 0 where nothing is accepted."""
        return _share(self.right, self.accepted)

    @property
    def coverage(self) -> float:
        """The share of rows accepted."""
        return _share(self.accepted, self.rows)

    @property
    def cost(self) -> float:
        """The mean paid for sources per row, rejected rows included."""
        return _share(self.paid, self.rows)

    @property
    def missed(self) -> Mapping[Any, float]:
        """By true class, the share of its rows accepted under another label."""
        return FrozenMapping(
            {
                label: _share(self.class_accepted[label] - self.class_right[label], rows)
                for label, rows in self.class_rows.items()
            }
        )

    @property
    def recall(self) -> Mapping[Any, float]:
        """By true class, the share of its accepted rows labelled right; 0 where none is."""
        return FrozenMapping(
            {
                label: _share(self.class_right[label], accepted)
                for label, accepted in self.class_accepted.items()
            }
        )

    @property
    def latency(self) -> float:
        """The mean time that a row waited for its sources."""
        return _share(self.waited, self.rows)

    def __str__(self) -> str:
        missed = ", ".join(f"{share:.1%} of {label!r}" for label, share in self.missed.items())
        return (
            f"{self.accuracy:.1%} right of the {self.coverage:.1%} accepted, for "
            f"{cell(self.cost)} a row" + (f"; missed {missed}" if missed else "")
        )

    def loss(
        self, *, review: Review | None = None, error_cost: float | Mapping[Any, float] = 0.0
    ) -> float:
        """Say what a row costs on the mean when errors and review have prices.

        Parameters
        ----------
        review : Review, default=None
            What happens to rejected rows; a review errs too. None: nothing is rejected.
        error_cost : float or mapping of label to float, default=0.0
            The price of a row that ends under another label than its own, one or by true class.
        """
        rejected = self.rows - self.accepted
        if rejected and review is None:
            raise DecisionsError(
                "The loss of rejected rows needs a price; give the costs a Review(cost)."
            )
        errs = 0.0 if review is None else 1 - review.accuracy
        if isinstance(error_cost, Mapping):
            for label in error_cost:
                if label not in self.class_rows:
                    known = [str(known) for known in self.class_rows]
                    raise DecisionsError(f"{label!r} is not a class" + nearest(label, known))
            errors = sum(
                price
                * (
                    self.class_accepted[label]
                    - self.class_right[label]
                    + errs * (self.class_rows[label] - self.class_accepted[label])
                )
                for label, price in error_cost.items()
            )
        else:
            errors = error_cost * (self.accepted - self.right + errs * rejected)
        reviewed = 0.0 if review is None else review.cost * rejected
        return _share(self.paid + reviewed + errors, self.rows)


def evaluate(
    decisions: Decisions, y: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> Evaluation:
    """Hold decisions against the truth.

    Parameters
    ----------
    decisions : Decisions
        What was decided about each row.
    y : array
        The true label of each row.
    sample_weight : array, default=None
        How much each row counts. None: every row counts 1.

    Examples
    --------
    >>> from emsco import Decisions, evaluate
    >>> decisions = Decisions(["a", "b"], [True, False], [0, 1], [0.9, 0.6], [1.0, 3.0])
    >>> evaluation = evaluate(decisions, ["a", "a"])
    >>> evaluation.accuracy, evaluation.coverage, evaluation.cost
    (1.0, 0.5, 2.0)
    """
    truth = np.asarray(y)
    if truth.shape != (len(decisions),):
        raise DecisionsError(f"`y` must hold {len(decisions)} labels, has shape {truth.shape}.")
    weight: NDArray[Any] | None = None
    if sample_weight is not None:
        weight = np.asarray(sample_weight, dtype=np.float64)
        if weight.shape != truth.shape or not (weight >= 0).all():
            raise DecisionsError("`sample_weight` must be one number >= 0 for each row.")
    labels, codes = np.unique(truth, return_inverse=True)
    right = decisions.accepted & (decisions.label == truth)

    def count(rows: NDArray[np.bool_] | None) -> dict[Any, float]:
        chosen = codes if rows is None else codes[rows]
        weights = weight if weight is None or rows is None else weight[rows]
        counts = np.bincount(chosen, weights, minlength=len(labels))
        return dict(zip(labels.tolist(), counts.tolist(), strict=True))

    class_rows, class_accepted, class_right = count(None), count(decisions.accepted), count(right)
    weights = np.ones(len(truth)) if weight is None else weight
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
    )
