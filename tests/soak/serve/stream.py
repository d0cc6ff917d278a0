"""Spot checks on a stream while processes and their store are killed with -9 in mid-period.

Two services share a state. Clients know what the final model says of every key, and so which
answers differ. Processes are killed within one period; the store is killed over many.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from emsco import CascadeClassifier, StageDesign, dump
from emsco.datasets import load_phishing
from tests.soak.live.bars import Bar, tell
from tests.soak.live.ports import free_port
from tests.soak.live.stores import PostgresServer, RedisServer
from tests.soak.serve.client import Broken, Client
from tests.soak.serve.kept import Kept
from tests.soak.serve.process import Process, serving
from tests.soak.serve.world import PRICES, World, fitted

_PART = "stream"
CLIENTS = 12
LOADED = (1.0, 2.0)  # seconds between kills
_PAUSE = 0.1  # seconds before a client tries again
_CONFIDENCE = 0.9999  # a false alarm in a thousand runs, over all their periods
_CHECKS = ("--confidence", str(_CONFIDENCE), "--check-seconds", "0.05", "--rows-per-second", "100")
A_DAY, SOME_ROWS = (200, "day"), (20, "400")  # changed answers, and of what


def checked_cascade() -> tuple[CascadeClassifier, list[Any]]:
    """Fit a cascade before a final model that often disagrees; give what that one says."""
    _, y, _ = load_phishing()
    X, cascade = fitted()
    costs = cascade.decider_.costs
    whole = load_phishing()[0][list(X.columns)]
    labels = cascade.decider_.classes
    feature = X.columns[0]
    other = labels[(whole[feature] > whole[feature].median()).astype(int)]
    final = LogisticRegression(solver="newton-cholesky").fit(whole, other)
    made = CascadeClassifier(
        design=StageDesign.from_stages([[name] for name in PRICES]), costs=costs, threshold=0.6,
        final=final,
    ).fit(whole[::2], y[::2])  # fmt: skip
    return made, final.predict(X).tolist()


@dataclass
class Callers:
    """Clients that ask two services, each for keys of its own, until they are told to stop."""

    ports: Sequence[int]
    keys: list[tuple[str, Any]]  # with what the final model says
    became: Counter[str] = field(default_factory=Counter)
    is_over: bool = False

    async def work(self, number: int) -> None:
        """Ask for one row after the other, every second one with an id, until it is answered."""
        rng = np.random.default_rng([number, 9])
        clients = [Client(port) for port in self.ports]
        while not self.is_over and self.keys:
            key, final = self.keys.pop()
            body = {"key": key} | ({"id": f"row-{key}"} if rng.random() < 0.5 else {})
            while not self.is_over:
                try:
                    answer = await clients[rng.integers(2)].decide(body)
                except Broken:
                    self.became["broken"] += 1
                    await asyncio.sleep(_PAUSE)
                    if "id" in body:
                        continue
                    break  # nobody has heard the answer
                if answer.status == 200:
                    self._hear(answer.json["decisions"][0], final)
                    break
                self.became[f"status {answer.status}"] += 1
                await asyncio.sleep(_PAUSE)
        for client in clients:
            client.close()

    def _hear(self, row: dict[str, Any], final: Any) -> None:
        if not row["accepted"]:
            self.became["rejected"] += 1
        elif row["exit_stage"]:
            self.became["final" if row["label"] == final else "wrong final"] += 1
        else:
            self.became["cheap" if row["label"] == final else "changed"] += 1

    @property
    def cheap(self) -> int:
        """How many cheap answers went out."""
        return self.became["cheap"] + self.became["changed"]


class Killed:
    """Two services with a state, which are killed under load, or whose store is."""

    def __init__(self, world: World, kept: Kept, keys: list[tuple[str, Any]]) -> None:
        self._world, self._kept = world, kept
        self.ports = [free_port(), free_port()]
        self.callers = Callers(self.ports, keys)
        self.standing: dict[str, Any] = {}
        self.closed: set[str] = set()

    async def run(
        self, promise: tuple[int, str], n_kills: int, server: RedisServer | PostgresServer | None
    ) -> None:
        """Kill the server so often, or one of the services if there is none."""
        most, per = promise
        options = ["--max-changed", str(most), "--per", per, *_CHECKS, "--allow-volatile-state"]
        rng = np.random.default_rng(11)
        serve = [
            serving(self._world, *options, state=self._kept.address, port=port, waits=False)
            for port in self.ports
        ]
        processes = [each.__enter__() for each in serve]
        try:
            for process in processes:
                await asyncio.to_thread(process.wait_ready)
            working = [asyncio.ensure_future(self.callers.work(n)) for n in range(CLIENTS)]
            for number in range(n_kills):
                await asyncio.sleep(rng.uniform(*LOADED))
                if server is None:
                    one = number % 2
                    await asyncio.to_thread(processes[one].kill)
                    serve[one] = serving(
                        self._world, *options, state=self._kept.address, port=self.ports[one]
                    )
                    processes[one] = await asyncio.to_thread(serve[one].__enter__)
                else:
                    await asyncio.to_thread(_restart, server)
            await asyncio.sleep(rng.uniform(*LOADED))
            await self._until_open_again(per)
            self.callers.is_over = True
            await asyncio.gather(*working)
            self.standing = await self._look()
            self.closed = {event["closed"] for each in processes for event in _closings(each)}
        finally:
            for each in serve:
                await asyncio.to_thread(each.__exit__, None, None, None)

    async def _until_open_again(self, per: str) -> None:
        """Go on until cheap answers go out again; a period of a day does not end meanwhile."""
        before = self.callers.cheap
        for _ in range(300):
            if per == "day" or self.callers.cheap > before or not self.callers.keys:
                return
            await asyncio.sleep(0.1)

    async def _look(self) -> dict[str, Any]:
        with Client(self.ports[0]) as client:
            answer = await client.ask("GET", "/v1/model")
        found: dict[str, Any] = answer.json["spot_checks"]
        return found


def _restart(server: RedisServer | PostgresServer) -> None:
    server.kill()
    server.start()
    server.wait()


def _closings(process: Process) -> list[dict[str, Any]]:
    return process.told("period closed")


def measure(world: World, *, small: bool) -> list[Bar]:
    """Kill processes and stores twenty times each; `--small`, twice."""
    bars: list[Bar] = []
    cascade, answers = checked_cascade()
    folder = Path(tempfile.mkdtemp(prefix="emsco-stream-", dir=world.folder))
    own = replace(world, folder=folder)
    dump(cascade, own.model)
    own.write_sources()
    store = RedisServer(folder / "redis-state")  # the other one is a source
    keys = [(key, answers[number % len(answers)]) for number, key in enumerate(world.keys)]
    try:
        store.wait()
        for kind, server in (("Redis", store), ("PostgreSQL", world.postgres)):
            states = replace(own, redis=store)
            for what, promise in (("process", A_DAY), ("store", SOME_ROWS)):
                kept = Kept(states, kind, f"stream_{what}")
                kept.begin()
                killed = Killed(own, kept, keys[::-1])
                n_kills = 2 if small else 20
                asyncio.run(killed.run(promise, n_kills, server if what == "store" else None))
                bars.append(bar_of(kind, what, promise, n_kills, killed))
    finally:
        store.kill()
        shutil.rmtree(folder, ignore_errors=True)
    return bars


def bar_of(kind: str, what: str, promise: tuple[int, str], n_kills: int, killed: Killed) -> Bar:
    """Compare with what all periods together allow."""
    (most, per), became, standing = promise, killed.callers.became, killed.standing
    periods = 1 if per == "day" else standing["period"] + 1
    rows = killed.callers.cheap + became["final"]
    tell(_PART, state=kind, killed=what, kills=n_kills, became=became, standing=standing,
         closed=sorted(killed.closed))  # fmt: skip
    cheap = f"{killed.callers.cheap / max(rows, 1):.0%} cheap"
    return Bar(
        f"{kind}, {what} killed {n_kills} times, at most {most} changed per {per}",
        f"at most {most} x {periods}; no wrong answer of the final model",
        f"{became['changed']} of {rows:,}, {cheap}; closed: "
        f"{', '.join(sorted(killed.closed)) or 'never'}",
        became["changed"] <= most * periods
        and not became["wrong final"]
        and became["changed"] > 0
        and ("store restarted" in killed.closed) is (what == "store"),
    )
