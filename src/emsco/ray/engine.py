"""An engine whose workers are those of a Ray cluster, and what runs inside a worker."""

from __future__ import annotations

import pickle
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple, Self, TypeVar

from emsco.exceptions import EngineError, require
from emsco.ray.cluster import count_cpus, join, leave

Chunk = TypeVar("Chunk")
Result = TypeVar("Result")

_LONG = 1.0  # seconds that a task of several chunks takes at most: what is lost with a node
_SHORT = 0.05  # seconds that it takes at least, against about a millisecond of Ray's own
_QUEUED = 2  # tasks per worker: one at work and one waiting, so that nobody is idle
_FRESH = 1.0  # seconds for which the number of CPUs is taken as known
_LOOK = 5.0  # seconds after which a silent cluster is looked at
# Fits by other versions of these are other fits.
_COMPARED = ("emsco", "numpy", "scipy", "scikit-learn")


class RayEngine:
    """An engine that runs on a Ray cluster.

    Results are those of `LocalEngine` bit for bit, for any number of workers and nodes, if all
    have the same processor type and the same versions of Python, numpy, scipy, scikit-learn and
    emsco; other versions are refused. When a worker or a node dies, what it was doing and what was
    lost with it is done again elsewhere.

    The shared data are sent once per node and read there without a copy. An object that is given
    as `shared` in several calls in a row is sent in the first of them, so do not change it in
    between.

    Parameters
    ----------
    n_jobs : int, default=None
        The number of chunks that run at the same time. None or -1: one per CPU of the cluster.
    address : str, default=None
        The cluster to connect to: "auto" for the one that runs on this machine, or host:port.
        None: the one that this process is connected to, else a new one on this machine, reachable
        from this machine only.
    retries : int, default=10
        How often a task is repeated whose worker or node died, before an `EngineError` is raised.
    patience : float, default=120
        Seconds to wait for a CPU while the cluster has none, before an `EngineError` is raised.

    Notes
    -----
    The engine connects at first use. Use it in a `with` block, or call `close`, to disconnect; this
    ends the cluster if the engine has started it. Otherwise it ends with the process.

    Starting a cluster takes 5 to 30 seconds, so a search of less than a few minutes is faster with
    `LocalEngine`.

    Examples
    --------
    >>> from emsco.ray import RayEngine
    >>> def scaled_sum(chunk, shared):
    ...     return sum(chunk) * shared
    >>> with RayEngine(n_jobs=1) as engine:  # doctest: +SKIP
    ...     engine.map(scaled_sum, [[1, 2], [3, 4]], shared=10)
    [30, 70]
    """

    def __init__(
        self,
        n_jobs: int | None = None,
        *,
        address: str | None = None,
        retries: int = 10,
        patience: float = 120.0,
    ) -> None:
        if n_jobs is not None and n_jobs != -1 and n_jobs < 1:
            raise EngineError(f"`n_jobs` must be None, -1 or a number >= 1, got {n_jobs!r}.")
        if retries < 0 or not patience > 0:
            raise EngineError(
                f"`retries` must be >= 0 and `patience` above 0, got {retries!r} and {patience!r}."
            )
        self.n_jobs = n_jobs
        self.address = address
        self.retries = retries
        self.patience = patience
        self._joined = False  # by this engine, which then leaves, too
        self._sent: tuple[Any, Any, Any] | None = None  # function, shared data, place in the store
        self._seconds: float | None = None  # per chunk, of the latest tasks
        self._task: Any = None  # what Ray calls

    def __enter__(self) -> Self:
        self._join()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the connection: a copy connects by itself."""
        names = ("n_jobs", "address", "retries", "patience")
        return {name: getattr(self, name) for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    @property
    def n_workers(self) -> int:
        """How many chunks run at the same time, on the nodes that are alive now."""
        self._join()
        return self._share_of(count_cpus())

    def _share_of(self, cpus: int) -> int:
        """Return how many of the CPUs may be used; at least one, which may be about to come."""
        most = cpus if self.n_jobs is None or self.n_jobs == -1 else min(self.n_jobs, cpus)
        return max(most, 1)

    def map(
        self,
        function: Callable[[Chunk, Any], Result],
        chunks: Sequence[Chunk],
        *,
        shared: Any = None,
    ) -> list[Result]:
        """Return `function(chunk, shared)` for every chunk, in the order of the chunks."""
        results: dict[int, Result] = dict(self.as_finished(function, chunks, shared=shared))
        return [results[place] for place in range(len(chunks))]

    def as_finished(
        self,
        function: Callable[[Chunk, Any], Result],
        chunks: Sequence[Chunk],
        *,
        shared: Any = None,
    ) -> Iterator[tuple[int, Result]]:
        """Yield the place of each chunk and `function(chunk, shared)`, as they finish."""
        if not len(chunks):
            return
        ray = require("ray", "ray")
        self._join()
        reference = self._send(function, shared)
        if self._task is None:
            self._task = ray.remote(max_retries=self.retries, num_cpus=1)(_run_chunks)
        waiting: dict[Any, range] = {}
        begun, counted = 0, -_FRESH
        try:
            while begun < len(chunks) or waiting:
                if time.monotonic() - counted > _FRESH:  # nodes come and go
                    cpus, counted = count_cpus(), time.monotonic()
                    n_workers = self._share_of(cpus)
                # Ray would run what waits, so nothing may wait where CPUs are to be left free.
                most = n_workers * (_QUEUED if n_workers == cpus else 1)
                while begun < len(chunks) and len(waiting) < most:
                    size = self._size(len(chunks) - begun, n_workers)
                    places = range(begun, min(begun + size, len(chunks)))
                    batch = [chunks[place] for place in places]
                    waiting[self._task.remote([reference], batch)] = places
                    begun = places.stop
                finished = self._next(ray, list(waiting))
                places = waiting.pop(finished)
                yield from zip(places, self._results(ray, finished), strict=True)
        finally:
            # After an error, or if the caller wants no more. Without a cluster Ray would start one.
            if ray.is_initialized():
                for left in waiting:
                    ray.cancel(left)

    def close(self) -> None:
        """Disconnect; end the cluster if this engine has started it."""
        was_joined = self._joined
        self._forget()
        if was_joined:
            leave()

    def _forget(self) -> None:
        self._joined = False
        self._sent = self._seconds = self._task = None

    def _join(self) -> None:
        if join(self.address, None if self.n_jobs == -1 else self.n_jobs):
            self._forget()  # the store of an earlier cluster is gone
            self._joined = True

    def _send(self, function: Callable[[Any, Any], Any], shared: Any) -> Any:
        """Put what all tasks need into the store, unless it is what was put there last."""
        if self._sent is None or self._sent[0] is not function or self._sent[1] is not shared:
            ray = require("ray", "ray")
            self._sent = self._seconds = None
            job = _Job(function, shared, versions_here())
            self._sent = function, shared, ray.put(job)
        return self._sent[2]

    def _size(self, left: int, n_workers: int) -> int:
        """Return how many chunks the next task has: fewer towards the end, so that all end alike.

        What a chunk gives does not depend on the others of its task.
        """
        if self._seconds is None:
            return 1
        fair = -(-left // (_QUEUED * n_workers))
        least = int(_SHORT / self._seconds) + 1
        return max(min(fair, int(_LONG / self._seconds)), least, 1)

    def _next(self, ray: Any, waiting: list[Any]) -> Any:
        """Wait for a task that is finished; give up only if nobody can be working."""
        without_cpu: float | None = None
        while True:
            finished, _ = ray.wait(waiting, num_returns=1, timeout=_LOOK)
            if finished:
                return finished[0]
            if count_cpus():
                without_cpu = None
                continue
            without_cpu = time.monotonic() if without_cpu is None else without_cpu
            if time.monotonic() - without_cpu > self.patience:
                raise EngineError(
                    f"The Ray cluster has had no CPU for {self.patience:g} seconds; add a node, or "
                    "raise `patience` if one is about to come."
                )

    def _results(self, ray: Any, finished: Any) -> list[Any]:
        """Fetch what a task gave; if it was lost with its node, Ray runs the task again."""
        try:
            outcome: tuple[list[Any], float] | _Failure = ray.get(finished)
        except ray.exceptions.RayError as error:
            # What a function raises comes as a failure, so this is about the cluster.
            reason = str(error).strip().partition("\n")[0]
            raise EngineError(
                f"Ray gave up a task ({type(error).__name__}: {reason}). If a worker died "
                f"{self.retries + 1} times, the function needs more memory than a node has, or "
                "crashes; if a module is missing, install it on every node."
            ) from error
        if isinstance(outcome, _Failure):
            raise outcome.error from _RemoteError(f"\n{outcome.trace}")
        results, seconds = outcome
        self._seconds = max(seconds / len(results), 1e-6)
        return results


class _Job(NamedTuple):
    """What all tasks of one call have in common; one object of Ray's store."""

    function: Callable[[Any, Any], Any]
    shared: Any
    versions: dict[str, str]


class _Failure(NamedTuple):
    """What a function raised, and where."""

    error: Exception
    trace: str


class _RemoteError(Exception):
    """Shows where an error was raised on the worker, above the error itself."""


# The job at hand: its arrays lie in Ray's store, but the rest of it would be unpickled per task.
_held: tuple[str, _Job] | None = None


def _run_chunks(reference: list[Any], chunks: list[Any]) -> tuple[list[Any], float] | _Failure:
    """Run the function of a job over chunks, and return the results and the seconds they took.

    This runs on a worker; `reference` holds the job's place in the store.
    """
    try:
        job = _load(reference[0])
        started = time.perf_counter()
        results = [job.function(chunk, job.shared) for chunk in chunks]
    except Exception as error:
        trace = "".join(traceback.format_exception(error))
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # it cannot be sent: keep what it says
            return _Failure(EngineError(f"{type(error).__name__}: {error}"), trace)
        return _Failure(error, trace)
    return results, time.perf_counter() - started


def _load(reference: Any) -> _Job:
    global _held
    if _held is None or _held[0] != reference.hex():
        import ray

        _held = None  # two jobs in memory at once may be too much
        try:
            job: _Job = ray.get(reference)
        except ray.exceptions.RaySystemError as error:
            reason = str(error).partition("\n")[0].removeprefix("System error: ")
            raise EngineError(
                f"A worker of the Ray cluster cannot load what it was sent: {reason}. Install the "
                "modules of your own classifiers and functions on every node."
            ) from error
        here = versions_here()
        for name, wanted in job.versions.items():  # results of others would silently differ
            if here.get(name) != wanted:
                raise EngineError(
                    f"A node of the Ray cluster has {name} {here.get(name)}, and this process has "
                    f"{wanted}; install the same version on all nodes, because fits and decisions "
                    "may depend on it."
                )
        _held = reference.hex(), job
    return _held[1]


def versions_here() -> dict[str, str]:
    """List the versions that results depend on: Python's, and those of some packages."""
    found = {"Python": ".".join(map(str, sys.version_info[:2]))}
    for name in _COMPARED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # run from its source tree, without being installed
            found[name] = "not installed"
    return found
