"""What makes two rows the same, and which rows a model knows: hashes of rows, never values.

Two rows are the same if every column has the same value, in whatever type: a number is the same as
float64, float32, integer, boolean or text, and with 15 digits. A row is hashed as a whole, over all
columns and over those that a cascade uses, at three resolutions: with the digits of float32, and
rounded to 1/256 and to 1/8 of the interquartile range of each column. The coarse resolutions
recognise a row that was written with fewer digits, or measured again.

Equal values alone prove nothing, because some tables contain repeated rows. How many equal rows
(twins) chance explains is estimated from the rows themselves: among rows drawn in the same way, a
twin in the other table is as frequent as a twin in their own.

Rows of a table with few or coarse columns are often equal by chance. Such rows have neighbours:
other rows that differ from them in one column only. A row without a neighbour is isolated. Two
isolated rows that are equal are copies of one row: a join, an augmentation or a mistake made them.
Whether a row that has neighbours is a copy cannot be told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc  # type: ignore[import-untyped]  # scipy has no types

from emsco.rows.columns import Columns
from emsco.rows.row_hashes import (
    HashableColumn,
    Hashes,
    digest_of_names,
    hash_exactly,
    hash_keys,
    hash_parts,
    hash_rows,
)
from emsco.rows.rows import Rows

MOST_REMEMBERED = 100_000  # fitted rows whose hashes are kept; a sample if there are more

_CHANCE = 1e-4  # probability of so many twins although no row is known
_FEW = 10  # fewer copies are left out, whatever their share
_MOST_COPIES, _MOST_OF_ALL = 0.2, 0.05  # of isolated rows, of all: fewer copies are left out
_ENOUGH = 20  # distinct rows: two tables with the same ones are the same table


@dataclass(frozen=True)
class ColumnSetHashes:
    """Hashes of rows over one set of columns."""

    columns: str  # a digest of their names
    hashes: tuple[Hashes, ...]  # one array per resolution, the finest first
    isolated: NDArray[np.bool_] | None = None  # in the finest one; None if unknown

    def take(self, rows: NDArray[np.intp]) -> ColumnSetHashes:
        """Return some of the rows."""
        isolated = None if self.isolated is None else self.isolated[rows]
        return ColumnSetHashes(self.columns, tuple(h[rows] for h in self.hashes), isolated)

    def in_no_order(self) -> ColumnSetHashes:
        """Return each array sorted; `isolated` goes with the finest one."""
        isolated = None if self.isolated is None else self.isolated[np.argsort(self.hashes[0])]
        return ColumnSetHashes(self.columns, tuple(map(np.sort, self.hashes)), isolated)


@dataclass(frozen=True)
class HashedRows:
    """Hashes of rows that were fitted on, asked about or shown."""

    views: tuple[ColumnSetHashes, ...] = ()  # over sets of columns, the largest set first
    keys: Hashes | None = None  # of each row's key; None if rows have no keys

    def take(self, rows: NDArray[np.intp]) -> HashedRows:
        """Return some of the rows."""
        views = tuple(view.take(rows) for view in self.views)
        return HashedRows(views, None if self.keys is None else self.keys[rows])

    def in_no_order(self) -> HashedRows:
        """Return the same hashes, sorted, so that it is not known which belong to one row."""
        views = tuple(view.in_no_order() for view in self.views)
        return HashedRows(views, None if self.keys is None else np.sort(self.keys))

    def __len__(self) -> int:
        return len(self.views[0].hashes[0]) if self.views else 0


class Copies(NamedTuple):
    """Which rows are copies."""

    rows: NDArray[np.bool_]  # those that are copies
    isolated: int  # different rows that would have been noticed

    @property
    def are_many(self) -> bool:
        """Whether so many are copies that the others may be as well."""
        n_copies = int(self.rows.sum())
        most = max(_MOST_COPIES * self.isolated, _MOST_OF_ALL * len(self.rows))
        return n_copies >= _FEW and n_copies > most


def find_copies(rows: HashedRows, others: HashedRows) -> Copies:
    """Find the rows that are copies of one of the others, by the columns where most are."""
    known = {view.columns: view for view in others.views}
    found = Copies(np.zeros(len(rows), dtype=bool), 0)
    for view in rows.views:
        other = known.get(view.columns)
        if other is None or view.isolated is None or other.isolated is None:
            continue
        isolated = np.unique(other.hashes[0][other.isolated])
        copies = view.isolated & np.isin(view.hashes[0], isolated)
        more = Copies(copies, int(view.isolated.sum()))
        found = max(found, more, key=lambda one: (one.are_many, int(one.rows.sum())))
    return found


def find_repeats(rows: HashedRows) -> Copies:
    """Find the rows that are copies of an earlier one of the same rows."""
    view = rows.views[0]
    repeats = np.ones(len(rows), dtype=bool)
    first = np.unique(view.hashes[0], return_index=True)[1]
    repeats[first] = False
    if view.isolated is None:
        return Copies(np.zeros(len(rows), dtype=bool), 0)
    return Copies(repeats & view.isolated, int(view.isolated[first].sum()))


class Likeness(NamedTuple):
    """How rows compare with others."""

    twins: int | None  # rows with a twin among the others, by float32; None: nothing to compare
    beyond: int  # rows with a twin, if chance does not explain it; else 0
    rounded: bool  # whether those are twins only after rounding
    tells: bool  # whether it would be noticed if half of the rows were among the others


def compare(rows: HashedRows, others: HashedRows) -> Likeness:
    """Compare rows with others, to find out whether they are among them."""
    twins, tells = None, False
    beyond: dict[bool, int] = {}  # by whether rounded
    known = {view.columns: view for view in others.views}
    for view in rows.views:
        if view.columns not in known:
            continue
        pairs = zip(view.hashes, known[view.columns].hashes, strict=True)
        for resolution, (own, other) in enumerate(pairs):
            found = int(np.isin(own, other).sum())
            twins = found if twins is None else twins
            by_other = count_repeated(other), len(own) / len(other)
            by_own = count_repeated(own), max(1.0, len(other) / max(len(own) - 1, 1))
            half = (len(own) + found) // 2
            same = is_same_table(own, other)
            for repeated, ratio in (by_other, by_own):
                same |= is_beyond_chance(found, repeated // 2, 2 * ratio)
                tells |= is_beyond_chance(half, repeated // 2, 2 * ratio)
            if same:
                beyond[resolution > 0] = max(found, beyond.get(resolution > 0, 0))
    rounded = False not in beyond
    return Likeness(twins, beyond.get(rounded, 0), rounded, tells)


def compare_within(rows: HashedRows, others: HashedRows | None) -> Likeness:
    """Compare rows with one another, to find out whether they repeat more than chance explains.

    Rows drawn in the same way repeat one another as often as they repeat `others`, and as the
    others repeat one another.
    """
    view = rows.views[0]
    own = view.hashes[0]
    repeated = count_repeated(own)
    known = {v.columns: v.hashes[0] for v in (others.views if others is not None else ())}
    if view.columns not in known:
        return Likeness(repeated, 0, rounded=False, tells=not repeated)
    other = known[view.columns]
    share = len(own) / len(other)
    by_twins = int(np.isin(own, other).sum()), max(1.0, share) / 2
    by_other = count_repeated(other) // 2, max(share, share**2)
    same = tells = False
    for events, ratio in (by_twins, by_other):
        same |= is_beyond_chance(repeated // 2, events, ratio)
        tells |= is_beyond_chance(len(own) // 2, events, ratio)
    return Likeness(repeated, repeated if same else 0, rounded=False, tells=tells)


def is_beyond_chance(found: int, events: int, ratio: float) -> bool:
    """Return whether more were found than chance explains: at most `ratio` for each event.

    If both are rare, each of all that were counted is one of those found with the same probability.
    """
    if not found:
        return False
    share = ratio / (1 + ratio)
    return bool(betainc(found, events + 1, share) <= _CHANCE)


def is_same_table(own: Hashes, other: Hashes) -> bool:
    """Return whether two tables have exactly the same rows, however often values repeat."""
    if len(own) != len(other):
        return False
    ordered = np.sort(own)
    is_rich = int((np.diff(ordered) != 0).sum()) + 1 >= _ENOUGH
    return is_rich and bool((ordered == np.sort(other)).all())


def count_repeated(hashes: Hashes) -> int:
    """Count the rows that have a twin in the same table."""
    counts = np.unique(hashes, return_counts=True)[1]
    return int(counts[counts > 1].sum())


def find_isolated(rows: Hashes, parts: Iterable[Hashes]) -> NDArray[np.bool_]:
    """Return which rows are isolated: those without a neighbour.

    `parts` are the hashes of each column, or of each group of columns if there are many; the hash
    of a row is their sum.
    """
    isolated = np.ones(len(rows), dtype=bool)
    for part in parts:
        _drop_neighbours(isolated, rows - part, rows)
    return isolated


def _drop_neighbours(isolated: NDArray[np.bool_], rest: Hashes, total: Hashes) -> None:
    """Drop rows that are equal to another one in the rest of the columns, but not as a whole."""
    ordered = np.sort(rest)
    if not (ordered[1:] == ordered[:-1]).any():
        return
    order = np.argsort(rest, kind="stable")
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    whole = total[order]
    mixed = np.minimum.reduceat(whole, starts) != np.maximum.reduceat(whole, starts)
    sizes = np.diff(np.r_[starts, len(rest)])
    isolated[order[np.repeat(mixed, sizes)]] = False


@dataclass(frozen=True)
class FittedRows:
    """What a model remembers of the rows it was fitted on."""

    digest: str = ""  # of the rows in any order and with any types; "" if they are unknown
    names: tuple[str, ...] = ()  # of the columns
    spreads: Mapping[str, float] = field(default_factory=dict)  # by column: to round numbers
    sets: tuple[tuple[str, ...], ...] = ()  # of columns to hash; all come first
    rows: HashedRows | None = None  # None if they were left out of a file
    groups: Hashes | None = None  # each once; None if `fit` was given none

    @classmethod
    def of(cls, rows: Rows, used: Iterable[str], groups: ArrayLike | None = None) -> FittedRows:
        """Hash rows over all columns, and over the columns used; and their groups, if given."""
        columns = rows.columns
        values = {name: HashableColumn.read(column) for name, column in columns.items()}
        fine = hash_rows(values, tuple(columns), {}, b"", resolutions=1)[0]
        digest = sha256(np.sort(fine).tobytes()).hexdigest()
        spreads = {n: spread for n, v in values.items() if (spread := v.spread())}
        hashed = None if groups is None else np.unique(hash_exactly({"group": np.asarray(groups)}))
        fitted = cls(digest, tuple(columns), spreads, groups=hashed)
        keys = hash_keys(rows.n_rows, rows.index)
        return fitted._over(values, (tuple(columns), tuple(used)), keys)

    def using(self, columns: Columns, used: Iterable[str]) -> FittedRows:
        """Hash the same rows over the columns that another cascade uses."""
        sets = tuple(dict.fromkeys((self.names, tuple(used))))
        if sets == self.sets or self.rows is None:
            return self
        values = {name: HashableColumn.read(columns[name]) for name in sets[-1]}
        return self._over(values, sets, self.rows.keys, self.rows.views)

    def _over(
        self,
        values: Mapping[str, HashableColumn],
        sets: tuple[tuple[str, ...], ...],
        keys: Hashes | None,
        known: tuple[ColumnSetHashes, ...] = (),
    ) -> FittedRows:
        """Hash rows over sets of columns; `known` are views of the same rows."""
        fitted = replace(self, sets=tuple(dict.fromkeys(sets)))
        selected = np.arange(len(next(iter(values.values())).numbers))
        if keys is not None:  # a row drawn twice, as in a bootstrap, counts once
            selected = np.sort(np.unique(keys, return_index=True)[1])
        if len(selected) > MOST_REMEMBERED:
            seed = int(self.digest[:16], 16)
            drawn = np.random.default_rng(seed).choice(selected, MOST_REMEMBERED, replace=False)
            selected = np.sort(drawn)
        some = {name: column.take(selected) for name, column in values.items()}
        return replace(fitted, rows=HashedRows(fitted._views(some, known), keys))

    def look(self, rows: Rows, keys: ArrayLike | None = None) -> HashedRows:
        """Hash other rows in the same way, over each set of columns that they have."""
        columns = rows.columns
        values = {
            name: HashableColumn.read(columns[name]) for name in self.names if name in columns
        }
        return HashedRows(self._views(values), hash_keys(rows.n_rows, rows.index, keys))

    def _views(
        self, values: Mapping[str, HashableColumn], known: tuple[ColumnSetHashes, ...] = ()
    ) -> tuple[ColumnSetHashes, ...]:
        salt, views = self.digest.encode(), {view.columns: view for view in known}
        for names in self.sets:
            columns = digest_of_names(names)
            if columns not in views and all(name in values for name in names):
                hashes = hash_rows(values, names, self.spreads, salt)
                isolated = find_isolated(hashes[0], hash_parts(values, names, salt))
                views[columns] = ColumnSetHashes(columns, hashes, isolated)
        wanted = map(digest_of_names, self.sets)
        return tuple(views[columns] for columns in wanted if columns in views)
