"""The period of spot checks as Redis holds it: two hashes, whose values are texts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from emsco.serve.check_period import Admission, CheckPeriod, Step

_TEXTS = ("settings", "server", "incarnation", "closed")
_FLOATS = ("per_seconds", "rate", "begun")


def steps_text(steps: Sequence[Step]) -> str:
    """Return steps as the script reads them: pairs are admissions, triples are ends of checks."""
    return json.dumps([
        [one.id, repr(one.coin)] if isinstance(one, Admission) else [one.id, int(one.agrees), ""]
        for one in steps
    ])  # fmt: skip


def period_of(fields: Sequence[str], checks: Sequence[str]) -> CheckPeriod:
    """Return the period of two replies, in which names and values alternate."""
    read: dict[str, Any] = {
        name: text if name in _TEXTS else float(text) if name in _FLOATS else int(text)
        for name, text in zip(fields[::2], fields[1::2], strict=True)
    }
    rows = map(int, checks[1::2])
    return CheckPeriod.from_data(read | {"under_way": dict(zip(checks[::2], rows, strict=True))})
