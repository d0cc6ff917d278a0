"""Opens the state at a URL: Redis, PostgreSQL, or an SQLite file."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode

from emsco.exceptions import StateError
from emsco.serve.state.idempotency import check_encoded, without_secrets

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
    deployment: str = "emsco",
    create: bool = True,
    timeout: float = _TIMEOUT,
    clock: Callable[[], float] | None = None,
) -> State:
    """Open the state at a URL.

    Parameters
    ----------
    address : str
        redis://host:6379/0, postgresql://user@host/database, or the path of an SQLite file. With
        `?prefix=...` at its end, all names in the store have this prefix.
    deployment : str, default="emsco"
        The deployment whose ids, marks and labels are used. Spending and failing sources are shared
        by all deployments of a state.
    create : bool, default=True
        Whether to create the state if it does not exist. False: read only.
    timeout : float, default=5.0
        The maximum seconds that the store may take to respond.
    clock : callable, default=None
        Returns the seconds since 1970. None: the clock of the store.

    Returns
    -------
    State
        The state, open.

    Examples
    --------
    >>> import asyncio, tempfile
    >>> from pathlib import Path
    >>> from emsco.serve.state import RequestContext, asking, open_state
    >>> async def main(folder):
    ...     state = await open_state(str(Path(folder, "state.sqlite")))
    ...     print((await state.claim("order-7", "digest of the body", lease=30.0)).kind)
    ...     asking.set(RequestContext("order-7", tenant="shop"))
    ...     intent = await state.begin("whois", 3, price=2.0, limit=5.0)
    ...     await state.end(intent, paid=4.0, unknown=0.0)
    ...     await state.answer("order-7", "the answer")
    ...     print((await state.claim("order-7", "digest of the body", lease=30.0)).answer)
    ...     (spending,) = await state.spend()
    ...     print(spending.source, spending.tenant, spending.paid)
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
    else:
        make = _sqlite
    if make is not _sqlite:
        check_encoded(address)
    state = make(address, deployment, create, timeout, clock)
    try:
        await state.open()
    except BaseException:
        await state.close()
        raise
    return state


def _redis(address: str, deployment: str, create: bool, timeout: float, clock: Any) -> State:
    from emsco.serve.state.redis_state import RedisState

    address, prefix = _without_prefix(address)
    return RedisState(
        address,
        deployment=deployment,
        prefix=f"{prefix}:",
        timeout=timeout,
        clock=clock,
        create=create,
    )


def _postgres(address: str, deployment: str, create: bool, timeout: float, clock: Any) -> State:
    from emsco.serve.state.executors import PoolExecutor
    from emsco.serve.state.sql_state import SQLState

    address, prefix = _without_prefix(address)
    address = "postgresql://" + address.partition("://")[2]  # without the name of a driver
    safe_address = without_secrets(address)
    lane = PoolExecutor(address, safe_address, timeout)
    return SQLState(
        lane, safe_address, deployment=deployment, prefix=f"{prefix}_", clock=clock, create=create
    )


def _sqlite(address: str, deployment: str, create: bool, timeout: float, clock: Any) -> State:
    from emsco.serve.state.executors import ThreadExecutor
    from emsco.serve.state.sql_state import SQLState

    prefix, path = _without_prefix(address)[1], state_file(address)
    if not create and not path.exists():
        raise StateError(f"There is no state at {path}.")
    lane = ThreadExecutor(path, timeout, writes=create)
    state = SQLState(
        lane, str(path), deployment=deployment, prefix=f"{prefix}_", clock=clock, create=create
    )
    state.key_file = path.with_name(f"{path.name}.key")
    return state


def state_file(address: str) -> Path:
    """Return the path of an SQLite state."""
    address, _ = _without_prefix(address)
    if "://" in address:
        scheme, _, rest = address.partition("://")
        if scheme not in SQLITE:
            raise StateError(
                "A state must be redis://..., postgresql://... or the path of an SQLite file, got "
                f"a URL that begins with {scheme}://."
            )
        address = rest.removeprefix("/")
    path = Path(address)
    if not address or path.is_dir() or not path.parent.is_dir():
        raise StateError(f"The state {address!r} must be a file in a folder that exists.")
    return path


def _without_prefix(address: str) -> tuple[str, str]:
    """Split a URL into the URL without its prefix, and the prefix."""
    head, mark, query = address.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    if not mark or "prefix" not in options:
        return address, "emsco"
    prefix = options.pop("prefix")
    if not _PREFIX.fullmatch(prefix):
        raise StateError(
            "The prefix of a state must begin with a letter and consist of at most 40 characters "
            f"a-z, 0-9 and _, got {prefix!r}."
        )
    return f"{head}?{urlencode(options)}" if options else head, prefix
