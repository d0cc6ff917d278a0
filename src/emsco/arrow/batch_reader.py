"""What rows are read from that are not all in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa


class BatchReader(Protocol):
    """Some rows of which columns are read when they are needed.

    `read` is called at most once per stage, with the columns that the stage buys and the rows that
    are still undecided. A reader may also have `respell(column, name)`, which rewrites numbers in
    the notation of Python where its file has another one.
    """

    @property
    def num_rows(self) -> int:
        """How many rows there are."""

    def read(
        self, columns: Sequence[str], rows: NDArray[np.intp] | None
    ) -> pa.RecordBatch | pa.Table:
        """Read columns of some rows, named by their positions in ascending order; None: of all."""
