"""X as named columns, from any container: numpy, pandas or polars."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isfinite, nan
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from emsco._utils.missing_values import is_missing
from emsco.exceptions import ColumnsError, ValuesError, nearest, quoted, require
from emsco.rows.value_types import UNREADABLE, is_number, to_number, unjudged

# One value per row, with `column[rows]` for an integer array: a numpy array, a pandas extension
# array or a polars Series.
Column: TypeAlias = Any
Columns: TypeAlias = Mapping[str, Column]

NUMERIC = "fiub"  # kinds of numpy's dtypes
_TURNED_ROWS = 1024


def container_of(X: Any) -> str:
    """Return the container of X: "pandas", "polars" or "array"; imports neither library."""
    for library in ("pandas", "polars"):
        module = sys.modules.get(library)
        if module is not None and isinstance(X, module.DataFrame):
            return library
    return "array"


def is_dataset(X: Any) -> bool:
    """Return whether X is an Arrow data set; does not import pyarrow."""
    module = sys.modules.get("pyarrow.dataset")
    return module is not None and isinstance(X, module.Dataset)


def read_columns(X: Any, names: Sequence[str]) -> dict[str, Column]:
    """Read columns by position; `names` has the name of each."""
    if container_of(X) == "array":
        return {name: X[:, i] for i, name in enumerate(names)}
    by_position = X.iloc if container_of(X) == "pandas" else X
    return {name: _unwrap(by_position[:, i]) for i, name in enumerate(names)}


def slice_columns(columns: Columns, size: int) -> Iterator[Columns]:
    """Cut columns into blocks of rows; without rows there is one empty block."""
    n_rows = len(next(iter(columns.values())))
    for start in range(0, max(n_rows, 1), size):
        yield {name: column[start : start + size] for name, column in columns.items()}


def transpose_blocks(
    X: NDArray[Any], names: Sequence[str], size: int, dtype: Any
) -> Iterator[tuple[NDArray[Any], Columns]]:
    """Cut a matrix into blocks of rows, each as it is and as contiguous columns.

    A matrix is stored row by row: reading it column by column would load all of it into the cache
    for each column. Transposed in pieces that fit into the cache, it is loaded once. The next block
    overwrites the columns, because new memory would take longer than the transposition.
    """
    turned = np.empty((X.shape[1], min(size, len(X))), dtype=dtype)
    for start in range(0, len(X), size):
        rows = X[start : start + size]
        for i in range(0, len(rows), _TURNED_ROWS):
            turned[:, i : i + _TURNED_ROWS][:, : len(rows) - i] = rows[i : i + _TURNED_ROWS].T
        yield rows, dict(zip(names, turned[:, : len(rows)], strict=True))


def pick_columns(frame: Any, names: Sequence[str]) -> dict[str, Column]:
    """Read columns of a frame by name; other columns are ignored."""
    held = list(frame.columns)
    refuse_lacking(held, names)
    refuse_twice(held, among=names)
    return {name: _unwrap(frame[name]) for name in names}


def refuse_lacking(held: Sequence[object], names: Sequence[str]) -> None:
    """Refuse columns that lack one of these."""
    there = set(held)
    missing = [name for name in names if name not in there]
    if missing:
        raise ColumnsError(
            f"X lacks the column {quoted(missing)}"
            + nearest(missing[0], [str(name) for name in held])
        )


def refuse_twice(names: Sequence[object], *, among: Sequence[str] | None = None) -> None:
    """Refuse columns with the same name."""
    counts = Counter(names)
    considered = counts if among is None else among
    twice = sorted({str(name) for name in considered if counts[name] > 1})
    if twice:
        raise ColumnsError(f"Columns of X must have different names; repeated: {quoted(twice)}.")


def _unwrap(series: Any) -> Column:
    """Return the array of a pandas Series; a polars Series is already a column."""
    if not hasattr(series, "array"):
        return series
    return series.to_numpy() if isinstance(series.dtype, np.dtype) else series.array


def assemble(container: str, names: Sequence[str], columns: Columns) -> Any:
    """Put columns back into the container that an estimator was fitted with."""
    chosen = {name: columns[name] for name in names}
    if container == "array":
        return np.column_stack([np.asarray(column) for column in chosen.values()])
    return require(container).DataFrame(chosen)


def is_category(column: Column) -> bool:
    """Return whether the user declared a column categorical, even if its values are numbers."""
    dtype = getattr(column, "dtype", None)
    return type(dtype).__name__ in ("CategoricalDtype", "Categorical", "Enum")


def unmask(X: Any) -> Any:
    """Return an array without its mask; masked values become missing."""
    if isinstance(X, list | tuple) and any(isinstance(row, np.ma.MaskedArray) for row in X):
        X = np.ma.array(X)
    if not isinstance(X, np.ma.MaskedArray):
        return X
    hidden, data = np.ma.getmaskarray(X), np.ma.getdata(X)
    if not hidden.any():
        return data
    if data.dtype.kind == "f":
        return np.where(hidden, np.array(np.nan, dtype=data.dtype), data)
    if data.dtype.kind in NUMERIC:
        return np.where(hidden, np.nan, data.astype(np.float64))
    return np.where(hidden, np.array(None, dtype=object), data.astype(object))


def plain(column: Column) -> NDArray[Any]:
    """Turn any column into numbers with NaN, or into objects with None for missing values."""
    words = _words(column)
    if words is not None:
        distinct, places = words
        return _plain_values(distinct)[places]
    array = _as_array(column)
    return array if array.dtype.kind not in "OU" else _plain_values(array.tolist())


def _plain_values(raw: list[Any]) -> NDArray[Any]:
    values = [None if is_missing(value) else value for value in raw]
    if all(value is None or is_number(value) for value in values):
        return np.array([to_number(value) for value in values], dtype=np.float64)
    return object_array(values)


def _words(column: Column) -> tuple[list[Any], NDArray[np.intp]] | None:
    """Return the distinct values of a column of text or categories, and each row's index in them.

    The last value is None, for rows without a value. Returns None except for pandas arrays of such
    values: only there can the distinct values be read instead of every row.
    """
    dtype = getattr(column, "dtype", None)
    if isinstance(column, np.ndarray) or not hasattr(column, "factorize"):
        return None
    if getattr(dtype, "kind", "") != "O":
        return None
    places, words = column.factorize()
    return [*words.to_numpy(dtype=object).tolist(), None], places


def numbers(column: Column) -> NDArray[Any]:
    """Read a column that had numbers in training; a missing value becomes NaN."""
    array = _as_array(column)
    if array.dtype.kind in NUMERIC:
        return array
    return np.array([to_number(value) for value in listed(array)], dtype=np.float64)


def categories(column: Column, read: Callable[[object], Any]) -> NDArray[np.object_]:
    """Read a column that had text or categories in training; a missing value becomes None."""
    words = _words(column)
    if words is not None:
        levels, places = words
        return object_array([read(value) for value in levels])[places]
    values = listed(column)
    distinct = _distinct(values)
    if distinct is not None and all(read(value) is value for value in distinct):
        return object_array(values)
    return object_array([read(value) for value in values])


def _distinct(values: list[Any]) -> set[Any] | None:
    """Return the distinct values, usually few; None if some cannot be hashed."""
    try:
        return set(values)
    except TypeError:
        return None


def listed(column: Column) -> list[Any]:
    """Return the values of a column as a list, without loss of precision."""
    column = unmask(column)
    if isinstance(column, np.ndarray):  # tolist() would turn dates into integers
        return list(column) if column.dtype.kind in "mM" else list(column.tolist())
    if not hasattr(column, "dtype"):
        return list(column)
    values = column.to_list() if _is_polars(column) else column.to_numpy(dtype=object).tolist()
    return list(values)


def _is_polars(column: Column) -> bool:
    return hasattr(column.dtype, "is_numeric")


def object_array(values: Sequence[Any]) -> NDArray[np.object_]:
    """Return an array of objects with these values."""
    objects = np.empty(len(values), dtype=object)
    objects[:] = values
    return objects


def _as_array(column: Column) -> NDArray[Any]:
    """Turn any column into a numpy array without a mask, with floats of at most 64 bits."""
    if type(column) is not np.ndarray:
        column = unmask(column) if isinstance(column, np.ndarray) else _plain_foreign(column)
    array: NDArray[Any] = column
    return narrow(array) if array.dtype.itemsize > 8 else array


def narrow(array: NDArray[Any]) -> NDArray[Any]:
    """Turn floats of more than 64 bits into float64; values that are too large become infinity."""
    if array.dtype.kind != "f" or array.dtype.itemsize <= 8:
        return array
    with np.errstate(over="ignore"):
        return array.astype(np.float64)


def as_categories(values: NDArray[Any]) -> NDArray[np.object_]:
    """Turn plain values into categories: objects, with None for missing values."""
    objects = values.astype(object)
    if values.dtype.kind in NUMERIC:
        objects[np.isnan(values.astype(np.float64))] = None
    return objects


def refuse_unknown(values: NDArray[Any], name: str) -> None:
    """Refuse a plain column that holds neither only numbers nor only text."""
    if values.dtype.kind in NUMERIC:
        return
    if values.dtype.kind != "O":
        raise ValuesError(
            f"Column {name!r} holds {values.dtype}; convert it to numbers, text or booleans.",
            column=name,
        )
    for row, value in enumerate(values.tolist()):
        if value is not None and not isinstance(value, str):
            raise ValuesError(
                f"Column {name!r} must hold only numbers or only text; row {row} is {value!r}.",
                row=row,
                column=name,
            )


def _plain_foreign(column: Column) -> NDArray[Any]:
    """Turn a pandas extension array, a polars Series or a list into a numpy array."""
    if not hasattr(column, "dtype"):
        return np.asarray(column)
    if _is_polars(column):
        if str(column.dtype) in ("Int128", "UInt128"):  # which numpy does not have
            return np.array([_narrow_integer(v) for v in column.to_list()], dtype=np.float64)
        is_plain = column.dtype.is_numeric() and not column.dtype.is_decimal()
        if is_plain or str(column.dtype) == "Boolean":
            return np.asarray(column.to_numpy(), dtype=np.float64)
        return object_array(column.to_list())
    if getattr(column.dtype, "kind", "O") in NUMERIC:
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    return np.asarray(column.to_numpy(dtype=object))


def _narrow_integer(value: int | None) -> float:
    """Read a whole number of up to 64 bits."""
    if value is None:
        return nan
    return float(value) if -(2**63) <= value < 2**64 else UNREADABLE


def is_level(value: object) -> bool:
    """Return whether a value can be a category: a text or a number that is not missing."""
    return isinstance(value, str | bool | int | float | np.generic) and not is_missing(value)


def all_finite(values: NDArray[Any]) -> bool:
    """Return True only if all numbers are finite, in one pass and without another array.

    A sum is finite only if every number is. It may also overflow, so False proves nothing.
    """
    if values.dtype.kind == "O":
        return False
    if values.size == 1:  # in live use, rows come one by one
        return isfinite(values.item())
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(values.sum()))


def invalid(values: NDArray[Any], *, missing_seen: bool) -> NDArray[np.bool_] | None:
    """Mark values that cannot be judged: infinity, and missing values if training had none.

    Returns None if all values are valid.
    """
    if values.dtype.kind not in "fO":
        return None
    if values.dtype.kind == "f":
        if all_finite(values):
            return None
        bad = np.isinf(values) if missing_seen else ~np.isfinite(values)
    else:
        items = values.tolist()
        distinct = _distinct(items)
        faulty = {UNREADABLE, -UNREADABLE} if missing_seen else {UNREADABLE, -UNREADABLE, None}
        if distinct is not None and distinct.isdisjoint(faulty):
            return None
        bad = np.array([isinstance(v, float | None) and v in faulty for v in items], dtype=np.bool_)
    return bad if bad.any() else None


def refuse_invalid(
    values: NDArray[Any],
    name: str,
    *,
    missing_seen: bool,
    rows: int | NDArray[np.intp] = 0,
    raw: Column | None = None,
) -> None:
    """Raise an error that names row and column of the first value that cannot be judged.

    `rows` is the number of the first row, or has the number of each. `raw` is the column that
    these values were read from, if any.
    """
    bad = invalid(values, missing_seen=missing_seen)
    if bad is None:
        return
    at = int(np.argmax(bad))
    raise unjudged(
        (values if raw is None else raw)[at],
        name,
        rows + at if isinstance(rows, int) else int(rows[at]),
        missing=is_missing(values[at]),
        held="text" if values.dtype.kind == "O" else "numbers",
    )


def has_missing(values: NDArray[Any]) -> bool:
    """Return whether a plain column has a missing value."""
    if values.dtype.kind == "f":
        return bool(np.isnan(values).any())
    return values.dtype.kind == "O" and any(value is None for value in values.tolist())
