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

from emsco.serve.settings import DEPLOYMENT, STATE_FILE
from tests.soak.serve.world import World


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
    deployment : str, default="emsco"
        Whose it is.
    """

    world: World
    kind: str
    prefix: str
    deployment: str = DEPLOYMENT

    @property
    def address(self) -> str:
        """Give the address for `--state`; "" is a file of the service."""
        return self.world.states(self.prefix)[self.kind]

    def begin(self) -> None:
        """Begin the state, as an operator does once; a file needs none of it."""
        if self.address:
            self._command("state", "init", self.address, "--deployment", self.deployment)

    def accept(self) -> None:
        """Accept that the state was emptied."""
        self._command("state", "accept", self.address, "--deployment", self.deployment)

    def empty(self) -> None:
        """Let the store lose all that it was given."""
        if self.kind == "Redis":
            with self.world.redis.admin() as admin:
                for name in admin.scan_iter(f"{self.prefix}:*", count=10_000):
                    admin.delete(name)
            return
        tables = (
            "claims",
            "intents",
            "spent",
            "caps",
            "tries",
            "failing",
            "kept",
            "marks",
            "labels",
        )
        named = ", ".join(f"{self.prefix}_{table}" for table in tables)
        with self.world.postgres.admin() as admin:
            admin.execute(f"TRUNCATE {named}".encode())
            admin.commit()

    def answers(self) -> dict[str, str]:
        """Give the answers that are kept, by the id of their request."""
        if self.kind == "Redis":
            return self._in_redis()
        return dict(
            self._rows(
                "SELECT id, answer FROM {p}claims WHERE answer IS NOT NULL"
                f" AND deployment = '{self.deployment}'"
            )
        )

    def marks(self) -> int:
        """Count the decisions that are marked for an audit."""
        if self.kind == "Redis":
            with self.world.redis.admin() as admin:
                return int(admin.hlen(f"{self.prefix}:of:{self.deployment}:marks"))
        return int(
            self._rows(f"SELECT count(*) FROM {{p}}marks WHERE deployment = '{self.deployment}'")[
                0
            ][0]
        )

    def watched(self) -> dict[str, int]:
        """Count the decisions that the monitor has counted, and the audited ones among them."""
        found = Counter(decided=0, audited=0)
        for name, text in self._small().items():
            if not name.startswith(f"watch:{self.deployment}:"):
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
        spent: list[dict[str, Any]] = json.loads(self._command("spend", address, "--json"))
        return spent

    def _command(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "emsco", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def _in_redis(self) -> dict[str, str]:
        head = f"{self.prefix}:of:{self.deployment}:id:"
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
