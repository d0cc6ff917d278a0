"""The function that reports a broken promise."""

from __future__ import annotations

from emsco.exceptions import ContractError


def demand(kept: object, broken: str) -> None:
    """Raise an error with the sentence that says what is broken, unless the promise is kept."""
    if not kept:
        raise ContractError(broken)
