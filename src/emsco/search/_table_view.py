"""A table of outcomes restricted to some of its rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco.exceptions import SearchError
from emsco.search._outcome_table import OutcomeTable, Sets, pack


class TableView(OutcomeTable):
    """A table restricted to some of its rows; it cannot fit.

    The bits of all rows stay in place, but only these rows are undecided at the start.
    """

    def __init__(self, table: OutcomeTable, within: NDArray[np.bool_]) -> None:
        self.__dict__.update(table.__dict__)
        self.truth = table.truth[within]
        self.everyone = pack(within[None])[0]
        self.class_masks = table.class_masks & self.everyone

    def outcomes(self, sets: Sets) -> Any:
        """Refuse, because confidences are those of all rows."""
        raise SearchError(f"A view has bits, no confidences of {len(sets)} source sets.")

    def _add(self, sets: Sets, keys: NDArray[Any]) -> None:  # noqa: ARG002
        raise SearchError(f"A view was asked for {len(sets)} source sets that are not fitted.")
