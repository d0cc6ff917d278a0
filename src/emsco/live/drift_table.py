"""Describe how the live values of a column differ from those in training, for the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emsco.live.typed_columns import to_column
from emsco.rows.column_reader import ColumnReader
from emsco.rows.value_types import UNREADABLE, is_number, reader_like, to_number, to_text

SAME = "same"
_CLOSE = 1e-6  # relative tolerance: rounding by a store is not a difference
_ALIKE = 0.01  # relative tolerance of a factor, because values may be rounded
_MOST = 0.9  # the share of differing rows that must differ in the same way, for another unit
_LEAST = 3  # the number of rows that show in which way they differ


class ColumnDrift(NamedTuple):
    """How live values differ from those of a table."""

    rows: int
    differing: int
    verdict: str  # "same", "another unit: 1000 times", "missing in 12.0%", or several of these

    @property
    def is_same(self) -> bool:
        """Whether all live values equal those of the table."""
        return not self.differing


class _Values(NamedTuple):
    """Values as the model reads them, and masks of those that are missing or of another type."""

    read: NDArray[Any]
    missing: NDArray[np.bool_]
    wrong: NDArray[np.bool_]

    @property
    def usable(self) -> NDArray[np.bool_]:
        return ~self.missing & ~self.wrong


def difference(
    live: Sequence[Any], table: Sequence[Any], reader: ColumnReader, *, spelled: bool = False
) -> ColumnDrift:
    """Compare live values with those of a table, row by row."""
    of_number = reader.is_number
    column, others = to_column(list(live), reader, spelled=spelled)
    now = _read(list(column), reader)
    now.wrong[others] = True
    now.missing[others] = False
    then = _read(table, reader)
    n_rows = len(then.read)
    wrong = now.wrong & ~then.wrong
    lost = now.missing & then.usable
    gained = now.usable & then.missing
    both = now.usable & then.usable
    apart = both.copy()
    apart[both] = _are_apart(now.read[both], then.read[both], of_number=of_number)
    unread = then.wrong & ~now.wrong
    findings = []
    if apart.any() and not of_number:
        findings.append(f"differs in {_share(apart)}")
    elif apart.any():
        with np.errstate(all="ignore"):  # numbers near the limits of their range
            findings.append(_relation(now.read, then.read, both, apart))
    if wrong.any():
        values = [live[i] for i in np.flatnonzero(wrong).tolist()]
        findings.append(f"{_what(values, of_number=of_number)} in {_share(wrong)}")
    if lost.any():
        findings.append(f"missing in {_share(lost)}")
    if gained.any():
        findings.append(f"missing only in the table in {_share(gained)}")
    if unread.any():
        expected = "a number" if of_number else "text"
        findings.append(f"not {expected} in the table in {_share(unread)}")
    differing = int((apart | wrong | lost | gained | unread).sum())
    return ColumnDrift(n_rows, differing, "; ".join(findings) or SAME)


def _read(values: Sequence[Any], reader: ColumnReader) -> _Values:
    if reader.is_number:
        numbers = np.array([to_number(value) for value in values], dtype=np.float64)
        return _Values(numbers, np.isnan(numbers), np.isinf(numbers))
    read = reader_like(reader.known_levels) if reader.known_levels else to_text
    texts = np.empty(len(values), dtype=object)
    texts[:] = [read(value) for value in values]
    missing = np.array([text is None for text in texts], dtype=np.bool_)
    wrong = np.array([text is UNREADABLE for text in texts], dtype=np.bool_)
    return _Values(texts, missing, wrong)


def _are_apart(now: NDArray[Any], then: NDArray[Any], *, of_number: bool) -> NDArray[np.bool_]:
    if not of_number:
        return np.array([a != b for a, b in zip(now, then, strict=True)], dtype=np.bool_)
    sizes = np.abs(then[then != 0])
    near_zero = _CLOSE * _CLOSE * float(np.median(sizes)) if sizes.size else 0.0
    apart: NDArray[np.bool_] = ~np.isclose(now, then, rtol=_CLOSE, atol=near_zero)
    return apart


def _relation(
    now: NDArray[Any], then: NDArray[Any], both: NDArray[np.bool_], apart: NDArray[np.bool_]
) -> str:
    """Describe how numbers differ: by a factor, an offset, both, or without a pattern."""
    share = _share(apart)
    live, table = now[apart].astype(np.float64), then[apart].astype(np.float64)
    # Zero is zero in any unit: such rows are equal, but no evidence of the same unit.
    whole = apart.sum() >= _MOST * (both & ((then != 0) | apart)).sum()
    where = "" if whole else f" in {share}"
    if apart.sum() >= _LEAST and len(np.unique(table)) > 1:
        factor = _factor(live, table)
        if factor is not None:
            return f"another unit{where}: {factor:.4g} times"
        line = _line(live, table)
        if line is not None:
            times, plus = line
            if abs(times - 1) <= _ALIKE:
                return f"shifted{where}: by {plus:+.4g}"
            return f"another unit{where}: {times:.4g} times, {plus:+.4g}"
    return f"differs in {share}, by {np.median(live - table):+.4g} in the median"


def _factor(live: NDArray[np.float64], table: NDArray[np.float64]) -> float | None:
    """Return the factor between table and live values in almost all rows, if there is one."""
    nonzero = table != 0
    if not nonzero.any():
        return None
    factor = float(np.median(live[nonzero] / table[nonzero]))
    if not np.isfinite(factor) or abs(factor - 1) <= _ALIKE or factor == 0:
        return None
    fits = _fitting(live, factor * table)
    if fits.sum() < _MOST * len(table):
        return None
    # Large values determine a factor better than small ones, which rounding changes more.
    return float((live[fits] * table[fits]).sum() / (table[fits] ** 2).sum())


def _line(live: NDArray[np.float64], table: NDArray[np.float64]) -> tuple[float, float] | None:
    """Return the factor and offset by which almost all rows differ, as for temperatures."""
    order = np.argsort(table, kind="stable")
    half = len(order) // 2
    low, high = order[:half], order[-half:]  # pairs that are far apart, so that rounding is small
    rise, run = live[high] - live[low], table[high] - table[low]
    if not (run > 0).any():
        return None
    times = float(np.median(rise[run > 0] / run[run > 0]))
    if abs(times - 1) <= _ALIKE:
        times = 1.0
    plus = float(np.median(live - times * table))
    if not np.isfinite(plus) or plus == 0 or times == 0:
        return None
    if times == 1:  # the offset must be the same, however large the values are
        fits = _fitting(live - table, np.full(len(table), plus))
    else:
        fits = _fitting(live, times * table + plus)
    return (times, plus) if fits.sum() >= _MOST * len(table) else None


def _fitting(found: NDArray[np.float64], expected: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which values are as expected, up to rounding."""
    allowed = _ALIKE * np.maximum(np.abs(expected), np.median(np.abs(expected)))
    fits: NDArray[np.bool_] = np.abs(found - expected) <= allowed
    return fits


def _what(values: Sequence[Any], *, of_number: bool) -> str:
    """Describe values of another type than in training."""
    if of_number:
        is_text = any(isinstance(value, str | bytes) for value in values)
        return "text instead of numbers" if is_text else "invalid values instead of numbers"
    numbers = any(is_number(value) for value in values)
    return "numbers instead of text" if numbers else "invalid values instead of text"


def _share(rows: NDArray[np.bool_]) -> str:
    share = float(rows.mean())
    return f"{share:.1%}" if share >= 0.0005 else "less than 0.1%"
