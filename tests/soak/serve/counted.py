"""`emsco serve` that tells how many old tasks it has, again and again: nobody sees this outside.

The tasks of requests come and go, more of them when the machine is slow; what is left behind
becomes old.

Run as `python -m tests.soak.serve.counted serve model.emsco ...`.
"""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

from emsco.cli import main
from emsco.serve.events import log_event

EVENT, EVERY = "tasks", 0.25  # the event, and the seconds between two
OLD = 2.0  # seconds: no request takes as long
_seen: WeakKeyDictionary[asyncio.Task[Any], float] = WeakKeyDictionary()  # when each was first


def _tell(*_: Any) -> None:
    # Before there is an event loop, and while another event is being written, nothing is told.
    with suppress(RuntimeError):
        tasks, now = asyncio.all_tasks(), time.monotonic()
        log_event(EVENT, tasks=sum(now - _seen.setdefault(task, now) >= OLD for task in tasks))


if __name__ == "__main__":
    signal.signal(signal.SIGALRM, _tell)
    signal.setitimer(signal.ITIMER_REAL, EVERY, EVERY)
    try:
        main()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)  # or it would end by the signal
