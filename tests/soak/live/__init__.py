"""What the live cascade must show, on stores of its own that are killed, slowed down and spoiled.

Real Redis, PostgreSQL and MariaDB are started on other ports, and a vendor that keeps its own bill.
"""

from __future__ import annotations

# By name: the module that measures it. In this order: the quickest first.
PARTS = {
    "mutations": "mutations",
    "hostile": "hostile",
    "table": "table",
    "staged": "staged",
    "secrets": "secrecy",
    "bill": "bill",
    "midnight": "midnight",
    "cancel": "cancel",
    "faults": "faults",
    "soak": "soak",
}


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Measure every part, and give one table; end with an error if a bar is missed."""
    from tests.soak.live.bars import run_parts
    from tests.soak.live.stores import started

    return run_parts(__name__, PARTS, started(), small=small, only=only)
