"""Commands and examples of the README and of pages, to be run in an empty folder."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"
PROGRAMS = {"emsco": [sys.executable, "-m", "emsco"], "python": [sys.executable]}


def environment() -> dict[str, str]:
    """Give the environment of somebody who has set nothing for emsco."""
    return {name: value for name, value in os.environ.items() if not name.startswith("EMSCO_")}


def commands_of(section: str | None, page: Path = README) -> list[tuple[str, str]]:
    """Give the commands of a section, or of the whole page, and what each prints there."""
    text = page.read_text(encoding="utf-8")
    if section is not None:
        text = text.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    found = []
    for block in re.findall(r"```console\n(.*?)```", text, flags=re.DOTALL):
        parts = re.split(r"^\$ ", block.replace("\\\n", ""), flags=re.MULTILINE)[1:]
        found += [(command, printed) for command, _, printed in (p.partition("\n") for p in parts)]
    return found


def run_commands(section: str | None, folder: Path, page: Path = README) -> int:
    """Run the commands of a section, and check that each ends well and prints what it shows.

    What installs something is not run: the wheel is installed. Gives how many were run.
    """
    commands = commands_of(section, page)
    assert commands[0][0].startswith("pip install 'emsco["), commands[0]
    for command, printed in commands[1:]:
        name, *arguments = shlex.split(command)
        process = subprocess.run(
            [*PROGRAMS[name], *arguments],
            cwd=folder, capture_output=True, text=True, env={**environment(), "COLUMNS": "80"},
        )  # fmt: skip
        assert process.returncode == 0, process.stderr
        told = process.stdout + process.stderr
        for line in printed.splitlines():
            assert line.strip() in ("", "...") or line in told, f"{command} did not print: {line}"
    return len(commands) - 1
