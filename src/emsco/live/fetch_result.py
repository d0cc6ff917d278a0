"""The answer of a source for some keys: a value for each key, or why there is none.

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

    def age(self, given: Any, now: float) -> float | None:
        """Return the age of an answer with the given time; None if that is not a valid time."""
        moment = to_moment(given)
        return None if moment is None else now - moment

    def is_stale(self, age: float | None) -> bool:
        """Return whether an answer is too old or dated in the future.

        With `max_age`, an answer without a time counts as stale too.
        """
        if self.max_age is None:
            return age is not None and age < -self.max_skew
        return age is None or age > self.max_age or age < -self.max_skew


def to_moment(given: Any) -> float | None:
    """Convert a time to seconds since 1970; it is given as such seconds, a date, or text of either.

    A date without a time zone is in UTC. The result is None if it is not a valid time.

    Examples
    --------
    >>> from emsco.live.fetch_result import to_moment
    >>> to_moment("1970-01-02"), to_moment("86400"), to_moment(b"1970-01-01T24:00:00Z")
    (86400.0, 86400.0, None)
    """
    if isinstance(given, bytes):
        given = given.decode("ascii", "replace")
    if isinstance(given, str):
        try:
            given = float(given)
        except ValueError:
            try:
                given = datetime.fromisoformat(given)
            except ValueError:
                return None
    if isinstance(given, datetime):
        return (given if given.tzinfo else given.replace(tzinfo=UTC)).timestamp()
    if isinstance(given, bool) or not isinstance(given, int | float):
        return None
    try:
        moment = float(given)
    except OverflowError:
        return None
    return moment if abs(moment) < 1e12 else None  # milliseconds, or no time at all


class FetchedRow(NamedTuple):
    """One row of an answer: its key, its values by feature, its time and its price."""

    key: Key
    record: Record | None  # None: this row alone failed
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
            continue  # or it would answer for the key that is called "None"
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


def _price(given: Any) -> float | None:
    """Return the price that an answer carries; None if it carries none that can be one."""
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    return float(given) if is_number and 0 <= given <= _MOST_PRICE else None


def _is_endless(given: Any) -> bool:
    """Return whether an answer carries a price that nobody can pay."""
    return isinstance(given, int | float) and given > _MOST_PRICE


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
    """Return the place of each key, as text, where it comes first.

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
