"""Marks by which the rows of a batch are recognised, whatever model answers them."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emsco.exceptions import BatchError, CertificateError
from emsco.rows.columns import Columns
from emsco.rows.fitted_rows import count_repeated, is_beyond_chance, is_same_table
from emsco.rows.row_hashes import digest_of_names, hash_exactly, hash_keys

_KEY = "key"


@dataclass(frozen=True)
class RowMarks:
    """A hash of each row: of its key, or else of its values; none if there is neither.

    `kind` says of what: "key", or a digest of the columns' names. Marks of different kinds cannot
    be compared.
    """

    hashes: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, dtype=np.uint64))
    kind: str = ""

    @property
    def by_key(self) -> bool:
        """Whether rows are recognised by their keys."""
        return self.kind == _KEY

    @classmethod
    def of(cls, n_rows: int, keys: Any, columns: Columns | None) -> RowMarks:
        """Mark rows by their keys, or else by their values."""
        if keys is None:
            if columns is None:
                return cls()
            return cls(hash_exactly(columns), digest_of_names(list(columns)))
        try:
            hashes = hash_keys(n_rows, None, keys)
        except CertificateError as error:
            raise BatchError(str(error)) from error
        assert hashes is not None
        twice = len(hashes) - len(np.unique(hashes))
        if twice:
            raise BatchError(f"`keys` must be unique; {twice:,} rows have the key of another one.")
        return cls(hashes, _KEY)

    @classmethod
    def of_bytes(cls, data: bytes, kind: str) -> RowMarks:
        """Return marks that were written as bytes."""
        return cls(np.frombuffer(data, dtype="<u8").astype(np.uint64), kind)

    @property
    def digest(self) -> str:
        """A digest of the rows in their order."""
        return sha256(self.to_bytes()).hexdigest()

    def to_bytes(self) -> bytes:
        """Return the hashes as bytes."""
        return self.hashes.astype("<u8").tobytes()

    def comparable(self, others: RowMarks) -> bool:
        """Return whether rows of both would be recognised."""
        return bool(len(self.hashes) and len(others.hashes) and self.kind == others.kind)

    def joined(self, others: RowMarks) -> RowMarks:
        """Return these marks with those of other rows, as far as they can be compared."""
        if not self.comparable(others):
            return self
        return RowMarks(np.append(self.hashes, others.hashes), self.kind)

    def overlap(self, others: RowMarks) -> bool:
        """Return whether some rows are the same: by key, or else more than chance explains.

        Rows that cannot be compared may be the same.
        """
        own, other = self.hashes, others.hashes
        if not self.comparable(others):
            return True
        found = int(np.isin(own, other).sum())
        if self.by_key or not found or is_same_table(own, other):
            return bool(found)
        by_other = count_repeated(other), len(own) / len(other)
        by_own = count_repeated(own), max(1.0, len(other) / len(own))
        return any(
            is_beyond_chance(found, ceil(repeated / 2), 2 * ratio)
            for repeated, ratio in (by_other, by_own)
        )
