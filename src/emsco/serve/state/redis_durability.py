"""Whether Redis keeps what it is given: known by its settings, or not told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from emsco.serve.state.protocol import Concern

_LOST = "if it is restarted, ids, intents and spending are lost. Set `appendonly yes`."


def redis_concerns(address: str, told: Mapping[str, Any], snapshots: str | None) -> list[Concern]:
    """Return why Redis may lose what it is given.

    Parameters
    ----------
    address : str
        Its address without secrets.
    told : mapping of str to value
        What it tells of its persistence and memory; some of a provider tells nothing.
    snapshots : str or None
        When it writes snapshots; "": never. None: it does not tell.

    Examples
    --------
    >>> from emsco.serve.state.redis_durability import redis_concerns
    >>> [concern.loses for concern in redis_concerns("redis://host", {}, "")]
    [True]
    >>> redis_concerns("redis://host", {"aof_enabled": 1}, "")
    []
    """
    found = [] if told.get("aof_enabled") else [_unwritten(address, snapshots)]
    policy = told.get("maxmemory_policy", "noeviction")
    if told.get("maxmemory") and policy != "noeviction":
        text = (
            f"Redis at {address} may forget what it is given, to save memory ({policy}). Set "
            "`maxmemory-policy noeviction`."
        )
        found.append(Concern(text, loses=True))
    return found


def _unwritten(address: str, snapshots: str | None) -> Concern:
    """Say what is lost without an append-only file, by what is known of snapshots."""
    if snapshots is None:
        text = f"Redis at {address} does not tell whether it writes to disk: if not, and {_LOST}"
        return Concern(text, loses=False)
    if snapshots:
        lost = _LOST.replace("lost", "lost since its last snapshot")
        return Concern(f"Redis at {address} writes no append-only file: {lost}", loses=False)
    return Concern(f"Redis at {address} writes nothing to disk: {_LOST}", loses=True)
