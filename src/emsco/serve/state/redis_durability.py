"""Checks whether the settings of Redis let it lose data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from emsco.serve.state.protocol import Concern

_LOST = "after a restart, ids, intents and spending are lost. Set `appendonly yes`."


def redis_concerns(address: str, info: Mapping[str, Any], snapshots: str | None) -> list[Concern]:
    """Return the reasons why Redis may lose data.

    Parameters
    ----------
    address : str
        Its URL without secrets.
    info : mapping of str to value
        Its INFO on persistence and memory; empty with some providers.
    snapshots : str or None
        Its snapshot setting; "": never. None: unknown.

    Examples
    --------
    >>> from emsco.serve.state.redis_durability import redis_concerns
    >>> [concern.loses for concern in redis_concerns("redis://host", {}, "")]
    [True]
    >>> redis_concerns("redis://host", {"aof_enabled": 1}, "")
    []
    """
    found = [] if info.get("aof_enabled") else [_unwritten(address, snapshots)]
    policy = info.get("maxmemory_policy", "noeviction")
    if info.get("maxmemory") and policy != "noeviction":
        text = (
            f"Redis at {address} may evict data to save memory ({policy}). Set `maxmemory-policy "
            "noeviction`."
        )
        found.append(Concern(text, loses=True))
    return found


def _unwritten(address: str, snapshots: str | None) -> Concern:
    """Return the concern about a missing append-only file, depending on snapshots."""
    if snapshots is None:
        text = f"Redis at {address} hides whether it writes to disk; if it does not, {_LOST}"
        return Concern(text, loses=False)
    if snapshots:
        lost = _LOST.replace("spending", "spending since its last snapshot")
        return Concern(f"Redis at {address} writes no append-only file: {lost}", loses=False)
    return Concern(f"Redis at {address} writes nothing to disk: {_LOST}", loses=True)
