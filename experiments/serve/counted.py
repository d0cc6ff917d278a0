"""`emsco serve` that tells again and again how many tasks it has: nobody sees this from outside.

Run as `python -m experiments.serve.counted serve model.emsco ...`.
"""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from typing import Any

from emsco.cli import main
from emsco.serve.events import log_event

EVENT, EVERY = "tasks", 0.25  # the event, and the seconds between two


def _tell(*_: Any) -> None:
    # Before there is an event loop, and while another event is being written, nothing is told.
    with suppress(RuntimeError):
        log_event(EVENT, tasks=len(asyncio.all_tasks()))


if __name__ == "__main__":
    signal.signal(signal.SIGALRM, _tell)
    signal.setitimer(signal.ITIMER_REAL, EVERY, EVERY)
    try:
        main()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)  # or it would end by the signal
