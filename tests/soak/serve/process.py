"""`emsco serve` in a process of its own, as an operator starts it, and what it says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from emsco.serve.settings import DEPLOYMENT
from tests.soak.serve.world import World

SERVICE_CORE, CLIENT_CORE = "0", "1"  # what is measured, and what asks it
_PATIENCE = 240.0  # seconds: others may use the machine
_LOOK = 0.01


class Process:
    """`emsco serve`, and what it says.

    Parameters
    ----------
    folder : Path
        Where model, sources and, without another one, the state are.
    options : sequence of str
        What it is given besides.
    environment : dict of str to str
        What it finds in its environment.
    core : str, default=None
        The core that it runs on. None: any.
    module : str, default="emsco"
        The module that is run.
    """

    def __init__(
        self,
        folder: Path,
        options: Sequence[str],
        environment: dict[str, str],
        core: str | None = None,
        module: str = "emsco",
    ) -> None:
        pinned = [] if core is None else ["taskset", "-c", core]
        command = [*pinned, sys.executable, "-m", module, "serve", "model.emsco", "--sources",
                   "sources.toml", *options]  # fmt: skip
        self.begun = time.monotonic()
        self._process = subprocess.Popen(
            command, cwd=folder, env=os.environ | environment,
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.events: list[dict[str, Any]] = []
        self.other: list[str] = []  # lines that are no events
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.port = 0
        self.cpu = 0.0  # seconds of a core that it took to be ready

    def _read(self) -> None:
        assert self._process.stderr is not None  # it is a pipe
        for line in self._process.stderr:
            try:
                self.events.append(json.loads(line) | {"heard": time.monotonic()})
            except ValueError:
                self.other.append(line)

    @property
    def pid(self) -> int:
        """Give its process id."""
        return self._process.pid

    @property
    def url(self) -> str:
        """Give its address."""
        return f"http://127.0.0.1:{self.port}"

    def told(self, event: str) -> list[dict[str, Any]]:
        """Give what it has said of one kind."""
        return [one for one in list(self.events) if one["event"] == event]

    def wait_for(self, what: Callable[[], object], seconds: float = _PATIENCE) -> None:
        """Wait until something is true, while it runs."""
        until = time.monotonic() + seconds
        while not what():
            if self._process.poll() is not None:
                self._reader.join(5)
                raise RuntimeError(f"emsco serve has ended: {self.events[-3:]} {self.other[-5:]}")
            if time.monotonic() > until:
                raise RuntimeError(f"emsco serve: nothing for {seconds:g} s; {self.events[-3:]}")
            time.sleep(_LOOK)

    def wait_ready(self, workers: int = 1) -> float:
        """Wait until it answers; give the seconds since it was started."""
        self.wait_for(lambda: len(self.told("ready")) >= workers)
        self.port = self.told("ready")[0]["port"]
        self.cpu = self.cpu or _cpu(self.pid)
        return float(self.told("ready")[workers - 1]["heard"] - self.begun)

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kill it with -9; its workers end when they miss it."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._reader.join(5)
        if self._process.stderr is not None:
            self._process.stderr.close()

    def end(self) -> int:
        """Let it drain, and give the exit code."""
        self.send(signal.SIGTERM)
        code = self._process.wait(_PATIENCE)
        self._reader.join(5)
        return code


def _cpu(process: int) -> float:
    """Give the seconds of a core that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def serving(
    world: World,
    *options: str,
    state: str = "",
    deployment: str = DEPLOYMENT,
    port: int = 0,
    workers: int = 1,
    waits: bool = True,
    core: str | None = None,
    module: str = "emsco",
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Process]:
    """Serve, and wait until it answers if `waits`; it is killed at the end."""
    known = {**world.environment, "EMSCO_STATE": state, **environment}
    given = ["--port", str(port), "--workers", str(workers), "--deployment", deployment, *options]
    process = Process(world.folder, given, known, core, module)
    try:
        if waits:
            process.wait_ready(workers)
        yield process
    finally:
        process.kill()
