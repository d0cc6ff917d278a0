"""Convert fetched values to columns, and find values of another type than in training."""

from __future__ import annotations

from itertools import chain
from math import nan
from types import NoneType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco._utils.missing_values import is_missing
from emsco.core.value_type import CATEGORY_TYPE, DATE_TYPE
from emsco.live.fetch_result import as_text
from emsco.rows.column_reader import NUMBER, NUMERIC_CATEGORY, TEXT, ColumnReader
from emsco.rows.columns import object_array
from emsco.rows.value_types import is_number

_NUMBERS = (float, int, np.floating, np.integer, np.bool_)
_BOOLEANS = (bool, np.bool_)


def to_column(
    values: list[Any], reader: ColumnReader | None, *, spelled: bool = False
) -> tuple[NDArray[Any], list[int]]:
    """Return values as a column, and the positions of those of another type than in training.

    `spelled`: the source gives numbers as text. If not, text is not accepted as a number.
    """
    if reader is not None and reader.type in (CATEGORY_TYPE, DATE_TYPE):
        return object_array([as_text(value) for value in values]), []
    of_number = reader is not None and reader.is_number
    booleans: list[int] = []
    if reader is not None and reader.kind in (NUMBER, NUMERIC_CATEGORY):
        booleans = [i for i, value in enumerate(values) if isinstance(value, _BOOLEANS)]
    if of_number and not booleans:
        matrix = to_numbers([values], spelled=spelled, any_kind=True)
        if matrix is not None:
            return matrix[0], []
    values = [as_text(value) for value in values]
    others: list[int] = []
    if of_number and not spelled:
        others = [i for i, value in enumerate(values) if isinstance(value, str)]
    elif reader is not None and reader.kind == TEXT:
        others = [i for i, v in enumerate(values) if is_number(v) and not is_missing(v)]
    others = sorted({*others, *booleans})
    column = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):  # one by one, because a value may be a list
        column[i] = value
    return column, others


def to_numbers(
    columns: list[list[Any]], *, spelled: bool = False, any_kind: bool = False
) -> NDArray[np.float64] | None:
    """Return columns of numbers as the rows of one matrix; None if some value is not a number.

    This is a fast path for the usual case: converting single columns takes longer than deciding.
    With `any_kind`, numbers may be of any type, and missing.
    """
    types = set(map(type, chain.from_iterable(columns)))
    try:
        if types <= {float, int}:
            return np.array(columns, dtype=np.float64)
        if spelled and types == {bytes}:
            read = [read_spelled(column) for column in columns]
            return None if None in read else np.array(read)
        if any_kind and all(map(_is_of_numbers, types - {NoneType})):
            filled = [[nan if value is None else value for value in column] for column in columns]
            return np.array(filled, dtype=np.float64)
    except (ValueError, OverflowError):
        pass
    return None


def read_spelled(values: list[Any]) -> list[float] | None:
    """Return numbers that a store gives as text; None if some value is not such a text."""
    # Python reads 1_000 as a number, which other programs do not.
    if set(map(type, values)) != {bytes} or b"_" in b" ".join(values):
        return None
    try:
        return [*map(float, values)]
    except ValueError:
        return None


def _is_of_numbers(kind: type) -> bool:
    return issubclass(kind, _NUMBERS) and not issubclass(kind, np.timedelta64)
