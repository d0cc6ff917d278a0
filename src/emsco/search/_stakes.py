"""Stakes as whole numbers, so that a search adds them up exactly, by bits.

Stakes are divided by the largest amount of which all are multiples, such as a cent. If the numbers
that remain need more than 16 bits, the unit is the largest stake divided by 2^16 - 1 instead, and
stakes are rounded to it. All stakes being equal, rows are counted instead, which is faster.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from emsco._utils.text_table import cell
from emsco.exceptions import SearchError

BITS = 16
_DECIMALS = 6  # up to which stakes may be multiples of a decimal fraction
_MOST_ERROR = 0.01  # of the stake of a class


@dataclass(frozen=True, eq=False)
class Stakes:
    """What is at stake on rows, as multiples of a unit, and how much rounding moves a share."""

    units: NDArray[np.int64]
    unit: float
    error: float = 0.0  # the most by which a share of all stakes, or of those of a class, is moved

    @classmethod
    def of(cls, stake: NDArray[np.float64], labels: NDArray[np.intp]) -> Stakes | None:
        """Divide stakes by their unit; None if all are equal.

        `labels` has the class of each row. Where rounding would change the stake of a class by
        more than 1%, stakes are refused: one of them is so large that the others hardly count.
        """
        largest = float(stake.max())
        if not largest:
            raise SearchError(
                "All rows that designs are evaluated on have the stake 0; use other folds (`cv`)."
            )
        if (stake == largest).all():
            return None
        exact = _in_exact_units(stake)
        if exact is not None:
            return exact
        unit = largest / (2**BITS - 1)
        units = np.rint(stake / unit).astype(np.int64)
        moved = np.bincount(labels, np.abs(stake - units * unit))
        rounded = np.bincount(labels, units * unit)
        of_class = moved / np.where(moved > 0, np.maximum(rounded, 1e-9 * unit), 1.0)
        if of_class.max() > _MOST_ERROR:
            row = int(np.argmax(stake))
            raise SearchError(
                f"The largest stake, {cell(largest)} in row {row} of those that designs are "
                f"evaluated on, is so large that rounding all stakes to {BITS} bits would move "
                f"the shares of a class by up to {min(of_class.max(), 1.0):.0%}; limit the stakes, "
                "as in stake.clip(max=...)."
            )
        return cls(units, unit, float(max(moved.sum() / rounded.sum(), of_class.max())))

    @property
    def planes(self) -> NDArray[np.uint64]:
        """The stakes as planes of bits, those of a word of 64 rows together: words x planes."""
        return planes_of(self.units)

    @property
    def square_planes(self) -> NDArray[np.uint64]:
        """The squares of the stakes, as planes of bits."""
        return planes_of(self.units**2)

    def in_words(self) -> str:
        """Describe the resolution."""
        if not self.error:
            return f"in units of {cell(self.unit)}"
        return (
            f"rounded to multiples of {cell(float(f'{self.unit:.3g}'))}, which moves a share by at "
            f"most {100 * self.error:.2g} points"
        )


def planes_of(numbers: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the bits of whole numbers, a word for each 64 numbers and each bit: words x planes."""
    n_planes, n_words = int(numbers.max()).bit_length(), -(-len(numbers) // 64)
    planes = np.zeros((n_words, n_planes), dtype=np.uint64)
    padded = np.zeros(n_words * 64, dtype=np.bool_)
    for plane in range(n_planes):
        padded[: len(numbers)] = numbers >> plane & 1
        planes[:, plane] = np.packbits(padded, bitorder="little").view("<u8")
    return planes


def _in_exact_units(stake: NDArray[np.float64]) -> Stakes | None:
    """Divide stakes by their greatest common divisor; None if the numbers need too many bits."""
    for decimals in range(_DECIMALS + 1):
        scaled = stake * 10.0**decimals
        if scaled.max() >= 2**53:
            return None
        whole = np.rint(scaled)
        if (whole / 10.0**decimals == stake).all():
            numbers = whole.astype(np.int64)
            divisor = int(np.gcd.reduce(numbers))
            if numbers.max() // divisor >= 2**BITS:
                return None
            return Stakes(numbers // divisor, divisor / 10.0**decimals)
    return None
