"""Hashes of rows that do not depend on the types in which their values are stored.

A number has the same hash as float64, float32, integer, boolean or text, and with 15 digits. A row
is hashed as a whole, never column by column.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b, sha256
from math import isinf
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from emsco.exceptions import CertificateError
from emsco.rows.columns import NUMERIC, Columns, plain
from emsco.rows.value_types import to_number

Hashes = NDArray[np.uint64]

CELLS = (256, 8)  # cells per spread of a column: the coarse resolutions

_MOST_PARTS = 64
_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?)?")
_MISSING = np.uint64(0x5BD1E9955BD1E995)


def hash_exactly(columns: Columns) -> Hashes:
    """Hash the exact values of each row; the names of columns matter, their order does not."""
    total = np.zeros(1, dtype=np.uint64)
    for name, column in columns.items():
        total = total + _mix(_hash(plain(column)) ^ _hash(np.array([name], dtype=object)))
    return total


def hash_keys(n_rows: int, index: Any, keys: ArrayLike | None = None) -> Hashes | None:
    """Hash the key of each row: the given keys, or else the index of a pandas frame.

    Returns None if rows have no keys; an index that only numbers the rows is not one.
    """
    if keys is not None:
        names = np.asarray(keys)
        if names.shape != (n_rows,):
            raise CertificateError(f"`keys` must name {n_rows} rows, has shape {names.shape}.")
        return _hash(names)
    if type(index).__name__ == "RangeIndex" and (index.start, index.step) == (0, 1):
        return None
    return None if index is None else _hash(index.to_numpy())


@dataclass(frozen=True)
class HashableColumn:
    """A column as numbers, and as hashes of its words if it has any."""

    numbers: NDArray[np.float64]  # NaN: missing, or a word
    words: Hashes | None  # 0: a number, or missing

    @classmethod
    def read(cls, column: Any) -> HashableColumn:
        """Read a column; a text that spells a number is that number."""
        values = plain(column)
        if values.dtype.kind in NUMERIC:
            return cls(values.astype(np.float64), None)
        if values.dtype.kind in "mM":
            return cls(np.full(len(values), np.nan), _times(values))
        places, different = _distinct(values.tolist())
        read = [_read_value(value) for value in different]
        numbers = np.array([number for number, _ in read])[places]
        words = np.array([word for _, word in read], dtype=np.uint64)[places]
        return cls(numbers, words if words.any() else None)

    def take(self, rows: NDArray[np.intp]) -> HashableColumn:
        """Return some of the rows."""
        return HashableColumn(self.numbers[rows], None if self.words is None else self.words[rows])

    def spread(self) -> float:
        """Return the interquartile range of the numbers, or their deviation if it is 0."""
        known = self.numbers[np.isfinite(self.numbers)]
        if not known.size:
            return 0.0
        low, high = np.quantile(known, (0.25, 0.75))
        spread = float(high - low) or float(known.std())
        return spread if np.isfinite(spread) else 0.0

    def hashes(self, name: bytes, cell: float) -> Hashes:
        """Hash numbers rounded to multiples of a cell; a cell of 0 keeps the digits of float32."""
        if cell:
            with np.errstate(over="ignore"):
                rounded = np.rint(self.numbers / cell)
        else:
            # Numbers below the smallest normal float32 count as 0.
            large = np.where(np.abs(self.numbers) < 2.0**-126, 0.0, self.numbers)
            mantissa, exponent = np.frexp(large)
            rounded = np.ldexp(np.rint(mantissa * 2.0**24), exponent - 24)
        bits = np.where(np.isnan(rounded), _MISSING, _bits(rounded))
        if self.words is not None:
            bits = np.where(self.words > 0, self.words, bits)
        return _mix(_mix(bits) ^ _hash_bytes(name))


def hash_rows(
    values: Mapping[str, HashableColumn],
    names: Sequence[str],
    spreads: Mapping[str, float],
    salt: bytes,
    resolutions: int = 1 + len(CELLS),
) -> tuple[Hashes, ...]:
    """Hash rows over some columns, at each resolution."""

    def hashed(cells: int | None) -> Hashes:
        total = np.zeros(1, dtype=np.uint64)
        for name in names:
            cell = spreads.get(name, 0.0) / cells if cells else 0.0
            total = total + values[name].hashes(salt + b":" + name.encode(), cell)
        return total

    return tuple(hashed(cells) for cells in (None, *CELLS)[:resolutions])


def hash_parts(
    values: Mapping[str, HashableColumn], names: Sequence[str], salt: bytes
) -> Iterator[Hashes]:
    """Hash each column by itself, at the finest resolution; their sum is the hash of the row.

    More than 64 columns are hashed in groups, so that what compares them takes a bounded time.
    """
    n_parts = min(len(names), _MOST_PARTS)
    for first in range(n_parts):
        own = names[first::n_parts]
        hashes = [values[name].hashes(salt + b":" + name.encode(), 0.0) for name in own]
        yield np.sum(hashes, axis=0, dtype=np.uint64)


def _distinct(values: list[Any]) -> tuple[NDArray[np.intp], list[Any]]:
    """Return the index of each value among the distinct ones, and the distinct ones."""
    known: dict[Any, int] = {}
    try:
        places = [known.setdefault(value, len(known)) for value in values]
    except TypeError:  # a value that cannot be hashed, such as a list
        return _distinct([str(value) for value in values])
    return np.array(places, dtype=np.intp), list(known)


def _read_value(value: Any) -> tuple[float, int]:
    """Return a value as a number, or else the hash of a word."""
    if isinstance(value, str):
        value = value.strip()
        if _DATE.fullmatch(value):
            try:
                return np.nan, int(_times(np.array([value.replace(" ", "T")], "M8[ns]"))[0])
            except ValueError:  # no such day
                pass
    number = to_number(value)
    if isinf(number):  # not a number
        return np.nan, int(_hash_bytes(str(value).encode()))
    return number, 0


def _times(values: NDArray[Any]) -> Hashes:
    """Hash times; the unit does not matter."""
    whole = values.astype(f"{values.dtype.kind}8[ns]").view(np.int64)
    return np.where(np.isnat(values), np.uint64(0), _mix(whole.view(np.uint64)))


def digest_of_names(names: Sequence[str]) -> str:
    """Return a digest that identifies a set of columns."""
    return sha256("\n".join(sorted(names)).encode()).hexdigest()[:16]


def _digest(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")


def _hash_bytes(data: bytes) -> np.uint64:
    return np.uint64(_digest(data) | 1)  # never 0, which means that there is no word


COUNTER_STEP = np.uint64(0x9E3779B97F4A7C15)  # of splitmix64 (Steele, Lea and Flood 2014)


def _mix(bits: Hashes) -> Hashes:
    """Mix all bits of every number, as splitmix64 does."""
    return finalise(bits + COUNTER_STEP)


def finalise(bits: Hashes) -> Hashes:
    """Apply the last step of splitmix64, after which every bit depends on all others."""
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def _hash(values: NDArray[Any]) -> Hashes:
    """Hash values so that equal ones have equal hashes, also whole numbers of different types."""
    if values.dtype.kind in "mM":  # whatever the unit
        values = values.astype(f"{values.dtype.kind}8[ns]").view(np.int64)
    if values.dtype.kind in NUMERIC:
        number, lost = values.astype(np.float64), np.zeros(len(values), dtype=np.uint64)
        if values.dtype.kind != "f":
            # The part of a long number, such as that of a card, that a double cannot hold.
            held = np.clip(number, -(2.0**63), 2.0**63 - 2**10).astype(np.int64)
            lost = values.astype(np.uint64) - held.astype(np.uint64)
        return _mix(_bits(number) + _mix(lost))
    places, different = _distinct([str(value) for value in values.tolist()])
    return np.array([_digest(text.encode()) for text in different], dtype=np.uint64)[places]


def _bits(number: NDArray[np.float64]) -> Hashes:
    # Both zeros become one, and so do all NaNs.
    same = np.where(np.isnan(number), np.nan, number) + 0.0
    return np.ascontiguousarray(same).view(np.uint64)
