"""The bare loop in C that the exhaustive search is held against, compiled with the same flags."""

from __future__ import annotations

import ctypes
import platform
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SOURCE = Path(__file__).with_suffix(".c")
_FLAGS = ("-O3", "-std=c11", "-ffp-contract=off", "-fPIC", "-shared")


def compile_bare_loop() -> Callable[..., int]:
    """Compile the loop, for the instructions that the loader chooses for ours on this machine."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise SystemExit("The benchmark needs a C compiler.")
    machine = ("-march=x86-64-v3",) if platform.machine() == "x86_64" else ()
    with TemporaryDirectory() as folder:
        library = Path(folder) / "bare_loop.so"
        subprocess.run([compiler, *_FLAGS, *machine, str(_SOURCE), "-o", str(library)], check=True)
        loop = ctypes.CDLL(str(library)).bare
    loop.restype = ctypes.c_int64

    def bare(firsts: NDArray[Any], accepted: NDArray[Any], right: NDArray[Any]) -> int:
        sets, words = accepted.shape
        one, two = np.empty(words, dtype=np.uint64), np.empty(words, dtype=np.uint64)
        total = np.zeros(1, dtype=np.int64)
        arrays = [array.ctypes.data_as(ctypes.c_void_p) for array in (firsts, accepted, right)]
        room = [array.ctypes.data_as(ctypes.c_void_p) for array in (one, two, total)]
        size = ctypes.c_size_t
        return int(loop(arrays[0], size(len(firsts)), *arrays[1:], size(sets), size(words), *room))

    return bare
