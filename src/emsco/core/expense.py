"""What a row costs on average, part by part: sources, review, errors; together its loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from emsco._utils.text_table import cell
from emsco.core.costs import Review
from emsco.core.evaluation import Evaluation
from emsco.core.measure import rows_of
from emsco.core.measures import LOSS

ErrorCost = float | Mapping[object, float] | None


class Expense(NamedTuple):
    """The parts of the loss per row; None if a part has no price."""

    cost: float
    review: float | None = None
    errors: float | None = None

    @property
    def loss(self) -> float:
        """The sum of the parts."""
        return self.cost + (self.review or 0.0) + (self.errors or 0.0)

    def text(self, unit: str = "") -> str:
        """Describe the loss as a sum of its parts; "" if nothing but sources has a price.

        Examples
        --------
        >>> from emsco.core.expense import Expense
        >>> Expense(3.2, 1.1).text("EUR"), Expense(3.2).text("EUR")
        ('cost 3.2 + review 1.1 = loss 4.3 EUR', '')
        """
        if self.review is None and self.errors is None:
            return ""
        named = {"review": self.review, "errors": self.errors}
        parts = [f"{name} {cell(float(part))}" for name, part in named.items() if part is not None]
        sum_ = " + ".join([f"cost {cell(float(self.cost))}", *parts])
        return f"{sum_} = loss {cell(float(self.loss))} {unit}".rstrip()


def expense_of(
    evaluation: Evaluation, review: Review | None, error_cost: ErrorCost = None
) -> Expense:
    """Return the parts of the loss of an evaluation, as far as they have prices.

    If rows are rejected and their review has no price, neither review nor loss is known, so the
    result has the cost alone.
    """
    cost, rejected = evaluation.cost, evaluation.rows > evaluation.accepted
    if review is None and rejected:
        return Expense(cost)
    free = review is None or not review.cost
    reviewed = None if review is None or free else review.cost * (1 - rows_of(evaluation).coverage)
    if error_cost is None:
        return Expense(cost, reviewed)
    if isinstance(error_cost, Mapping):  # fresh rows may hold no row of a class
        error_cost = {c: price for c, price in error_cost.items() if c in evaluation.class_rows}
    errors = LOSS.of(evaluation, review, error_cost or 0.0) - cost - (reviewed or 0.0)
    return Expense(cost, reviewed, max(0.0, errors))


def error_cost_of(bounds: Mapping[str, object]) -> ErrorCost:
    """Return the prices of errors of a choice by loss; None if it was made otherwise."""
    if bounds.get("by") != "loss":
        return None
    return bounds.get("error_cost") or 0.0  # type: ignore[return-value]
