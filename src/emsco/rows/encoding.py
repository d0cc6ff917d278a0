"""Encode columns as blocks of numbers for the default classifier: learned once, then arithmetic.

A number is centred and scaled; if training had missing values, they are replaced by the median and
marked by a second column. Text and categories are one-hot, with rare values pooled; long text, if
declared, becomes scores (`text_encoding`). The same
encoding is used in training, as a block of columns (`encode`), and for decisions, as what a column
adds to a linear score (`term`). A term works on each row by itself, in a fixed order, so that the
score of a row never depends on other rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from emsco.rows.columns import (
    Column,
    categories,
    has_missing,
    is_category,
    listed,
    numbers,
    object_array,
    plain,
    refuse_unknown,
)
from emsco.rows.text_encoding import Text, TextTerm, as_scored
from emsco.rows.value_types import reader_like, usual_spelling

Array: TypeAlias = NDArray[np.float64]

MOST_LEVELS = 100  # of a column of categories; other values are rare


@dataclass(frozen=True)
class Number:
    """How a column of numbers is encoded: scaled, with a mark for missing values."""

    centre: float
    scale: float
    median: float | None  # replaces a missing value; None if training had none

    @property
    def width(self) -> int:
        """The number of encoded columns."""
        return 1 if self.median is None else 2

    @property
    def missing_seen(self) -> bool:
        """Whether training had missing values."""
        return self.median is not None

    def encode(self, values: NDArray[Any]) -> Array:
        """Return the block of encoded columns, rows x width."""
        if self.median is None:
            return ((values - self.centre) / self.scale)[:, None]
        missing = np.isnan(values)
        filled = np.where(missing, self.median, values)
        return np.column_stack([(filled - self.centre) / self.scale, missing])

    @property
    def is_plain(self) -> bool:
        """Whether the column adds slope * value plus a constant to a score.

        It does not if values may be missing. It should not if values are so far from 0 that the
        constant would cost digits: at a distance of 1e6 scales, ten digits are left.
        """
        return self.median is None and abs(self.centre) <= 1e6 * self.scale

    def term(self, weights: Array) -> NumberTerm:
        """Return what the column adds to scores with these weights, scores x width."""
        slope = weights[:, :1] / self.scale
        if self.median is None:
            return NumberTerm(self.centre, slope, None)
        return NumberTerm(self.centre, slope, slope * (self.median - self.centre) + weights[:, 1:])


@dataclass(frozen=True)
class NumberTerm:
    """What a column of numbers adds to linear scores."""

    centre: float
    slope: Array  # scores x 1
    missing: Array | None  # what a missing value adds, scores x 1

    def __call__(self, values: NDArray[Any]) -> Array:
        """Return scores x rows."""
        added = self.slope * (values - self.centre)
        if self.missing is None:
            return added
        return np.where(np.isnan(values), self.missing, added)


class Codes(NDArray[np.intp]):
    """Codes of categories; the type distinguishes them from values that are whole numbers."""


@dataclass(frozen=True)
class Category:
    """How a column of text or categories is encoded: one-hot, rare values in one column."""

    levels: tuple[Any, ...]
    pooled: bool  # whether there is a column for rare values, also for unseen ones
    missing_seen: bool  # whether there is a column for missing values

    @property
    def width(self) -> int:
        """The number of encoded columns."""
        return len(self.levels) + self.pooled + self.missing_seen

    @cached_property
    def code_of(self) -> dict[Any, int]:
        """The encoded column that each value sets; None stands for a missing value."""
        codes = {level: code for code, level in enumerate(self.levels)}
        if self.missing_seen:
            codes[None] = self.width - 1
        return codes

    @property
    def unseen(self) -> int:
        """The code of any other value; it is `width` if there is no column for it."""
        return len(self.levels) if self.pooled else self.width

    def codes(self, values: NDArray[Any]) -> NDArray[np.intp]:
        """Return the encoded column that each value sets; `width` if it sets none.

        Values may be `Codes` already, if each distinct value was looked up only once.
        """
        if isinstance(values, Codes):
            return values
        find, unseen = self.code_of.get, self.unseen
        return np.array([find(value, unseen) for value in values.tolist()], dtype=np.intp)

    def encode(self, values: NDArray[Any]) -> Array:
        """Return the block of encoded columns, rows x width."""
        return np.eye(self.width + 1, self.width)[self.codes(values)]

    def term(self, weights: Array) -> CategoryTerm:
        """Return what the column adds to scores with these weights, scores x width."""
        return CategoryTerm(self, np.column_stack([weights, np.zeros(len(weights))]))


@dataclass(frozen=True)
class CategoryTerm:
    """What a column of categories adds to linear scores."""

    category: Category
    table: Array  # scores x (width + 1): what each code adds

    def __call__(self, values: NDArray[Any]) -> Array:
        """Return scores x rows."""
        return self.table[:, self.category.codes(values)]


Term: TypeAlias = NumberTerm | CategoryTerm | TextTerm
ColumnEncoding: TypeAlias = Number | Category | Text


def learn(
    column: Column, name: str, weight: Array, *, may_be_missing: bool = False
) -> ColumnEncoding:
    """Learn how to encode a column from its training rows, each counting as its weight says.

    Values may be missing if one of these rows lacks a value, or if the caller says so, because the
    rows that lack one may all be in another fold.
    """
    values = plain(column)
    refuse_unknown(values, name)
    if is_category(column) or values.dtype.kind == "O":
        return _learn_category(values, weight, may_be_missing)
    return _learn_number(values.astype(np.float64, copy=False), weight, may_be_missing)


def read(encoding: ColumnEncoding, column: Column, levels: Sequence[Any] = ()) -> NDArray[Any]:
    """Return the values of a column as its encoding needs them.

    `levels` are values that training had, for an encoding that keeps none.
    """
    if isinstance(encoding, Category):
        return categories(column, reader_like(encoding.levels or levels))
    if isinstance(encoding, Text):
        return object_array(as_scored(listed(column)))
    return numbers(column).astype(np.float64, copy=False)


def _learn_number(values: Array, weight: Array, may_be_missing: bool) -> Number:
    may_be_missing |= has_missing(values)
    values, weight = values[weight > 0], weight[weight > 0]
    median = None
    if may_be_missing:
        missing = np.isnan(values)
        median = _median(values[~missing], weight[~missing])
        values = np.where(missing, median, values)
    size = float(np.abs(values).max(initial=0.0)) or 1.0  # so that squares cannot overflow
    shares = values / size
    centre = float(np.average(shares, weights=weight))
    scale = float(np.sqrt(np.average((shares - centre) ** 2, weights=weight)))
    return number_of(centre, scale, size, median)


def number_of(centre: float, scale: float, size: float, median: float | None) -> Number:
    """Make the encoding of numbers from their mean and deviation, both as shares of `size`."""
    # Constant up to rounding; and a smaller scale would turn a weight into infinity.
    constant = scale <= 1e-12 * abs(centre) or scale * size < 1e-150
    return Number(centre * size, 1.0 if constant else scale * size, median)


def _median(values: Array, weight: Array) -> float:
    """Return the lower weighted median: a row of weight 2 counts as two rows."""
    if not len(values):
        return 0.0
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weight[order])
    return float(values[order][np.searchsorted(reached, reached[-1] / 2)])


def _learn_category(values: NDArray[Any], weight: Array, missing_seen: bool) -> Category:
    counts: dict[Any, float] = {}
    for value, counted in zip(values.tolist(), weight.tolist(), strict=True):
        if value is None or value == "" or value != value:  # NaN among numeric categories
            missing_seen |= counted > 0
        else:
            level = usual_spelling(value)
            counts[level] = counts.get(level, 0.0) + counted
    return category_of(counts, float(weight.sum()), missing_seen=missing_seen)


def category_of(counts: Mapping[Any, float], total: float, *, missing_seen: bool) -> Category:
    """Make the encoding of categories from how much each value counts, and all rows together."""
    # A value gets its own column if 1% of the rows have it, or 10 rows, but at least 2 rows.
    enough = max(2.0, min(10.0, total / 100))
    frequent = sorted(
        (value for value, count in counts.items() if count >= enough),
        key=lambda value: (-counts[value], str(value)),
    )[:MOST_LEVELS]
    rare = any(counts[value] > 0 for value in counts.keys() - set(frequent))
    return Category(tuple(sorted(frequent, key=str)), pooled=rare, missing_seen=missing_seen)
