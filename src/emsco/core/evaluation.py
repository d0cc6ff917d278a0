"""How good decisions were: counts, also per true class, and the rates derived from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, isclose
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from emsco._utils.frozen_mapping import FrozenMapping
from emsco._utils.text_table import cell
from emsco.core.costs import Review
from emsco.core.decisions import Decisions
from emsco.core.measure import share_of
from emsco.core.measures import LOSS, MEASURES, columns
from emsco.core.validation import weights_of
from emsco.exceptions import DecisionsError


@dataclass(frozen=True)
class Evaluation:
    """Counts of decisions compared with the truth; every rate is derived from them.

    Printed, an evaluation is a line with accuracy, coverage and cost, then a line for each class.

    Parameters
    ----------
    rows, accepted, right : float
        The number of rows, of accepted rows, and of rows accepted under their true label; sums of
        weights if rows are weighted.
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
        return share_of(self.paid, self.rows)

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
        return share_of(self.waited, self.rows)

    def __str__(self) -> str:
        return "\n".join([self._summary(), *self.class_lines().values()])

    @property
    def in_one_line(self) -> str:
        """The same as `str`, for use within a sentence."""
        by_class = (f"of {label!r} {words}" for label, words in self.by_class().items())
        return "; ".join([self._summary(), *by_class])

    def _summary(self) -> str:
        return (
            f"{self.accuracy:.1%} right of the {self.coverage:.1%} accepted, for "
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
            The price of a row that ends with a wrong label, one for all or one per true class.
        """
        return LOSS.of(self, review, error_cost or 0.0)


def evaluate_known(
    decisions: Decisions,
    truth: NDArray[Any],
    *,
    sample_weight: ArrayLike | None = None,
    population: Mapping[Any, float] | None = None,
) -> Evaluation:
    """Compare decisions with labels that were read and compared with the classes before."""
    if truth.shape != (len(decisions),):
        raise DecisionsError(f"`y` must hold {len(decisions)} labels, has shape {truth.shape}.")
    weight = row_weights(truth, sample_weight, population)
    labels, codes = np.unique(truth, return_inverse=True)
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


def row_weights(
    truth: NDArray[Any],
    sample_weight: ArrayLike | None,
    population: Mapping[Any, float] | None,
) -> NDArray[np.float64] | None:
    """Return how much each row counts, so that the classes have a population's shares."""
    weight: NDArray[np.float64] | None = None
    if sample_weight is not None:
        weight = np.asarray(sample_weight, dtype=np.float64)
        if weight.shape != truth.shape or not (weight >= 0).all():
            raise DecisionsError("`sample_weight` must be one number >= 0 for each row.")
    if population is None:
        return weight
    labels, codes = np.unique(truth, return_inverse=True)
    own = np.bincount(codes, weight, minlength=len(labels))
    by_class = weights_of(population, dict(zip(labels.tolist(), own.tolist(), strict=True)))
    factor: NDArray[np.float64] = np.array([by_class[label] for label in labels.tolist()])[codes]
    return factor if weight is None else weight * factor
