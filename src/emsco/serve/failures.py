"""Which rows were rejected because a source failed, and not by the cascade."""

from __future__ import annotations

from functools import lru_cache

from emsco.words.decisions import (
    AMBIGUOUS,
    BUDGET,
    CIRCUIT_OPEN,
    DEADLINE,
    ERROR,
    MISSING,
    STALE,
    TIMEOUT,
    kind_of,
)

FAILURES = frozenset({TIMEOUT, ERROR, MISSING, AMBIGUOUS, STALE, CIRCUIT_OPEN, BUDGET, DEADLINE})


@lru_cache(maxsize=10_000)  # a model has fewer reasons, and every rejected row asks
def is_failure(reason: str) -> bool:
    """Return whether a reason is the failure of a source, or of the money or time for it.

    Examples
    --------
    >>> from emsco.serve.failures import is_failure
    >>> is_failure("timeout: whois"), is_failure("out of range: TSH"), is_failure("")
    (True, False, False)
    """
    return kind_of(reason) in FAILURES
