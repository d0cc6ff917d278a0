"""What kind of column it is, and how its values are read: as the type that they had in training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco.core.value_type import DATE_TYPE, LONG_TEXT
from emsco.rows.columns import (
    NUMERIC,
    Column,
    invalid,
    is_category,
    numbers,
    plain,
    refuse_invalid,
)
from emsco.rows.declared_types import read_declared
from emsco.rows.encoding import Category, ColumnEncoding, Number, read

NUMBER = "number"
BOOLEAN = "boolean"
TEXT = "text"
DATE = "date"
CATEGORY = "category"
NUMERIC_CATEGORY = "numeric category"  # numbers that were declared to be categories
KINDS = (NUMBER, BOOLEAN, TEXT, DATE, CATEGORY, NUMERIC_CATEGORY)
_FLOAT = np.dtype(np.float64)


def kind_of(column: Column, values: NDArray[Any]) -> str:
    """Return the kind of a column, from the column as given and its plain values."""
    is_number = values.dtype.kind in NUMERIC
    if is_category(column):
        return NUMERIC_CATEGORY if is_number else CATEGORY
    if values.dtype.kind == "b" or str(getattr(column, "dtype", "")).lower() in ("bool", "boolean"):
        return BOOLEAN
    if is_number:
        return NUMBER
    return DATE if values.dtype.kind in "mM" else TEXT


@dataclass(frozen=True)
class ColumnReader:
    """How one column is read."""

    kind: str  # what it held in training: one of `KINDS`
    missing_seen: bool  # whether a value may be missing
    encoding: ColumnEncoding | None = None  # None: the classifier takes it as given
    levels: Sequence[Any] = ()  # learned by a guard, for an encoding whose values are all rare
    type: str | None = None  # declared by the costs: values are read as it first

    @property
    def is_number(self) -> bool:
        """Whether it holds numbers that are not categories."""
        return self.kind in (NUMBER, BOOLEAN)

    @property
    def is_long_text(self) -> bool:
        """Whether it holds long text, which no guard checks."""
        return self.type == LONG_TEXT

    @property
    def known_levels(self) -> Sequence[Any]:
        """The values that text is compared with."""
        own = self.encoding.levels if isinstance(self.encoding, Category) else ()
        return own or self.levels

    def read(self, column: Column) -> Column:
        """Read values as in training; the user's classifiers get text and categories as given."""
        column = self.as_declared(column)
        if (
            type(column) is np.ndarray
            and column.dtype is _FLOAT
            and isinstance(self.encoding, Number)
        ):
            return column  # rows come one by one in live use, so this must be fast
        if self.encoding is not None:
            return read(self.encoding, column, self.levels)
        return numbers(column) if self.is_number else column

    def plain(self, values: Column) -> NDArray[Any]:
        """Return values that were read as plain values, for checks and guards."""
        return values if self.encoding is not None else plain(values)

    def invalid(self, values: Column) -> NDArray[np.bool_] | None:
        """Mark values that cannot be judged, after they were read; None if all can be."""
        return invalid(values, missing_seen=self.missing_seen)

    def refuse_invalid(
        self, values: Column, name: str, raw: Column, rows: int | NDArray[np.intp] = 0
    ) -> None:
        """Raise an error that names row and column of the first value that cannot be judged."""
        values = self.plain(values)
        refuse_invalid(values, name, missing_seen=self.missing_seen, rows=rows, raw=raw)

    def as_declared(self, column: Column) -> Column:
        """Return a column read as its declared type, or as it is if there is none."""
        return column if self.type is None else read_declared(column, self.type)

    def declared(self, kind: str | None) -> ColumnReader:
        """Return the same for a column of a declared type."""
        if kind is None:
            return self
        return replace(self, type=kind, kind=DATE if kind == DATE_TYPE else self.kind)
