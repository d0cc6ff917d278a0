"""The one way to say that a promise is broken."""

from __future__ import annotations

from emsco.exceptions import ContractError


def demand(kept: object, broken: str) -> None:
    """Raise, with the sentence that says what is broken, unless the promise is kept."""
    if not kept:
        raise ContractError(broken)
