"""What to know of a table before anything is fitted: dates, ids, copies, leaks and the like."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold
from sklearn.tree import DecisionTreeClassifier

from emsco.core.value_type import LONG_TEXT, SKIP, TEXT_TYPE
from emsco.rows.columns import Column, Columns, plain, read_columns
from emsco.rows.declared_types import to_days
from emsco.rows.fitted_rows import FittedRows, find_repeats
from emsco.rows.rows import Rows

EMPTY = "empty"
CONSTANT = "one value"
DATES = "dates"
UNCLEAR_DATES = "unclear dates"  # the day and the month cannot be told apart
IDS = "ids"
ZEROS = "leading zeros"

LEAST_RECALL = 0.95  # mean recall of the classes by one column alone, from which it may be a leak

_OWN_VALUE = 0.98  # share of rows with a value of their own, from which a column holds ids
_FEWEST_TEXTS, _FEWEST_NUMBERS = 20, 100  # rows, below which different values prove nothing
_LONG = 40  # characters on average
_VARIED = 0.2  # distinct values as a share of rows, from which text is not a category
_SAMPLE = 2_500  # rows of each class, to look for leaks
_FEWEST_OF_A_CLASS = 10
_LEAVES = 8
_UNCLEAR = re.compile(r"\d\d?([/-])\d\d?\1\d\d(\d\d)?", re.ASCII)
_ZEROS = re.compile(r"0\d+", re.ASCII)
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True)
class ColumnFinding:
    """What is unusual about a column, and the type to declare for it."""

    kind: str
    text: str  # for people: what it holds
    type: str

    @property
    def is_left_out(self) -> bool:
        """Whether the column is of no use as it is."""
        return self.type == SKIP


def inspect_column(column: Column) -> ColumnFinding | None:
    """Find what is unusual about the values of a column; None: nothing is.

    Examples
    --------
    >>> from emsco.rows.column_findings import inspect_column
    >>> inspect_column(["2023-05-01", "2024-01-31", ""]).text
    'dates from 2023-05-01 to 2024-01-31'
    >>> inspect_column(["04300", "10115"]).type
    'text'
    """
    values = plain(column)
    if values.dtype.kind != "O":
        return _inspect_numbers(values)
    texts = [value for value in values.tolist() if value is not None and value != ""]
    if not all(isinstance(text, str) for text in texts):
        return None
    distinct = list(dict.fromkeys(texts))
    if len(distinct) <= 1 and (not texts or len(texts) == len(values)):
        return _one_value(distinct)
    days = [to_days(text) for text in distinct]
    if np.isfinite(days).all():
        first, last = (_EPOCH + timedelta(days=int(day // 1)) for day in (min(days), max(days)))
        return ColumnFinding(DATES, f"dates from {first} to {last}", SKIP)
    if all(_UNCLEAR.fullmatch(text.strip()) for text in distinct):
        text = f"dates such as {distinct[0]!r}, whose day and month could be either"
        return ColumnFinding(UNCLEAR_DATES, text, SKIP)
    if np.mean([*map(len, distinct)]) > _LONG and len(distinct) > _VARIED * len(texts):
        return ColumnFinding(LONG_TEXT, f"long text such as {distinct[0][:_LONG]!r}...", LONG_TEXT)
    if len(texts) >= _FEWEST_TEXTS and len(distinct) >= _OWN_VALUE * len(texts):
        return ColumnFinding(IDS, f"ids such as {distinct[0][:_LONG]!r}: a value a row", SKIP)
    zeros = next((text for text in distinct if _ZEROS.fullmatch(text)), None)
    if zeros is not None:
        return ColumnFinding(ZEROS, f"text with leading zeros such as {zeros!r}", TEXT_TYPE)
    return None


def _one_value(distinct: Sequence[Any]) -> ColumnFinding:
    if not distinct:
        return ColumnFinding(EMPTY, "every cell is empty", SKIP)
    value = distinct[0]
    text = repr(value[:_LONG]) if isinstance(value, str) else f"{value:g}"
    return ColumnFinding(CONSTANT, f"{text} in every row", SKIP)


def _inspect_numbers(values: NDArray[Any]) -> ColumnFinding | None:
    if values.dtype.kind not in "fiub":
        return None
    numbers = values.astype(np.float64)
    known = numbers[~np.isnan(numbers)]
    distinct = np.unique(known)
    if len(distinct) <= 1 and (not len(known) or len(known) == len(numbers)):
        return _one_value(distinct.tolist())
    is_own = len(distinct) >= _OWN_VALUE * len(known) and len(known) >= _FEWEST_NUMBERS
    with np.errstate(invalid="ignore"):
        is_dense = float(distinct[-1] - distinct[0]) < 2 * len(known)
    if is_own and is_dense and bool((distinct == np.floor(distinct)).all()):
        return ColumnFinding(IDS, f"whole numbers such as {known[0]:.0f}: a value a row", SKIP)
    return None


def find_leaks(columns: Columns, y: NDArray[Any]) -> dict[str, float]:
    """Find columns that tell the classes apart alone: the mean recall of each, on other rows.

    A column that is only known when the label is, such as a fee that is charged afterwards, makes
    every figure useless.

    Examples
    --------
    >>> import numpy as np
    >>> from emsco.rows.column_findings import find_leaks
    >>> y = np.arange(100) % 2
    >>> find_leaks({"fee": 3.0 * y, "day": np.arange(100.0) // 7}, y)
    {'fee': 1.0}
    """
    codes = np.unique(y, return_inverse=True)[1]
    counts = np.bincount(codes)
    if counts.min() < _FEWEST_OF_A_CLASS or len(counts) > len(codes) / _FEWEST_OF_A_CLASS:
        return {}
    rng = np.random.default_rng(0)
    rows = np.concatenate(
        [rng.permutation(np.flatnonzero(codes == code))[:_SAMPLE] for code in range(len(counts))]
    )
    labels = codes[rows]
    folds = list(StratifiedKFold(2, shuffle=True, random_state=0).split(labels, labels))
    found = {name: _recall(plain(column)[rows], labels, folds) for name, column in columns.items()}
    return {name: recall for name, recall in found.items() if recall >= LEAST_RECALL}


def _recall(values: NDArray[Any], labels: NDArray[np.intp], folds: Any) -> float:
    """Return the mean recall of the classes by one column, on rows that were not fitted on."""
    is_text = values.dtype.kind == "O"
    ordered = np.array([str(value) for value in values.tolist()]) if is_text else values
    places = np.unique(ordered, return_inverse=True)[1]
    places = places if is_text else places[:, None]  # ranks, whatever the size of numbers
    predicted = np.empty(len(labels), dtype=np.intp)
    for train, test in folds:
        predicted[test] = _predict(places[train], labels[train], places[test])
    return float(np.mean([(predicted[labels == c] == c).mean() for c in np.unique(labels)]))


def _predict(train: NDArray[Any], labels: NDArray[np.intp], test: NDArray[Any]) -> NDArray[np.intp]:
    """Predict by the class that is most frequent for its size: of a value, or of an interval."""
    if train.ndim == 2:
        tree = DecisionTreeClassifier(max_leaf_nodes=_LEAVES, class_weight="balanced")
        predicted: NDArray[np.intp] = tree.fit(train, labels).predict(test)
        return predicted
    n_places = int(max(train.max(), test.max())) + 1
    counts = np.zeros((n_places, labels.max() + 1))
    np.add.at(counts, (train, labels), 1)
    best: NDArray[np.intp] = (counts / counts.sum(axis=0)).argmax(axis=1)[test]
    return best


def count_copies(X: Any, y: NDArray[Any]) -> int:
    """Count the rows of a frame that are copies of others, if chance does not explain it."""
    if not X.duplicated().any():  # much faster than the hashes that judge chance
        return 0
    columns = {**read_columns(X, list(X.columns)), "": y}
    hashed = FittedRows.of(Rows(tuple(columns), "pandas", columns, len(y)), ()).rows
    return 0 if hashed is None else int(find_repeats(hashed).rows.sum())
