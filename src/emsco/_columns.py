"""X as named columns, whatever container the user keeps them in: numpy, pandas or polars."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from emsco.exceptions import ColumnsError, ValuesError, nearest, quoted

# One value a row, and `column[rows]` takes rows by an integer array: a numpy array, a pandas
# extension array or a polars Series.
Column: TypeAlias = Any
Columns: TypeAlias = Mapping[str, Column]

NUMERIC = "fiub"  # kinds of numpy's dtypes
_TURNED_ROWS = 1024
_NUMBERS = (bool, int, float, np.number)


def container_of(X: Any) -> str:
    """Say what holds the columns: "pandas", "polars" or "array"; loads neither library."""
    for library in ("pandas", "polars"):
        module = sys.modules.get(library)
        if module is not None and isinstance(X, module.DataFrame):
            return library
    return "array"


def read_columns(X: Any, names: Sequence[str]) -> dict[str, Column]:
    """Read columns by position, `names` naming every one of them."""
    if container_of(X) == "array":
        return {name: X[:, i] for i, name in enumerate(names)}
    by_position = X.iloc if container_of(X) == "pandas" else X
    return {name: _unwrap(by_position[:, i]) for i, name in enumerate(names)}


def slice_columns(columns: Columns, size: int) -> Iterator[Columns]:
    """Cut columns into blocks of rows, one empty block where there are none."""
    n_rows = len(next(iter(columns.values())))
    for start in range(0, max(n_rows, 1), size):
        yield {name: column[start : start + size] for name, column in columns.items()}


def transpose_blocks(
    X: NDArray[Any], names: Sequence[str], size: int, dtype: Any
) -> Iterator[tuple[NDArray[Any], Columns]]:
    """Cut a matrix into blocks of rows, each as it is and as columns that lie together in memory.

    A matrix lies row by row: reading it one column at a time would pull all of it through the cache
    for each of them. Turned in pieces that fit the cache, it comes from memory once. The columns
    are written over by the next block: new memory for each would cost more than the turning.
    """
    turned = np.empty((X.shape[1], min(size, len(X))), dtype=dtype)
    for start in range(0, len(X), size):
        rows = X[start : start + size]
        for i in range(0, len(rows), _TURNED_ROWS):
            turned[:, i : i + _TURNED_ROWS][:, : len(rows) - i] = rows[i : i + _TURNED_ROWS].T
        yield rows, dict(zip(names, turned[:, : len(rows)], strict=True))


def pick_columns(frame: Any, names: Sequence[str]) -> dict[str, Column]:
    """Read columns of a frame by name; columns that are not asked for are ignored."""
    held = list(frame.columns)
    missing = [name for name in names if name not in held]
    if missing:
        raise ColumnsError(
            f"X lacks the column {quoted(missing)}"
            + nearest(missing[0], [str(name) for name in held])
        )
    refuse_twice(held, among=names)
    return {name: _unwrap(frame[name]) for name in names}


def refuse_twice(names: Sequence[object], *, among: Sequence[str] | None = None) -> None:
    """Refuse columns of one name, which cannot be told apart."""
    considered = set(names if among is None else among)
    twice = sorted({str(n) for n in names if n in considered and list(names).count(n) > 1})
    if twice:
        raise ColumnsError(f"Every column of X needs its own name, named twice: {quoted(twice)}.")


def _unwrap(series: Any) -> Column:
    """Give the bare array under a pandas Series; a polars Series is a column already."""
    if not hasattr(series, "array"):
        return series
    return series.to_numpy() if isinstance(series.dtype, np.dtype) else series.array


def assemble(container: str, names: Sequence[str], columns: Columns) -> Any:
    """Put columns back into the container that an estimator was fitted with."""
    chosen = {name: columns[name] for name in names}
    if container == "array":
        return np.column_stack([np.asarray(column) for column in chosen.values()])
    return sys.modules[container].DataFrame(chosen)


def is_category(column: Column) -> bool:
    """Say whether the user declared a column categorical, even where its values are numbers."""
    dtype = getattr(column, "dtype", None)
    return type(dtype).__name__ in ("CategoricalDtype", "Categorical", "Enum")


def plain(column: Column) -> NDArray[Any]:
    """Turn any column into numbers with NaN, or into objects with None for what is missing."""
    array: NDArray[Any] = column if isinstance(column, np.ndarray) else _plain_foreign(column)
    if array.dtype.kind not in "OU":
        return array
    values = [None if is_missing(value) else value for value in array.tolist()]
    if all(value is None or isinstance(value, _NUMBERS) for value in values):
        return np.array(values, dtype=np.float64)
    objects = np.empty(len(values), dtype=object)
    objects[:] = values
    return objects


def as_objects(values: NDArray[Any]) -> NDArray[np.object_]:
    """Turn plain numbers into objects with None for what is missing, as categories are."""
    objects = values.astype(object)
    if values.dtype.kind in NUMERIC:
        objects[np.isnan(values.astype(np.float64))] = None
    return objects


def refuse_unknown(values: NDArray[Any], name: str) -> None:
    """Refuse a plain column that is neither numbers nor text throughout."""
    if values.dtype.kind in NUMERIC:
        return
    if values.dtype.kind != "O":
        raise ValuesError(
            f"Column {name!r} holds {values.dtype}; turn it into numbers, text or booleans.",
            column=name,
        )
    for row, value in enumerate(values.tolist()):
        if value is not None and not isinstance(value, str):
            raise ValuesError(
                f"Column {name!r} must hold numbers or text throughout; row {row} is {value!r}.",
                row=row,
                column=name,
            )


def _plain_foreign(column: Column) -> NDArray[Any]:
    """Turn a pandas extension array, a polars Series or a list into a numpy array."""
    if not hasattr(column, "dtype"):
        return np.asarray(column)
    if hasattr(column.dtype, "is_numeric"):  # polars
        if column.dtype.is_numeric() or str(column.dtype) == "Boolean":
            return np.asarray(column.to_numpy(), dtype=np.float64)
        return np.array(column.to_list(), dtype=object)
    if getattr(column.dtype, "kind", "O") in NUMERIC:
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.asarray(column.to_numpy(dtype=object))


def is_missing(value: object) -> bool:
    """Say whether a value stands for none."""
    if isinstance(value, str):
        return False
    # NaN and NaT differ from themselves; pandas.NA will not even say whether it does.
    return value is None or type(value).__name__ == "NAType" or bool(value != value)


def all_finite(values: NDArray[Any]) -> bool:
    """Say whether numbers are surely all finite, in one pass and without another array.

    A sum is finite only where every number is; it may also overflow, which is not "surely".
    """
    if values.dtype.kind == "O":
        return False
    if values.size == 1:  # live, rows come one by one
        return isfinite(values.item())
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(values.sum()))


def invalid(values: NDArray[Any], *, missing_seen: bool) -> NDArray[np.bool_] | None:
    """Mark values that cannot be judged: infinity, and missing where training had none.

    None stands for "all are good".
    """
    if values.dtype.kind not in "fO":
        return None
    if values.dtype.kind == "f":
        if all_finite(values):
            return None
        bad = np.isinf(values) if missing_seen else ~np.isfinite(values)
    else:
        if missing_seen:
            return None
        bad = np.array([value is None for value in values.tolist()])
    return bad if bad.any() else None


def refuse_invalid(
    values: NDArray[Any], name: str, *, missing_seen: bool, first_row: int = 0
) -> None:
    """Raise for the first value that cannot be judged, naming its row and column."""
    bad = invalid(values, missing_seen=missing_seen)
    if bad is None:
        return
    value = values[np.argmax(bad)]
    row = first_row + int(np.argmax(bad))
    if value is None or value != value:
        raise ValuesError(
            f"Row {row} of column {name!r} is missing (NaN), but training had no missing value "
            f"there; fill it, or train with missing values in {name!r}.",
            row=row,
            column=name,
        )
    raise ValuesError(
        f"Row {row} of column {name!r} is infinity ({value}); values must be finite.",
        row=row,
        column=name,
    )


def has_missing(values: NDArray[Any]) -> bool:
    """Say whether a plain column has a missing value."""
    if values.dtype.kind == "f":
        return bool(np.isnan(values).any())
    return values.dtype.kind == "O" and any(value is None for value in values.tolist())
