"""How rows count: each as one, by its stake, or by the square of its stake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emsco.core.evaluation import Evaluation
from emsco.search._outcome_table import OutcomeTable, Words


class Totals(NamedTuple):
    """What all rows together pay and wait for in a design."""

    paid: float
    waited: float
    worst_latency: float


@dataclass(frozen=True, eq=False)
class Weighing:
    """What rows count as whole numbers, and the unit of these."""

    planes: Words  # of bits of these numbers: words x planes; none if each row counts as one
    class_rows: NDArray[np.int64]  # the sum over the rows of each class
    unit: float | None = None  # None: the numbers are rows

    def amount(self, count: int) -> float:
        """Return what a count stands for."""
        return count if self.unit is None else count * self.unit

    def by_label(self, classes: Sequence[Any], counts: NDArray[np.int64]) -> dict[Any, float]:
        """Return what counts stand for, by class."""
        return dict(zip(classes, map(self.amount, counts.tolist()), strict=True))

    def evaluations(
        self,
        classes: Sequence[Any],
        accepted: NDArray[np.int64],
        right: NDArray[np.int64],
        class_accepted: NDArray[np.int64],
        class_right: NDArray[np.int64],
        labelled: NDArray[np.int64] | None,
        totals: Sequence[Totals],
    ) -> list[Evaluation]:
        """Make evaluations of counts, one per design; what is paid and waited is given."""
        class_rows = self.by_label(classes, self.class_rows)
        return [
            Evaluation(
                rows=self.amount(int(self.class_rows.sum())),
                accepted=self.amount(int(accepted[i])),
                right=self.amount(int(right[i])),
                paid=paid,
                class_rows=class_rows,
                class_accepted=self.by_label(classes, class_accepted[i]),
                class_right=self.by_label(classes, class_right[i]),
                waited=waited,
                worst_latency=worst_latency,
                label_accepted=None if labelled is None else self.by_label(classes, labelled[i]),
            )
            for i, (paid, waited, worst_latency) in enumerate(totals)
        ]


@dataclass(frozen=True, eq=False)
class Weighings:
    """How a search counts rows, how many there are, and how squares of stakes are counted."""

    own: Weighing
    by_row: Weighing
    squares: Weighing | None  # None if the search counts rows

    @classmethod
    def of(cls, table: OutcomeTable, n_classes: int) -> Weighings:
        """Return those of a table of outcomes, or of a view of some of its rows."""
        rows = Weighing(table.no_planes, np.bincount(table.truth, minlength=n_classes))
        stakes = table.stakes
        if stakes is None:
            return cls(rows, rows, None)

        def sums(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
            found = np.zeros(n_classes, dtype=np.int64)
            np.add.at(found, table.truth, numbers)  # as integers: floats would round squares
            return found

        return cls(
            Weighing(table.planes, sums(stakes.units), stakes.unit),
            rows,
            Weighing(table.square_planes, sums(stakes.units**2), stakes.unit * stakes.unit),
        )

    def each(self) -> Mapping[str, Weighing]:
        """Return them by the names that their counts have as parts of an evaluation."""
        return {} if self.squares is None else {"by_row": self.by_row, "squares": self.squares}
