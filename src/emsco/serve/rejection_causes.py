"""Classify reasons for rejection: a source failed, perhaps temporarily, or the input is invalid."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache

from emsco.core.decisions import (
    AMBIGUOUS,
    BUDGET,
    CIRCUIT_OPEN,
    DEADLINE,
    ERROR,
    INVALID_KEY,
    INVALID_VALUE,
    MISSING,
    STALE,
    STATE_LOST,
    TIMEOUT,
    Decisions,
    kind_of,
)

FAILURES = frozenset(
    {
        TIMEOUT,
        ERROR,
        MISSING,
        AMBIGUOUS,
        STALE,
        CIRCUIT_OPEN,
        BUDGET,
        DEADLINE,
        INVALID_KEY,
        STATE_LOST,
    }
)
# Failures that a retry may not meet again.
PASSING = FAILURES - {MISSING, AMBIGUOUS, INVALID_KEY}


@lru_cache(maxsize=10_000)  # called for every rejected row; a model has fewer reasons
def is_failure(reason: str) -> bool:
    """Return whether a reason is a failed source, or a lack of budget or time."""
    return kind_of(reason) in FAILURES


@lru_cache(maxsize=10_000)
def is_passing(reason: str) -> bool:
    """Return whether a row rejected for this reason may be accepted later."""
    return kind_of(reason) in PASSING


def sent_invalid(
    decisions: Decisions, known: Collection[str], needs: Mapping[str, Collection[str]]
) -> list[int]:
    """Return the positions of rows that were rejected because of invalid input of the caller.

    Without this, a single client could raise alarms about a model by sending garbage. Values that
    are out of range or unseen do not count: by them, a change of the rows is noticed.
    """
    if decisions.accepted.all():
        return []
    reasons = decisions.reason.tolist()
    garbage = {reason for reason in set(reasons) if _is_sent(reason, known, needs)}
    return [place for place, reason in enumerate(reasons) if reason in garbage] if garbage else []


def _is_sent(reason: str, known: Collection[str], needs: Mapping[str, Collection[str]]) -> bool:
    kind, _, name = reason.partition(": ")
    if kind == INVALID_VALUE:
        return name in known  # a source with known values is not fetched
    return kind == INVALID_KEY and all(need in known for need in needs.get(name, ()))
