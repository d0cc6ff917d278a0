"""What fields of sources and costs may hold, and which of them files and fingerprints have."""

from __future__ import annotations

from collections.abc import Iterable

from emsco.exceptions import CostsError

# Fields that came later: files and fingerprints have them only where they are set.
LATER = {"later": True}
# What tells people what something is: no decision depends on it, and so no fingerprint.
WORDS = LATER | {"words": True}


def amount(value: object, what: str) -> float:
    """Check a price or a latency: a finite number that is not negative."""
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = float("nan")
    if isinstance(value, bool | str) or not 0 <= number < float("inf"):
        raise CostsError(f"The {what} must be a number >= 0, got {value!r}.")
    return number


def as_text(value: object, of: str) -> str:
    """Check a description."""
    if not isinstance(value, str):
        raise CostsError(f"The description of {of} must be text, got {value!r}.")
    return value


def as_names(value: Iterable[str] | str) -> tuple[str, ...]:
    """Take one name or several."""
    return (value,) if isinstance(value, str) else tuple(value)
