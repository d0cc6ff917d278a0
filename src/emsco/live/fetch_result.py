"""The answer of a source for some keys: values for each key, or the reason why there are none.

Rows are matched by key, never by position: an answer for another key must not be used for this one.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeAlias

from emsco.core.decisions import ACCEPTED, AMBIGUOUS, ERROR, INVALID_VALUE, MISSING, STALE

Key: TypeAlias = Any  # text or a whole number
Values: TypeAlias = Mapping[str, Sequence[Any]]  # a value per key, by feature
Record: TypeAlias = Mapping[str, Any]


class FetchResult(NamedTuple):
    """The answer of a source for some keys, in the order of the keys.

    Parameters
    ----------
    columns : mapping of feature to list
        One value per key; None if it is missing. Bytes are text in UTF-8.
    reasons : list of str
        Why a key has no values: "missing", "ambiguous", "stale", "error", "timeout", "invalid key",
        "invalid value"; "" if it has.
    ages : list of float or None, default=None
        The age of each answer, in seconds. None: the source gives no time.
    prices : list of float or None, default=None
        The price of each answer, if the source gives it.
    verified : bool, default=True
        Whether answers repeat the key that they are for.
    """

    columns: Mapping[str, list[Any]]
    reasons: list[str]
    ages: list[float | None] | None = None
    prices: list[float | None] | None = None
    verified: bool = True

    @classmethod
    def failed(cls, features: Sequence[str], n_keys: int, reason: str) -> FetchResult:
        """Return the answer for a request that failed as a whole."""
        return cls({name: [None] * n_keys for name in features}, [reason] * n_keys)


@dataclass(frozen=True)
class Freshness:
    """The limits on the age of an answer.

    Parameters
    ----------
    max_age : float, default=None
        The maximum age in seconds, since the time of the event that the source gives. None: no
        limit.
    max_skew : float, default=60.0
        How many seconds a time may be in the future, because clocks differ.
    """

    max_age: float | None = None
    max_skew: float = 60.0

    def age(self, event_time: Any, now: float) -> float | None:
        """Return the age of an answer, in seconds; None if its time is not valid."""
        moment = to_moment(event_time)
        return None if moment is None else now - moment

    def is_stale(self, age: float | None) -> bool:
        """Return whether an answer is too old or dated in the future.

        With `max_age`, an answer without a time counts as stale too.
        """
        if self.max_age is None:
            return age is not None and age < -self.max_skew
        return age is None or age > self.max_age or age < -self.max_skew


def to_moment(value: Any) -> float | None:
    """Convert a time, as seconds, a date or text of either, to seconds since 1970.

    A date without a time zone is in UTC. The result is None if it is not a valid time.

    Examples
    --------
    >>> from emsco.live.fetch_result import to_moment
    >>> to_moment("1970-01-02"), to_moment("86400"), to_moment(b"1970-01-01T24:00:00Z")
    (86400.0, 86400.0, None)
    """
    if isinstance(value, bytes):
        value = value.decode("ascii", "replace")
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            try:
                value = datetime.fromisoformat(value)
            except ValueError:
                return None
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        moment = float(value)
    except OverflowError:
        return None
    return moment if abs(moment) < 1e12 else None  # milliseconds, or not a time


class FetchedRow(NamedTuple):
    """One row of an answer: its key, its values by feature, its time and its price."""

    key: Key
    record: Record | None  # None: this row failed
    time: Any = None
    price: Any = None
    reason: str = ERROR  # why it has no record


def match(
    keys: Sequence[Key],
    answers: Iterable[FetchedRow],
    features: Sequence[str],
    freshness: Freshness,
    *,
    timed: bool,
    verified: bool = True,
) -> FetchResult:
    """Match answers to the keys that they are for.

    Keys are compared as text, byte for byte. A key without an answer is `missing`, a key with two
    or more is `ambiguous`, and answers for keys that were not requested are ignored. `timed` says
    whether the source gives the time of its events.
    """
    by_key: dict[str, FetchedRow | None] = {}
    for answer in answers:
        if answer.key is None or isinstance(answer.key, _NO_KEYS):
            continue  # as text, it would match the key "None"
        text = key_text(answer.key)
        by_key[text] = None if text in by_key else answer
    now = time.time()
    records: list[Record] = [{}] * len(keys)
    reasons = [ACCEPTED] * len(keys)
    ages: list[float | None] = [None] * len(keys)
    prices: list[float | None] = [None] * len(keys)
    for i, key in enumerate(keys):
        found = by_key.get(key_text(key), _NOTHING)
        if found is None:
            reasons[i] = AMBIGUOUS
            continue
        if found is _NOTHING:
            reasons[i] = MISSING
            continue
        prices[i] = _price(found.price)
        if found.record is None:
            reasons[i] = found.reason
            continue
        if prices[i] is None and _is_endless(found.price):
            reasons[i] = INVALID_VALUE
            continue
        if timed:
            ages[i] = freshness.age(found.time, now)
            if freshness.is_stale(ages[i]):
                reasons[i] = STALE
                continue
        records[i] = found.record
    columns = {name: [record.get(name) for record in records] for name in features}
    priced = any(price is not None for price in prices)
    return FetchResult(
        columns, reasons, ages if timed else None, prices if priced else None, verified
    )


_NOTHING = FetchedRow(None, None)
_NO_KEYS = (bool, list, dict)


_MOST_PRICE = sys.float_info.max


def _price(value: Any) -> float | None:
    """Return the price in an answer; None if there is no valid one."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= _MOST_PRICE else None


def _is_endless(price: Any) -> bool:
    """Return whether the price in an answer is infinite, or too large for a float."""
    return isinstance(price, int | float) and price > _MOST_PRICE


def key_text(key: Key) -> str:
    """Return a key as the text used to compare it.

    Examples
    --------
    >>> from emsco.live.fetch_result import key_text
    >>> key_text(b"a81f"), key_text(17)
    ('a81f', '17')
    """
    return str(as_text(key))


def first_places(keys: Sequence[Key]) -> dict[str, int]:
    """Return the first position of each key, by its text.

    Examples
    --------
    >>> from emsco.live.fetch_result import first_places
    >>> first_places(["7", "x", 7])
    {'7': 0, 'x': 1}
    """
    places: dict[str, int] = {}
    for place, key in enumerate(keys):
        places.setdefault(key_text(key), place)
    return places


def as_text(value: Any) -> Any:
    r"""Return bytes as text, even if they are not valid UTF-8, and other values as they are.

    Examples
    --------
    >>> from emsco.live.fetch_result import as_text
    >>> as_text(b"a81f"), as_text(b"\xff"), as_text(17)
    ('a81f', '\udcff', 17)
    """
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
