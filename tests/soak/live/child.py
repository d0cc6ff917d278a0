"""A process of our own that is spoken to in JSON, a line each way.

The vendor and the proxies run in processes of their own, so that they are not slowed down by who
asks them, and so that they can be killed.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

_ROOT = Path(__file__).parents[3]


class Child:
    """A process that runs a module, and answers what it is told.

    Parameters
    ----------
    module : str
        The module's name; it calls `serve`.
    *arguments : str
        What it is given.
    """

    def __init__(self, module: str, *arguments: str) -> None:
        self._module, self._arguments = module, arguments
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> Self:
        """Start it, and wait until it answers."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", self._module, *self._arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=_ROOT,
        )  # fmt: skip
        self.tell("ping")
        return self

    def tell(self, do: str, **given: Any) -> Any:
        """Tell it to do something, and give its answer."""
        assert self._process is not None  # it was started
        told, answer = self._process.stdin, self._process.stdout
        assert told is not None  # both are pipes
        assert answer is not None
        told.write(json.dumps({"do": do, **given}) + "\n")
        told.flush()
        line = answer.readline()
        if not line:
            raise RuntimeError(f"{self._module} has ended.")
        return json.loads(line)

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                assert pipe is not None
                pipe.close()
            self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.kill()


async def serve(commands: dict[str, Callable[..., Any]]) -> None:
    """Do what is told on standard input, until it ends."""
    reader = asyncio.StreamReader(limit=2**26)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    commands = {"ping": lambda: True} | commands
    while line := await reader.readline():
        told = json.loads(line)
        answer = commands[told.pop("do")](**told)
        if asyncio.iscoroutine(answer):
            answer = await answer
        print(json.dumps(answer), flush=True)
