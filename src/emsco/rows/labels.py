"""Labels as users give them, in arrays, lists and columns; none may be missing."""

from __future__ import annotations

from typing import Any

import numpy as np

from emsco.exceptions import ValuesError
from emsco.rows.values import is_missing


def read_given_labels(y: Any) -> Any:
    """Return labels without types that only pandas has; refuse rows without a label.

    Examples
    --------
    >>> import pandas as pd
    >>> from emsco.rows.labels import read_given_labels
    >>> read_given_labels(pd.Series([1, 0], dtype="Int64"))
    array([1, 0])
    """
    if isinstance(y, np.ma.MaskedArray):
        _refuse(y.mask, "it is masked")
        return y
    nullable = getattr(getattr(y, "dtype", None), "numpy_dtype", None)  # of Int64, boolean, ...
    if nullable is not None and hasattr(y, "isna"):
        _refuse(y.isna().to_numpy(), "it is missing")
        return y.to_numpy(dtype=nullable)
    try:
        values = np.asarray(y)
    except ValueError:  # such as lists of different lengths, which scikit-learn refuses
        return y
    if values.ndim != 1:
        return y
    if values.dtype.kind == "f":
        _refuse(np.isnan(values), "it is NaN")
    elif values.dtype.kind == "O":
        _refuse(np.array([is_missing(value) for value in values.tolist()], bool), "it is missing")
    return y


def _refuse(missing: Any, why: str) -> None:
    if np.any(missing):
        row = int(np.argmax(missing))
        raise ValuesError(f"Row {row} has no label: {why}; leave the row out.", row=row)
