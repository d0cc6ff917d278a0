"""Rows drawn from a data set into memory, for whatever needs all rows at once."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from emsco.rows.dataset_blocks import Blocks


def sample_rows(
    dataset: Any, y: str, max_rows: int, *, random_state: int = 0
) -> tuple[Any, NDArray[Any]]:
    """Draw rows from a data set, with classes in proportion, as a pandas frame and labels.

    Every row has a random key, made of the seed and its number, and the smallest keys of each class
    are drawn. So the sample depends on the order of the rows, but not on files and row groups.

    Parameters
    ----------
    dataset : pyarrow.dataset.Dataset
        The data set.
    y : str
        The column of labels.
    max_rows : int
        The maximum number of rows.
    random_state : int, default=0
        The seed.

    Returns
    -------
    X : pandas.DataFrame
        The rows, in the order of the data set, without the labels.
    y : array
        Their labels.

    Examples
    --------
    >>> import pyarrow as pa, pyarrow.dataset
    >>> from emsco.arrow import sample_rows
    >>> table = pa.table({"age": range(1000), "sick": [i % 4 == 0 for i in range(1000)]})
    >>> X, y = sample_rows(pa.dataset.dataset(table), "sick", 100)
    >>> X.shape, int(y.sum())
    ((100, 1), 25)
    """
    blocks = Blocks.of(dataset, y)
    sample = blocks.sample(max_rows, random_state, blocks.names, every_class=True)
    return sample.table.to_pandas(), sample.labels
