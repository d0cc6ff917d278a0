"""What a state has kept, read from its store directly and not by what is tested."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emsco.serve.settings import STATE_FILE
from experiments.serve.world import World


@dataclass(frozen=True)
class Kept:
    """A state, as its store has it.

    Parameters
    ----------
    world : World
        Where the stores are.
    kind : str
        "no --state", "Redis" or "PostgreSQL".
    prefix : str
        What its names begin with.
    """

    world: World
    kind: str
    prefix: str

    @property
    def address(self) -> str:
        """Give the address for `--state`; "" is a file of the service."""
        return self.world.states(self.prefix)[self.kind]

    def answers(self) -> dict[str, str]:
        """Give the answers that are kept, by the id of their request."""
        if self.kind == "Redis":
            return self._in_redis()
        return dict(self._rows("SELECT id, answer FROM {p}claims WHERE answer IS NOT NULL"))

    def marks(self) -> int:
        """Count the decisions that are marked for an audit."""
        if self.kind == "Redis":
            with self.world.redis.admin() as admin:
                return int(admin.hlen(f"{self.prefix}:marks"))
        return int(self._rows("SELECT count(*) FROM {p}marks")[0][0])

    def watched(self, deployment: str = "emsco") -> dict[str, int]:
        """Count the decisions that the monitor has counted, and the audited ones among them."""
        found = Counter(decided=0, audited=0)
        for name, text in self._small().items():
            if not name.startswith(f"watch:{deployment}:"):
                continue
            if name.endswith(":traffic"):
                found["decided"] += json.loads(text)["counts"][0]
            if name.endswith(":cohorts"):
                total = json.loads(text)["total"]
                found["audited"] += total["accepted"] + total["rejected"] + total["failed"]
        return dict(found)

    def spend(self) -> list[dict[str, Any]]:
        """Ask `emsco spend` what was spent."""
        address = self.address or str(self.world.folder / STATE_FILE)
        command = [sys.executable, "-m", "emsco", "spend", address, "--json"]
        told = subprocess.run(command, capture_output=True, text=True, check=True)
        spent: list[dict[str, Any]] = json.loads(told.stdout)
        return spent

    def _in_redis(self) -> dict[str, str]:
        head = f"{self.prefix}:id:"
        with self.world.redis.admin() as admin:
            names = [name.decode() for name in admin.scan_iter(f"{head}*", count=10_000)]
            pipeline = admin.pipeline(transaction=False)
            for name in names:
                pipeline.hget(name, "answer")
            found = zip(names, pipeline.execute(), strict=True)
        return {name.removeprefix(head): text.decode() for name, text in found if text is not None}

    def _small(self) -> dict[str, str]:
        """Give the small values that are kept."""
        if self.kind != "Redis":
            return dict(self._rows("SELECT name, text FROM {p}kept"))
        head = f"{self.prefix}:kept:"
        with self.world.redis.admin() as admin:
            names = [name.decode() for name in admin.scan_iter(f"{head}*", count=10_000)]
            texts = {name: admin.hget(name, "text") for name in names}
        return {
            name.removeprefix(head): text.decode()
            for name, text in texts.items()
            if isinstance(text, bytes)
        }

    def _rows(self, query: str) -> list[Any]:
        if self.kind == "PostgreSQL":
            with self.world.postgres.admin() as admin:
                return admin.execute(query.replace("{p}", f"{self.prefix}_").encode()).fetchall()
        path = self.world.folder / STATE_FILE
        with sqlite3.connect(path) as connection:
            found = connection.execute(query.replace("{p}", "emsco_")).fetchall()
        connection.close()
        return found


def logged(folder: Path) -> list[dict[str, Any]]:
    """Read the log of decisions, every line of every process."""
    return [
        json.loads(line)
        for path in sorted(folder.glob("decisions-*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
