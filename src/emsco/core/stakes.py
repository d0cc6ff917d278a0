"""What is at stake on each row, as people state it, checked and read."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from emsco._utils.missing_values import is_missing
from emsco.exceptions import ValuesError

_LEAST, _MOST = 1e-100, 1e100  # beyond these, squares are 0 or infinite


def read_stake(stake: ArrayLike, n_rows: int) -> NDArray[np.float64]:
    """Return what is at stake on each row; refuse stakes that are missing, negative or no numbers.

    A row may have nothing at stake, but not all of them.

    Examples
    --------
    >>> from emsco.core.stakes import read_stake
    >>> read_stake([40_000, 4, 0], n_rows=3).tolist()
    [40000.0, 4.0, 0.0]
    >>> read_stake([40_000, None, 0], n_rows=3)
    Traceback (most recent call last):
    emsco.exceptions.ValuesError: Row 1 has no stake: it is missing; leave the row out.
    """
    given = np.ma.filled(stake, np.nan) if isinstance(stake, np.ma.MaskedArray) else stake
    values = np.asarray(given, dtype=object if isinstance(given, list | tuple) else None)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.shape != (n_rows,):
        raise ValuesError(
            f"`stake` must have one number for each of {n_rows} rows; its shape is {values.shape}."
        )
    if values.dtype.kind in "fiub":
        numbers = values.astype(np.float64)
    else:
        numbers = np.array([_number(value) for value in values.tolist()], dtype=np.float64)
    good = (numbers == 0) | ((numbers >= _LEAST) & (numbers <= _MOST))
    if not good.all():
        row = int(np.argmin(good))
        if is_missing(values[row]):
            problem = f"Row {row} has no stake: it is missing; leave the row out."
        else:
            value = values[row].item() if isinstance(values[row], np.generic) else values[row]
            problem = (
                f"Row {row} has the stake {value!r}; a stake must be 0 or a number from {_LEAST:g} "
                f"to {_MOST:g}."
            )
        raise ValuesError(problem, row=row)
    if not numbers.any():
        raise ValuesError("All stakes are 0, so there is nothing to take shares of.")
    return np.abs(numbers)  # without negative zeros


def _number(value: Any) -> float:
    """Return a number as a float, and anything else as NaN: text is no number here."""
    if isinstance(value, str | bytes) or is_missing(value):
        return float("nan")
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")
