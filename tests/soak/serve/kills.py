"""The service is killed with -9 under load, again and again, while clients retry by id.

What is compared: the answers that clients got, what the state has kept when the process is dead,
the log, the counts of the monitor, what `emsco spend` lists, and the vendor's own bill.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from emsco.serve.settings import STATE_FILE
from tests.soak.live.bars import Bar, tell
from tests.soak.live.bill import Account
from tests.soak.live.ports import free_port
from tests.soak.serve.client import Broken, Client
from tests.soak.serve.kept import Kept, logged
from tests.soak.serve.process import serving
from tests.soak.serve.world import WHOIS, World

_PART = "kills"
CLIENTS = 24
WITHOUT_ID = 0.1  # of the requests
AGAIN = 0.1  # of the answers, which are asked for again at once, and all of them at the end
LOADED = (0.4, 1.6)  # seconds for which there are answers before the next kill
READY = 5.0  # seconds
BEHAVIOUR: dict[str, Any] = {"delay": (0.0, 0.05), "dropped": 0.01, "failing": 0.01}
_DAYS = 2 / 86_400  # after which a label is final: two seconds, so that cohorts are closed here
_PAUSE = 0.1  # seconds before a client tries again


@dataclass
class Round:
    """What was there when a process was dead: what it had kept, and what it had counted."""

    answered: int  # ids whose answer is kept
    decided: int  # rows that the monitor has counted
    without_id: int  # requests without an id that were sent
    unheard: int = 0  # those of them without an answer, such as those that nobody listened to


@dataclass
class Clients:
    """Clients that send requests, each with a key of its own, until they are told to stop.

    Parameters
    ----------
    port : int
        Where the service answers.
    keys : list of str
        The keys; none is asked for by two requests.
    """

    port: int
    keys: list[str]
    answers: dict[str, bytes] = field(default_factory=dict)  # by id, as they came first
    sent: dict[str, str] = field(default_factory=dict)  # the key of each id
    unlike: list[str] = field(default_factory=list)  # ids with two answers
    failures: Counter[str] = field(default_factory=Counter)
    statuses: Counter[int] = field(default_factory=Counter)
    without_id: int = 0
    unheard: int = 0  # requests without an id that had no answer
    receipts: float = 0.0  # what answers without an id know to be paid
    is_over: bool = False

    async def work(self, number: int) -> None:
        """Ask for one row after the other."""
        rng = np.random.default_rng([number, 5])
        with Client(self.port) as client:
            while not self.is_over and self.keys:
                key = self.keys.pop()
                if rng.random() < WITHOUT_ID:
                    await self._once(client, key)
                    continue
                name = f"order-{key}"
                self.sent[name] = key
                await self._until_answered(client, name)
                if rng.random() < AGAIN:
                    await self._until_answered(client, name)

    async def again(self, names: Sequence[str]) -> None:
        """Ask for answers that were given already."""
        left = list(names)

        async def work() -> None:
            with Client(self.port) as client:
                while left:
                    await self._until_answered(client, left.pop())

        await asyncio.gather(*(work() for _ in range(CLIENTS)))

    async def _once(self, client: Client, key: str) -> None:
        """Ask without an id; who gets no answer does not know what became of it."""
        self.without_id += 1
        try:
            answer = await client.decide({"key": key, "receipt": True})
        except Broken:
            self.failures["broken"] += 1
            self.unheard += 1
            await asyncio.sleep(_PAUSE)
            return
        self.statuses[answer.status] += 1
        if answer.status == 200:
            self.receipts += known_paid(answer.json)

    async def _until_answered(self, client: Client, name: str) -> None:
        """Ask with an id until there is an answer."""
        body = {"key": self.sent[name], "id": name, "receipt": True}
        while True:
            try:
                answer = await client.decide(body)
            except Broken:
                self.failures["broken"] += 1
                await asyncio.sleep(_PAUSE)
                continue
            self.statuses[answer.status] += 1
            if answer.status == 200:
                if self.answers.setdefault(name, answer.body) != answer.body:
                    self.unlike.append(name)
                return
            if answer.status not in (409, 429, 503):
                self.unlike.append(f"{name}: {answer.status}")
                return
            await asyncio.sleep(_PAUSE)


def known_paid(answer: Mapping[str, Any]) -> float:
    """Add up what the receipts of an answer know to be paid to the vendor."""
    return float(sum(
        fetch["paid"]
        for row in answer["decisions"]
        for fetch in row["receipt"]["fetches"]
        if fetch["source"] == WHOIS and fetch["billed"]
    ))  # fmt: skip


def unkept(answers: Mapping[str, bytes], kept: Mapping[str, str]) -> list[str]:
    """Name the ids whose answer was given and is not kept as it was given."""
    return [
        name
        for name, body in answers.items()
        if name not in kept or json.loads(kept[name]) != json.loads(body)
    ]


def counted_twice(rounds: Sequence[Round]) -> list[int]:
    """Name the rounds in which more rows were counted than decided; a killed one loses some.

    The last round ends in peace: it must count all that it has answered.
    """
    wrong = []
    before = Round(0, 0, 0)
    for number, now in enumerate(rounds):
        decided = now.decided - before.decided
        answered = now.answered - before.answered
        most = answered + now.without_id - before.without_id
        least = most - (now.unheard - before.unheard) if number == len(rounds) - 1 else 0
        if not least <= decided <= most:
            wrong.append(number)
        before = now
    return wrong


def twice_in(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Name the decisions that a log has more than once."""
    return [name for name, n in Counter(entry["id"] for entry in entries).items() if n > 1]


def unlike_logged(
    entries: Sequence[Mapping[str, Any]], answers: Mapping[str, bytes]
) -> tuple[int, list[str]]:
    """Count the answers that a log lacks, and name those that it has otherwise."""
    found = {entry["id"]: entry for entry in entries}
    lacking, wrong = 0, []
    for body in answers.values():
        for row in json.loads(body)["decisions"]:
            entry = found.get(row["id"])
            if entry is None:
                lacking += 1
            else:
                entry = entry if row["accepted"] else {**entry, "label": None}
                same = ("label", "accepted", "reason", "cost")
                wrong += [row["id"]] if any(entry[name] != row[name] for name in same) else []
    return lacking, wrong


class Killing:
    """Kills a service with one kind of state, and compares what everybody has."""

    def __init__(self, world: World, kept: Kept, keys: list[str]) -> None:
        self._world, self._kept, self._port = world, kept, free_port()
        self.clients = Clients(self._port, keys)
        self.rounds: list[Round] = []
        self.unkept: list[str] = []
        self.ready: list[float] = []  # seconds until it was ready again
        self.cpu: list[float] = []  # seconds of a core that this took
        self.log = world.folder / f"log-{kept.prefix}"

    async def run(self, n_kills: int) -> None:
        """Kill it so often, and let the last process end in peace."""
        rng = np.random.default_rng(7)
        working = [asyncio.ensure_future(self.clients.work(n)) for n in range(CLIENTS)]
        for _ in range(n_kills):
            with self._serving() as process:
                self.ready.append(await asyncio.to_thread(process.wait_ready))
                self.cpu.append(process.cpu)
                before = len(self.clients.answers)
                await asyncio.sleep(rng.uniform(*LOADED))
                while len(self.clients.answers) < before + CLIENTS:
                    await asyncio.sleep(0.01)  # a busy machine: it must have had some load
                await asyncio.to_thread(process.kill)
                # What clients have heard by now is what must be kept.
                await self._look(dict(self.clients.answers))
        with self._serving() as process:
            await asyncio.to_thread(process.wait_ready)
            await asyncio.sleep(2.0)
            self.clients.is_over = True
            await asyncio.gather(*working)
            await self.clients.again(list(self.clients.answers))
            code = await asyncio.to_thread(process.end)
            if code:
                self.clients.unlike.append(f"exit code {code}")
            await self._look(dict(self.clients.answers))

    def _serving(self) -> Any:
        """Start it, without waiting: clients go on trying meanwhile."""
        options = ["--audit", "1", "--label-after", str(_DAYS), "--log", str(self.log)]
        return serving(
            self._world, *options, state=self._kept.address, port=self._port, waits=False
        )

    async def _look(self, answers: dict[str, bytes]) -> None:
        kept = await asyncio.to_thread(self._kept.answers)
        self.unkept += unkept(answers, kept)
        decided = (await asyncio.to_thread(self._kept.watched))["decided"]
        self.rounds.append(Round(len(kept), decided, self.clients.without_id, self.clients.unheard))

    def bars(self, before: float, *, small: bool) -> list[Bar]:
        """Compare; `before` is what the vendor had billed before."""
        clients, kept = self.clients, self._kept
        spent = kept.spend()
        account = Account(
            clients.receipts + sum(known_paid(json.loads(b)) for b in clients.answers.values()),
            sum(one["paid"] for one in spent),
            self._world.vendor.billed() - before,
            sum(one["unknown"] for one in spent),
        )
        charged = Counter(charge.key for charge in self._world.vendor.bill())
        twice = [key for key in clients.sent.values() if charged[key] > 1]
        entries, watched = logged(self.log), kept.watched()
        lacking, wrong = unlike_logged(entries, clients.answers)
        double, marks = twice_in(entries), kept.marks()
        n_kills, n_ids = len(self.ready), len(clients.answers)
        tell(_PART, state=kept.kind, kills=n_kills, ids=n_ids, without_id=clients.without_id,
             statuses=clients.statuses, broken=clients.failures["broken"], ready=self.ready,
             open=sum(len(one["open"]) for one in spent), not_logged=lacking, marks=marks,
             logged=len(entries), watched=watched, bought_twice=twice, unlike=clients.unlike,
             unkept=self.unkept, logged_twice=double, logged_otherwise=wrong,
             counted_twice=counted_twice(self.rounds), **account._asdict())  # fmt: skip
        where = f"{kept.kind}, {n_kills} kills, {n_ids:,} ids"
        lost = counted_twice(self.rounds)
        return [
            Bar(f"{where}: receipts, `emsco spend`, the vendor's bill",
                "receipts <= known <= bill <= known and unknown", str(account),
                account.is_fair and account.bill > 0),
            Bar(f"{kept.kind}: requests with an id that were bought twice, by the bill", "0",
                str(len(twice)), not twice),
            Bar(f"{kept.kind}: ids with two answers", "0",
                f"{len(clients.unlike)} of {n_ids:,}, each asked at least twice",
                not clients.unlike and n_ids > 0),
            Bar(f"{kept.kind}: answers given and not kept when the process was dead", "0",
                str(len(self.unkept)), not self.unkept),
            Bar(f"{kept.kind}: decisions twice in the log, or otherwise than answered", "0 and 0",
                f"{len(double)} and {len(wrong)}; {lacking} are missing",
                not double and not wrong and len(entries) > 0),
            Bar(f"{kept.kind}: processes of which the monitor counted a decision twice", "0",
                f"{len(lost)}; it counted {watched['decided']:,} of "
                f"{self.rounds[-1].answered + clients.without_id:,}",
                not lost and watched["decided"] > 0),
            Bar(f"{kept.kind}: audited rows counted / marked", "no more than marked",
                f"{watched['audited']:,} / {marks:,}", 0 < watched["audited"] <= marks),
            # In CI others use the machine: there the quickest start is held.
            Bar(f"{kept.kind}: ready again", f"within {READY:g} s",
                f"{min(self.ready):.1f} to {max(self.ready):.1f} s, with {min(self.cpu):.1f} to "
                f"{max(self.cpu):.1f} s of a core",
                (min(self.ready) if small else max(self.ready)) <= READY),
        ]  # fmt: skip


def measure(world: World, *, small: bool) -> list[Bar]:
    """Kill it twenty times with each kind of state; `--small`, once."""
    bars: list[Bar] = []
    world.vendor.behave(**BEHAVIOUR)
    kinds = list(world.states("k"))
    share = len(world.keys) // len(kinds)
    for number, kind in enumerate(kinds):
        (world.folder / STATE_FILE).unlink(missing_ok=True)
        before = world.vendor.billed()
        keys = world.keys[number * share : (number + 1) * share]
        kept = Kept(world, kind, "kills")
        kept.begin()
        killing = Killing(world, kept, keys[::-1])
        begin = time.perf_counter()
        asyncio.run(killing.run(1 if small else 20))
        bars += killing.bars(before, small=small)
        tell(_PART, state=kind, took=round(time.perf_counter() - begin, 1))
        shutil.rmtree(killing.log)
    world.vendor.behave()
    return bars
