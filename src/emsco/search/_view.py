"""What source sets say about some of a table's rows: for searching again without the others."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco.exceptions import SearchError
from emsco.search._outcomes import OutcomeTable, Sets, pack


class TableView(OutcomeTable):
    """A table with some of its rows, as it is now: nothing is fitted through it.

    Bits stay where they are, those of other rows too; but only rows within are open to begin with.
    """

    def __init__(self, table: OutcomeTable, within: NDArray[np.bool_]) -> None:
        self.__dict__.update(table.__dict__)
        self.truth = table.truth[within]
        self.everyone = pack(within[None])[0]
        self.class_masks = table.class_masks & self.everyone

    def outcomes(self, sets: Sets) -> Any:
        """Refuse: confidences are of all rows."""
        raise SearchError(f"A view has bits, no confidences of {len(sets)} source sets.")

    def _add(self, sets: Sets, keys: NDArray[Any]) -> None:  # noqa: ARG002
        raise SearchError(f"A view was asked for {len(sets)} source sets that are not fitted.")
