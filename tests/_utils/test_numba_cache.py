"""Kernels run wherever they may be kept, and whatever has become of what was kept."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import emsco

PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1

SEARCH = """
from emsco import CascadeSearchCV, LocalSearch
from emsco.datasets import make_costly_classification
X, y, costs = make_costly_classification(300, n_sources=3, random_state=0)
search = CascadeSearchCV(
    costs=costs, search=LocalSearch(evaluations=50), threshold=0.7, cv=2, max_stages=2,
    random_state=0,
)
print(len(search.fit(X, y).front_))
"""

KERNEL = """
import json
import numpy as np
from emsco.learners._tree_walk import _add_leaf as kernel
total = np.zeros(2)
kernel(1.5, np.array([0, 1], dtype=np.uint64), np.uint64(1), np.uint64(1), total)
print(json.dumps([total.tolist(), sum(kernel.stats.cache_hits.values()), kernel.stats.cache_path]))
"""


@pytest.fixture(scope="module")
def package_and_home():
    """Give a folder with a copy of the package and a home, neither of which can be written."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ignored = shutil.ignore_patterns("__pycache__")
        package = Path(emsco.__file__).parent
        shutil.copytree(package, folder / "package" / "emsco", ignore=ignored)
        for found in (folder / "package").rglob("*"):
            found.chmod(0o555 if found.is_dir() else 0o444)
        (folder / "home").mkdir(mode=0o555)
        yield folder
        for found in (folder / "package").rglob("*"):
            found.chmod(0o755)


@pytest.fixture
def place(package_and_home):
    """Give that folder with an empty folder for temporary files."""
    temporary = package_and_home / "temporary"
    temporary.mkdir()
    yield package_and_home
    shutil.rmtree(temporary)


def _run(code, place):
    """Run code that can write to the folder of temporary files alone."""
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(place / "package"),
        "PYTHONWARNINGS": "ignore",
        "HOME": str(place / "home"),
        "TMPDIR": str(place / "temporary"),
    }
    return subprocess.run(
        [sys.executable, "-c", code], cwd=place, env=environment, text=True, capture_output=True,
        preexec_fn=_heed_permissions,
    )  # fmt: skip


def _heed_permissions():
    """Let root, too, be refused what permissions do not allow."""
    if os.getuid() == 0:
        dropped = ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)
        assert dropped == 0


def test_a_search_needs_no_folder_that_it_can_write(place):
    """Where neither the package nor the home can be written; and what was compiled is kept."""
    ended = _run(SEARCH, place)
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) > 0
    (kept,) = (place / "temporary").glob("emsco-*")
    assert kept.stat().st_mode & 0o777 == 0o700
    assert list(kept.rglob("*.nbc"))


def test_what_another_user_could_write_is_not_run(place):
    """A folder that is not this user's alone keeps nothing: compiling takes longer, and is all."""
    taken = place / "temporary" / f"emsco-{os.getuid()}"
    taken.mkdir()
    taken.chmod(0o777)
    ended = _run(KERNEL, place)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout) == [[0.0, 1.5], 0, None]
    assert list(taken.iterdir()) == []


def _garbage(content):
    return b"garbage" * len(content)


def _cut_off(content):
    return content[: len(content) // 2]


def _wrong_in_one_bit(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


INDEX, COMPILED = "nbi", "nbc"
SPOILED = [
    (INDEX, _garbage), (INDEX, _cut_off),
    (COMPILED, _garbage), (COMPILED, _cut_off), (COMPILED, _wrong_in_one_bit),
]  # fmt: skip


def _kernel_once(place):
    """Say whether a process took what was kept, having checked what the kernel gave."""
    ended = _run(KERNEL, place)
    assert ended.returncode == 0, ended.stderr
    total, hits, _ = json.loads(ended.stdout)
    assert total == [0.0, 1.5]
    return hits == 1


@pytest.mark.nightly
def test_a_damaged_cache_is_made_anew(place):
    """Its index, or what was compiled, whose every bit counts."""
    assert not _kernel_once(place)
    assert _kernel_once(place)
    for ending, spoiled in SPOILED:
        (path,) = (place / "temporary").rglob(f"*_add_leaf-*.{ending}")
        path.write_bytes(spoiled(path.read_bytes()))
        assert not _kernel_once(place), "what is damaged is not taken"
    assert _kernel_once(place)
