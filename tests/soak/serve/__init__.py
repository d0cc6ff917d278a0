"""What the service must show: real processes under load that are killed, reloaded and attacked.

Redis and PostgreSQL are started on other ports, and a vendor that keeps its own bill.
"""

from __future__ import annotations

# By name: the module that measures it.
PARTS = {
    "kills": "kills",
    "deployments": "deployments",
    "emptied": "emptied",
    "stream": "stream",
    "cap": "cap",
    "reloads": "reloads",
    "bodies": "attacks",
    "schema": "schema",
    "saturation": "saturation",
    "soak": "soak",
}
KEYS = 60_000
SMALL_KEYS = 6_000


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Measure every part, and give one table; end with an error if a bar is missed."""
    from tests.soak.live.bars import run_parts
    from tests.soak.serve.world import made

    return run_parts(__name__, PARTS, made(SMALL_KEYS if small else KEYS), small=small, only=only)
