"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterable
from contextlib import suppress

from emsco.exceptions import ArtifactError


def write_whole(
    path: str | os.PathLike[str],
    parts: Iterable[bytes | memoryview],
    *,
    keep: str | os.PathLike[str] | None = None,
) -> None:
    """Write a file beside its place and move it there once it is on the disk.

    Whatever goes wrong, a file that was there before stays as it was, and no half file is left.
    With `keep`, what was there before is moved to that name.
    """
    target = os.path.realpath(path)  # a link keeps pointing where it did
    folder, name = os.path.split(target)
    draft = os.path.join(folder, f"{_draft_of(name)}{secrets.token_hex(8)}")
    try:
        try:
            with open(draft, "xb") as file:
                for part in parts:
                    file.write(part)
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileNotFoundError):
                os.chmod(draft, os.stat(target).st_mode)  # who may read it is not ours to change
            if keep is not None:
                with suppress(FileNotFoundError):
                    os.replace(target, keep)
            os.replace(draft, target)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(draft)
            raise
        if os.name == "posix":  # elsewhere a folder cannot be opened
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
    except OSError as error:
        raise ArtifactError(
            f"{os.fspath(path)} cannot be written: {error.strerror or error}; what was there "
            "before is unchanged."
        ) from error


def remove_drafts(path: str | os.PathLike[str]) -> None:
    """Remove the drafts of a file that processes left that were killed."""
    folder, name = os.path.split(os.path.realpath(path))
    start = _draft_of(name)
    with suppress(OSError):
        for found in os.listdir(folder):
            if found.startswith(start) and re.fullmatch("[0-9a-f]{16}", found[len(start) :]):
                os.unlink(os.path.join(folder, found))


def _draft_of(name: str) -> str:
    return f".{name[:100]}."
