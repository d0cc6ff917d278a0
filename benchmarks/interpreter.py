"""A Python with the emsco of its own environment, beside that of this checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).parents[1]
# Without bytecode every process would compile the libraries anew.
_NEVER = {"PYTHONDONTWRITEBYTECODE"}


@dataclass(frozen=True)
class Interpreter:
    """How processes of a Python are started.

    They find the experiments and benchmarks of this checkout, and emsco where their own environment
    has it.

    Parameters
    ----------
    python : str
        The executable.
    environment : mapping of str to str
        The variables of its processes.
    """

    python: str
    environment: Mapping[str, str]

    @classmethod
    def here(cls, **more: str) -> Self:
        """Give the one that runs now, with its paths."""
        kept = {name: value for name, value in os.environ.items() if name not in _NEVER}
        if "PYTHONPATH" in kept:  # processes start in other folders
            paths = map(os.path.abspath, kept["PYTHONPATH"].split(os.pathsep))
            kept["PYTHONPATH"] = os.pathsep.join(paths)
        return cls(sys.executable, kept | more)

    @classmethod
    def at(cls, python: str, **more: str) -> Self:
        """Give another one, without the paths of this one; its emsco must be another."""
        own = cls.here()
        kept = {name: value for name, value in own.environment.items() if name != "PYTHONPATH"}
        there = cls(os.path.abspath(python), kept | more)
        if there.emsco == own.emsco:
            raise SystemExit(f"{python} imports the same emsco, {own.emsco}.")
        return there

    @cached_property
    def emsco(self) -> str:
        """The file of the emsco that it imports."""
        told = self.run("-c", "import emsco; print(emsco.__file__)", stdout=subprocess.PIPE)
        return str(told.stdout).strip()

    def run(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a process to its end, which must be a good one."""
        return subprocess.run(
            [self.python, *arguments], text=True, check=True, **self._given(options)
        )

    def start(self, *arguments: str, **options: Any) -> subprocess.Popen[str]:
        """Start a process."""
        return subprocess.Popen([self.python, *arguments], text=True, **self._given(options))

    def _given(self, options: dict[str, Any]) -> dict[str, Any]:
        return {"cwd": ROOT, "env": dict(self.environment), **options}
