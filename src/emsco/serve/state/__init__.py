"""The state that the processes of a service share: ids, money, breakers, audited rows."""

from __future__ import annotations

from emsco.serve.state.base import (
    AuditMark,
    Claim,
    Concern,
    DaySpending,
    OpenIntent,
    RequestContext,
    State,
    VersionedValue,
    asking,
)
from emsco.serve.state.state_url import open_state

__all__ = [
    "AuditMark",
    "Claim",
    "Concern",
    "DaySpending",
    "OpenIntent",
    "RequestContext",
    "State",
    "VersionedValue",
    "asking",
    "open_state",
]
