"""What a column is, and how it is read for that ever after: as what it held in training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco.rows.columns import (
    NUMERIC,
    Column,
    invalid,
    is_category,
    numbers,
    plain,
    refuse_invalid,
)
from emsco.rows.encoding import Category, ColumnEncoding, Number, read

NUMBER = "number"
BOOLEAN = "boolean"
TEXT = "text"
DATE = "date"
CATEGORY = "category"
NUMERIC_CATEGORY = "numeric category"  # numbers that were declared to be categories
UNKNOWN = ""  # the first files do not tell
KINDS = (NUMBER, BOOLEAN, TEXT, DATE, CATEGORY, NUMERIC_CATEGORY, UNKNOWN)
_FLOAT = np.dtype(np.float64)


def kind_of(column: Column, values: NDArray[Any]) -> str:
    """Say what a column is, as it was given and as plain values."""
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
    """How one column is read.

    Parameters
    ----------
    kind : str
        What it held in training: one of `KINDS`.
    missing_seen : bool
        Whether a value may be missing.
    encoding : Number or Category, default=None
        How the default classifier reads it; None where a classifier takes it as it is.
    levels : sequence, default=()
        Its values, where the encoding keeps none because all of them are rare, and a guard does.
    """

    kind: str
    missing_seen: bool
    encoding: ColumnEncoding | None = None
    levels: Sequence[Any] = ()

    @property
    def is_number(self) -> bool | None:
        """Whether it holds numbers that are no categories; None where that is not known."""
        if self.kind == UNKNOWN:
            return None
        return self.kind in (NUMBER, BOOLEAN)

    @property
    def known_levels(self) -> Sequence[Any]:
        """The values that text is compared with."""
        own = self.encoding.levels if isinstance(self.encoding, Category) else ()
        return own or self.levels

    def read(self, column: Column) -> Column:
        """Read values as training had them; an own classifier has text and categories as given."""
        if (
            type(column) is np.ndarray
            and column.dtype is _FLOAT
            and isinstance(self.encoding, Number)
        ):
            return column  # in live use, where rows come one by one, anything more takes long
        if self.encoding is not None:
            return read(self.encoding, column, self.levels)
        return numbers(column) if self.is_number else column

    def plain(self, values: Column) -> NDArray[Any]:
        """Give what was read as plain values, for checks and guards."""
        return values if self.encoding is not None else plain(values)

    def invalid(self, values: Column) -> NDArray[np.bool_] | None:
        """Mark values, as they were read, that cannot be judged; None where all can."""
        return invalid(values, missing_seen=self.missing_seen)

    def refuse_invalid(self, values: Column, name: str, given: Column, first_row: int = 0) -> None:
        """Raise for the first value that cannot be judged, naming its row and column."""
        refuse_invalid(
            self.plain(values),
            name,
            missing_seen=self.missing_seen,
            first_row=first_row,
            given=given,
        )

    def refuse_unjudged(self, column: Column, name: str) -> None:
        """Raise for the first value of a column as it is given that cannot be judged."""
        refuse_invalid(plain(column), name, missing_seen=self.missing_seen, given=column)
