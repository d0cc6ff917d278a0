"""Opens the state at a URL: Redis, PostgreSQL, or an SQLite file, which one service may lock."""

from __future__ import annotations

import fcntl
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode

from emsco.exceptions import StateError
from emsco.serve.settings import POSTGRES, REDIS

if TYPE_CHECKING:
    from emsco.serve.state.base import State

SQLITE = ("sqlite", "sqlite+aiosqlite")

_TIMEOUT = 5.0  # seconds
_PREFIX = re.compile(r"[a-z][a-z0-9_]{0,39}")


async def open_state(
    address: str,
    *,
    deployment: str = "emsco",
    create: bool = True,
    timeout: float = _TIMEOUT,
    clock: Callable[[], float] | None = None,  # None: the clock of the store
) -> State:
    """Open the state at a URL, such as redis://host:6379/0, or the path of an SQLite file.

    With `?prefix=...` at its end, all names in the store have this prefix. Ids, marks and labels
    are those of the deployment; spending and failing sources are shared by all. With `create=False`
    nothing is written.
    """
    scheme = address.partition("://")[0] if "://" in address else ""
    stated, prefix = _without_prefix(address)
    options: dict[str, Any] = {"deployment": deployment, "clock": clock, "create": create}
    state: State
    if scheme in REDIS:
        from emsco.serve.state._redis_state import RedisState

        _check_encoded(address)
        safe_address = without_secrets(stated)
        state = RedisState(stated, safe_address, f"{prefix}:", timeout=timeout, **options)
    else:
        from emsco.serve.state._sql_state import SQLState
        from emsco.serve.state.executors import PoolExecutor, ThreadExecutor

        if scheme in POSTGRES:
            _check_encoded(address)
            stated = "postgresql://" + stated.partition("://")[2]  # without the name of a driver
            safe_address = without_secrets(stated)
            pool = PoolExecutor(stated, safe_address, timeout)
            state = SQLState(pool, safe_address, f"{prefix}_", **options)
        else:
            path = state_file(address)
            if not create and not path.exists():
                raise StateError(f"There is no state at {path}.")
            thread = ThreadExecutor(path, timeout, writes=create)
            state = SQLState(thread, str(path), f"{prefix}_", **options)
            state.key_file = path.with_name(f"{path.name}.key")
    try:
        await state.open()
    except BaseException:
        await state.close()
        raise
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


def without_secrets(address: str) -> str:
    """Return a URL for messages, without user, password and options."""
    scheme, mark, rest = address.partition("://")
    user, _, place = rest.rpartition("@")
    if "?" in user:  # it may be part of an option or of a password
        return f"{scheme}://..."
    return scheme + mark + re.split("[?#]", place)[0]


def _check_encoded(address: str) -> None:
    """Refuse a password that is not percent-encoded: a driver would misread it."""
    place = re.split("[/?#]", address.partition("://")[2], maxsplit=1)
    if len(place) == 2 and "@" in place[1].partition("?")[0]:
        raise StateError(
            "The URL of the state has an @ after its host. If the password contains / ? # @, write "
            "%2F %3F %23 %40 instead."
        )


@contextmanager
def alone(file: Path, deployment: str) -> Iterator[None]:
    """Lock the file of a state for one service.

    The lock is on a second file next to it, which ends in `.lock`, so that `emsco spend` can still
    read. The operating system releases the lock when the process exits, for whatever reason.
    """
    real = file.resolve()  # one lock per file, whatever its path
    path = real.with_name(f"{real.name}.lock")
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StateError(f"The state {file} cannot be locked: {error.strerror}.") from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StateError(
                f"The state {file} is used by {_holder(lock)}. Several services cannot share a "
                "file: use another --state or --folder for this one, or a shared state for both, "
                "redis://... or postgresql://..."
            ) from None
        except OSError as error:
            raise StateError(f"The state {file} cannot be locked: {error.strerror}.") from error
        os.ftruncate(lock, 0)
        os.pwrite(lock, json.dumps({"deployment": deployment, "pid": os.getpid()}).encode(), 0)
        yield
    finally:
        os.close(lock)


def _holder(lock: int) -> str:
    """Return the name of the service that holds a lock, if it is known."""
    try:
        holder = json.loads(os.pread(lock, 1000, 0))
        return f"the service {holder['deployment']!r} (process {holder['pid']})"
    except (ValueError, KeyError, TypeError):
        return "another service"
