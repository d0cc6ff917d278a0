"""A newcomer who has installed the wheel and set nothing gets what the README shows."""

from __future__ import annotations

import subprocess
import sys
import time

from readme import README, environment, run_commands

START = README.parent / "docs" / "start.md"

DOCTEST = """
import doctest, sys
failed, tried = doctest.testfile(sys.argv[1], module_relative=False)
sys.exit(not tried or failed > 0)
"""


def test_every_python_block_gives_what_it_shows(tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", DOCTEST, README],
        cwd=tmp_path, env=environment(), capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_command_line_is_at_most_five_commands_and_prints_what_it_shows(tmp_path):
    start = time.monotonic()
    assert run_commands("From the command line", tmp_path, START) <= 5
    assert time.monotonic() - start < 120
    assert 20_000 < (tmp_path / "report.html").stat().st_size < 2_000_000
