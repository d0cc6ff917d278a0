"""Kernels compiled by numba, cached on the disk for the next process if possible.

Importing this module imports numba: import it where a kernel runs, not before.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from numba import config as numba_config
from numba import njit
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.serialize import dumps

from emsco._utils.progress import COMPILE, tell


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function when it is first called, and cache the result.

    Numba's cache is in the package's folder or in the user's home. If neither can be written, a
    temporary folder is used; without one, each process compiles again.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        kernel = njit(nogil=True, **options)(function)
        cache = _cache_of(function)
        if cache is not None:
            kernel._cache = cache
        return kernel

    return decorate


def _cache_of(function: Callable[..., Any]) -> _Cache | None:
    try:
        return _Cache(function)
    except RuntimeError:  # numba has found no folder
        pass
    config: Any = numba_config
    before = config.CACHE_DIR
    try:
        config.CACHE_DIR = _temporary_folder()
        return _Cache(function)
    except (RuntimeError, OSError):
        return None
    finally:
        config.CACHE_DIR = before


def _temporary_folder() -> str:
    """Make a folder that no other user can write to, because code in it is run."""
    user = os.getuid() if hasattr(os, "getuid") else None
    folder = os.path.join(tempfile.gettempdir(), "emsco" if user is None else f"emsco-{user}")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    found = os.lstat(folder)
    private = stat.S_ISDIR(found.st_mode) and found.st_uid == user and not found.st_mode & 0o077
    if user is not None and not private:
        raise PermissionError(f"{folder} can be accessed by other users")
    return folder


class _Sealed(CompileResultCacheImpl):
    """Compiled code with a digest, because damaged machine code would be run."""

    def reduce(self, compiled: Any) -> tuple[bytes, bytes]:
        data = dumps(super().reduce(compiled))
        return hashlib.sha256(data).digest(), data

    def rebuild(self, target_context: Any, payload: tuple[bytes, bytes]) -> Any:
        digest, data = payload
        if hashlib.sha256(data).digest() != digest:
            raise ValueError("damaged")
        return super().rebuild(target_context, pickle.loads(data))  # as numba itself does


class _Cache(FunctionCache):
    """Numba's cache, which is emptied if it is damaged, and not used if it cannot be written."""

    _impl_class = _Sealed

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            overload = super().load_overload(sig, target_context)
        except Exception:  # damaged files may cause anything
            with suppress(OSError):
                self.flush()
            overload = None
        if overload is None:
            tell(COMPILE)  # it takes seconds
        return overload

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(OSError):  # a full disk
            super().save_overload(sig, data)
