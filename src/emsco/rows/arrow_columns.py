"""Turn Arrow columns into the values that a model judges: numbers with NaN, or text with None.

CSV has only text. Whether a column holds numbers is learned once, from all of its training rows,
and stored in the model. The same functions read the cells in training and later, so that a row
means the same in any file and in any block of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from emsco.core.value_type import CATEGORY_TYPE, LONG_TEXT, TEXT_TYPE
from emsco.exceptions import ValuesError
from emsco.rows.column_reader import CATEGORY, DATE, TEXT, ColumnReader
from emsco.rows.columns import numbers, object_array
from emsco.rows.encoding import Category
from emsco.rows.value_types import BOOLEANS, MISSING, UNREADABLE, reader_like, to_number, to_text

_TEXTS = (TEXT, DATE, CATEGORY)
TEXT_LABELS: NDArray[Any] = np.array([], dtype=object)  # classes that say only: labels are text
_MISSING = pa.array(MISSING)
_WORDS = pa.array(list(BOOLEANS))
_NUMERALS = pa.array([repr(number) for number in BOOLEANS.values()])


def is_text(column: pa.Array) -> bool:
    """Return whether a column holds text, as it is or dictionary-encoded."""
    return is_text_type(value_type(column.type))


def value_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of the values, which may be dictionary-encoded."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def is_text_type(kind: pa.DataType) -> bool:
    """Return whether a type is text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def as_numbers(column: pa.Array) -> NDArray[np.float64]:
    """Read numbers and booleans; a missing value becomes NaN, anything else raises ArrowInvalid.

    Reads a whole column as `to_number` reads one value.
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.string())  # a cast to float would round twice
    if is_text(column):
        column = _parse(column)
    elif not is_number_type(column.type):
        raise pa.ArrowInvalid(f"a column of {column.type}")
    floats: NDArray[np.float64] = column.cast(pa.float64(), safe=False).to_numpy(
        zero_copy_only=False
    )
    return floats


def is_number_type(kind: pa.DataType) -> bool:
    """Return whether a type holds numbers or booleans, or only missing values."""
    types = pa.types
    return bool(
        types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
        or types.is_decimal(kind) or types.is_null(kind)
    )  # fmt: skip


def _parse(column: pa.Array) -> pa.Array:
    try:
        return column.cast(pa.float64())
    except pa.ArrowInvalid:
        known = known_cells(column)
    try:
        return known.cast(pa.float64())
    except pa.ArrowInvalid:
        words = pc.index_in(pc.ascii_lower(known), value_set=_WORDS.cast(known.type))
        numerals = _NUMERALS.cast(known.type).take(words)
        return pc.coalesce(numerals, known).cast(pa.float64())


def known_cells(column: pa.Array) -> pa.Array:
    """Trim cells, and turn those that represent a missing number into nulls."""
    trimmed = pc.utf8_trim_whitespace(column)
    missing = pc.is_in(trimmed, value_set=_MISSING.cast(trimmed.type))
    return pc.if_else(missing, pa.scalar(None, trimmed.type), trimmed)


def as_objects(column: pa.Array) -> NDArray[np.object_]:
    """Return values as Python objects."""
    return object_array(python_values(column))


def python_values(column: pa.Array) -> list[Any]:
    """Return values as Python objects; text that is not UTF-8 as bytes, which no column judges."""
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        if pa.types.is_dictionary(column.type):
            words = python_values(column.dictionary)
            return [None if place is None else words[place] for place in column.indices.to_pylist()]
        is_large = pa.types.is_large_string(column.type)
        raw = column.view(pa.large_binary() if is_large else pa.binary())
        return [_decoded(value) for value in raw.to_pylist()]


def _decoded(value: bytes | None) -> str | bytes | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return value


class TextColumn(NamedTuple):
    """A column of text: its distinct values, then None, and each row's index in them."""

    words: NDArray[np.object_]
    places: NDArray[np.intp]

    @classmethod
    def read(cls, column: pa.Array, levels: Sequence[Any] = ()) -> TextColumn:
        """Read text; a missing value becomes None. `levels` are the categories of the model.

        Dates become text as from any frame; other types become the text that Arrow writes.
        """
        if not pa.types.is_dictionary(column.type):
            kind = column.type
            is_date = pa.types.is_date(kind) or pa.types.is_timestamp(kind)
            if not (is_text(column) or is_number_type(kind) or is_date):
                column = column.cast(pa.string())
            column = column.dictionary_encode()
        return cls.decode(column, reader_like(levels) if levels else to_text)

    @classmethod
    def decode(cls, column: pa.DictionaryArray, read: Callable[[object], Any]) -> TextColumn:
        """Read each value of the dictionary once, with a function."""
        words = object_array([*(read(word) for word in python_values(column.dictionary)), None])
        places = column.indices.fill_null(len(words) - 1).cast(pa.int64()).to_numpy()
        return cls(words, places)

    def each(self) -> NDArray[np.object_]:
        """Return the text of each row."""
        return self.words[self.places]


# Rewrites numbers in the notation of Python if the file has another one.
Respell: TypeAlias = Callable[[pa.Array], pa.Array]


def read_column(
    column: pa.Array, reader: ColumnReader, respell: Respell | None = None
) -> NDArray[Any]:
    """Read a column as the model needs it: text, or numbers with infinity for invalid values."""
    values = as_given(column, reader, respell)
    if reader.type is not None:
        return reader.plain(reader.read(values))
    return values if _holds_text(reader) else numbers(values)


def _holds_text(reader: ColumnReader) -> bool:
    return isinstance(reader.encoding, Category) or reader.kind in _TEXTS


def as_given(
    column: pa.Array, reader: ColumnReader, respell: Respell | None = None
) -> NDArray[Any]:
    """Read a column as the model needs it; the library then reads it like any frame."""
    if reader.type in (TEXT_TYPE, CATEGORY_TYPE, LONG_TEXT):
        return as_objects(column)
    if _holds_text(reader):
        return TextColumn.read(column, reader.known_levels).each()
    with suppress(pa.ArrowInvalid):
        return as_numbers(column)
    if respell is not None:
        return as_given(respell(column), reader)
    return as_objects(column)  # so that an error can name the invalid value


def read_unknown(column: pa.Array) -> NDArray[Any]:
    """Read a column that no model knows: as numbers if all values are, else as text."""
    try:
        return as_numbers(column)
    except pa.ArrowInvalid:
        return TextColumn.read(column).each()


def is_number(text: str) -> bool:
    """Return whether a text is a number or a boolean, or represents a missing one."""
    return abs(to_number(text)) != UNREADABLE


def read_labels(
    column: pa.Array, name: str, classes: NDArray[Any] | None = None, first_row: int = 0
) -> NDArray[Any]:
    """Read labels; every row must have one. If the classes are known, labels have their type.

    Else text becomes whole numbers, floats or booleans if all cells are such, or stays text. The
    number of the first row is for errors.
    """
    column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    kinds = [pa.int64(), pa.float64(), pa.bool_()] if is_text(column) else []
    if classes is not None:
        is_plain = classes.dtype.kind in "iufb"
        kinds = [pa.from_numpy_dtype(classes.dtype)] if is_plain else [pa.string()]
    for kind in kinds:
        cells = known_cells(column) if is_text(column) and kind != pa.string() else column
        with suppress(pa.ArrowInvalid):
            column = cells.cast(kind)
            break
    empty = pc.is_null(
        pc.if_else(pc.equal(column, ""), None, column) if is_text(column) else column
    )
    if pc.any(empty).as_py():
        row = first_row + pc.index(empty, pa.scalar(True)).as_py()
        raise ValuesError(
            f"Row {row} has no label in {name!r}; fill it in, or leave the row out.",
            row=row,
            column=name,
        )
    labels: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    if labels.dtype.kind not in "iufbO" or (
        labels.dtype.kind == "f" and (labels != np.floor(labels)).any()
    ):
        raise ValuesError(
            f"Column {name!r} cannot be the label, because it holds values such as {labels[0]}; "
            "labels must be text, booleans or whole numbers.",
            column=name,
        )
    return labels


class Labels(NamedTuple):
    """The labels of a block: the distinct ones, and each row's index in them."""

    words: list[Any]
    places: NDArray[np.intp]

    @classmethod
    def read(cls, column: pa.Array, name: str, first_row: int) -> Labels:
        """Read labels; every row must have one."""
        encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        classes = TEXT_LABELS if is_text(column) else None
        try:
            words = read_labels(encoded.dictionary, name, classes)
            has_gaps = bool(encoded.indices.null_count)
        except ValuesError:
            has_gaps = True
        if has_gaps:  # read row by row, so that the error names the row
            words, places = np.unique(
                read_labels(column, name, classes, first_row), return_inverse=True
            )
            return cls(words.tolist(), places)
        return cls(words.tolist(), encoded.indices.cast(pa.int64()).to_numpy())

    def codes(self, classes: NDArray[Any]) -> NDArray[np.intp]:
        """Return the position of each row's label among all classes."""
        place = {label: code for code, label in enumerate(classes.tolist())}
        return np.array([place.get(word, -1) for word in self.words], dtype=np.intp)[self.places]
