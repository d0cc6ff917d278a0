"""No command is silent for long on a terminal, and none leaves its line behind or in a file."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from itertools import pairwise

import pytest

pytestmark = pytest.mark.alone

EMSCO = [sys.executable, "-m", "emsco"]
MOST_SILENT = 2.0  # seconds
COMMANDS = [
    ("search", "heart.csv", "--label", "disease", "--costs", "heart-costs.toml", "--cv", "5",
     "--max-stages", "2"),
    ("show", "run", "--fresh", "other.csv", "--label", "disease"),
    ("report", "run", "--fresh", "other.csv", "--label", "disease"),
    ("certify", "run", "other.csv", "--label", "disease", "--accuracy", "0.6"),
    ("decide", "run", "heart.csv", "--out", "decided.csv"),
]  # fmt: skip


def watch(command, folder, environment):
    """Run a command on a terminal; give what it showed, its exit code and the longest silence."""
    ours, its = pty.openpty()
    process = subprocess.Popen(
        [*EMSCO, *command], cwd=folder, stdin=its, stdout=its, stderr=its, env=environment
    )
    os.close(its)
    shown, silence, last = b"", 0.0, time.monotonic()
    while True:
        ready, _, _ = select.select([ours], [], [], 60)
        assert ready, "a minute without a word"
        try:
            part = os.read(ours, 65536)
        except OSError:  # the terminal's other end is closed
            part = b""
        now = time.monotonic()
        silence, last = max(silence, now - last), now
        if not part:
            os.close(ours)
            return shown.decode(), process.wait(), silence
        shown += part


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Give a folder with rows, prices, and other rows of the same kind."""
    folder = tmp_path_factory.mktemp("telling")
    subprocess.run([*EMSCO, "example", "cleveland"], cwd=folder, check=True, capture_output=True)
    lines = (folder / "heart.csv").read_text().splitlines(keepends=True)
    (folder / "heart.csv").write_text("".join(lines[:201]))
    (folder / "other.csv").write_text("".join([lines[0], *lines[201:]]))
    return folder


def test_no_command_is_silent_for_two_seconds(place):
    """One after the other: each goes on with what the one before has written."""
    environment = {**os.environ, "COLUMNS": "80", "TERM": "xterm"}
    environment.pop("NUMBA_CACHE_DIR", None)
    for command in COMMANDS:
        shown, code, silence = watch(command, place, environment)
        assert code in (0, 1), shown  # 1: not certified
        assert silence < MOST_SILENT, f"emsco {command[0]} was silent for {silence:.1f} s:\n{shown}"
        last = shown.rpartition("\x1b[2K")[2]
        assert "emsco: load" not in last, "a bar was left behind"


def test_a_file_holds_no_line_of_progress(place):
    process = subprocess.run(
        [*EMSCO, "show", "run"], cwd=place, capture_output=True, text=True, check=True
    )
    assert "\x1b" not in process.stdout + process.stderr


def test_a_search_whose_lines_go_to_a_file_is_not_silent_for_five_seconds(place, tmp_path):
    """From its first line to its last; before that, libraries are loaded."""
    command = [*EMSCO, *COMMANDS[0], "--out", str(tmp_path / "run")]
    process = subprocess.Popen(
        command, cwd=place, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    times = [time.monotonic() for _ in process.stderr]
    assert process.wait() == 0
    process.stderr.close()
    assert len(times) > 3
    assert max(later - earlier for earlier, later in pairwise(times)) < 5


def test_a_quiet_search_shows_no_progress(place, tmp_path):
    """At most the line that libraries are loaded, before the command has said that it is quiet."""
    environment = {**os.environ, "COLUMNS": "80", "TERM": "xterm"}
    command = (*COMMANDS[0], "--out", str(tmp_path / "run"), "--quiet")
    shown, code, _ = watch(command, place, environment)
    assert code == 0, shown
    assert not any(f"emsco: {what}" in shown for what in ("fit", "search", "luck", "done", "write"))
