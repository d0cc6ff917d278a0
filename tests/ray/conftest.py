"""One Ray cluster for all tests of this folder: a head and two nodes, as processes, on loopback."""

from __future__ import annotations

import pytest

from emsco.ray import RayEngine
from experiments.nodes import Nodes


@pytest.fixture(scope="session")
def nodes():
    with Nodes(2) as started:
        yield started


@pytest.fixture(scope="session")
def engine(nodes):
    with RayEngine(address=nodes.address) as connected:
        yield connected
