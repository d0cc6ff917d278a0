"""One service for a file of SQLite: a second one is refused, and readers are not."""

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
    """Hold the file of a state for one service, as long as its process lives.

    A second file beside it, which ends in `.lock`, is locked: `emsco spend` can read meanwhile.
    The system itself ends the lock with the process, however that ends.

    Parameters
    ----------
    file : Path
        The file of the state.
    deployment : str
        Who holds it, for the message to others.

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
    real = file.resolve()  # one file has one lock, by whatever name it is given
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
                "file: give this one another --state or --folder, or give both a state that they "
                "can share, redis://... or postgresql://..."
            ) from None
        except OSError as error:
            raise StateError(f"The state {file} cannot be locked: {error.strerror}.") from error
        os.ftruncate(lock, 0)
        os.pwrite(lock, json.dumps({"deployment": deployment, "pid": os.getpid()}).encode(), 0)
        yield
    finally:
        os.close(lock)


def _holder(lock: int) -> str:
    """Name who holds a lock, as far as it has said so."""
    try:
        told = json.loads(os.pread(lock, 1000, 0))
        return f"the service {told['deployment']!r} (process {told['pid']})"
    except (ValueError, KeyError, TypeError):
        return "another service"
