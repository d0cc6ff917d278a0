"""Minutes at 70% of what saturates: memory stays as it is, and nothing becomes more and more."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tests.soak.live.bars import Bar, tell
from tests.soak.serve.counted import OLD
from tests.soak.serve.generator import load
from tests.soak.serve.process import CLIENT_CORE, SERVICE_CORE, Process, serving
from tests.soak.serve.saturation import PLACES
from tests.soak.serve.world import World

_PART = "soak"
SHARE = 0.7  # of what saturates
PARTS = 10  # of the whole time: of ten minutes, a minute each
GROWTH = 0.05  # of memory, at most
# A client, and a call to a source, open a connection if none is free: more when all is slow.
_USUAL = {"files": 2 * PLACES, "sockets": 2 * PLACES}
MORE = {"tasks": 20, "files": 10, "sockets": 10, "threads": 4}  # at most
_PAGE = os.sysconf("SC_PAGE_SIZE")
_EVERY = 0.25  # seconds


@dataclass
class Looked:
    """What a process had, seen from outside again and again."""

    moments: list[float] = field(default_factory=list)
    seen: dict[str, list[float]] = field(default_factory=dict)

    def add(self, moment: float, **seen: float) -> None:
        """Take what was seen at a moment."""
        self.moments.append(moment)
        for name, number in seen.items():
            self.seen.setdefault(name, []).append(number)

    def tenths(self, name: str, begin: float, end: float) -> list[float]:
        """Give the mean of each tenth of the time."""
        return tenths(self.moments, self.seen[name], begin, end)


def tenths(
    moments: Sequence[float], seen: Sequence[float], begin: float, end: float
) -> list[float]:
    """Give the mean of what was seen in each tenth of a time."""
    places = (np.asarray(moments) - begin) / (end - begin) * PARTS
    values = np.asarray(seen, dtype=float)
    parts = [values[(places >= part) & (places < part + 1)] for part in range(PARTS)]
    return [float(part.mean()) if part.size else float("nan") for part in parts]


def grows(means: Sequence[float], most: float, usual: float = 0.0) -> bool:
    """Say whether the least that was seen has grown by more than so much, or is not known.

    Requests come and go; what is left behind is there in every tenth. As many as are `usual` may be
    there at any time.
    """
    before, after = least(means)
    return not after - max(before, usual) <= most


def least(means: Sequence[float]) -> list[float]:
    """Give the least of each half, without the first tenth; NaN where nobody looked."""
    halves = means[1 : PARTS // 2], means[PARTS // 2 :]
    return [
        min((mean for mean in half if not np.isnan(mean)), default=float("nan")) for half in halves
    ]


def measure(world: World, *, small: bool) -> list[Bar]:
    """Load it for ten minutes; `--small`, for eight seconds."""
    seconds = 8.0 if small else 600.0
    world.vendor.behave(delay=(0.0, 0.02))
    keys = world.keys[:5000]
    looked, is_over = Looked(), threading.Event()
    with serving(
        world, "--audit", "0.1", core=SERVICE_CORE, module="tests.soak.serve.counted",
        environment={"PYTHONPATH": _path()},
    ) as process:  # fmt: skip
        warm = load(process.port, keys, max(2.0, seconds / 30), clients=PLACES, core=CLIENT_CORE)
        looking = threading.Thread(target=_look, args=(process, looked, is_over))
        looking.start()
        found = load(process.port, keys, seconds, clients=PLACES, rate=SHARE * warm.answered,
                     core=CLIENT_CORE)  # fmt: skip
        is_over.set()
        looking.join()
        begin, end = found.begun, found.begun + found.seconds
        tasks = [event for event in process.told("tasks") if begin <= event["heard"] <= end]
        code = process.end()
    world.vendor.behave()
    means = {name: looked.tenths(name, begin, end) for name in looked.seen}
    means["tasks"] = tenths(
        [event["heard"] for event in tasks], [event["tasks"] for event in tasks], begin, end
    )
    tell(_PART, saturation=warm.answered, seconds=seconds, sent=found.sent, lost=found.lost,
         statuses=found.statuses, p99=found.p99, means=means, code=code)  # fmt: skip
    memory = means.pop("memory")
    growth = memory[-1] / memory[1] - 1
    told = ", ".join(
        "{} {:.0f} to {:.0f}".format(name, *least(mean)) for name, mean in means.items()
    )
    failed = found.sent - found.statuses.get(200, 0)
    return [
        Bar(f"memory over {seconds:.0f} s at {found.offered:.0f} requests per second, 70% of "
            "saturation: last tenth against the second", f"at most {GROWTH:.0%} more",
            f"{memory[1] / 2**20:.0f} to {memory[-1] / 2**20:.0f} MB ({growth:+.1%}); {failed} of "
            f"{found.sent:,} requests failed", growth <= GROWTH and not failed and not code),
        Bar(f"tasks above {OLD:g} s, files, sockets and threads: the least in the second half "
            f"against the first, or {2 * PLACES} connections",
            "; ".join(f"{name} at most {most} more" for name, most in MORE.items()), told,
            not any(grows(means[name], most, _USUAL.get(name, 0)) for name, most in MORE.items())),
    ]  # fmt: skip


def _path() -> str:
    """Give the path on which the experiment's own modules are found."""
    given = os.environ.get("PYTHONPATH")
    return os.pathsep.join([*([given] if given else []), str(Path(__file__).parents[3])])


def _look(process: Process, looked: Looked, is_over: threading.Event) -> None:
    folder = Path(f"/proc/{process.pid}")
    while not is_over.wait(_EVERY):
        links = []
        for link in (folder / "fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                links.append(os.readlink(link))
        memory = int((folder / "statm").read_text(encoding="ascii").split()[1]) * _PAGE
        looked.add(
            time.monotonic(), memory=memory, files=len(links),
            sockets=sum(link.startswith("socket:") for link in links),
            threads=len(list((folder / "task").iterdir())),
        )  # fmt: skip
