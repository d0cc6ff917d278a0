"""The function that reports a broken promise."""

from __future__ import annotations

from emsco.exceptions import ContractError


def demand(condition: object, broken: str) -> None:
    """Raise an error with the sentence that says what is broken, unless the condition holds."""
    if not condition:
        raise ContractError(broken)
