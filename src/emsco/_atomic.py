"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from contextlib import suppress

from emsco.exceptions import ArtifactError


def write_whole(path: str | os.PathLike[str], parts: Iterable[bytes]) -> None:
    """Write a file beside its place and move it there once it is on the disk.

    Whatever goes wrong, a file that was there before stays as it was, and no half file is left.
    """
    target = os.path.realpath(path)  # a link keeps pointing where it did
    folder, name = os.path.split(target)
    draft = os.path.join(folder, f".{name[:100]}.{secrets.token_hex(8)}")
    try:
        try:
            with open(draft, "xb") as file:
                for part in parts:
                    file.write(part)
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileNotFoundError):
                os.chmod(draft, os.stat(target).st_mode)  # who may read it is not ours to change
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
