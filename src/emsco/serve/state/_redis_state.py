"""A state in Redis."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha1
from typing import Any
from uuid import uuid4

from emsco.core.decisions import STATE_LOST
from emsco.exceptions import StateError, require
from emsco.live.accounts import NO_REQUEST, Intent, RequestContext
from emsco.live.redis_source import no_retry
from emsco.serve.check_period import ACCEPTED_LOSS, PeriodTerms, Step, Turn
from emsco.serve.state import redis_scripts
from emsco.serve.state.base import (
    INCARNATION,
    KEEP_FOR,
    PAUSE,
    UNSEEN_FOR,
    VERSION,
    AuditMark,
    Claim,
    Concern,
    DaySpending,
    OpenIntent,
    State,
    VersionedValue,
    check_version,
    day_number,
    day_of,
    intent_of,
    share_of,
    to_text,
    unusable,
)
from emsco.serve.state.executors import GroupCommit
from emsco.serve.state.redis_period import period_of, steps_text

_LATE_FOR = 3600  # seconds for which the outcome of an unanswered call may still arrive
_LOST = "lost"  # instead of a number of rows: the state has another incarnation, or none
_AT_ONCE = 1000  # ids per command
_RESTARTED = "after a restart, ids, intents and spending are lost. Set `appendonly yes`."


class RedisState(State):
    """A state in Redis; `State` says what its methods do.

    Redis must not lose data. It must write an append-only file (`appendonly yes`; with `appendfsync
    everysec`, the default, a crash of the machine loses up to a second, with `always` nothing), and
    it must not evict (`maxmemory-policy noeviction`): if an id is lost, its request is decided and
    paid for again, and if an intent is lost, so is its possible cost. `concerns` reports settings
    that violate this. All keys are on one server: Redis Cluster is not supported.
    """

    def __init__(
        self,
        address: str,
        safe_address: str,  # without secrets, for messages
        prefix: str,  # of all keys
        *,
        deployment: str,
        timeout: float,  # of a command, in seconds
        clock: Callable[[], float] | None,  # None: that of Redis
        create: bool,
    ) -> None:
        super().__init__(deployment)
        redis = require("redis.asyncio", "live")
        # The client must not retry: a script may have run although no reply arrived.
        try:
            self._redis = redis.Redis.from_url(
                address,
                decode_responses=True,
                retry=no_retry(),
                socket_timeout=timeout,
                socket_connect_timeout=timeout,
            )
        except (ValueError, TypeError):  # its text may contain the URL
            raise StateError(
                "The URL of Redis is not valid; it must look like redis://host:6379/0."
            ) from None
        self._address, self._prefix, self._clock, self._create = safe_address, prefix, clock, create
        self._own = f"{prefix}of:{deployment}:"  # the prefix of this deployment's keys
        self._errors = require("redis.exceptions", "live")
        self._batches: GroupCommit[tuple[Any, ...]] = GroupCommit(self._do)

    async def open(self) -> None:
        found = await self._run(redis_scripts.VERSION, VERSION, int(self._create))
        if found is None:
            raise StateError(f"There is no state at {self._address}.")
        check_version(int(found), self._address)

    async def close(self) -> None:
        await self._batches.finish()
        await self._finish_apart()
        await self._redis.aclose()

    async def ping(self) -> None:
        await self._ask("SET", f"{self._prefix}probe", 1, "EX", 60)

    async def server(self) -> str:
        return str((await self._info("server")).get("run_id", ""))

    async def concerns(self) -> list[Concern]:
        info = await self._info("persistence") | await self._info("memory")
        snapshots: str | None = ""
        if not info.get("aof_enabled"):
            try:
                snapshots = (await self._redis.config_get("save")).get("save", "")
            except self._errors.ResponseError:  # it is hidden, as with some providers
                snapshots = None
        return redis_concerns(self._address, info, snapshots)

    async def _info(self, section: str) -> dict[str, Any]:
        """Return a section of INFO; empty if Redis does not allow it, as with some providers."""
        with self._named():
            try:
                found: dict[str, Any] = await self._redis.info(section)
            except self._errors.ResponseError:
                return {}
        return found

    # Commands

    async def _ask(self, *command: Any, left: Callable[[Any], None] | None = None) -> Any:
        """Run a command."""
        return await self._batches.run(command, left)

    async def _run(self, script: str, *values: Any, left: Any = None) -> Any:
        """Run a script."""
        names = (self._prefix, self._own)
        return await self._ask("EVALSHA", _DIGESTS[script], 2, *names, *values, left=left)

    async def _do(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        outcomes = await self._send(commands)
        unknown = [
            i for i, one in enumerate(outcomes) if isinstance(one, self._errors.NoScriptError)
        ]
        if unknown:  # Redis is new or was restarted
            await self._send([("SCRIPT LOAD", script) for script in redis_scripts.ALL])
            again = await self._send([commands[i] for i in unknown])
            for i, outcome in zip(unknown, again, strict=True):
                outcomes[i] = outcome
        return [self._read(outcome) for outcome in outcomes]

    async def _send(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Send commands in one pipeline; for a single command, that would take twice as long."""
        try:
            if len(commands) == 1:
                return [await self._redis.execute_command(*commands[0])]
            pipeline = self._redis.pipeline(transaction=False)
            for command in commands:
                pipeline.execute_command(*command)
            replies: list[Any] = await pipeline.execute(raise_on_error=False)
        except (self._errors.RedisError, OSError) as error:
            return [error] * len(commands)
        return replies

    def _read(self, outcome: Any) -> Any:
        """Turn errors into `StateError` with the URL of the state."""
        if not isinstance(outcome, Exception):
            return outcome
        if isinstance(outcome, self._errors.TimeoutError):
            return StateError(f"The state at {self._address} did not respond in time.")
        named = unusable(self._address, outcome)
        named.__cause__ = outcome
        return named

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except (self._errors.RedisError, OSError) as error:
            raise self._read(error) from error

    def _now(self) -> str:
        return "" if self._clock is None else repr(float(self._clock()))

    # Requests

    async def claim(self, id: str, body: str, lease: float) -> Claim:  # noqa: A002
        kind, *more = await self._run(
            redis_scripts.CLAIM, id, body, self._now(), float(lease), int(KEEP_FOR)
        )
        return self._claimed(id, int(more[0])) if kind == "claimed" else Claim(kind, *more)

    async def renew(self, id: str, lease: float) -> bool:  # noqa: A002
        return bool(
            await self._run(redis_scripts.RENEW, id, self._attempt(id), self._now(), float(lease))
        )

    async def answer(self, id: str, text: str) -> str:  # noqa: A002
        answer = await self._run(redis_scripts.ANSWER, id, text, int(KEEP_FOR))
        return self._answered(id, None if answer is None else [*answer, text][0])

    async def drop(self, id: str) -> None:  # noqa: A002
        await self._run(redis_scripts.DROP, id, self._attempt(id))

    # Accounts

    async def begin(
        self,
        source: str,
        n_rows: int,
        price: float,
        limit: float | None,
        context: RequestContext = NO_REQUEST,
    ) -> Intent:
        id_ = uuid4().hex
        account = json.dumps([source, context.tenant])

        def undo(granted: list[str]) -> None:
            if granted and granted != [_LOST] and int(granted[0]):
                begun = intent_of(id_, source, price, int(granted[0]))
                self._begin_apart(self.end(begun, 0.0, 0.0))

        granted = await self._run(
            redis_scripts.BEGIN, id_, self._now(), n_rows, float(price),
            "" if limit is None else float(limit), source, account, context.id,
            self._attempt(context.id), json.dumps([context.id, account, self.deployment]),
            self.incarnation or "", f"{INCARNATION}{self.deployment}", left=undo,
        )  # fmt: skip
        if granted == [_LOST]:
            return intent_of(id_, source, price, None, STATE_LOST)
        return intent_of(id_, source, price, int(granted[0]) if granted else None)

    async def end(self, intent: Intent, paid: float, unknown: float) -> None:
        await self._run(
            redis_scripts.END, intent.id, float(paid), float(unknown), intent.source, _LATE_FOR
        )

    async def may_try(self, source: str) -> bool:
        key = f"{self._prefix}try:{source}"
        return bool(await self._ask("SET", key, 1, "NX", "PX", int(1000 * PAUSE)))

    async def is_well(self, source: str, *, well: bool) -> None:
        await self._ask("SREM" if well else "SADD", f"{self._prefix}failing", source)

    async def failing(self) -> set[str]:
        return set(await self._ask("SMEMBERS", f"{self._prefix}failing"))

    async def spend(self, day: str | None = None) -> list[DaySpending]:
        wanted = None if day is None else day_number(day)
        found: dict[Any, list[OpenIntent]] = {}
        for id_, begun in (await self._ask("HGETALL", f"{self._prefix}open")).items():
            number, intent = _open_intent(id_, begun)
            found.setdefault((number, intent.source, intent.tenant), []).append(intent)
        days = sorted(map(int, await self._ask("SMEMBERS", f"{self._prefix}days")))
        spending = []
        for number in days if wanted is None else [wanted]:
            totals = await self._ask("HGETALL", f"{self._prefix}spent:{number}")
            accounts = {field[1:] for field in totals if field[0] in "pu"}
            for source, tenant in sorted(json.loads(account) for account in accounts):
                account = json.dumps([source, tenant])
                paid, unknown = (float(totals.get(kind + account, 0)) for kind in "pu")
                waits = sorted(found.get((number, source, tenant), ()), key=lambda one: one.at)
                spending.append(
                    DaySpending(source, tenant, day_of(number), paid, unknown, tuple(waits))
                )
        return spending

    async def settle(self, source: str, day: str, charged: float) -> float:
        number, begin = day_number(day), f"{self._prefix}late:"
        with self._named():
            late = [key async for key in self._redis.scan_iter(f"{begin}*", count=_AT_ONCE)]
        unknown, _ = await self._run(
            redis_scripts.SETTLE, source, number, float(charged), _LATE_FOR,
            *(key.removeprefix(begin) for key in late),
        )  # fmt: skip
        share_of(charged, float(unknown))  # raises if nothing was settled
        return float(unknown)

    # Periods of spot checks

    async def turn(self, steps: Sequence[Step], terms: PeriodTerms) -> Turn:
        store = self._identity()
        found, *more = await self._run(
            redis_scripts.TURN, self._now(), steps_text(steps), self.incarnation or "",
            f"{INCARNATION}{self.deployment}", store.incarnation,
            ACCEPTED_LOSS if store.was_accepted else "", terms.settings, terms.per_rows,
            float(terms.per_seconds), terms.tolerated, repr(float(terms.rate)),
        )  # fmt: skip
        if found == "lost":
            return Turn.lost(steps)
        if found == "none":
            return Turn([], None)
        admitted, fields, checks = more
        return Turn(admitted, period_of(fields, checks))

    # Small values

    async def keep(self, name: str, text: str, was: int | None = None) -> bool:
        return bool(await self._run(redis_scripts.KEEP, name, text, "" if was is None else was))

    async def get_value(self, name: str) -> VersionedValue | None:
        text, version = await self._ask("HMGET", f"{self._prefix}kept:{name}", "text", "version")
        return None if text is None else VersionedValue(text, int(version))

    # Audited rows

    async def mark(self, rows: Sequence[AuditMark]) -> None:
        for first in range(0, len(rows), _AT_ONCE):
            values: list[Any] = []
            for row in rows[first : first + _AT_ONCE]:
                label, accepted = to_text(row.label), bool(row.accepted)
                mark = [row.at, row.model, label, accepted, row.reason, int(row.exit_stage)]
                values += [row.id, float(row.at), json.dumps(mark)]
            await self._run(redis_scripts.MARK, *values)

    async def marked(self, ids: Sequence[str]) -> list[AuditMark]:
        found = []
        for first in range(0, len(ids), _AT_ONCE):
            some = ids[first : first + _AT_ONCE]
            marks, truths = await asyncio.gather(
                *(self._ask("HMGET", f"{self._own}{name}", *some) for name in ("marks", "truths"))
            )
            found += [
                _marked(id_, mark, truth)
                for id_, mark, truth in zip(some, marks, truths, strict=True)
                if mark is not None
            ]
        return found

    async def label(self, id: str, label: Any) -> bool:  # noqa: A002
        return bool(await self._run(redis_scripts.LABEL, id, to_text(label), int(UNSEEN_FOR)))

    async def due(
        self, before: float, since: float = 0.0, model: str | None = None
    ) -> list[AuditMark]:
        key = f"{self._own}marked"
        ids = await self._ask("ZRANGEBYSCORE", key, float(since), f"({float(before)!r}")
        return [row for row in await self.marked(ids) if model is None or row.model == model]

    async def forget(self, before: float) -> None:
        while await self._run(redis_scripts.FORGET, float(before)):
            pass


_DIGESTS = {script: sha1(script.encode()).hexdigest() for script in redis_scripts.ALL}


def _open_intent(id_: str, begun: str) -> tuple[int, OpenIntent]:
    day, granted, price, at, _, whose = begun.split(" ", 5)
    request, account, _ = json.loads(whose)
    source, tenant = json.loads(account)
    held = float(price) * int(granted)
    return int(day), OpenIntent(id_, source, tenant, request, float(at), int(granted), held)


def _marked(id_: str, mark: str, truth: str | None) -> AuditMark:
    at, model, label, accepted, reason, stage = json.loads(mark)
    known = None if truth is None else json.loads(truth)
    return AuditMark(id_, at, model, json.loads(label), accepted, reason, stage, known)


def redis_concerns(address: str, info: Mapping[str, Any], snapshots: str | None) -> list[Concern]:
    """Return the reasons why Redis may lose data."""
    found = [] if info.get("aof_enabled") else [_unwritten(address, snapshots)]
    policy = info.get("maxmemory_policy", "noeviction")
    if info.get("maxmemory") and policy != "noeviction":
        text = (
            f"Redis at {address} may evict data to save memory ({policy}). Set `maxmemory-policy "
            "noeviction`."
        )
        found.append(Concern(text, loses=True))
    return found


def _unwritten(address: str, snapshots: str | None) -> Concern:
    """Return the concern about a missing append-only file, depending on snapshots."""
    if snapshots is None:
        text = f"Redis at {address} hides whether it writes to disk; if it does not, {_RESTARTED}"
        return Concern(text, loses=False)
    if snapshots:
        lost = _RESTARTED.replace("spending", "spending since its last snapshot")
        return Concern(f"Redis at {address} writes no append-only file: {lost}", loses=False)
    return Concern(f"Redis at {address} writes nothing to disk: {_RESTARTED}", loses=True)
