"""Rows and labels as a pandas frame and an array."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from emsco._utils.frozen_mapping import FrozenMapping
from emsco._utils.progress import followed
from emsco.cli._decimal_comma import DecimalCommas, is_numeric
from emsco.cli._errors import note
from emsco.cli._table_file import TableFile, check_columns, report_rows
from emsco.core.value_type import NUMBER_TYPE
from emsco.exceptions import ArtifactError, quoted, require
from emsco.rows.arrow_columns import (
    Respell,
    as_given,
    as_objects,
    is_number,
    is_text,
    read_labels,
    read_unknown,
)
from emsco.rows.column_reader import ColumnReader

Readers: TypeAlias = Mapping[str, ColumnReader] | None

NO_TYPES: Mapping[str, str] = FrozenMapping()
_ZEROS = r"^\s*0\d+\s*$"  # a number would lose its zero
_FEW = 0.1  # share of cells that are not numbers, up to which a column was likely meant as numbers


def read_labelled(
    rows: TableFile,
    label: str,
    features: Sequence[str] | None = None,
    *,
    readers: Readers = None,
    classes: NDArray[Any] | None = None,
    types: Mapping[str, str] = NO_TYPES,
) -> tuple[Any, NDArray[Any]]:
    """Read features as a pandas frame and labels, with the types of a fitted model if there is one.

    Without `features`, all columns but the label are read. `readers` and `classes` are what the
    model knows of columns and labels; `types` are those that costs declare; without either, types
    are inferred.
    """
    check_columns(rows, [label])
    names = [n for n in rows.names if n and n != label] if features is None else list(features)
    check_columns(rows, names)
    table = rows.table([*names, label])
    labels = read_labels(table.column(label).combine_chunks(), label, classes)
    return _frame(rows, table, names, readers, types), labels


def read_features(
    rows: TableFile,
    names: Sequence[str],
    *,
    readers: Readers = None,
    types: Mapping[str, str] = NO_TYPES,
    again: bool = False,
) -> Any:
    """Read columns as a pandas frame; `again`: their number was reported before."""
    check_columns(rows, names)
    return _frame(rows, rows.table(names), names, readers, types, again=again)


def _frame(
    rows: TableFile,
    table: pa.Table,
    names: Sequence[str],
    readers: Readers,
    types: Mapping[str, str],
    *,
    again: bool = False,
) -> Any:
    if not table.num_rows:
        raise ArtifactError(f"{rows.path} has no rows.")
    if not again:
        report_rows(rows.path, table.num_rows)
    columns = {name: table.column(name).combine_chunks() for name in names}
    commas = DecimalCommas(rows.path, private=rows.private)
    values = {}
    for name, column in followed(list(columns.items()), f"read {rows.path}"):
        respell = partial(commas.respelled, name=name, others=columns.values)
        reader, kind = (readers or {}).get(name), types.get(name)
        values[name] = _values(column, name, reader, respell, kind)
    return require("pandas").DataFrame(values)


def read_names(rows: TableFile, column: str) -> NDArray[Any]:
    """Read a column of names that only identify rows or groups."""
    check_columns(rows, [column])
    return as_objects(rows.table([column]).column(column)).astype(str)


def read_groups_of(rows: TableFile, column: str) -> Any:
    """Read the column of the groups of rows as text; a missing group stays missing."""
    check_columns(rows, [column])
    values = as_objects(rows.table([column]).column(column)).tolist()
    texts = [None if value is None or value == "" else str(value) for value in values]
    return require("pandas").Series(texts, name=column, dtype=object)


def _values(
    column: pa.Array, name: str, reader: ColumnReader | None, respell: Respell, kind: str | None
) -> NDArray[Any]:
    """Read a column with the type that the model knows, or else as numbers if all cells are.

    With a declared type, cells that are not numbers are left as they are: the library reads them.
    """
    if reader is not None:
        return as_given(column, reader, respell)
    if kind is not None and kind != NUMBER_TYPE:
        return as_objects(column)
    if (
        kind is None
        and is_text(column)
        and pc.any(pc.match_substring_regex(column, _ZEROS)).as_py()
    ):
        return as_objects(column)
    values = read_unknown(column)
    if values.dtype.kind == "O" and is_numeric(column):
        return read_unknown(respell(column))
    if values.dtype.kind == "O":
        _warn_odd(values, name)
    return values


def _warn_odd(texts: NDArray[Any], name: str) -> None:
    """Warn if a few cells, such as "?", turn a column of numbers into text."""
    counts = Counter(text for text in texts.tolist() if text is not None)
    odd = {text: n for text, n in counts.items() if not is_number(text.replace(",", ".", 1))}
    if sum(odd.values()) <= _FEW * sum(counts.values()):
        note(
            f"emsco: warning: {name!r} is read as text, because of {quoted(odd, most=3)} among its "
            "numbers; leave cells of missing values empty."
        )
