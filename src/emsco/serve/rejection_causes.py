"""Why rows were rejected: a source failed, perhaps only for now; or the caller sent garbage."""

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
# What may be otherwise when the row is asked for again.
PASSING = FAILURES - {MISSING, AMBIGUOUS, INVALID_KEY}


@lru_cache(maxsize=10_000)  # a model has fewer reasons, and every rejected row asks
def is_failure(reason: str) -> bool:
    """Return whether a reason is the failure of a source, or of the money or time for it.

    Examples
    --------
    >>> from emsco.serve.rejection_causes import is_failure
    >>> is_failure("timeout: whois"), is_failure("out of range: TSH"), is_failure("")
    (True, False, False)
    """
    return kind_of(reason) in FAILURES


@lru_cache(maxsize=10_000)
def is_passing(reason: str) -> bool:
    """Return whether a row that was rejected for a reason may be accepted later.

    Examples
    --------
    >>> from emsco.serve.rejection_causes import is_passing
    >>> is_passing("timeout: whois"), is_passing("missing: whois"), is_passing("")
    (True, False, False)
    """
    return kind_of(reason) in PASSING


def sent_invalid(
    decisions: Decisions, known: Collection[str], needs: Mapping[str, Collection[str]]
) -> list[int]:
    """Return the places of rows that are rejected for what their caller sent.

    One client could otherwise raise alarms about a model by garbage. Values that are out of range
    or unseen are not meant: they are how a change of the rows is noticed.

    Parameters
    ----------
    decisions : Decisions
        The decisions of one call.
    known : collection of str
        The names of what the caller sent beside keys.
    needs : mapping of str to collection of str
        What each source is asked with, beside the key.

    Examples
    --------
    >>> from emsco import Decisions
    >>> from emsco.serve.rejection_causes import sent_invalid
    >>> odd = Decisions(["no"], [False], [0], [0.0], [0.0], reason=["invalid value: age"])
    >>> sent_invalid(odd, {"age"}, {}), sent_invalid(odd, set(), {})
    ([0], [])
    """
    if decisions.accepted.all():
        return []
    reasons = decisions.reason.tolist()
    garbage = {reason for reason in set(reasons) if _is_sent(reason, known, needs)}
    return [place for place, reason in enumerate(reasons) if reason in garbage] if garbage else []


def _is_sent(reason: str, known: Collection[str], needs: Mapping[str, Collection[str]]) -> bool:
    kind, _, name = reason.partition(": ")
    if kind == INVALID_VALUE:
        return name in known  # a source of which something is known is not fetched
    return kind == INVALID_KEY and all(need in known for need in needs.get(name, ()))
