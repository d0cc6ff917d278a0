"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import re
import secrets
import stat
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import BinaryIO

from emsco.exceptions import ArtifactError

try:
    import fcntl
except ImportError:  # on Windows, where an open file cannot be deleted
    fcntl = None  # type: ignore[assignment]

STDOUT = "/dev/stdout"
_AS_THEY_ARE = (os.devnull, STDOUT)  # written to directly, never replaced


def write_whole(
    path: str | os.PathLike[str],
    parts: Iterable[bytes | memoryview],
    *,
    keep: str | os.PathLike[str] | None = None,
) -> None:
    """Write a file next to its destination and move it there once it is on the disk.

    If anything goes wrong, an existing file is unchanged, and no partial file is left. Several
    processes may write one path: whole files replace each other, and there is one at any time. With
    `keep`, what was there before keeps that name, in the same folder. /dev/null and /dev/stdout are
    written to directly; anything else that is not a regular file is refused.
    """
    try:
        refuse_irregular(path)
        if is_as_it_is(path):
            _write_through(path, parts)
        else:
            _replace(os.path.realpath(path), parts, keep)  # a link still points to its target
    except BrokenPipeError:
        raise  # the reader of /dev/stdout has stopped
    except OSError as error:
        raise ArtifactError(
            f"{os.fspath(path)} cannot be written: {error.strerror or error}; an existing file is "
            "unchanged."
        ) from error


def is_as_it_is(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is written to directly: /dev/null and /dev/stdout."""
    return os.path.abspath(path) in _AS_THEY_ARE


def is_stdout(path: str | os.PathLike[str] | None) -> bool:
    """Return whether a path is standard output."""
    return path is not None and os.path.abspath(path) == STDOUT


def refuse_irregular(path: str | os.PathLike[str]) -> None:
    """Refuse paths that a moved file would replace: devices, pipes, sockets and folders."""
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return
    if not stat.S_ISREG(mode) and not is_as_it_is(path):
        what = next((word for test, word in _KINDS if test(mode)), "not a regular file")
        raise ArtifactError(f"{os.fspath(path)} is {what}; give a file, /dev/null or /dev/stdout.")


_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def _write_through(path: str | os.PathLike[str], parts: Iterable[bytes | memoryview]) -> None:
    if is_stdout(path) and sys.stdout is not None:
        sys.stdout.flush()  # keep the order of what was printed before
    with open(1 if is_stdout(path) else path, "wb", closefd=not is_stdout(path)) as file:
        for part in parts:
            file.write(part)
            file.flush()


def _replace(
    target: str, parts: Iterable[bytes | memoryview], keep: str | os.PathLike[str] | None = None
) -> None:
    remove_drafts(target)
    folder, name = os.path.split(target)
    file = _new_draft(folder, name)
    try:
        with file:  # locked until it has been moved: other writers of this path remove drafts
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
            with suppress(FileNotFoundError):
                os.chmod(file.name, os.stat(target).st_mode)  # keep the permissions
            if keep is not None:
                _keep(target, keep)
            if fcntl is None:  # on Windows, an open file cannot be moved either
                file.close()
            os.replace(file.name, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(file.name)
        raise
    if os.name == "posix":  # elsewhere a folder cannot be opened
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _keep(target: str, keep: str | os.PathLike[str]) -> None:
    """Give an existing file a second name, so that its own always leads to a whole file."""
    link = _draft_path(*os.path.split(target))
    while True:
        try:
            os.link(target, link)
        except FileNotFoundError:
            return  # nothing to keep
        except OSError:  # not every file system has links
            with suppress(FileNotFoundError), open(target, "rb") as file:
                _replace(os.path.realpath(keep), [file.read()])
            return
        with suppress(FileNotFoundError):  # another writer took it for an abandoned draft
            os.replace(link, keep)
            break
    with suppress(FileNotFoundError):
        os.unlink(link)  # which stays where `keep` is already a name of the same file


def _new_draft(folder: str, name: str) -> BinaryIO:
    """Open a draft, locked while it is open, so that it is not taken for an abandoned one."""
    while True:
        file = open(_draft_path(folder, name), "xb")  # noqa: SIM115  # closed by the caller
        with suppress(OSError):  # not every file system has locks
            _lock(file, wait=True)  # for whoever looks whether it is abandoned, and removes it
        if os.fstat(file.fileno()).st_nlink:  # it was not removed before it was locked
            return file
        file.close()


def remove_drafts(path: str | os.PathLike[str]) -> None:
    """Remove drafts of a file that killed processes left behind."""
    folder, name = os.path.split(os.path.realpath(path))
    start = _draft_of(name)
    with suppress(OSError):
        for found in os.listdir(folder):
            if found.startswith(start) and re.fullmatch("[0-9a-f]{16}", found[len(start) :]):
                _remove_unlocked(os.path.join(folder, found))


def _remove_unlocked(draft: str) -> None:
    """Remove a draft unless a process is writing it."""
    with suppress(OSError), open(draft, "rb") as file:
        _lock(file)
        os.unlink(draft)


def _lock(file: BinaryIO, *, wait: bool = False) -> None:
    """Lock a file until it is closed; if another process has locked it, wait or raise an error."""
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))


def _draft_path(folder: str, name: str) -> str:
    return os.path.join(folder, f"{_draft_of(name)}{secrets.token_hex(8)}")


def _draft_of(name: str) -> str:
    return f".{name[:100]}."
