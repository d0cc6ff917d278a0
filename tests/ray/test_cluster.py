"""Clusters on this machine are reachable from this machine only, and end when they should."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import ray
from listening import family, listening

from emsco.ray import cluster

# In a process of its own: the tests are connected to another cluster.
PROGRAM = """
import doctest, os, sys
import ray  # as somebody who has used Ray before
sys.path[:0] = {paths!r}
from listening import family, listening
from emsco.exceptions import EngineError
from emsco.ray import RayEngine
from emsco.ray.cluster import on_loopback
own = ("PYTHONPATH", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "RAY_USAGE_STATS_ENABLED")
before = [os.environ.get(name) for name in own]
with RayEngine(1) as engine:
    assert engine.map(pow, [3], shared=2) == [9]
    found = listening(family())
    assert len(found) >= 3, found
    print(sorted(str(address) for address, _ in found if not address.is_loopback))
    print(*family()[1:])
    for name in ("RayEngine", "decide_dataset"):
        module = sys.modules[getattr(__import__("emsco.ray", fromlist=[name]), name).__module__]
        for test in doctest.DocTestFinder(recurse=False).find(getattr(module, name), name):
            for example in test.examples:
                example.options.clear()  # here there is a cluster to run them on
            failed, tried = doctest.DocTestRunner().run(test)
            assert tried and not failed, name
with RayEngine(1) as engine:  # and once more
    print(engine.map(pow, [4], shared=2))
assert [os.environ.get(name) for name in own] == before
with on_loopback():
    ray.init(
        "local", num_cpus=0, include_dashboard=False, _node_ip_address="127.0.0.1",
        log_to_driver=False,
    )
try:
    RayEngine(patience=1).map(pow, [3], shared=2)
except EngineError as error:
    print(error)
ray.shutdown()
"""


def command_of(pid):
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""


def test_nodes_listen_on_loopback_only(engine):
    engine.map(pow, [3], shared=2)
    found = listening(family())
    assert len(found) > 5
    assert {address for address, _ in found if not address.is_loopback} == set()


def test_a_socket_that_listens_elsewhere_would_be_seen():
    """The test above can fail."""
    with socket.socket() as open_to_all:
        open_to_all.bind(("0.0.0.0", 0))
        open_to_all.listen()
        found = listening([os.getpid()])
        assert any(not address.is_loopback for address, _ in found)


def test_a_cluster_for_one_engine_listens_on_loopback_only_and_ends_with_it(tmp_path):
    """Also where Ray was imported before; examples in docstrings run on it.

    A cluster without a CPU is not waited for without end.
    """
    folder = Path(__file__).parent
    program = PROGRAM.format(paths=[str(folder), str(folder.parents[1])])
    # Examples use a `with` block of their own, which finds the cluster and leaves it running.
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    addresses, pids, squares, *_, told = run.stdout.splitlines()  # between them, Ray may warn
    assert (addresses, squares) == ("[]", "[16]")
    assert told.startswith("The Ray cluster has had no CPU for 1 seconds; add a node")
    assert len(pids.split()) >= 3
    for _ in range(100):
        left = [pid for pid in pids.split() if "ray" in command_of(pid)]
        if not left:
            return
        time.sleep(0.1)
    raise AssertionError(f"Ray goes on after its engine: {[command_of(pid) for pid in left]}")


def test_an_address_where_nobody_listens_is_refused_at_once():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    started = time.monotonic()
    for host in ("127.0.0.1", "localhost"):
        with pytest.raises(ConnectionError, match=f"nothing listens on port {port}"):
            cluster._route(ray, f"{host}:{port}")
    assert time.monotonic() - started < 30


def test_no_cluster_is_a_named_error(tmp_path):
    program = (
        "from emsco.ray import RayEngine\n"
        "from emsco.exceptions import EngineError\n"
        "try:\n    RayEngine(address='127.0.0.1:1').n_workers\n"
        "except EngineError as error:\n    print(error)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert run.stdout.startswith("There is no Ray cluster at '127.0.0.1:1': nothing listens")
    assert "ray start --head" in run.stdout
