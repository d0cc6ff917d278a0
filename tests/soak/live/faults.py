"""Decisions while stores are killed, slow, or hold what they should not, and the disk is full."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import resource
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

from emsco.live import LiveCascade
from emsco.serve.metrics import Metrics
from tests.soak.live.bars import Bar, tell
from tests.soak.live.problem import INDEX, NAMES, PAGE, URL, WHOIS, Problem, make_problem
from tests.soak.live.proxy import Proxies
from tests.soak.live.stock import REASONS, WAYS, Stock
from tests.soak.live.stores import Stores
from tests.soak.live.vendor import PLAIN, Vendor
from tests.soak.live.watch import Rule, Watch

_PART = "faults"
WORKERS = 8
MOST_ROWS = 30  # of a call
PAUSE = 0.02  # seconds between a worker's calls
RECOVERY = 5.0  # seconds after a store's return within which it must be used again
SLOWER = 2.0  # seconds that the proxy adds
NOISE = 0.01  # of rows, at most, that a busy machine may cost
DOWN = ("error", "timeout", "circuit open")
KILLED, SLOW, FULL = "a store killed with -9", "a proxy adding 2 s", "full disk under the log"


class Sizes(NamedTuple):
    """How long things last, in seconds, and how many decisions there are."""

    rows: int
    decisions: int
    timeout: float
    down: float  # a store is dead, or slow
    after: float  # it is back
    spoiled: float  # stores hold what they should not
    disk: float
    slowed: tuple[str, ...]  # sources


FULL_SIZE = Sizes(11_430, 100_000, 1.0, 6.0, 6.0, 20.0, 10.0, NAMES)
SMALL_SIZE = Sizes(500, 2_000, 0.4, 1.1, 0.2, 0.8, 0.4, (URL, INDEX, WHOIS))


class Trials(NamedTuple):
    """How often a store was called while its breaker was open, and for how many seconds."""

    source: str
    calls: int
    seconds: float

    @property
    def most(self) -> int:
        """How many calls are allowed: one a second, and one to begin with."""
        return int(self.seconds) + 1


def measure(stores: Stores, *, small: bool) -> list[Bar]:
    """Decide 100,000 rows and more, each kind of fault going on for 20 s; `--small`, 1 s."""
    sizes = SMALL_SIZE if small else FULL_SIZE
    with (
        TemporaryDirectory() as folder,
        Vendor(Path(folder)) as vendor,
        Proxies() as proxies,
        mock.patch.dict(os.environ, {"EMSCO_LOG_KEY": "a secret of no use"}),
    ):
        stock = Stock(make_problem(sizes.rows), stores, vendor, WAYS)
        run = Run(stock, proxies, sizes)
        asyncio.run(run.all())
        bill = vendor.billed()
    return run.bars(bill)


class Run:
    """One run through all faults."""

    def __init__(self, stock: Stock, proxies: Proxies, sizes: Sizes) -> None:
        self._stock, self._proxies, self._sizes = stock, proxies, sizes
        self._problem: Problem = stock.problem
        self._watch = Watch(stock.problem)
        stores = stock.stores
        behind = {URL: stores.redis.port, PAGE: stores.postgres.port, INDEX: stores.mariadb.port,
                  WHOIS: stock.vendor.port}  # fmt: skip
        self._ports = {name: proxies.before(port) for name, port in behind.items()}
        self._servers = dict(zip(NAMES, [stores.redis, stores.postgres, stores.mariadb, None],
                                 strict=True))  # fmt: skip
        self._known = self._paid = self._unknown = 0.0
        self._recovered: dict[str, float] = {}  # by fault and store, in seconds
        self._flapped: dict[str, float] = {}
        self._trials: list[Trials] = []
        self._logged = ""
        self._log_failures: list[str] = []

    async def all(self) -> None:
        """Go through all faults, one after the other."""
        self._stock.vendor.behave(delay=(0.0, 0.004))
        async with self._deciding():
            await self._lasting(self._sizes.spoiled / 4, Rule("none"))
            for name in NAMES:
                await self._kill(name)
            for name in self._sizes.slowed:
                await self._slow_down(name)
            for way in WAYS[1:]:
                await self._spoil(way)
            await asyncio.to_thread(self._stock.switch, PLAIN)
            while self._watch.decisions < self._sizes.decisions:
                await self._lasting(0.1, Rule("none"))
        with _full_disk() as disk:
            self._logged = disk.how
            for on_failure in ("drop", "reject"):
                await self._fill_disk(disk, on_failure)

    @asynccontextmanager
    async def _deciding(self, **options: Any) -> AsyncIterator[LiveCascade]:
        """Let callers decide, again and again, as long as this lasts."""
        sources = self._stock.sources(self._ports, timeout=self._sizes.timeout)
        async with LiveCascade(self._problem.cascade, sources, deadline=10.0, **options) as live:
            stopping = asyncio.Event()
            workers = [asyncio.create_task(self._work(live, n, stopping)) for n in range(WORKERS)]
            try:
                yield live
            finally:
                stopping.set()
                await asyncio.gather(*workers)
            spending = live.spending[WHOIS]
            self._paid += spending.paid
            self._unknown += spending.unknown

    async def _work(self, live: LiveCascade, number: int, stopping: asyncio.Event) -> None:
        rng = np.random.default_rng([number, 7])
        while not stopping.is_set():
            size = int(rng.integers(1, MOST_ROWS))
            rows = rng.choice(self._stock.asked, size, replace=False)
            before = self._watch.rule
            try:
                got = await live.decide([self._problem.keys[row] for row in rows])
            except Exception as error:  # there must be none
                self._watch.raised(error)
            else:
                self._watch.note(rows, got, before)
                for row in got:
                    self._known += sum(
                        fetch.paid
                        for fetch in row.receipt.fetches
                        if fetch.source == WHOIS and fetch.billed
                    )
            await asyncio.sleep(PAUSE)

    async def _lasting(self, seconds: float, rule: Rule) -> None:
        """Let a rule hold for so long."""
        self._watch.rule = rule
        await asyncio.sleep(seconds)

    async def _kill(self, name: str) -> None:
        """Kill a store, start it again, and see when it is used again."""
        fault, server, vendor = f"{KILLED}: {name}", self._servers[name], self._stock.vendor
        self._watch.rule = Rule(fault, strict=False)
        await asyncio.to_thread(vendor.kill if server is None else server.kill)
        await asyncio.sleep(self._sizes.timeout)  # until every call that it had got is over
        await self._while_down(name, fault)
        if server is None:
            await asyncio.to_thread(self._reopen_vendor)
        else:
            server.start()
            while not await asyncio.to_thread(server.is_open):
                await asyncio.sleep(0.005)
        await self._back(name, fault)

    def _reopen_vendor(self) -> None:
        self._stock.vendor.start()
        self._stock.restock()
        self._stock.vendor.behave(delay=(0.0, 0.004))

    async def _slow_down(self, name: str) -> None:
        """Let a store's answers come too late, then in time again."""
        fault = f"{SLOW}: {name}"
        self._watch.rule = Rule(fault, strict=False)
        self._proxies.slow(self._ports[name], SLOWER)
        await asyncio.sleep(2 * self._sizes.timeout)  # until whoever was lucky is over
        await self._while_down(name, fault)
        self._proxies.slow(self._ports[name], 0.0)
        await self._back(name, fault)

    async def _while_down(self, name: str, fault: str) -> None:
        """Hold rows that need a store against that it fails, and count calls meanwhile."""
        self._watch.opened.pop(name, None)
        self._proxies.counted(self._ports[name])
        affected, late = self._problem.needed(name), name == WHOIS and SLOW in fault
        await self._lasting(self._sizes.down, Rule(fault, affected, DOWN, name, late))
        self._watch.rule = Rule(fault, strict=False)
        begin, end = self._watch.opened.get(name), time.monotonic()
        if begin is None:
            return
        calls = sum(call > begin for call in self._proxies.counted(self._ports[name]).calls)
        if name == WHOIS:  # what the vendor has received, it knows better than the proxy
            received = [charge.moment for charge in self._stock.vendor.bill()]
            calls = max(calls, sum(begin < moment < end for moment in received))
        self._trials.append(Trials(name, calls, end - begin))

    async def _back(self, name: str, fault: str) -> None:
        """Wait until a store that is well is used again."""
        begin = time.monotonic()
        while self._watch.accepted.get(name, 0.0) < begin:
            await asyncio.sleep(0.005)
            if time.monotonic() - begin > 4 * RECOVERY:
                break
        self._recovered[fault] = self._watch.accepted.get(name, np.inf) - begin
        await asyncio.sleep(max(0.0, begin + self._sizes.after - time.monotonic()))
        self._flapped[fault] = max(0.0, self._watch.failed.get(name, begin) - begin)

    async def _spoil(self, way: str) -> None:
        """Let all stores hold something else than they should."""
        self._watch.rule = Rule(way, strict=False)
        await asyncio.to_thread(self._stock.switch, way)
        await self._lasting(self._sizes.spoiled, self._spoiled(way))
        self._watch.rule = Rule(way, strict=False)

    def _spoiled(self, way: str) -> Rule:
        """Say which rows are affected: those that need a source where they are hit."""
        affected = np.zeros(len(self._problem.keys), dtype=np.bool_)
        for name in NAMES:
            affected |= self._problem.needed(name) & self._stock.hit(name, way)
        # A source that gives invalid values to half of the requests is left alone for a while.
        return Rule(way, affected, (REASONS[way],), opens=REASONS[way] == "invalid value")

    async def _fill_disk(self, disk: Disk, on_failure: str) -> None:
        """Decide while nothing can be logged, and then while it can."""
        fault, rejects = f"{FULL}: {on_failure}", on_failure == "reject"
        everybody = np.ones(len(self._problem.keys), dtype=np.bool_)
        rule = Rule(fault, everybody, ("error",), "log") if rejects else Rule(fault)
        folder, before = disk.folder / on_failure, self._watch.decisions
        self._watch.rule = Rule(fault, strict=False)
        billed, metrics, events = self._stock.vendor.billed(), Metrics(), _Events()
        disk.fill()
        async with self._deciding(log=folder, on_log_failure=on_failure) as live:
            while self._watch.decisions == before:
                await asyncio.sleep(0.01)
            await self._lasting(self._sizes.disk, rule)
            self._watch.rule = Rule(fault, strict=False)
        lost, before = self._watch.decisions - before, self._watch.decisions
        billed = self._stock.vendor.billed() - billed
        assert live.log is not None
        metrics.logs(live.log)
        metric = metrics.registry.get_sample_value("emsco_log_lost_total", {"what": "decisions"})
        disk.free()
        async with self._deciding(log=folder, on_log_failure=on_failure) as again:
            await asyncio.sleep(self._sizes.disk / 4)
        lines = [line for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]
        told = {"lost": lost, "counted": live.log_dropped, "metric": metric, "events": events.end(),
                "billed": billed, "counted after": again.log_dropped,
                "decided after": self._watch.decisions - before,
                "logged": len([json.loads(line) for line in lines])}  # fmt: skip
        tell(_PART, log=on_failure, **told)
        is_told = lost == live.log_dropped == metric and told["events"] == 1
        is_whole = not again.log_dropped and len(lines) == told["decided after"]
        if not (is_told and is_whole) or (rejects and billed):
            self._log_failures.append(f"{on_failure}: {told}")

    def bars(self, bill: float) -> list[Bar]:
        """Give what must hold."""
        watch = self._watch
        for fault, tally in watch.tallies.items():
            tell(_PART, fault=fault, **tally.told())
        tell(_PART, recovered=self._recovered, failed_last=self._flapped, disk=self._logged,
             trials=[trial._asdict() for trial in self._trials], reasons=watch.reasons)  # fmt: skip
        known, paid, unknown = self._known, self._paid, self._unknown
        tell(_PART, receipts=known, paid=paid, bill=bill, unknown=unknown)
        wrong = sum(len(tally.wrong) for tally in watch.tallies.values())
        affected, right, late, noise = (
            sum(getattr(tally, what) for tally in watch.tallies.values())
            for what in ("affected", "right", "late", "noise")
        )
        slowest = max(*self._recovered.values(), *self._flapped.values())
        trials = max((trial.calls - trial.most for trial in self._trials), default=1)
        calls, seconds = (sum(getattr(t, what) for t in self._trials) for what in _TRIED)
        return [
            Bar(f"{watch.decisions:,} decisions under faults: accepted labels", "the table's",
                f"{len(watch.labels)} others", not watch.labels),
            Bar("exceptions to the caller", "0", f"{len(watch.exceptions)}", not watch.exceptions),
            Bar("affected rows rejected with the right reason", "all",
                f"{right:,} of {affected:,}; {late} got a late answer, {noise} timed out first, "
                f"{wrong} wrong",
                not wrong and noise <= NOISE * watch.decisions),
            Bar("a store that is back is used again, and fails no more",
                f"within {RECOVERY:.0f} s",
                f"{slowest:.1f} s at most, {len(self._recovered)} times", slowest <= RECOVERY),
            Bar("trial calls while a breaker is open", "at most one a second",
                f"{calls} in {seconds:.0f} s", trials <= 0 and len(self._trials) > 0),
            Bar("decisions that cannot be logged",
                "told by an event and a metric; dropped, or rejected with nothing bought",
                "; ".join(self._log_failures) or self._logged, not self._log_failures),
            Bar("the vendor's bill, under faults", "receipts <= known <= bill <= known and unknown",
                f"{known:,.0f} <= {paid:,.0f} <= {bill:,.0f} <= {paid + unknown:,.0f}",
                known <= paid + 1e-6 and paid <= bill + 1e-6 and bill <= paid + unknown + 1e-6),
        ]  # fmt: skip


_TRIED = ("calls", "seconds")


class _Events(logging.Handler):
    """Counts what the library tells an operator."""

    def __init__(self) -> None:
        super().__init__()
        self._told = 0
        logging.getLogger("emsco").addHandler(self)

    def emit(self, _: logging.LogRecord) -> None:
        """Count one."""
        self._told += 1

    def end(self) -> int:
        """Give how many there were."""
        logging.getLogger("emsco").removeHandler(self)
        return self._told


class Disk(NamedTuple):
    """A small disk for a log, which can be filled and freed."""

    folder: Path
    how: str
    fill: Callable[[], None]
    free: Callable[[], None]


@contextmanager
def _full_disk() -> Iterator[Disk]:
    """Mount a small file system; where that is not allowed, limit the size of files instead."""
    with TemporaryDirectory() as folder:
        mounting = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", folder]
        if subprocess.run(mounting, capture_output=True, check=False).returncode:
            yield _limited(Path(folder))
            return
        filler = Path(folder, "filler")

        def fill() -> None:
            with filler.open("wb", buffering=0) as file:
                try:
                    while file.write(bytes(4096)):
                        pass
                except OSError:
                    return

        try:
            yield Disk(Path(folder), "on a small disk that was full", fill, filler.unlink)
        finally:
            subprocess.run(["umount", folder], check=True)


def _limited(folder: Path) -> Disk:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    return Disk(
        folder,
        "with files limited to nothing, as no disk could be mounted",
        lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard)),
        lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard)),
    )
