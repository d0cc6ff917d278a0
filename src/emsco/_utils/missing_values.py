"""Missing values of every library: None, NaN, NaT, NA and masked values."""

from __future__ import annotations

from decimal import InvalidOperation


def is_missing(value: object) -> bool:
    """Return whether a value is missing."""
    if isinstance(value, str):
        return False
    if value is None or type(value).__name__ in ("NAType", "MaskedConstant"):
        return True
    try:  # NaN and NaT differ from themselves
        return bool(value != value)
    except InvalidOperation:  # a signalling NaN
        return True
    except Exception:  # an array, or another value that has no such comparison
        return False
