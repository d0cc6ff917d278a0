"""Rows drawn from a data set, with classes in proportion, whatever its blocks are.

Every row has a random key, made from a seed and the row's number. Of each class, the rows with the
smallest keys are drawn. These are the same rows in any order of reading and for any division into
files and blocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from emsco.rows.dataset_parts import DatasetPart
from emsco.rows.row_hashes import COUNTER_STEP, finalise


def row_keys(first_row: int, n_rows: int, seed: int) -> NDArray[np.uint64]:
    """Return the random key of each row, made from the seed and the row's number."""
    numbers = np.arange(first_row + 1, first_row + n_rows + 1, dtype=np.uint64)
    with np.errstate(over="ignore"):
        start = np.uint64(seed) * np.uint64(0xD1342543DE82EF95)
    return finalise((numbers + start) * COUNTER_STEP)


class ClassSample(NamedTuple):
    """Rows of one class that have the smallest keys so far."""

    keys: NDArray[np.uint64]
    rows: NDArray[np.int64]

    def smallest(self, n: int) -> ClassSample:
        """Keep the n smallest; of equal keys, the earlier row."""
        if len(self.keys) <= n:
            return self
        order = np.lexsort((self.rows, self.keys))[:n]
        return ClassSample(self.keys[order], self.rows[order])


def merge_drawn(parts: Sequence[ClassSample], n: int) -> ClassSample:
    """Merge rows drawn from several parts, and keep those with the n smallest keys."""
    keys = np.concatenate([part.keys for part in parts])
    return ClassSample(keys, np.concatenate([part.rows for part in parts])).smallest(n)


def share_out(counts: Mapping[Any, int], n_rows: int) -> dict[Any, int]:
    """Divide rows among classes in proportion to their counts, by largest remainders."""
    total = sum(counts.values())
    if n_rows >= total:
        return dict(counts)
    whole = {label: count * n_rows // total for label, count in counts.items()}
    rest = sorted(counts, key=lambda label: -(counts[label] * n_rows % total))  # stable: ties stay
    for label in rest[: n_rows - sum(whole.values())]:
        whole[label] += 1
    return whole


def take_rows(
    part: DatasetPart, columns: Sequence[str], rows: NDArray[np.int64]
) -> list[pa.RecordBatch]:
    """Read some rows of a part, named by their numbers in the data set, in ascending order."""
    first, end = np.searchsorted(rows, [part.first_row, part.first_row + part.n_rows])
    own = rows[first:end] - part.first_row
    if not own.size:
        return []
    taken, start = [], 0
    for batch in part.batches(columns):
        begin, stop = np.searchsorted(own, [start, start + batch.num_rows])
        if stop > begin:
            taken.append(batch.take(pa.array(own[begin:stop] - start)))
        start += batch.num_rows
    return taken
