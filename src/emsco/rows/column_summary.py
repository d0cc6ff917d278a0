"""What the encoding of a column is learned from, summed block by block; medians take more passes.

Sums of blocks are merged in a fixed order. They give the same encoding as all rows in memory, up to
the rounding of sums; medians and levels are exactly the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isnan
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from emsco.exceptions import ValuesError
from emsco.rows.arrow_columns import TextColumn, as_numbers, is_number_type, is_text, is_text_type
from emsco.rows.column_reader import BOOLEAN, CATEGORY, NUMBER, NUMERIC_CATEGORY, TEXT
from emsco.rows.columns import refuse_invalid
from emsco.rows.encoding import Array, Category, Number, category_of, number_of
from emsco.rows.value_types import to_number, usual_spelling

MOST_VALUES = 2**20  # distinct values of a column of text
_BINS = 2**12  # of values in a pass
_FEW = 2**16  # values that are sorted instead of counted again
_SIGN = np.uint64(2**63)


def kind_of_type(kind: pa.DataType, name: str) -> str:
    """Return the kind of a column of an Arrow type, or refuse it."""
    if pa.types.is_dictionary(kind):
        return CATEGORY if is_text_type(kind.value_type) else NUMERIC_CATEGORY
    if is_text_type(kind):
        return TEXT
    if pa.types.is_boolean(kind):
        return BOOLEAN
    if is_number_type(kind):
        return NUMBER
    raise ValuesError(
        f"Column {name!r} holds {kind}; convert it to numbers, text or booleans.", column=name
    )


@dataclass(frozen=True)
class NumberSummary:
    """A sum of numbers: weight, mean and squared deviations, relative to the largest (`size`)."""

    weight: float = 0.0
    size: float = 0.0
    mean: float = 0.0
    squares: float = 0.0
    has_missing: bool = False
    missing: float = 0.0  # the weight of rows without a value

    @classmethod
    def of(cls, column: pa.Array, name: str, weight: Array | None, first_row: int) -> NumberSummary:
        """Sum up a block; infinity raises an error."""
        values = as_numbers(column)
        refuse_invalid(values, name, missing_seen=True, rows=first_row)
        absent = np.isnan(values)
        has_missing = bool(absent.any())
        weights = np.ones(len(values)) if weight is None else weight
        missing = float(weights[absent].sum()) if has_missing else 0.0
        present = (weights > 0) & ~absent
        values, weights = values[present], weights[present]
        if not len(values):
            return cls(has_missing=has_missing, missing=missing)
        size = float(np.abs(values).max()) or 1.0
        shares, total = values / size, float(weights.sum())
        mean = float(np.average(shares, weights=weights))
        squares = float(np.dot(weights, (shares - mean) ** 2))
        return cls(total, size, mean, squares, has_missing, missing)

    def merge(self, other: NumberSummary) -> NumberSummary:
        """Sum up two blocks as one."""
        has_missing, missing = self.has_missing | other.has_missing, self.missing + other.missing
        if not self.weight or not other.weight:
            one = self if self.weight else other
            return NumberSummary(one.weight, one.size, one.mean, one.squares, has_missing, missing)
        size, weight = max(self.size, other.size), self.weight + other.weight
        own, others = self.size / size, other.size / size
        apart = other.mean * others - self.mean * own
        share = other.weight / weight
        return NumberSummary(
            weight,
            size,
            self.mean * own + apart * share,
            self.squares * own**2 + other.squares * others**2 + apart**2 * self.weight * share,
            has_missing,
            missing,
        )

    def encoding(self, median: float | None) -> Number:
        """Return the encoding; the median replaces missing values if there are any."""
        summed = self
        if self.has_missing:
            assert median is not None  # found by further passes
            filled = NumberSummary(
                self.missing, abs(median) or 1.0, float(np.sign(median)), 0.0, True
            )
            summed = self.merge(filled)
        weight = summed.weight or 1.0
        scale = float(np.sqrt(summed.squares / weight))
        return number_of(summed.mean, scale, summed.size or 1.0, median)


@dataclass(frozen=True)
class CategorySummary:
    """A sum of text or categories: the total weight of each value."""

    counts: Mapping[Any, float]
    total: float
    has_missing: bool

    @classmethod
    def of(
        cls, column: pa.Array, name: str, weight: Array | None, first_row: int
    ) -> CategorySummary:
        """Count the values of a block."""
        del name, first_row  # no text is invalid
        texts = (
            TextColumn.read(column)
            if is_text(column)
            else TextColumn.decode(column, _number_or_none)
        )
        weights = np.ones(len(texts.places)) if weight is None else weight
        counted = np.bincount(texts.places, weights, minlength=len(texts.words))
        seen = np.bincount(texts.places, minlength=len(texts.words)) > 0
        counts: dict[Any, float] = {}
        has_missing = False
        for word, count, is_seen in zip(texts.words, counted.tolist(), seen, strict=True):
            if word is None:
                has_missing |= count > 0
            elif is_seen:
                level = usual_spelling(word)
                counts[level] = counts.get(level, 0.0) + count
        return cls(counts, float(weights.sum()), has_missing)

    def merge(self, other: CategorySummary) -> CategorySummary:
        """Count two blocks as one."""
        counts = dict(self.counts)
        for value, count in other.counts.items():
            counts[value] = counts.get(value, 0.0) + count
        return CategorySummary(
            counts, self.total + other.total, self.has_missing | other.has_missing
        )

    def encoding(self, median: float | None) -> Category:
        """Return the encoding."""
        del median
        return category_of(self.counts, self.total, missing_seen=self.has_missing)


Summary: TypeAlias = NumberSummary | CategorySummary


def refuse_identifier(summary: object, name: str) -> None:
    """Refuse text with so many different values that counting them would fill the memory."""
    if isinstance(summary, CategorySummary) and len(summary.counts) > MOST_VALUES:
        raise ValuesError(
            f"Column {name!r} has more than {MOST_VALUES:,} different values, like an "
            "identifier; leave it out of the costs, or group its values.",
            column=name,
        )


def _number_or_none(value: object) -> float | None:
    """Read a category that is a number; a missing one becomes None."""
    number = to_number(value)
    return None if isnan(number) else number


class Interval(NamedTuple):
    """The interval of keys in which a median lies; `below` is the weight of all smaller values.

    The key of a number is an integer; keys have the same order as the numbers.
    """

    low: int
    high: int
    below: float
    n_values: int  # in the interval; very large as long as they are not counted


WIDEST = Interval(0, 2**64 - 1, 0.0, 2**63)


class IntervalCounts(NamedTuple):
    """The values of a block in an interval: weights and counts by bin, or the values as keys."""

    weights: Array
    n_values: NDArray[np.int64]
    keys: NDArray[np.uint64] | None = None

    def merge(self, other: IntervalCounts) -> IntervalCounts:
        """Count two blocks as one."""
        if self.keys is None or other.keys is None:
            return IntervalCounts(self.weights + other.weights, self.n_values + other.n_values)
        return IntervalCounts(
            np.concatenate([self.weights, other.weights]),
            np.concatenate([self.n_values, other.n_values]),
            np.concatenate([self.keys, other.keys]),
        )


def count_between(column: pa.Array, interval: Interval, weight: Array | None) -> IntervalCounts:
    """Count the values of a block in an interval, or list them if they are few."""
    values = as_numbers(column)
    weights = np.ones(len(values)) if weight is None else weight
    present = ~np.isnan(values) & (weights > 0)
    keys, weights = _keys(values[present]), weights[present]
    inside = (keys >= np.uint64(interval.low)) & (keys <= np.uint64(interval.high))
    keys, weights = keys[inside], weights[inside]
    if interval.n_values <= _FEW:
        return IntervalCounts(weights, np.ones(len(keys), dtype=np.int64), keys)
    bins = ((keys - np.uint64(interval.low)) // np.uint64(_width(interval))).astype(np.int64)
    by_bin: Array = np.bincount(bins, weights, minlength=_BINS).astype(np.float64, copy=False)
    return IntervalCounts(by_bin, np.bincount(bins, minlength=_BINS))


def narrow_median(interval: Interval, counted: IntervalCounts, half: float) -> Interval:
    """Narrow the interval of a lower median, at or below which `half` of the weight lies."""
    if counted.keys is not None:
        order = np.argsort(counted.keys, kind="stable")
        reached = interval.below + np.cumsum(counted.weights[order])
        at = min(int(np.searchsorted(reached, half)), len(order) - 1)
        key = int(counted.keys[order][at])
        return Interval(key, key, interval.below, 1)
    reached = interval.below + np.cumsum(counted.weights)
    at = min(int(np.searchsorted(reached, half)), int(np.flatnonzero(counted.n_values)[-1]))
    width = _width(interval)
    low = interval.low + at * width
    below = float(reached[at - 1]) if at else interval.below
    return Interval(low, min(interval.high, low + width - 1), below, int(counted.n_values[at]))


def value_of(interval: Interval) -> float | None:
    """Return the only value of an interval; None if it may have several."""
    if interval.low != interval.high:
        return None
    key = np.array([interval.low], dtype=np.uint64)
    bits = np.where(key >= _SIGN, key ^ _SIGN, ~key)
    return float(bits.view(np.float64)[0])


def _width(interval: Interval) -> int:
    return (interval.high - interval.low) // _BINS + 1


def _keys(values: Array) -> NDArray[np.uint64]:
    """Return integers in the same order as the numbers: their bits, inverted for negative ones."""
    bits = np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)
    return np.where(bits >= _SIGN, ~bits, bits | _SIGN)
