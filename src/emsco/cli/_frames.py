"""Rows with labels as the frame and the array that the library takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from emsco._encoding import Category, ColumnEncoding
from emsco.cli._tables import check_columns, open_rows
from emsco.cli._told import note
from emsco.cli._values import Texts, as_numbers, as_objects, is_number, read_labels
from emsco.exceptions import ArtifactError, quoted, require

_FEW = 0.1  # of cells that are no numbers: the column was likely meant to hold numbers


class Labelled(NamedTuple):
    """A pandas frame of features, and the labels."""

    X: Any
    y: NDArray[Any]


def read_labelled(
    path: Path,
    label: str,
    features: Sequence[str] | None = None,
    *,
    encodings: Mapping[str, ColumnEncoding] | None = None,
    classes: NDArray[Any] | None = None,
) -> Labelled:
    """Read features and labels; what a fitted model knows of them is taken from it.

    Parameters
    ----------
    path : path
        The file.
    label : str
        The column that holds the label.
    features : sequence of str, default=None
        The columns to read. None: all but the label.
    encodings, classes : mapping, array, default=None
        Columns and labels as the model knows them. None: what a column holds is learned here.
    """
    rows = open_rows(path)
    check_columns(rows, [label])
    names = [n for n in rows.names if n and n != label] if features is None else list(features)
    check_columns(rows, names)
    table = rows.table([*names, label])
    labels = read_labels(table.column(label).combine_chunks(), label, classes)
    return Labelled(_frame(table, names, path, encodings or {}), labels)


def read_features(
    path: Path, names: Sequence[str], *, encodings: Mapping[str, ColumnEncoding] | None = None
) -> Any:
    """Read columns as a pandas frame, where rows need no label."""
    rows = open_rows(path)
    check_columns(rows, names)
    return _frame(rows.table(names), names, path, encodings or {})


def _frame(
    table: pa.Table, names: Sequence[str], path: Path, known: Mapping[str, ColumnEncoding]
) -> Any:
    if not table.num_rows:
        raise ArtifactError(f"{path} has no rows.")
    columns = {name: table.column(name).combine_chunks() for name in names}
    values = {name: read_values(column, name, known.get(name)) for name, column in columns.items()}
    return require("pandas").DataFrame(values)


def read_names(path: Path, column: str) -> NDArray[Any]:
    """Read a column that only tells rows apart."""
    rows = open_rows(path)
    check_columns(rows, [column])
    return np.array([str(name) for name in rows.table([column]).column(column).to_pylist()])


def read_values(
    column: pa.Array, name: str, encoding: ColumnEncoding | None = None, levels: Sequence[Any] = ()
) -> NDArray[Any]:
    """Read a column as a model knows it; where none does, as numbers if all of it are.

    Where numbers are expected and some value is none, values are left to the library as they are.
    """
    if isinstance(encoding, Category):
        return Texts.read(column, encoding.levels or levels).each()
    try:
        return as_numbers(column)
    except pa.ArrowInvalid:
        if encoding is not None:
            return as_objects(column)
        texts = Texts.read(column).each()
        _tell_odd(texts, name)
        return texts


def _tell_odd(texts: NDArray[Any], name: str) -> None:
    """Warn where a few cells, such as "?", turn a column of numbers into one of text."""
    counts = Counter(text for text in texts.tolist() if text is not None)
    odd = {text: count for text, count in counts.items() if not is_number(text)}
    if sum(odd.values()) <= _FEW * sum(counts.values()):
        note(
            f"emsco: warning: {name!r} is read as text, because of {quoted(odd, most=3)} among "
            "numbers; leave cells empty where a value is missing."
        )
