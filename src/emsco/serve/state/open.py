"""The state at an address: Redis, PostgreSQL, or a file of SQLite."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode

from emsco.exceptions import StateError
from emsco.serve.state.base import without_secrets

if TYPE_CHECKING:
    from emsco.serve.state.protocol import State

REDIS = ("redis", "rediss", "unix")
POSTGRES = ("postgresql", "postgres", "postgresql+asyncpg")
SQLITE = ("sqlite", "sqlite+aiosqlite")

_TIMEOUT = 5.0  # seconds
_PREFIX = re.compile(r"[a-z][a-z0-9_]{0,39}")


async def open_state(
    address: str,
    *,
    create: bool = True,
    timeout: float = _TIMEOUT,
    clock: Callable[[], float] | None = None,
) -> State:
    """Open the state at an address.

    Parameters
    ----------
    address : str
        redis://host:6379/0, postgresql://user@host/database, or the path of a file for SQLite.
        With `?prefix=...` at its end, everything has names that begin so; this lets several
        services use one store.
    create : bool, default=True
        Whether to make it if it is not there. False: only what is there is read.
    timeout : float, default=5.0
        How many seconds the store may take to answer.
    clock : callable, default=None
        Gives the seconds since 1970. None: the clock of the store.

    Returns
    -------
    State
        The state, open.

    Examples
    --------
    >>> import asyncio, tempfile
    >>> from pathlib import Path
    >>> from emsco.serve.state import Asking, asking, open_state
    >>> async def main(folder):
    ...     state = await open_state(str(Path(folder, "state.sqlite")))
    ...     print((await state.claim("order-7", "digest of the body", lease=30.0)).kind)
    ...     asking.set(Asking("order-7", tenant="shop"))
    ...     intent = await state.begin("whois", 3, price=2.0, limit=5.0)
    ...     await state.end(intent, spent=4.0, unknown=0.0)
    ...     await state.answer("order-7", "the answer")
    ...     print((await state.claim("order-7", "digest of the body", lease=30.0)).answer)
    ...     (spent,) = await state.spend()
    ...     print(spent.source, spent.tenant, spent.paid)
    ...     await state.close()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     asyncio.run(main(folder))
    new
    the answer
    whois shop 4.0
    """
    scheme = address.partition("://")[0] if "://" in address else ""
    if scheme in REDIS:
        make = _redis
    elif scheme in POSTGRES:
        make = _postgres
    elif scheme in ("", *SQLITE):
        make = _sqlite
    else:
        raise StateError(
            f"A state must be redis://..., postgresql://... or the path of a file for SQLite, got "
            f"an address that begins with {scheme}://."
        )
    state = make(address, create, timeout, clock)
    try:
        await state.open()
    except BaseException:
        await state.close()
        raise
    return state


def _redis(address: str, create: bool, timeout: float, clock: Any) -> State:
    from emsco.serve.state.redis import RedisState

    address, prefix = _without_prefix(address)
    return RedisState(address, prefix=f"{prefix}:", timeout=timeout, clock=clock, create=create)


def _postgres(address: str, create: bool, timeout: float, clock: Any) -> State:
    from emsco.serve.state.lanes import PoolLane
    from emsco.serve.state.sql import SQLState

    address, prefix = _without_prefix(address)
    address = "postgresql://" + address.partition("://")[2]  # without the name of a driver
    told = without_secrets(address)
    lane = PoolLane(address, told, timeout)
    return SQLState(lane, told, prefix=f"{prefix}_", clock=clock, create=create)


def _sqlite(address: str, create: bool, timeout: float, clock: Any) -> State:
    from emsco.serve.state.lanes import ThreadLane
    from emsco.serve.state.sql import SQLState

    address, prefix = _without_prefix(address)
    if "://" in address:
        address = address.partition("://")[2].removeprefix("/")
    path = Path(address)
    if not address or path.is_dir() or not path.parent.is_dir():
        raise StateError(f"The state {address!r} must be a file in a folder that exists.")
    if not create and not path.exists():
        raise StateError(f"There is no state at {path}.")
    lane = ThreadLane(path, timeout, writes=create)
    return SQLState(lane, str(path), prefix=f"{prefix}_", clock=clock, create=create)


def _without_prefix(address: str) -> tuple[str, str]:
    """Take the prefix off an address."""
    head, mark, query = address.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    if not mark or "prefix" not in options:
        return address, "emsco"
    prefix = options.pop("prefix")
    if not _PREFIX.fullmatch(prefix):
        raise StateError(
            "The prefix of a state must begin with a letter and consist of at most 40 of a-z, 0-9 "
            f"and _, got {prefix!r}."
        )
    return f"{head}?{urlencode(options)}" if options else head, prefix
