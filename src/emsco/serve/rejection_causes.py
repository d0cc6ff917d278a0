"""Classify reasons for rejection: a source failed, perhaps temporarily, or the input is invalid."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache

import numpy as np

from emsco.core.decisions import (
    ABOVE_CAP,
    AMBIGUOUS,
    INVALID_KEY,
    INVALID_VALUE,
    KINDS,
    LOW_CONFIDENCE,
    MISSING,
    OUT_OF_RANGE,
    UNSEEN_CATEGORY,
    Decisions,
    kind_of,
)

# All reasons but those by which the cascade itself rejects rows.
FAILURES = frozenset(KINDS) - {
    LOW_CONFIDENCE, INVALID_VALUE, OUT_OF_RANGE, UNSEEN_CATEGORY, ABOVE_CAP,
}  # fmt: skip
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
    if np.count_nonzero(decisions.accepted) == len(decisions):
        return []
    reasons = decisions.reason.tolist()
    garbage = set()
    for reason in set(reasons):
        kind, _, name = reason.partition(": ")
        # A source whose values are known is not fetched.
        is_value = kind == INVALID_VALUE and name in known
        if is_value or (kind == INVALID_KEY and all(n in known for n in needs.get(name, ()))):
            garbage.add(reason)
    return [place for place, reason in enumerate(reasons) if reason in garbage] if garbage else []
