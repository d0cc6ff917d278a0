"""What the processes of a service share: ids, money, breakers, audited rows."""

from __future__ import annotations

from emsco.serve.state.protocol import (
    Asking,
    Claim,
    Concern,
    Kept,
    Marked,
    OpenIntent,
    Spent,
    State,
    asking,
)
from emsco.serve.state.state_url import open_state

__all__ = [
    "Asking",
    "Claim",
    "Concern",
    "Kept",
    "Marked",
    "OpenIntent",
    "Spent",
    "State",
    "asking",
    "open_state",
]
