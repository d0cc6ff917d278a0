"""What a column's encoding is learned from, summed block by block, and exact medians by passes.

Sums of blocks are merged in a fixed order. They give the encoding that all rows in memory give, up
to the rounding of sums; medians and levels are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from emsco.exceptions import ValuesError
from emsco.rows.arrow import Texts, as_numbers, is_text
from emsco.rows.columns import refuse_invalid
from emsco.rows.encoding import Array, Category, Number, category_of, number_of
from emsco.rows.reading import BOOLEAN, CATEGORY, NUMBER, NUMERIC_CATEGORY, TEXT
from emsco.rows.values import to_number

MOST_VALUES = 2**20  # different ones of a column of text
_BINS = 2**12  # of values in a pass
_FEW = 2**16  # values that are sorted instead of counted again
_SIGN = np.uint64(2**63)


def kind_of_type(kind: pa.DataType, name: str) -> str:
    """Say what a column of an Arrow type is, or refuse it."""
    types = pa.types
    if types.is_dictionary(kind):
        return CATEGORY if _is_text(kind.value_type) else NUMERIC_CATEGORY
    if _is_text(kind):
        return TEXT
    if types.is_boolean(kind):
        return BOOLEAN
    numeric = (types.is_integer, types.is_floating, types.is_decimal, types.is_null)
    if any(test(kind) for test in numeric):
        return NUMBER
    raise ValuesError(
        f"Column {name!r} holds {kind}; convert it to numbers, text or booleans.", column=name
    )


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


@dataclass(frozen=True)
class NumberSummary:
    """Numbers summed up: weight, mean and squared distances from it, as shares of the largest."""

    weight: float = 0.0
    size: float = 0.0
    mean: float = 0.0
    squares: float = 0.0
    has_missing: bool = False
    missing: float = 0.0  # the weight of rows without a value

    @classmethod
    def of(cls, column: pa.Array, name: str, weight: Array | None, first_row: int) -> NumberSummary:
        """Sum up a block; infinity raises."""
        values = as_numbers(column)
        refuse_invalid(values, name, missing_seen=True, first_row=first_row)
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
        """Give the encoding; the median stands for missing values, where there are any."""
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
    """Text or categories summed up: how much each value counts."""

    counts: Mapping[Any, float]
    total: float
    has_missing: bool

    @classmethod
    def of(
        cls, column: pa.Array, name: str, weight: Array | None, first_row: int
    ) -> CategorySummary:
        """Count the values of a block."""
        del name, first_row  # no text is at fault
        texts = Texts.read(column) if is_text(column) else _numeric_texts(column)
        weights = np.ones(len(texts.places)) if weight is None else weight
        counted = np.bincount(texts.places, weights, minlength=len(texts.words))
        seen = np.bincount(texts.places, minlength=len(texts.words)) > 0
        counts: dict[Any, float] = {}
        has_missing = False
        for word, count, is_seen in zip(texts.words, counted.tolist(), seen, strict=True):
            if word is None:
                has_missing |= count > 0
            elif is_seen:
                counts[word] = counts.get(word, 0.0) + count
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
        """Give the encoding."""
        del median
        return category_of(self.counts, self.total, missing_seen=self.has_missing)


Summary: TypeAlias = NumberSummary | CategorySummary


def refuse_identifiers(summaries: Mapping[str, Summary]) -> None:
    """Refuse text with so many different values that counting them would fill the memory."""
    for name, summary in summaries.items():
        if isinstance(summary, CategorySummary) and len(summary.counts) > MOST_VALUES:
            raise ValuesError(
                f"Column {name!r} has more than {MOST_VALUES:,} different values, like an "
                "identifier; leave it out of the costs, or group its values.",
                column=name,
            )


def _numeric_texts(column: pa.Array) -> Texts:
    """Read categories that are numbers."""
    words = np.empty(len(column.dictionary) + 1, dtype=object)
    numbers = [to_number(value) for value in column.dictionary.to_pylist()]
    words[:-1] = [None if number != number else number for number in numbers]
    places = column.indices.fill_null(len(words) - 1).cast(pa.int64()).to_numpy()
    return Texts(words, places)


class Interval(NamedTuple):
    """Where a median lies: between two keys; `below` is the weight of all smaller values.

    A key is a number as an integer of the same order.
    """

    low: int
    high: int
    below: float
    n_values: int  # in it; as many as there are, where that is not counted yet


WIDEST = Interval(0, 2**64 - 1, 0.0, 2**63)


class Counted(NamedTuple):
    """What a block has of an interval: weights and numbers of values by bin, or the values."""

    weights: Array
    n_values: NDArray[np.int64]
    keys: NDArray[np.uint64] | None = None


def count_between(column: pa.Array, interval: Interval, weight: Array | None) -> Counted:
    """Count the values of a block in an interval, or list them where they are few."""
    values = as_numbers(column)
    weights = np.ones(len(values)) if weight is None else weight
    present = ~np.isnan(values) & (weights > 0)
    keys, weights = _keys(values[present]), weights[present]
    inside = (keys >= np.uint64(interval.low)) & (keys <= np.uint64(interval.high))
    keys, weights = keys[inside], weights[inside]
    if interval.n_values <= _FEW:
        return Counted(weights, np.ones(len(keys), dtype=np.int64), keys)
    bins = ((keys - np.uint64(interval.low)) // np.uint64(_width(interval))).astype(np.int64)
    by_bin: Array = np.bincount(bins, weights, minlength=_BINS).astype(np.float64, copy=False)
    return Counted(by_bin, np.bincount(bins, minlength=_BINS))


def add_counted(first: Counted, second: Counted) -> Counted:
    """Count two blocks as one."""
    if first.keys is None or second.keys is None:
        return Counted(first.weights + second.weights, first.n_values + second.n_values)
    return Counted(
        np.concatenate([first.weights, second.weights]),
        np.concatenate([first.n_values, second.n_values]),
        np.concatenate([first.keys, second.keys]),
    )


def narrow_median(interval: Interval, counted: Counted, half: float) -> Interval:
    """Narrow the interval of a lower median; half of the weight of all values lies at or below."""
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
    """Give the only value of an interval; None where there may be several."""
    if interval.low != interval.high:
        return None
    key = np.array([interval.low], dtype=np.uint64)
    bits = np.where(key >= _SIGN, key ^ _SIGN, ~key)
    return float(bits.view(np.float64)[0])


def _width(interval: Interval) -> int:
    return (interval.high - interval.low) // _BINS + 1


def _keys(values: Array) -> NDArray[np.uint64]:
    """Give numbers as integers of the same order: the bits, turned round below 0."""
    bits = np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)
    return np.where(bits >= _SIGN, ~bits, bits | _SIGN)
