"""Several Ray nodes as processes of this machine, on loopback only, that can be killed."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from emsco.ray.cluster import LOOPBACK, on_loopback

STORE = 300 * 2**20  # bytes of the object store of each node
SETTINGS = {"worker_niceness": 0}


class Nodes:
    """A head that runs no tasks, and nodes of one CPU each."""

    def __init__(self, n_nodes: int) -> None:
        from ray.cluster_utils import Cluster

        with on_loopback():
            self._cluster: Any = Cluster(
                initialize_head=True,
                head_node_args={
                    "num_cpus": 0,
                    "node_ip_address": LOOPBACK,
                    "include_dashboard": False,
                    "object_store_memory": STORE,
                    "_system_config": SETTINGS,
                },
            )
        self.alive = [self.add() for _ in range(n_nodes)]

    @property
    def address(self) -> str:
        """What `RayEngine(address=...)` takes."""
        return str(self._cluster.address)

    def add(self) -> Any:
        """Start one more node."""
        with on_loopback():
            return self._cluster.add_node(
                num_cpus=1, node_ip_address=LOOPBACK, object_store_memory=STORE
            )

    def kill(self) -> None:
        """Kill a node without warning: its raylet and every process that it has started."""
        node = self.alive.pop(0)
        raylet = next(p for p in node.live_processes() if p[0] == "raylet")[1].pid
        for pid in [raylet, *descendants(raylet)]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._cluster.remove_node(node, allow_graceful=False)

    def replace(self) -> None:
        """Start a node where one was killed."""
        self.alive.append(self.add())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._cluster.shutdown()


def descendants(pid: int) -> list[int]:
    """List the processes that a process has started, and those that they have."""
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, path.read_text().split()):
                found += [child, *descendants(child)]
    return found
