"""A lock that lets only one service use an SQLite state; readers are not affected."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from emsco.exceptions import StateError


@contextmanager
def alone(file: Path, deployment: str) -> Iterator[None]:
    """Lock the file of a state for one service.

    The lock is on a second file next to it, which ends in `.lock`, so that `emsco spend` can still
    read. The operating system releases the lock when the process exits, for whatever reason.

    Parameters
    ----------
    file : Path
        The file of the state.
    deployment : str
        The name of the service, for the message to others.

    Raises
    ------
    StateError
        If another service holds it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from emsco.serve.state.file_lock import alone
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with alone(Path(folder, "state.sqlite"), "cards"):
    ...         print(*(path.name for path in Path(folder).iterdir()))
    state.sqlite.lock
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
