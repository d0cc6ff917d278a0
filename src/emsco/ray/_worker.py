"""What runs inside a Ray worker: a function over some chunks, with data that are loaded once."""

from __future__ import annotations

import pickle
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from emsco.exceptions import EngineError

# Fits by other versions of these are other fits.
_COMPARED = ("emsco", "numpy", "scipy", "scikit-learn")


@dataclass(frozen=True)
class TaskInput:
    """What all tasks of one call have in common; one object of Ray's store."""

    function: Callable[[Any, Any], Any]
    shared: Any
    versions: dict[str, str]


@dataclass(frozen=True)
class TaskResult:
    """The results of some chunks, and the seconds that they took."""

    results: list[Any]
    seconds: float


@dataclass(frozen=True)
class TaskFailure:
    """What a function raised, and where."""

    error: BaseException
    trace: str


class _RemoteError(Exception):
    """Shows where an error was raised on the worker, above the error itself."""


# The job at hand: its arrays lie in Ray's store, but the rest of it would be unpickled per task.
_held: tuple[str, TaskInput] | None = None


def run_chunks(reference: list[Any], chunks: list[Any]) -> TaskResult | TaskFailure:
    """Run the function of a job over chunks; `reference` holds the job's place in the store."""
    try:
        job = _load(reference[0])
        started = time.perf_counter()
        results = [job.function(chunk, job.shared) for chunk in chunks]
    except Exception as error:
        return _portable(error)
    return TaskResult(results, time.perf_counter() - started)


def reraise(failed: TaskFailure) -> None:
    """Raise what a function raised, with the traceback of the worker as its cause."""
    raise failed.error from _RemoteError(f"\n{failed.trace}")


def versions_here() -> dict[str, str]:
    """List the versions that results depend on: Python's, and those of some packages."""
    found = {"Python": ".".join(map(str, sys.version_info[:2]))}
    for name in _COMPARED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # run from its source tree, without being installed
            found[name] = "not installed"
    return found


def _load(reference: Any) -> TaskInput:
    global _held
    if _held is None or _held[0] != reference.hex():
        import ray

        _held = None  # two jobs in memory at once may be too much
        try:
            job: TaskInput = ray.get(reference)
        except ray.exceptions.RaySystemError as error:
            reason = str(error).partition("\n")[0].removeprefix("System error: ")
            raise EngineError(
                f"A worker of the Ray cluster cannot load what it was sent: {reason}. Install the "
                "modules of your own classifiers and functions on every node."
            ) from error
        _refuse_others(job.versions)
        _held = reference.hex(), job
    return _held[1]


def _refuse_others(expected: dict[str, str]) -> None:
    """Refuse to work with other versions than the caller's: results would silently differ."""
    here = versions_here()
    for name, wanted in expected.items():
        if here.get(name) != wanted:
            raise EngineError(
                f"A node of the Ray cluster has {name} {here.get(name)}, and this process has "
                f"{wanted}; install the same version on all nodes, because fits and decisions "
                "may depend on it."
            )


def _portable(error: Exception) -> TaskFailure:
    """Keep an error as it is if it can be sent, else what it says."""
    trace = "".join(traceback.format_exception(error))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = EngineError(f"{type(error).__name__}: {error}")
    return TaskFailure(error, trace)
