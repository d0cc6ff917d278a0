"""The answer of a source for some keys: values for each key, or the reason why there are none.

Rows are matched by key, never by position: an answer for another key must not be used for this one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeAlias

from emsco.core.decisions import ERROR

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


def to_moment(value: Any) -> float | None:
    """Convert a time, as seconds, a date or text of either, to seconds since 1970.

    A date without a time zone is in UTC. The result is None if it is not a valid time.
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


def key_text(key: Key) -> str:
    """Return a key as the text used to compare it."""
    return str(as_text(key))


def first_places(keys: Sequence[Key]) -> dict[str, int]:
    """Return the first position of each key, by its text."""
    places: dict[str, int] = {}
    for place, key in enumerate(keys):
        places.setdefault(key_text(key), place)
    return places


def as_text(value: Any) -> Any:
    """Return bytes as text, even if they are not valid UTF-8, and other values as they are."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


class UnbilledError(ConnectionError):
    """A request failed, and the vendor charges nothing for it."""


def is_unbilled(error: BaseException | None) -> bool:
    """Return whether an error, or what caused it, says that nothing is charged for the request."""
    while error is not None:
        if isinstance(error, UnbilledError | ConnectionRefusedError):
            return True
        error = error.__cause__
    return False
