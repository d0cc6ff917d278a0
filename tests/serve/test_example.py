"""The example of the service runs and prints the output shown on the page."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "serving-example.md").read_text(encoding="utf-8")


def parts(text):
    """Split the output into the constant part and the metrics, whose figures vary."""
    told = re.sub(r"\b[0-9a-f]{12}\b", "DIGEST", text.strip())  # it depends on libraries
    steps, _, metrics = told.partition("\n6. ")
    return steps.splitlines(), re.sub(r"[\d,]+\.\d\d$", "#", metrics, flags=re.M).splitlines()


def test_the_example_prints_what_the_page_shows():
    """With real stores, one of which is killed; the vendor's bill matches the receipts."""
    block = PAGE.split("```")[1]
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "serving" / "run.py")],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert parts(done.stdout) == parts(block)
    bill = re.search(r"own bill: ([\d.]+) EUR; by receipts: ([\d.]+)\.", done.stdout)
    assert bill[1] == bill[2]
    assert re.search(r"Why: circuit open: orders, error: orders\.", done.stdout)
