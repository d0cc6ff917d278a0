"""Arrow data sets in parts: a row group of a Parquet file, or a whole file of another format.

A part can be pickled, so that it can be read where it is needed, and reads only the columns that
are asked for. Rows are numbered through the whole data set, in the order of its files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.dataset
from numpy.typing import NDArray

from emsco.exceptions import ArtifactError, ColumnsError, nearest, quoted

BLOCK_ROWS = 2**15  # rows decided at a time: few enough to stay in the cache
BATCH_ROWS = 2**16  # rows fitted on at a time


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


@dataclass(frozen=True, eq=False)
class DatasetPart:
    """Some consecutive rows of a data set, which are read together.

    Parameters
    ----------
    fragment : pyarrow.dataset.Fragment
        What is read.
    schema : pyarrow.Schema
        The columns of the data set, with those that its folders name.
    path : str
        The file; "" if there is none.
    row_group : int or None
        The row group of a Parquet file; None: everything in the file.
    first_row, n_rows : int
        The number of the first row in the data set, and how many there are.
    """

    fragment: Any
    schema: pa.Schema
    path: str
    row_group: int | None
    first_row: int
    n_rows: int

    def readers(
        self, columns: Sequence[str], *, rows: int = BLOCK_ROWS
    ) -> Iterator[Block | BatchPart]:
        """Yield the rows in blocks to decide; `columns` are all that may be asked for.

        A column of a Parquet file is read when a block first asks for it.
        """
        if self.row_group is None:
            for batch in self.batches(columns, rows=rows):
                yield BatchPart(batch)
            return
        held: dict[str, pa.Array] = {}
        for start in range(0, self.n_rows, rows):
            yield Block(self, held, start, min(rows, self.n_rows - start))

    def batches(
        self, columns: Sequence[str], *, rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """Yield columns of all rows in record batches of at most `rows` rows."""
        with _reading(self.path):
            scanned = self.fragment.to_batches(
                schema=self.schema,
                columns=list(columns),
                batch_size=rows,
                batch_readahead=2,  # more would be held in memory
                fragment_readahead=1,
            )
        while True:
            with _reading(self.path):
                batch = next(scanned, None)
            if batch is None:
                return
            for start in range(0, batch.num_rows, rows):
                yield batch.slice(start, rows)

    def table(self, columns: Sequence[str]) -> pa.Table:
        """Read columns of all rows."""
        with _reading(self.path):
            return self.fragment.to_table(schema=self.schema, columns=list(columns))

    def take(self, columns: Sequence[str], rows: NDArray[np.int64]) -> list[pa.RecordBatch]:
        """Read some rows, named by their numbers in the data set, in ascending order."""
        first, end = np.searchsorted(rows, [self.first_row, self.first_row + self.n_rows])
        own = rows[first:end] - self.first_row
        if not own.size:
            return []
        taken, start = [], 0
        for batch in self.batches(columns):
            begin, stop = np.searchsorted(own, [start, start + batch.num_rows])
            if stop > begin:
                taken.append(batch.take(pa.array(own[begin:stop] - start)))
            start += batch.num_rows
        return taken


@dataclass(frozen=True)
class Block:
    """Some rows of a row group, whose columns are held once read, for all of its blocks."""

    part: DatasetPart
    held: dict[str, pa.Array]
    start: int
    num_rows: int

    def read(self, columns: Sequence[str], rows: NDArray[np.intp] | None) -> pa.RecordBatch:
        """Read columns of some rows; None: of all."""
        lacking = [name for name in columns if name not in self.held]
        if lacking:
            table = self.part.table(lacking)
            self.held.update((name, whole(table.column(name))) for name in lacking)
        found = [self.held[name].slice(self.start, self.num_rows) for name in columns]
        if rows is not None:
            places = pa.array(rows)
            found = [column.take(places) for column in found]
        return pa.RecordBatch.from_arrays(found, names=list(columns))


@dataclass(frozen=True)
class BatchPart:
    """Rows that are in memory."""

    batch: pa.RecordBatch

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return int(self.batch.num_rows)

    def read(self, columns: Sequence[str], rows: NDArray[np.intp] | None) -> pa.RecordBatch:
        """Return columns of some rows; None: of all."""
        check_names(self.batch.schema.names, columns, "The batch")
        chosen = self.batch.select(list(columns))
        return chosen if rows is None else chosen.take(pa.array(rows))


def parts_of(dataset: Any) -> list[DatasetPart]:
    """Return the parts of a data set, in order.

    Parameters
    ----------
    dataset : pyarrow.dataset.Dataset
        The data set. Of a Parquet file, only its last bytes are read, which list row groups.

    Examples
    --------
    >>> import pyarrow as pa, pyarrow.dataset
    >>> from emsco.arrow import parts_of
    >>> dataset = pa.dataset.dataset(pa.table({"age": [31, 45, 62]}))
    >>> [(part.first_row, part.n_rows) for part in parts_of(dataset)]
    [(0, 3)]
    """
    try:
        fragments = list(dataset.get_fragments())
    except ValueError as error:  # it would give the rows that are filtered out
        raise ColumnsError(
            "A data set that is filtered or projected has no parts; write it to files first, or "
            "pass its batches: dataset.to_batches()."
        ) from error
    parts: list[DatasetPart] = []
    first_row = 0
    for fragment in fragments:
        path = str(getattr(fragment, "path", ""))
        with _reading(path):
            groups = getattr(fragment, "row_groups", None)
            sizes = (
                [(None, fragment.count_rows())]
                if groups is None
                else [(group.id, group.num_rows) for group in groups]
            )
            for number, n_rows in sizes:
                own = fragment if number is None else fragment.subset(row_group_ids=[number])
                if n_rows:
                    parts.append(DatasetPart(own, dataset.schema, path, number, first_row, n_rows))
                first_row += n_rows
    return parts


def check_names(
    names: Sequence[str], wanted: Sequence[str], what: object = "The data set", hint: str = ""
) -> None:
    """Refuse a table that lacks a column or has it twice, and name the nearest one it has."""
    counts = Counter(names)
    for name in wanted:
        if not counts[name]:
            raise ColumnsError(
                f"{what} has no column {name!r}{nearest(name, names)} It has {quoted(names)}.{hint}"
            )
        if counts[name] > 1:
            raise ColumnsError(f"{what} has more than one column {name!r}; rename them.")


def whole(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


@contextmanager
def _reading(path: str) -> Iterator[None]:
    """Raise an error that names the file if it cannot be read."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        why = str(error).rstrip(".")
        raise ArtifactError(f"{path or 'The data set'} cannot be read: {why}.") from error
