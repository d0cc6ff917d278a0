"""A Ray cluster to work on: one that runs already, or one of this machine's own on loopback."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from joblib import cpu_count

from emsco.exceptions import EngineError, require

LOOPBACK = "127.0.0.1"
# Read by Ray in this process and in those that it starts.
_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    # The one switch that keeps Ray from replacing 127.0.0.1 by the address of a network card.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # what later versions of Ray do; a warning otherwise
}
_SETTINGS = {
    "worker_niceness": 0,  # Ray's own default, 15, loses every core to any other process
    "task_oom_retries": 3,  # not for ever: a fit that needs too much memory needs it every time
}


def join(address: str | None, n_workers: int | None) -> bool:
    """Connect to a cluster, and say whether it must be left again.

    None: the cluster that this process is connected to already, else a new one that nobody else
    can reach, which ends with this process at the latest.
    """
    ray = require("ray", "ray")
    if ray.is_initialized():
        _refuse_another(ray, address)
        return False
    if address is None:
        _start(ray, n_workers or int(cpu_count()))
        return True
    try:
        with _route(ray, address):
            ray.init(address, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        raise EngineError(
            f"There is no Ray cluster at {address!r}: {reason}. Start one with `ray start --head`, "
            "or give no address to start one on this machine."
        ) from error
    return True


def leave() -> None:
    """Disconnect; a cluster that this process has started ends."""
    require("ray", "ray").shutdown()


def count_cpus() -> int:
    """Return how many CPUs the nodes that are alive have in all."""
    return int(require("ray", "ray").cluster_resources().get("CPU", 0))


def _start(ray: Any, n_workers: int) -> None:
    with on_loopback():
        ray.init(
            "local",  # a new one, also if another runs on this machine
            num_cpus=n_workers,
            num_gpus=0,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
            _node_ip_address=LOOPBACK,
            _system_config=dict(_SETTINGS),
        )
    found = [node["NodeManagerAddress"] for node in ray.nodes()]
    if found != [LOOPBACK]:
        ray.shutdown()
        raise EngineError(
            f"This version of Ray listens on {found[0]} instead of {LOOPBACK} only, so it was "
            "stopped. Start a cluster in the way you want it, and give its address."
        )


@contextmanager
def on_loopback() -> Iterator[None]:
    """Let clusters that are started inside the block listen on loopback only.

    Their workers find the modules that this process finds.
    """
    changed = _ENVIRONMENT | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    # Ray reads the switch when it is imported, which may have been long ago.
    constants: Any = require("ray._private.ray_constants", "ray")
    was_enabled, constants.ENABLE_RAY_CLUSTER = constants.ENABLE_RAY_CLUSTER, False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = was_enabled
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _route(ray: Any, address: str) -> AbstractContextManager[None]:
    """Choose how to connect: Ray replaces 127.0.0.1, and waits for ever where nobody listens."""
    host, colon, port = address.rpartition(":")
    if "://" in address or not colon or not port.isdecimal():
        return nullcontext()  # "auto", or an address that Ray alone understands
    if host in (LOOPBACK, "localhost") and not _listens(ray.util.get_node_ip_address(), int(port)):
        _demand_listener(host, int(port))
        return on_loopback()
    _demand_listener(host, int(port))
    return nullcontext()


def _refuse_another(ray: Any, address: str | None) -> None:
    """Refuse an address other than that of the cluster at hand: there is one per process."""
    connected = str(ray.get_runtime_context().gcs_address)
    if address is None or ":" not in address or "://" in address:
        return
    host, _, port = address.rpartition(":")
    is_other = host not in (LOOPBACK, "localhost") and address != connected
    if is_other or port != connected.rpartition(":")[2]:
        raise EngineError(
            f"This process is connected to the Ray cluster at {connected}; leave it with "
            f"`ray.shutdown()` before connecting to {address}."
        )


def _demand_listener(host: str, port: int) -> None:
    if not _listens(host, port):
        raise ConnectionError(f"nothing listens on port {port} of {host}")


def _listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=10).close()
    except OSError:
        return False
    return True
