"""A search for secrets, keys and values in all that is written while things go wrong.

What is searched: the log of decisions, what Python's loggers are told at the finest level,
warnings, exceptions with all that they were caused by, and what objects print as.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

from emsco import CascadeClassifier, Costs, InputGuard, Source, StageDesign
from emsco.live import LiveCascade, Sources
from tests.soak.live.bars import Bar, tell
from tests.soak.live.stores import PASSWORD, Stores
from tests.soak.live.vendor import PLAIN, Vendor

_PART = "secrets"
N_ROWS = 60
TOKEN, LOG_KEY = "token-5d3e91aa", "log-key-77e2c0b5d1"
NAMES = ("cache", "pages", "ledger", "bureau")
KEYS = [f"person{row}@mail.example" for row in range(N_ROWS)]
NUMBERS = [31_415_001, 31_415_002]  # keys too, of another type than the stores have
OFFSET = 31_415_500.0  # every value is near it, so that its first digits tell a value
WORD = "wordless"  # a value where a number should be
# What must be found nowhere: keys and values have one of them each.
NEEDLES = ("@mail.example", "%40mail.example", PASSWORD, TOKEN, LOG_KEY, "31415", WORD)
FILE = """\
[cache]
kind = "redis"
url_env = "LIVE_REDIS"
key = "secret:{key}"
key_field = "id"
timeout = 0.5

[pages]
kind = "sql"
url_env = "LIVE_POSTGRES"
query = "SELECT id, pages FROM secret WHERE id IN :keys"
key_field = "id"
timeout = 0.5

[ledger]
kind = "sql"
url_env = "LIVE_MARIADB"
query = "SELECT id, ledger FROM secret WHERE id IN :keys"
key_field = "id"
timeout = 0.5

[bureau]
kind = "http"
url = "http://127.0.0.1:PORT/v1/{key}"
headers_env = { Authorization = "LIVE_TOKEN" }
key_field = "/id"
timeout = 0.5
paid = true
"""


def measure(stores: Stores, *, small: bool) -> list[Bar]:
    """Let things go wrong in every way, and search; the size is the same for `small`."""
    del small
    with TemporaryDirectory() as folder, Vendor(Path(folder)) as vendor:
        environment = {
            "LIVE_REDIS": stores.redis.url(), "LIVE_POSTGRES": stores.postgres.url(),
            "LIVE_MARIADB": stores.mariadb.url(), "LIVE_TOKEN": TOKEN, "EMSCO_LOG_KEY": LOG_KEY,
        }  # fmt: skip
        with mock.patch.dict(os.environ, environment), _heard() as heard:
            search = Search(stores, vendor, Path(folder), heard)
            asyncio.run(search.run())
            search.misuse()
        log = search.logged()
    found = [
        {"where": where, "needle": needle, "text": text[max(0, at - 80) : at + 80]}
        for where, text in [*search.told, *(("logger", line) for line in heard), *log]
        for needle in NEEDLES
        if (at := text.find(needle)) >= 0
    ]
    for one in found[:20]:
        tell(_PART, **one)
    tell(_PART, searched=len(search.told), heard=len(heard), logged=len(log),
         reasons=sorted(search.reasons), found=len(found))  # fmt: skip
    is_known = search.reasons >= {"error", "timeout", "missing", "invalid value", "out of range"}
    return [
        Bar("secrets, keys and values in logs, errors, warnings and reprs", "none found",
            f"{len(found)} in {len(search.told) + len(heard) + len(log):,} texts",
            not found and is_known and len(log) > 0),
    ]  # fmt: skip


@contextmanager
def _heard() -> Iterator[list[str]]:
    """Hear what any logger is told, at the finest level, and every warning."""
    heard: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            text = record.getMessage()
            if record.exc_info and record.exc_info[1] is not None:
                text += "".join(traceback.format_exception(record.exc_info[1]))
            heard.append(f"{record.name}: {text}")

    root, listener = logging.getLogger(), Listener()
    level = root.level
    root.addHandler(listener)
    root.setLevel(logging.DEBUG)
    logging.captureWarnings(True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            yield heard
    finally:
        logging.captureWarnings(False)
        root.removeHandler(listener)
        root.setLevel(level)


# Where sources are asked without a cascade too, which is slow.
_DIRECTLY = ("well", "no table", "no column", "wrong password in LIVE_MARIADB",
             "wrong password in LIVE_REDIS")  # fmt: skip


_WRONG_ADDRESSES = (
    f"nothing://{PASSWORD}", PASSWORD, f"redis://:{PASSWORD}@h:port/x",
    f"postgresql://u:{PASSWORD}@h:1/d", f"mysql+asyncmy://{PASSWORD}@[/",
)  # fmt: skip


class Search:
    """Decisions while things go wrong, and all that is told meanwhile."""

    def __init__(self, stores: Stores, vendor: Vendor, folder: Path, heard: list[str]) -> None:
        self._stores, self._vendor, self._folder, self._heard = stores, vendor, folder, heard
        self._file = folder / "sources.toml"
        self._file.write_text(FILE.replace("PORT", str(vendor.port)), encoding="utf-8")
        self.told: list[tuple[str, str]] = []
        self.reasons: set[str] = set()
        rng = np.random.default_rng(0)
        y = rng.integers(2, size=N_ROWS)
        self._X = pd.DataFrame({
            name: OFFSET + (2 + place) * y + rng.normal(size=N_ROWS)
            for place, name in enumerate(NAMES)
        })  # fmt: skip
        costs = Costs([Source(name, cost=1.0) for name in NAMES])
        design = StageDesign.from_stages([[name] for name in NAMES])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # So sure a stage seldom is: most rows go through all of them.
            self._cascade = CascadeClassifier(
                design=design, costs=costs, threshold=0.9999, guard=InputGuard()
            ).fit(self._X, y)
        self._fill()

    def _fill(self, spoil: Callable[[int, float], Any] = lambda _, value: value) -> None:
        """Fill the stores; Redis and the vendor with what may be spoiled."""
        values = {name: self._X[name].tolist() for name in NAMES}
        with self._stores.redis.admin() as redis:
            for row, key in enumerate(KEYS):
                held = {"id": key, "cache": spoil(row, values["cache"][row])}
                redis.hset(f"secret:{key}", mapping=held)
        bureau = {
            key: {"id": key, "bureau": spoil(row + 3, values["bureau"][row])}
            for row, key in enumerate(KEYS)
        }
        self._vendor.sell({PLAIN: bureau}, price=1.0)
        columns = "(id varchar(60), {} double precision)"
        with self._stores.postgres.admin() as postgres, postgres.cursor() as cursor:
            cursor.execute("DROP TABLE IF EXISTS secret")
            cursor.execute(f"CREATE TABLE secret {columns.format('pages')}")
            rows = list(zip(KEYS, values["pages"], strict=True))
            cursor.executemany("INSERT INTO secret VALUES (%s, %s)", [*rows, rows[1]])
        with self._stores.mariadb.admin() as mariadb, mariadb.cursor() as cursor:
            cursor.execute("DROP TABLE IF EXISTS test.secret")
            cursor.execute(f"CREATE TABLE test.secret {columns.format('ledger')}")
            rows = list(zip(KEYS, values["ledger"], strict=True))
            cursor.executemany("INSERT INTO test.secret VALUES (%s, %s)", rows[:-5])

    async def run(self) -> None:
        """Decide while all is well, and then not."""
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: self._tell("event loop", context))
        await self._decide("well", log=self._folder / "log")
        await self._decide("deadline", deadline=0.0005)
        await self._decide("budget", max_cost=1.5)
        self._fill(lambda row, value: f"{WORD} {value}" if row % 3 == 0 else value * 1e6
                   if row % 3 == 1 else value)  # fmt: skip
        await self._decide("spoiled values", log=self._folder / "log")
        self._fill()
        self._vendor.behave(failing=0.5, dropped=0.3)
        await self._decide("failing vendor")
        self._vendor.behave(delay=(1.0, 1.0))
        await self._decide("slow vendor")
        self._vendor.behave()
        self._stores.mariadb.ask("DROP TABLE test.secret")
        await self._decide("no table")
        with self._stores.postgres.admin() as postgres:
            postgres.execute("ALTER TABLE secret RENAME COLUMN pages TO leaves")
        await self._decide("no column")
        for name in ("LIVE_MARIADB", "LIVE_REDIS"):
            wrong = os.environ[name].replace(PASSWORD, PASSWORD[::-1])
            with mock.patch.dict(os.environ, {name: wrong}):
                await self._decide(f"wrong password in {name}")
        await self._killed()

    async def _killed(self) -> None:
        """Kill a store while it is asked."""
        async with LiveCascade(self._cascade, Sources.from_toml(self._file)) as live:
            self._note("before", await live.decide(KEYS))
            asking = [asyncio.ensure_future(live.decide(KEYS[i:])) for i in range(10)]
            await asyncio.sleep(0.002)
            await asyncio.to_thread(self._stores.redis.kill)
            for got in await asyncio.gather(*asking):
                self._note("killed", got)
            asking = [asyncio.ensure_future(live.decide(KEYS[i:])) for i in range(10)]
            await asyncio.sleep(0.001)
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
        self._stores.redis.start()
        await asyncio.to_thread(self._stores.redis.wait)

    async def _decide(self, what: str, **options: Any) -> None:
        """Decide all rows, with a row too many, in a live cascade of its own."""
        sources = Sources.from_toml(self._file)
        self._tell(f"{what}: sources", repr(sources), str(sources), sources.to_toml())
        async with LiveCascade(self._cascade, sources, **options) as live:
            for keys in (KEYS, KEYS[:5], ["nobody@mail.example"], NUMBERS):
                self._note(what, await live.decide(keys))
            self._tell(f"{what}: live", repr(live), repr(live.spending), live.promise)
        if what in _DIRECTLY:
            await self._ask_directly(what, sources)

    async def _ask_directly(self, what: str, sources: Sources) -> None:
        """Ask each source without the cascade before it: its errors are for people too."""
        for name, source in sources.items():
            client = source.open([name])
            self._tell(f"{what}: client", repr(client))
            for keys in (KEYS, NUMBERS):
                try:
                    await client.fetch(keys, {})
                except Exception as error:
                    self._tell(f"{what}: error of {name}", _all_of(error))
            await client.close()

    def _note(self, what: str, got: Any) -> None:
        """Keep what decisions print as; their index alone has the keys, as it must."""
        self.reasons |= {reason.partition(": ")[0] for reason in got.reason.tolist()}
        self._tell(
            f"{what}: decisions", repr(got), str(got), got._repr_html_(), str(set(got.reason))
        )
        for decision in got:
            self._tell(f"{what}: decision", repr(decision), str(decision.receipt))

    def misuse(self) -> None:
        """Use it wrongly, in all the ways that are refused."""
        live = LiveCascade(self._cascade, Sources.from_toml(self._file))
        known = {"cache": [f"{WORD} {OFFSET}"]}
        self._refused(lambda: live.decide_now([["a", KEYS[0]]]))
        self._refused(lambda: live.decide_now([KEYS[0], 1.5 * OFFSET]))
        self._refused(lambda: live.decide_now(KEYS[:3], known=known))
        self._refused(lambda: live.decide_now({KEYS[0]: 1}, known=known))  # type: ignore[arg-type]
        self._refused(lambda: live.decide_now(KEYS[0], known=known))
        self._refused(lambda: live.decide_now(KEYS[:1], known={WORD: [OFFSET]}))
        live.close_now()
        for name in ("LIVE_REDIS", "LIVE_POSTGRES", "LIVE_MARIADB"):
            for wrong in _WRONG_ADDRESSES:
                with mock.patch.dict(os.environ, {name: wrong}):
                    self._refused(self._open_all)
        for line in (f'url = "redis://:{PASSWORD}@h"', f'password = "{PASSWORD}"',
                     f'headers = {{ Authorization = "{TOKEN}" }}'):  # fmt: skip
            for kind in ("redis", "http", "sql"):
                self._refused(partial(self._read, kind, line))

    def _open_all(self) -> None:
        for name, source in Sources.from_toml(self._file).items():
            source.open([name])

    def _read(self, kind: str, line: str) -> Sources:
        path = self._folder / "wrong.toml"
        path.write_text(f'[a]\nkind = "{kind}"\n{line}\n', encoding="utf-8")
        return Sources.from_toml(path)

    def _refused(self, use: Callable[[], Any]) -> None:
        try:
            given = use()
            self._tell("given", repr(given))
        except Exception as error:
            self._tell("refused", _all_of(error))

    def _tell(self, where: str, *texts: Any) -> None:
        for text in texts:
            if isinstance(text, dict):  # what the event loop tells of an exception of nobody's
                error = text.get("exception")
                text = f"{text} {'' if error is None else _all_of(error)}"
            self.told.append((where, text))

    def logged(self) -> Sequence[tuple[str, str]]:
        """Read the log of decisions, in which keys have another name."""
        files = (self._folder / "log").glob("*.jsonl")
        lines = [line for path in files for line in path.read_text("utf-8").splitlines()]
        assert all(len(json.loads(line)["key"]) == 64 for line in lines)
        return [("log of decisions", line) for line in lines]


def _all_of(error: BaseException) -> str:
    """Give an exception as it is printed, with its causes, and what it holds."""
    return "".join(traceback.format_exception(error)) + repr(error) + repr(error.args)
