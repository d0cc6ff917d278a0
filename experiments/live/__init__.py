"""What the live cascade must show, on stores of its own that are killed, slowed down and spoiled.

Real Redis, PostgreSQL and MariaDB are started on other ports, and a vendor that keeps its own bill.
"""

from __future__ import annotations

import importlib
import signal
import sys
import time

# By name: the module that measures it. In this order: the quickest first.
PARTS = {
    "mutations": "mutations",
    "table": "table",
    "staged": "staged",
    "secrets": "secrecy",
    "bill": "bill",
    "cancel": "cancel",
    "faults": "faults",
    "soak": "soak",
}


def run(*, small: bool, only: list[str] | None = None) -> str:
    """Measure every part, and give one table; end with an error if a bar is missed."""
    from experiments.live.bars import Bar, table_of, tell
    from experiments.live.stores import started

    unknown = [name for name in only or () if name not in PARTS]
    if unknown:
        raise SystemExit(f"There is no part {unknown[0]!r}; there are {', '.join(PARTS)}.")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # so that stores are ended too
    bars: list[Bar] = []
    with started() as stores:
        for name, module in PARTS.items():
            if only and name not in only:
                continue
            begin = time.perf_counter()
            part = importlib.import_module(f"experiments.live.{module}")
            bars += part.measure(stores, small=small)
            tell(name, took=round(time.perf_counter() - begin, 1))
    report = table_of(bars)
    missed = [bar.what for bar in bars if not bar.met]
    if missed:
        raise SystemExit(f"{report}\n\nMissed: {'; '.join(missed)}.")
    return report
