"""Labels and groups as users give them: none may be missing, and all must be of one kind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from emsco._utils.missing_values import is_missing
from emsco.exceptions import LabelsWarning, ValuesError, nearest, warn


def read_given_labels(y: Any) -> Any:
    """Return labels without types that only pandas has; refuse rows without a label.

    Labels of different kinds, such as text and numbers, are refused as well: they have no order.

    Examples
    --------
    >>> import pandas as pd
    >>> from emsco.core.labels import read_given_labels
    >>> read_given_labels(pd.Series([1, 0], dtype="Int64"))
    array([1, 0])
    """
    return _read(y, "label")


def read_groups(groups: ArrayLike, n_rows: int) -> NDArray[Any]:
    """Return the group of each row; refuse rows without a group.

    Examples
    --------
    >>> from emsco.core.labels import read_groups
    >>> read_groups(["ann", "bob", None], 3)
    Traceback (most recent call last):
    emsco.exceptions.ValuesError: Row 2 has no group: it is missing; leave the row out.
    """
    named = np.asarray(_read(groups, "group"))
    if named.shape != (n_rows,):
        raise ValuesError(
            f"`groups` must have one entry for each of {n_rows} rows; its shape is {named.shape}."
        )
    return named


def unknown_labels(truth: NDArray[Any], classes: NDArray[Any]) -> dict[Any, int]:
    """Count the rows of each label that is not a class of a model.

    Examples
    --------
    >>> import numpy as np
    >>> from emsco.core.labels import unknown_labels
    >>> unknown_labels(np.array(["Sick", "sick", "Sick"]), np.array(["sick", "well"]))
    {'Sick': 2}
    """
    labels, counts = np.unique(truth, return_counts=True)
    known = set(classes.tolist())
    pairs = zip(labels.tolist(), counts.tolist(), strict=True)
    return {label: count for label, count in pairs if label not in known}


def describe_unknown(unknown: dict[Any, int], classes: Iterable[Any], *, most: int = 4) -> str:
    """List unknown labels with their number of rows, and the class that the first resembles.

    Examples
    --------
    >>> from emsco.core.labels import describe_unknown
    >>> describe_unknown({"Sick": 2}, ["sick", "well"])
    "'Sick' (2 rows); did you mean 'sick'?"
    """
    parts = [f"{label!r} ({count:,} rows)" for label, count in list(unknown.items())[:most]]
    more = [] if len(unknown) <= most else [f"{len(unknown) - most} more"]
    return ", ".join([*parts, *more]) + nearest(next(iter(unknown)), map(str, classes))


def warn_similar(truth: Iterable[Any], decided: Iterable[Any]) -> None:
    """Warn of a label that is no decided one, but would be with other letters or as a number."""
    decided = list(decided)
    spelled = {_spelled(label): label for label in decided}
    for label in set(truth) - set(decided):
        if _spelled(label) in spelled:
            warn(
                f"`y` holds {label!r}, and decisions hold {spelled[_spelled(label)]!r}: these "
                "count as different classes, so no such row is right.",
                LabelsWarning,
            )


def _spelled(label: Any) -> str:
    return str(label).strip().casefold()


def _read(raw: Any, what: str) -> Any:
    """Check one value per row, and return them as numpy or scikit-learn can take them."""
    if isinstance(raw, np.ma.MaskedArray):
        _refuse(raw.mask, what, "it is masked")
        return raw
    nullable = getattr(getattr(raw, "dtype", None), "numpy_dtype", None)  # of Int64, boolean, ...
    if nullable is not None and hasattr(raw, "isna"):
        _refuse(raw.isna().to_numpy(), what, "it is missing")
        return raw.to_numpy(dtype=nullable)
    try:
        # A list with texts would be an array of texts, and a missing value the text 'nan'.
        kind = object if isinstance(raw, list | tuple) else None
        values = np.asarray(raw, dtype=kind)
    except ValueError:  # such as lists of different lengths, which scikit-learn refuses
        return raw
    if values.ndim == 2 and values.shape[1] == 1:  # scikit-learn takes a column, with a warning
        values = values[:, 0]
    if values.ndim != 1:
        return raw
    if values.dtype.kind == "f":
        _refuse(np.isnan(values), what, "it is NaN")
    elif values.dtype.kind in "mM":
        _refuse(np.isnat(values), what, "it is NaT")
    elif values.dtype.kind == "O":
        listed = values.tolist()
        _refuse(np.array([is_missing(value) for value in listed], bool), what, "it is missing")
        _refuse_mixed(listed, what)
    return raw


def _refuse(missing: Any, what: str, why: str) -> None:
    if np.any(missing):
        row = int(np.argmax(missing))
        raise ValuesError(f"Row {row} has no {what}: {why}; leave the row out.", row=row)


def _refuse_mixed(values: list[Any], what: str) -> None:
    texts = [isinstance(value, str) for value in values]
    if any(texts) and not all(texts):
        row = texts.index(not texts[0])
        raise ValuesError(
            f"Row 0 has the {what} {values[0]!r} and row {row} has {values[row]!r}; use either "
            "text or numbers.",
            row=row,
        )
