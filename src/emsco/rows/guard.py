"""A guard for inputs: it learns the values of training, and rejects rows with unlike values."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from numbers import Real
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from emsco._utils.frozen_mapping import FrozenMapping
from emsco._utils.missing_values import is_missing
from emsco.core.decisions import (
    ACCEPTED,
    INVALID_VALUE,
    OUT_OF_RANGE,
    UNSEEN_CATEGORY,
    reason_for,
)
from emsco.exceptions import ArtifactError, ColumnsError, GuardWarning, nearest, warn
from emsco.rows.columns import (
    NUMERIC,
    Column,
    is_category,
    is_level,
    numbers,
    plain,
    refuse_invalid,
    refuse_unknown,
)
from emsco.rows.value_types import UNREADABLE, usual_spelling

AUTO = "auto"  # columns with many values are pooled
_LARGEST = float(np.finfo(np.float64).max)
# The range of normal values is at most about 12 standard deviations, which are 15 mean distances
# from the median, for any realistic number of rows. A longer range is due to a tail.
_LONG_TAIL = 15.0
_WIDER = 4.0
# As a share of a limit: a number that was rounded to single precision is still the same number.
_ROUNDING = 1e-6
# The share of valid rows with an unseen value in a column, above which the user is warned.
_MANY_UNSEEN = 0.01

Found: TypeAlias = tuple[NDArray[np.intp], list[str]]  # rows, and the kind of fault of each


class Fault(NamedTuple):
    """One value that a row is rejected for."""

    row: int
    column: str
    value: Any
    reason: str


@dataclass(frozen=True)
class Range:
    """The numbers from `low` to `high`."""

    low: float
    high: float

    @classmethod
    def learn(cls, values: NDArray[Any], margin: float) -> Range:
        """Widen the range of training by a margin, which is larger if there is a long tail."""
        values = values.astype(np.float64, copy=False)
        values = values[~np.isnan(values)]
        if not values.size:
            return cls(_LARGEST, -_LARGEST)  # any number would be the first
        least, most = float(values.min()), float(values.max())
        with np.errstate(over="ignore"):
            distance = float(np.abs(values - np.median(values)).mean())
            is_flag = bool(((values == least) | (values == most)).all())
            if most - least > _LONG_TAIL * distance and not is_flag:
                margin *= _WIDER
            added = 2 * (margin * (most / 2 - least / 2))  # halves, because all might overflow
            added += _ROUNDING * max(abs(least), abs(most))
            low, high = least - added, most + added
        # Counts, prices and lengths have one sign: if training saw only one, so does the range.
        if least >= 0:
            low = max(low, 0.0)
        if most <= 0:
            high = min(high, 0.0)
        return cls(max(low, -_LARGEST), min(high, _LARGEST))

    def faults(self, values: NDArray[Any]) -> Found | None:
        """Find values outside the range; a missing value is not a fault."""
        if values.dtype.kind not in NUMERIC:
            values = numbers(values)
        if len(values) == 1:
            value = values.item()
            if self.low <= value <= self.high or value != value:
                return None
        # Nearly every block is without a fault, and then two reductions are enough.
        elif not len(values) or (
            self.low <= float(values.min()) and float(values.max()) <= self.high
        ):
            return None
        values = values.astype(np.float64, copy=False)  # single precision would round the limits
        rows = np.flatnonzero((values < self.low) | (values > self.high))
        if not rows.size:
            return None
        infinite = np.isinf(values[rows]).tolist()
        return rows, [INVALID_VALUE if is_so else OUT_OF_RANGE for is_so in infinite]


@dataclass(frozen=True)
class Categories:
    """The texts or categories that training had."""

    values: tuple[Any, ...]

    @classmethod
    def learn(cls, values: NDArray[Any], name: str, *, pool: bool) -> Categories | Anything:
        """Keep every value; if fresh rows will often have other values, warn, or `pool` them."""
        counts: dict[Any, int] = {}
        present = [value for value in values.tolist() if not is_missing(value)]
        for value in map(usual_spelling, present):
            counts[value] = counts.get(value, 0) + 1
        # Good and Turing: the share of fresh rows with an unseen value is estimated by the share
        # of rows here whose value occurs only once.
        unseen = sum(count == 1 for count in counts.values()) / max(len(present), 1)
        if unseen > _MANY_UNSEEN and pool:
            warn(
                f"About {unseen:.0%} of fresh rows will have a value of {name!r} that was not seen "
                "in training: the column is pooled, so these rows are judged and not rejected.",
                GuardWarning,
            )
            return Anything()
        if unseen > _MANY_UNSEEN:
            warn(
                f"About {unseen:.0%} of fresh rows will have a value of {name!r} that was not seen "
                "in training, and will be rejected; to judge them instead, add the column to the "
                "guard's `pool`, or use pool='auto'.",
                GuardWarning,
            )
        return cls(tuple(sorted(counts, key=str)))

    @cached_property
    def _seen(self) -> frozenset[Any]:
        return frozenset(self.values)

    def __reduce__(self) -> tuple[Any, ...]:
        # Without the cached set, so that a guard is pickled in the same way before and after use.
        return Categories, (self.values,)

    def faults(self, values: NDArray[Any]) -> Found | None:
        """Find values that training did not have; a missing value is not a fault."""
        items = values.tolist()
        try:
            if self._seen.issuperset(items):
                return None
        except TypeError:  # a value that cannot be hashed, such as a list
            pass
        reasons = {row: self._fault(value) for row, value in enumerate(items)}
        found = {row: reason for row, reason in reasons.items() if reason}
        return (np.array(list(found)), list(found.values())) if found else None

    def _fault(self, value: Any) -> str:
        if not isinstance(value, Hashable) or value == UNREADABLE:
            return INVALID_VALUE
        is_seen = value in self._seen or usual_spelling(value) in self._seen
        return ACCEPTED if is_seen or is_missing(value) else UNSEEN_CATEGORY


@dataclass(frozen=True)
class Anything:
    """A column that is not checked."""

    def faults(self, values: NDArray[Any]) -> Found | None:  # noqa: ARG002
        """Find nothing."""
        return None


def _learned_from(name: str, data: Any) -> Range | Categories | Anything:
    """Rebuild what was learned about a column; refuse what no column can have taught."""
    if isinstance(data, dict) and not data:
        return Anything()
    if isinstance(data, dict) and data.keys() == {"low", "high"}:
        limits = data["low"], data["high"]
        if all(type(limit) is float and isfinite(limit) for limit in limits) and (
            limits[0] <= limits[1] or limits == (_LARGEST, -_LARGEST)
        ):
            return Range(*limits)
    elif isinstance(data, dict) and data.keys() == {"values"}:
        values = data["values"]
        levels = isinstance(values, list) and all(is_level(value) for value in values)
        if levels and len(set(values)) == len(values):
            return Categories(tuple(values))
    raise ArtifactError(f"its guard cannot have learned {data!r:.80} of the column {name!r:.80}")


class InputGuard(BaseEstimator):
    """Rejects rows with values that are unlike those seen in training.

    A linear stage becomes more confident the farther a value is from the data, so a row with a
    wrong unit or a code for "unknown" is not only judged badly but accepted. Used as the `guard` of
    a cascade, this rejects such rows at the stage that bought the value. The reason names a kind
    and the column, such as ``"out of range: TSH"``. The kinds are:

    - ``"out of range"``: a number outside the training range by more than a margin, or with a sign
      not seen in training;
    - ``"unseen category"``: a text or category not seen in training;
    - ``"invalid value"``: infinity, a non-number in a column of numbers, or a missing value in a
      column without missing values in training. The cascade itself reports the last case, with any
      guard; used alone, this guard lets missing values pass.

    It checks one value at a time: it cannot detect a value that belongs to another row, or a wrong
    but plausible value. It is fitted with the cascade and is part of it: evaluations and
    certificates on fresh rows include its rejections.

    Parameters
    ----------
    margin : float, default=0.25
        How far outside the training range a number may be, as a share of that range. The margin is
        four times as large in a column with a long tail, one whose range is more than 15 times the
        mean distance from its median: there, the next value beyond the range may be correct.
    pool : sequence of str or "auto", default=()
        Columns of text or categories in which unseen values are normal, such as towns: these are
        judged as the estimator judges unknown values, by default like rare values. Columns that a
        cascade does not use are ignored, because a search has many cascades. "auto" pools columns
        in which more than 1% of fresh rows would have an unseen value, with a warning.

    Attributes
    ----------
    learned_ : mapping of str to Range, Categories or Anything
        What each column may hold.

    Examples
    --------
    >>> import numpy as np
    >>> from emsco import CascadeClassifier, InputGuard
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(2, size=400)
    >>> X = np.column_stack([y + rng.normal(size=400), 4 * y + rng.normal(size=400)])
    >>> faulty = X[:3].copy()
    >>> faulty[1, 0] *= 1e6
    >>> CascadeClassifier().fit(X, y).decide(faulty).accepted.tolist()
    [True, True, True]
    >>> cascade = CascadeClassifier(guard=InputGuard()).fit(X, y)
    >>> cascade.decide(faulty).reason.tolist()
    ['', 'out of range: x0', '']
    >>> cascade.guard_.explain({"x0": faulty[:, 0]})[0].column
    'x0'
    """

    # Its public path, which pickles and so digests contain, wherever the code is.
    __module__ = "emsco.guard"

    _parameter_constraints: dict[str, list[Any]] = {  # noqa: RUF012  # scikit-learn's own shape
        "margin": [Interval(Real, 0, None, closed="left")],
        "pool": ["array-like", StrOptions({AUTO})],
    }

    def __init__(self, *, margin: float = 0.25, pool: Sequence[str] | str = ()) -> None:
        self.margin = margin
        self.pool = pool

    def fit(self, columns: Mapping[str, Column]) -> Self:
        """Learn the values of each column in training.

        Parameters
        ----------
        columns : mapping of str to column
            The training rows. Missing numbers are NaN, missing text is None; a numpy array of
            objects, like a pandas or polars category, holds categories even if these are numbers.
        """
        self._validate_params()
        self.learned_ = FrozenMapping(
            {name: self._learn(name, column) for name, column in columns.items()}
        )
        return self

    def reasons(self, columns: Mapping[str, Column]) -> NDArray[np.object_] | None:
        """Return the reason to reject each row, "" for rows without one; None if no row has one.

        Parameters
        ----------
        columns : mapping of str to column
            Some of the learned columns, of the same rows.
        """
        reasons: NDArray[np.object_] | None = None
        for name, values, (rows, kinds) in self._faults(columns):
            if reasons is None:
                reasons = np.array([ACCEPTED], dtype=object).repeat(len(values))
            for row, kind in zip(rows.tolist(), kinds, strict=True):
                reasons[row] = reasons[row] or reason_for(kind, name)
        return reasons

    def explain(self, columns: Mapping[str, Column]) -> tuple[Fault, ...]:
        """List every value for which a row is rejected: row, column, value and reason."""
        faults = [
            Fault(row, name, value, reason_for(kind, name))
            for name, values, (rows, kinds) in self._faults(columns)
            for row, value, kind in zip(rows.tolist(), values[rows].tolist(), kinds, strict=True)
        ]
        return tuple(sorted(faults, key=lambda fault: fault.row))

    def to_data(self) -> dict[str, Any]:
        """Return the parameters and what was learned as plain values, for files."""
        check_is_fitted(self)
        columns: dict[str, dict[str, Any]] = {}
        for name, learned in self.learned_.items():
            if isinstance(learned, Range):
                columns[name] = {"low": learned.low, "high": learned.high}
            elif isinstance(learned, Categories):
                columns[name] = {"values": list(learned.values)}
            else:
                columns[name] = {}
        pool = self.pool if isinstance(self.pool, tuple | str) else list(self.pool)
        return {"margin": self.margin, "pool": pool, "columns": columns}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """Rebuild a guard from the values of `to_data`; it is fitted if they include columns."""
        params = dict(data)
        columns = params.pop("columns", None)
        pool = params.get("pool")
        is_pool = pool == AUTO or (
            isinstance(pool, list | tuple) and all(isinstance(name, str) for name in pool)
        )
        if params.keys() != {"margin", "pool"} or not is_pool:
            raise ArtifactError(f"no guard has the parameters {params!r:.80}")
        guard = cls(**params)
        guard._validate_params()
        if columns is not None:
            learned = {name: _learned_from(name, parts) for name, parts in columns.items()}
            guard.learned_ = FrozenMapping(learned)
        return guard

    def _learn(self, name: str, column: Column) -> Range | Categories | Anything:
        named = () if isinstance(self.pool, str) else self.pool
        is_object = isinstance(column, np.ndarray) and column.dtype.kind == "O"
        values = column if is_object else plain(column)
        if is_object or values.dtype.kind == "O" or is_category(column):
            if name in named:
                return Anything()
            return Categories.learn(values, name, pool=self.pool == AUTO)
        if name in named:
            raise ColumnsError(f"`pool` is for text and categories, but {name!r} holds numbers.")
        refuse_unknown(values, name)
        refuse_invalid(values, name, missing_seen=True, raw=column)
        return Range.learn(values, self.margin)

    def _faults(self, columns: Mapping[str, Column]) -> Iterator[tuple[str, NDArray[Any], Found]]:
        """Yield the columns with faults, their values and the faults."""
        if not hasattr(self, "learned_"):
            check_is_fitted(self)
        for name, column in columns.items():
            if name not in self.learned_:
                raise ColumnsError(
                    f"The guard has not learned the column {name!r}"
                    + nearest(name, map(str, self.learned_))
                )
            values = column if isinstance(column, np.ndarray) else plain(column)
            found = self.learned_[name].faults(values)
            if found is not None:
                yield name, values, found
