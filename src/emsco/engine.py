"""Run a function over chunks of work with shared data, independent of the domain."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, Protocol, TypeVar

from joblib import Parallel, cpu_count, delayed, effective_n_jobs, parallel_config
from threadpoolctl import ThreadpoolController, threadpool_limits

from emsco.exceptions import SearchError

Chunk = TypeVar("Chunk")
Result = TypeVar("Result")

# Seconds of work after which processes are started: to start them takes as long.
_WORTH_PROCESSES = 1.0


class Engine(Protocol):
    """Protocol of an engine, which distributes a function of one chunk and the shared data.

    The function must be pure, so that any engine, any number of workers and any order of
    completion give the same results. Use `emsco.testing.check_engine` to check that your own
    engine keeps what is promised here.
    """

    @property
    def n_workers(self) -> int:
        """How many chunks run at the same time."""

    def map(
        self,
        function: Callable[[Chunk, Any], Result],
        chunks: Sequence[Chunk],
        *,
        shared: Any = None,
    ) -> list[Result]:
        """Return `function(chunk, shared)` for every chunk, in the order of the chunks.

        An exception in the function is raised with the same type and message.
        """


class LocalEngine:
    """An engine that runs on this machine, in threads or in processes.

    Parameters
    ----------
    n_jobs : int, default=None
        The number of workers; None means 1, -1 means one per core, as in joblib.
    threads : bool, default=True
        Whether to use threads or processes. Threads share memory and suit work that releases
        Python's global lock, such as numpy and compiled kernels; processes suit everything else.
        Processes have one thread each, also if there is only one, because more of them would wait
        for each other and for whatever else runs; they are started after a second of work.

    Examples
    --------
    >>> from emsco.engine import LocalEngine
    >>> def scaled_sum(chunk, shared):
    ...     return sum(chunk) * shared
    >>> LocalEngine(n_jobs=2).map(scaled_sum, [[1, 2], [3, 4]], shared=10)
    [30, 70]
    """

    def __init__(self, n_jobs: int | None = None, *, threads: bool = True) -> None:
        self.n_jobs = n_jobs
        self.threads = threads
        self._worked = 0.0  # seconds of work that processes could have done

    @property
    def n_workers(self) -> int:
        """How many chunks run at the same time."""
        return int(effective_n_jobs(self.n_jobs))

    def map(
        self,
        function: Callable[[Chunk, Any], Result],
        chunks: Sequence[Chunk],
        *,
        shared: Any = None,
    ) -> list[Result]:
        """Return `function(chunk, shared)` for every chunk, in the order of the chunks."""
        if self.threads:
            return self._in_threads(function, chunks, shared)
        with threadpool_limits(1):
            results = self._first(function, chunks, shared)
            if len(results) == len(chunks):
                return results
            with parallel_config(backend="loky", inner_max_num_threads=1):
                others: list[Result] = Parallel(n_jobs=self.n_workers)(
                    delayed(function)(chunk, shared) for chunk in chunks[len(results) :]
                )
        return results + others

    def _in_threads(
        self, function: Callable[[Chunk, Any], Result], chunks: Sequence[Chunk], shared: Any
    ) -> list[Result]:
        if self.n_workers == 1 or len(chunks) <= 1:
            return [function(chunk, shared) for chunk in chunks]
        # Workers that start their own threads for matrix products would wait for each other.
        libraries = ThreadpoolController()
        with libraries.limit(limits=1):
            results: list[Result] = Parallel(n_jobs=self.n_workers, backend="threading")(
                delayed(_with_one_thread)(libraries, function, chunk, shared) for chunk in chunks
            )
        return results

    def _first(
        self, function: Callable[[Chunk, Any], Result], chunks: Sequence[Chunk], shared: Any
    ) -> list[Result]:
        """Run chunks in this process: all of them, or until processes are worth their start."""
        alone = self.n_workers == 1 or len(chunks) == 1
        results: list[Result] = []
        start = time.monotonic()
        for chunk in chunks:
            if not alone and self._worked + time.monotonic() - start > _WORTH_PROCESSES:
                break
            results.append(function(chunk, shared))
        self._worked += time.monotonic() - start
        return results


def _with_one_thread(
    libraries: ThreadpoolController,
    function: Callable[[Chunk, Any], Result],
    chunk: Chunk,
    shared: Any,
) -> Result:
    """Run a function in a thread that may start no others: the limit of OpenMP is each thread's."""
    with libraries.limit(limits=1, user_api="openmp"):
        return function(chunk, shared)


def resolve_engine(engine: Any, n_jobs: int | None = None, *, threads: bool = True) -> Engine:
    """Return the given engine after checking it; None means workers on this machine.

    Examples
    --------
    >>> from emsco.engine import resolve_engine
    >>> resolve_engine(None, n_jobs=2).n_workers
    2
    """
    if engine is None:
        return LocalEngine(n_jobs, threads=threads)
    name = type(engine).__name__
    for lacking in ("n_workers", "map"):
        if not hasattr(engine, lacking):
            raise SearchError(
                f"The engine {name} has no {lacking}; an Engine has `n_workers` and "
                "`map(function, chunks, *, shared=None)`."
            )
    n_workers = engine.n_workers
    if not isinstance(n_workers, Integral) or isinstance(n_workers, bool) or n_workers < 1:
        raise SearchError(
            f"`n_workers` of the engine {name} must be a whole number >= 1, got {n_workers!r}."
        )
    checked: Engine = engine
    return checked


def local_threads(engine: Engine) -> int:
    """Return how many threads of this process may work in addition to an engine.

    With a `LocalEngine`, this is its number of workers, because they were requested for this
    machine, but at most the number of cores of this process. Any other engine has its workers
    elsewhere, and they say nothing about this process: then it is the number of cores.
    """
    cores = int(cpu_count())
    return min(engine.n_workers, cores) if isinstance(engine, LocalEngine) else cores
