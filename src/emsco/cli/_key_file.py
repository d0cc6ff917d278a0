"""Files of keys and known values; keys are personal data, so no message shows one."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from emsco.exceptions import ArtifactError, ColumnsError, ValuesError

if TYPE_CHECKING:
    from emsco.live import Sources
    from emsco.rows.column_reader import ColumnReader

_WHOLE = re.compile(r"[+-]?\d{1,15}")


class KeyFile(NamedTuple):
    """Keys, and the known values beside them."""

    column: str
    type: Any  # the Arrow type of the keys
    keys: list[Any]
    known: dict[str, list[Any]]


def read_keys(
    path: Path, column: str | None, wanted: Collection[str], *, newlines_in_cells: bool
) -> KeyFile:
    """Read keys exactly as written, and those of the wanted columns that the file has.

    Without `column`, the first one holds the keys.
    """
    from emsco.cli._table_file import check_columns, open_rows, report_rows
    from emsco.rows.arrow_columns import as_objects

    rows = open_rows(path, stdin=True, private=True, newlines_in_cells=newlines_in_cells)
    column = rows.names[0] if column is None else column
    if column not in rows.names:  # without listing the columns: the first line may hold a key
        raise ColumnsError(
            f"{path} has no column {column!r}. Does its first line name the columns?"
        )
    names = [name for name in dict.fromkeys(rows.names) if name in wanted and name != column]
    check_columns(rows, [column, *names])
    check_key_type(rows.types[column], path, column)
    table = rows.table([column, *names])
    keys = as_objects(table.column(column)).tolist()
    if not keys:
        raise ArtifactError(f"{path} has no keys.")
    report_rows(path, len(keys))
    for row, key in enumerate(keys):
        if key is None or key == "":
            raise ValuesError(f"Row {row} of {path} has no key in {column!r}.", row=row)
    known = {name: as_objects(table.column(name)).tolist() for name in names}
    return KeyFile(column, rows.types[column], keys, known)


def check_key_type(kind: Any, path: Path, column: str) -> None:
    """Refuse keys that are not text or whole numbers: a store has no key such as 1.0."""
    import pyarrow as pa

    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    if not is_text and not pa.types.is_integer(kind):
        raise ColumnsError(
            f"Column {column!r} of {path} holds {kind}; keys must be text or whole numbers."
        )


def as_known(
    columns: Mapping[str, list[Any]], readers: Mapping[str, ColumnReader]
) -> dict[str, list[Any]]:
    """Convert known values to numbers where the model has numbers, because CSV has only text.

    Text that is not a number stays text, which a live cascade rejects as an invalid value.
    """
    numbers = {name for name, reader in readers.items() if reader.is_number}
    return {
        name: [_number(value) for value in column] if name in numbers else column
        for name, column in columns.items()
    }


def _number(value: Any) -> Any:
    from emsco.rows.value_types import UNREADABLE, to_number

    if not isinstance(value, str):
        return value
    if _WHOLE.fullmatch(value):
        return int(value)  # written in requests as in the file
    number = to_number(value)
    return value if abs(number) == UNREADABLE else None if number != number else number


def needs_of(sources: Sources) -> set[str]:
    """Return the names of the values that requests use besides the key."""
    return {need for source in sources.values() for need in source.needs}
