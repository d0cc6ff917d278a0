"""What makes two rows the same, and which rows a model knows: hashes of rows, never values.

Two rows are the same where every column holds the same value, in whatever form: a number is the
same as float64, float32, integer, boolean or text, and with 15 digits. A row is hashed as a whole,
over all columns and over those that a cascade uses, at three resolutions: as float32 tells numbers
apart, and rounded to 1/256 and to 1/8 of the spread that a column's middle half has. The rough ones
know a row again that was written with fewer digits, or measured again.

Equal values alone prove nothing, because some tables repeat themselves. How many twins chance
explains is seen from the rows themselves: among rows drawn alike, those that have a twin in the
other table are as frequent as those that have one in their own.
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
from emsco.rows.hashes import Hashes, Values, digest_of_names, hash_rows
from emsco.rows.rows import Rows

MOST_REMEMBERED = 100_000  # fitted rows whose hashes are kept; of more, so many are drawn

_CHANCE = 1e-4  # of seeing so many twins without any row being known
_ENOUGH = 20  # different rows: two tables with the same ones are the same table


@dataclass(frozen=True)
class View:
    """Rows as some columns show them.

    Parameters
    ----------
    columns : str
        Which columns these are, as a digest of their names.
    hashes : tuple of arrays
        A hash a row, one array a resolution, the finest first.
    """

    columns: str
    hashes: tuple[Hashes, ...]


@dataclass(frozen=True)
class HashedRows:
    """Rows that were fitted on, asked on or shown, as a model's hashes tell them.

    Parameters
    ----------
    views : tuple of View
        The rows as sets of columns show them, the widest first.
    keys : array of hashes or None
        A hash of each row's key, where rows have keys.
    """

    views: tuple[View, ...] = ()
    keys: Hashes | None = None

    def take(self, rows: NDArray[np.intp]) -> HashedRows:
        """Give some of the rows."""
        views = tuple(View(v.columns, tuple(h[rows] for h in v.hashes)) for v in self.views)
        return HashedRows(views, None if self.keys is None else self.keys[rows])

    def in_no_order(self) -> HashedRows:
        """Give the same hashes sorted, so that nothing tells which belong to one row."""
        views = tuple(View(v.columns, tuple(map(np.sort, v.hashes))) for v in self.views)
        return HashedRows(views, None if self.keys is None else np.sort(self.keys))

    def __len__(self) -> int:
        return len(self.views[0].hashes[0]) if self.views else 0


class Likeness(NamedTuple):
    """How rows compare with others.

    Parameters
    ----------
    twins : int or None
        How many have a twin among the others, to the last digit of float32; None where no columns
        can be compared.
    beyond : int
        How many have one, where that is more than chance explains; else 0.
    rounded : bool
        Whether those are twins but for rounding only.
    tells : bool
        Whether it would have been noticed if half of the rows were among the others.
    """

    twins: int | None
    beyond: int
    rounded: bool
    tells: bool


def compare(rows: HashedRows, others: HashedRows) -> Likeness:
    """Say whether rows are among others, or what cannot be told of it."""
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
            by_other = _repeated(other), len(own) / len(other)
            by_own = _repeated(own), max(1.0, len(other) / max(len(own) - 1, 1))
            half = (len(own) + found) // 2
            same = _is_same_table(own, other)
            for repeated, ratio in (by_other, by_own):
                same |= _beyond_chance(found, repeated // 2, 2 * ratio)
                tells |= _beyond_chance(half, repeated // 2, 2 * ratio)
            if same:
                beyond[resolution > 0] = max(found, beyond.get(resolution > 0, 0))
    rounded = False not in beyond
    return Likeness(twins, beyond.get(rounded, 0), rounded, tells)


def compare_within(rows: HashedRows, others: HashedRows | None) -> Likeness:
    """Say whether rows repeat one another more than chance explains.

    Rows drawn alike repeat one another as often as they repeat `others`, and as others repeat one
    another.
    """
    view = rows.views[0]
    own = view.hashes[0]
    repeated = _repeated(own)
    known = {v.columns: v.hashes[0] for v in (others.views if others is not None else ())}
    if view.columns not in known:
        return Likeness(repeated, 0, rounded=False, tells=not repeated)
    other = known[view.columns]
    share = len(own) / len(other)
    by_twins = int(np.isin(own, other).sum()), max(1.0, share) / 2
    by_other = _repeated(other) // 2, max(share, share**2)
    same = tells = False
    for events, ratio in (by_twins, by_other):
        same |= _beyond_chance(repeated // 2, events, ratio)
        tells |= _beyond_chance(len(own) // 2, events, ratio)
    return Likeness(repeated, repeated if same else 0, rounded=False, tells=tells)


def _beyond_chance(found: int, events: int, ratio: float) -> bool:
    """Say whether so many were found, where chance gives at most `ratio` of them for each event.

    Of rare things counted together, each is one of those found with the same probability.
    """
    if not found:
        return False
    share = ratio / (1 + ratio)
    return bool(betainc(found, events + 1, share) <= _CHANCE)


def _is_same_table(own: Hashes, other: Hashes) -> bool:
    """Say whether these are the very same rows, however often values repeat."""
    if len(own) != len(other):
        return False
    ordered = np.sort(own)
    is_rich = int((np.diff(ordered) != 0).sum()) + 1 >= _ENOUGH
    return is_rich and bool((ordered == np.sort(other)).all())


def _repeated(hashes: Hashes) -> int:
    """Count the rows with a twin among them."""
    counts = np.unique(hashes, return_counts=True)[1]
    return int(counts[counts > 1].sum())


@dataclass(frozen=True)
class FittedRows:
    """What a model remembers of the rows it was fitted on.

    Parameters
    ----------
    digest : str, default=""
        Which rows these are, in whatever order and form; "" where nothing is known of them.
    names : tuple of str, default=()
        The columns.
    spreads : mapping of str to float, default={}
        The spread of numbers in the middle half of a column, which rounding goes by.
    sets : tuple of tuple of str, default=()
        The sets of columns that rows are hashed over, all of them first.
    rows : HashedRows or None, default=None
        The rows themselves; None where they were left out of a file.
    """

    digest: str = ""
    names: tuple[str, ...] = ()
    spreads: Mapping[str, float] = field(default_factory=dict)
    sets: tuple[tuple[str, ...], ...] = ()
    rows: HashedRows | None = None

    @classmethod
    def of(cls, rows: Rows, used: Iterable[str]) -> FittedRows:
        """Remember rows, over all columns and over those that are used."""
        columns = rows.columns
        values = {name: Values.read(column) for name, column in columns.items()}
        fine = hash_rows(values, tuple(columns), {}, b"", resolutions=1)[0]
        digest = sha256(np.sort(fine).tobytes()).hexdigest()
        spreads = {n: spread for n, v in values.items() if (spread := v.spread())}
        fitted = cls(digest, tuple(columns), spreads)
        return fitted._over(values, (tuple(columns), tuple(used)), rows.hash_keys())

    def using(self, columns: Columns, used: Iterable[str]) -> FittedRows:
        """Remember the same rows over the columns that another cascade uses."""
        sets = tuple(dict.fromkeys((self.names, tuple(used))))
        if sets == self.sets or self.rows is None:
            return self
        values = {name: Values.read(columns[name]) for name in sets[-1]}
        return self._over(values, sets, self.rows.keys, self.rows.views)

    def _over(
        self,
        values: Mapping[str, Values],
        sets: tuple[tuple[str, ...], ...],
        keys: Hashes | None,
        known: tuple[View, ...] = (),
    ) -> FittedRows:
        """Remember rows over sets of columns; `known` are views of the same rows."""
        fitted = replace(self, sets=tuple(dict.fromkeys(sets)))
        kept = np.arange(len(next(iter(values.values())).numbers))
        if keys is not None:  # drawn twice, as by a bootstrap, a row is one row
            kept = np.sort(np.unique(keys, return_index=True)[1])
        if len(kept) > MOST_REMEMBERED:
            seed = int(self.digest[:16], 16)
            drawn = np.random.default_rng(seed).choice(kept, MOST_REMEMBERED, replace=False)
            kept = np.sort(drawn)
        some = {name: column.take(kept) for name, column in values.items()}
        return replace(fitted, rows=HashedRows(fitted._views(some, known), keys))

    def look(self, rows: Rows, keys: ArrayLike | None = None) -> HashedRows:
        """Hash other rows as these were, over each set of columns that they have."""
        columns = rows.columns
        values = {name: Values.read(columns[name]) for name in self.names if name in columns}
        return HashedRows(self._views(values), rows.hash_keys(keys))

    def _views(
        self, values: Mapping[str, Values], known: tuple[View, ...] = ()
    ) -> tuple[View, ...]:
        salt, views = self.digest.encode(), {view.columns: view for view in known}
        for names in self.sets:
            columns = digest_of_names(names)
            if columns not in views and all(name in values for name in names):
                views[columns] = View(columns, hash_rows(values, names, self.spreads, salt))
        wanted = map(digest_of_names, self.sets)
        return tuple(views[columns] for columns in wanted if columns in views)
