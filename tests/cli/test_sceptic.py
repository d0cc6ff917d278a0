"""The README's savings, as printed there: a model and its log in an empty folder."""

from __future__ import annotations

import time

import pytest
from readme import run_commands

pytestmark = pytest.mark.alone


def test_savings_are_as_the_readme_prints_them(tmp_path):
    start = time.monotonic()
    assert run_commands("In front of the model you have", tmp_path) == 2
    assert time.monotonic() - start < 120
