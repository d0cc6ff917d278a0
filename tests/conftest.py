"""What the tests share: the folder of real data sets, and laws tried often."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from emsco.rows.ledger import forget_all

if "PYTEST_XDIST_WORKER" in os.environ:
    # Workers share the cores. Boosted trees start a thread a core, and threads that find no core
    # wait for each other: a test of eleven seconds took minutes. Read when libraries are loaded.
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# Every run draws other examples; --hypothesis-profile=many draws ten times as many, few a quarter.
settings.register_profile(
    "laws", max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("few", settings.get_profile("laws"), max_examples=50)
settings.register_profile("many", settings.get_profile("laws"), max_examples=2000)
settings.load_profile("laws")


@pytest.fixture(autouse=True)
def _a_process_of_its_own() -> None:
    """Let no test know what another asked of rows."""
    forget_all()


@pytest.hookimpl(tryfirst=True)  # before workers look for groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what reads tables that are not in the package, and what stays on one worker.

    Tests of a file that share a fixture stay together, or each worker would make it anew.
    """
    for item in items:
        if "data_folder" in getattr(item, "fixturenames", ()):
            item.add_marker("data")
        info = getattr(item, "_fixtureinfo", None)
        fixtures = info.name2fixturedefs.values() if info else ()
        own = [each[-1] for each in fixtures if each[-1].baseid not in ("", "tests")]
        if any(fixture.scope in ("module", "session") for fixture in own):
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))


@pytest.fixture
def refused_without() -> Callable[[str, str], str]:
    """Give what is said where a library is missing: in a process that cannot import it."""

    def told(library: str, code: str) -> str:
        program = (
            f"import sys; sys.modules[{library!r}] = None\n"
            "from emsco.exceptions import MissingExtraError\n"
            f"try: {code}\n"
            "except MissingExtraError as error: print(error)"
        )
        command = [sys.executable, "-c", program]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    return told


@pytest.fixture(scope="session")
def data_folder() -> Path:
    folder = os.environ.get("EMSCO_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.fail("Set the environment variable EMSCO_DATA to the folder of the data sets.")
    return Path(folder)
