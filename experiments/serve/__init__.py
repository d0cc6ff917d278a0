"""What the service must show: real processes under load that are killed, reloaded and attacked.

Redis and PostgreSQL are started on other ports, and a vendor that keeps its own bill.
"""

from __future__ import annotations

import importlib
import signal
import sys
import time

# By name: the module that measures it.
PARTS = {
    "kills": "kills",
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
    from experiments.live.bars import Bar, table_of, tell
    from experiments.serve.world import made

    unknown = [name for name in only or () if name not in PARTS]
    if unknown:
        raise SystemExit(f"There is no part {unknown[0]!r}; there are {', '.join(PARTS)}.")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # so that stores are ended too
    bars: list[Bar] = []
    with made(SMALL_KEYS if small else KEYS) as world:
        for name, module in PARTS.items():
            if only and name not in only:
                continue
            begin = time.perf_counter()
            part = importlib.import_module(f"experiments.serve.{module}")
            bars += part.measure(world, small=small)
            tell(name, took=round(time.perf_counter() - begin, 1))
    report = table_of(bars)
    missed = [bar.what for bar in bars if not bar.met]
    if missed:
        raise SystemExit(f"{report}\n\nMissed: {'; '.join(missed)}.")
    return report
