"""Which rows these are: by key, and by the values they hold; as 64-bit hashes, never as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from emsco._columns import Columns, container_of, plain
from emsco.exceptions import CertificateError

Hashes = NDArray[np.uint64]

_MARGIN = 0.01  # of twins, allowed beyond twice the share that the fitted rows have themselves


def hash_values(columns: Columns) -> Hashes:
    """Give a hash of each row's values; the order of columns does not matter, their names do."""
    total = np.zeros(1, dtype=np.uint64)
    for name, column in columns.items():
        total = total + _mix(_hash(plain(column)) ^ _hash(np.array([name], dtype=object)))
    return total


def hash_keys(X: Any, keys: ArrayLike | None = None) -> Hashes | None:
    """Give a hash of each row's key: of those given, or else of a frame's index.

    None where rows have no keys: the index that pandas numbers rows by says nothing of them.
    """
    if keys is not None:
        given = np.asarray(keys)
        if given.shape != (len(X),):
            raise CertificateError(f"`keys` must name {len(X)} rows, has shape {given.shape}.")
        return _hash(given)
    if container_of(X) != "pandas":
        return None
    index = X.index
    if type(index).__name__ == "RangeIndex" and (index.start, index.step) == (0, 1):
        return None
    return _hash(index.to_numpy())


def _mix(bits: Hashes) -> Hashes:
    """Spread every bit over all of them, as splitmix64 does."""
    bits = bits + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def _hash(values: NDArray[Any]) -> Hashes:
    """Hash values so that equal ones are equal, whole numbers of any type included."""
    if values.dtype.kind in "mM":  # whatever the unit
        values = values.astype(f"{values.dtype.kind}8[ns]").view(np.int64)
    if values.dtype.kind in "iub":
        number = values.astype(np.float64)
        # What a double cannot hold of a long number, such as a card's.
        held = np.clip(number, -(2.0**63), 2.0**63 - 2**10).astype(np.int64)
        lost = values.astype(np.uint64) - held.astype(np.uint64)
        return _mix(_bits(number) + _mix(lost))
    if values.dtype.kind == "f":
        number = values.astype(np.float64)
        return _mix(_bits(number) + _mix(np.zeros(len(number), dtype=np.uint64)))
    known: dict[str, int] = {}
    hashed = np.empty(len(values), dtype=np.uint64)
    for i, value in enumerate(values.tolist()):
        text = str(value)
        if text not in known:
            known[text] = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")
        hashed[i] = known[text]
    return hashed


def _bits(number: NDArray[np.float64]) -> Hashes:
    # One zero and one NaN, whatever their bits.
    same = np.where(np.isnan(number), np.nan, number) + 0.0
    return np.ascontiguousarray(same).view(np.uint64)


@dataclass(frozen=True)
class Spent:
    """Calibration rows that a certificate was asked on, and the part of the error it took."""

    names: tuple[str, ...]
    values: Hashes
    keys: Hashes | None
    question: str
    share: float

    def repeats(self, other: Spent) -> bool:
        """Say whether the same was asked on the same rows, which has the same answer."""
        return (self.question, self.share) == (other.question, other.share)


@dataclass(frozen=True)
class FittedRows:
    """What a model remembers of the rows it was fitted on, and of those it was certified on.

    Parameters
    ----------
    names : tuple of str
        The columns that are hashed.
    values, keys : arrays of hashes, default=None
        A hash a row; None where nothing is known.
    spent : list of Spent
        What was certified; a search and its cascades share it.
    """

    names: tuple[str, ...] = ()
    values: Hashes | None = None
    keys: Hashes | None = None
    spent: list[Spent] = field(default_factory=list)

    @classmethod
    def of(cls, X: Any, columns: Columns) -> FittedRows:
        """Remember rows."""
        return cls(tuple(columns), hash_values(columns), hash_keys(X))

    def _twins_allowed(self, values: Hashes) -> float:
        """Give the share of other rows that may equal one of these by chance.

        Some tables repeat themselves; where nothing is known of the fitted rows, how much the other
        rows do must tell.
        """
        return 2 * _repeated(values if self.values is None else self.values) + _MARGIN

    def refuse_known(self, rows: Spent) -> int | None:
        """Refuse rows that the model was fitted on; count those that merely equal one.

        None where that cannot be told, because X or the model lacks columns.
        """
        if rows.keys is not None and self.keys is not None:
            same = int(np.isin(rows.keys, self.keys).sum())
            if same:
                raise CertificateError(
                    f"{same:,} of {len(rows.keys):,} calibration rows were searched or fitted on, "
                    "by their key or index; take rows that the model has not seen (or, if the "
                    "index means nothing, X.reset_index(drop=True))."
                )
        if self.values is None or set(rows.names) != set(self.names):
            return None
        twins = int(np.isin(rows.values, self.values).sum())
        allowed = self._twins_allowed(rows.values)
        if twins > allowed * len(rows.values):
            raise CertificateError(
                f"{twins:,} of {len(rows.values):,} calibration rows equal a row that the model "
                f"was fitted on, value by value; {allowed:.1%} could be chance, so these are "
                "likely the same rows; take rows that the model has not seen."
            )
        return twins

    def refuse_overspent(self, wanted: Spent) -> None:
        """Refuse a certificate for which earlier ones on the same rows leave no share."""
        earlier = [spent for spent in self.spent if self._overlaps(wanted, spent)]
        if any(wanted.repeats(spent) for spent in earlier):
            return
        left = max(1 - sum(spent.share for spent in earlier), 0.0)
        if wanted.share > left + 1e-9:
            raise CertificateError(
                f"These rows carry a certificate already, and {left:.3g} of the error that their "
                f"confidence allows is left, but {wanted.share:.3g} was asked for; take fresh "
                "rows, or give every certificate on one set of rows its own `share=`, in sum at "
                "most 1."
            )

    def spend(self, wanted: Spent) -> None:
        """Note a certificate; one that only repeats another costs nothing."""
        if not any(wanted.repeats(spent) for spent in self.spent):
            self.spent.append(wanted)

    def _overlaps(self, wanted: Spent, earlier: Spent) -> bool:
        if wanted.keys is not None and earlier.keys is not None:
            return bool(np.isin(wanted.keys, earlier.keys).any())
        if set(wanted.names) != set(earlier.names):
            return False
        same = float(np.isin(wanted.values, earlier.values).mean())
        return same > self._twins_allowed(wanted.values)


def _repeated(values: Hashes) -> float:
    """Give the share of rows with a twin among them."""
    counts = np.unique(values, return_counts=True)[1]
    return float(counts[counts > 1].sum() / len(values))
