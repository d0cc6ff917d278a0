"""The state that the processes of a service share: ids, money, breakers, audited rows."""

from __future__ import annotations

from emsco.live.accounts import RequestContext
from emsco.serve.state.base import AuditMark, DaySpending, OpenIntent, State
from emsco.serve.state.state_url import open_state

__all__ = ["AuditMark", "DaySpending", "OpenIntent", "RequestContext", "State", "open_state"]
