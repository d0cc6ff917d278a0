"""An engine gives the results of a pure function in the order of its chunks, however it runs."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import joblib
import numpy as np
import pytest

from emsco.engine import LocalEngine, local_threads, resolve_engine
from emsco.exceptions import SearchError


def slow_square(chunk, shared):
    """Finish in another order than started."""
    time.sleep(0.02 * (3 - chunk % 4))
    return chunk**2 + shared


@pytest.mark.parametrize("n_jobs", [None, 2, 3])
def test_results_come_in_the_order_of_the_chunks(n_jobs):
    engine = LocalEngine(n_jobs)
    assert engine.map(slow_square, range(8), shared=1) == [i**2 + 1 for i in range(8)]


def test_processes_give_the_same_as_threads():
    assert LocalEngine(2, threads=False).map(pow, range(8), shared=2) == [i**2 for i in range(8)]


def test_workers_are_counted_as_joblib_does():
    assert LocalEngine().n_workers == 1
    assert LocalEngine(2).n_workers == 2
    assert LocalEngine(-1).n_workers >= 1


def test_an_error_in_a_worker_reaches_the_caller():
    def fail(chunk, _):
        raise ValueError(f"chunk {chunk}")

    with pytest.raises(ValueError, match="chunk 0"):
        LocalEngine(2).map(fail, [0, 0])


def test_shared_data_is_not_copied_to_threads():
    matrix = np.zeros((10, 10))
    assert (
        LocalEngine(2).map(lambda _, shared: shared is matrix, [1, 2], shared=matrix) == [True] * 2
    )


class Elsewhere:
    """An engine of another kind, with workers that are not of this machine."""

    def __init__(self, n_workers):
        self.n_workers = n_workers

    def map(self, function, chunks, *, shared=None):
        return [function(chunk, shared) for chunk in chunks]


def test_threads_are_asked_of_this_process_and_not_of_workers_elsewhere():
    cores = joblib.cpu_count()
    assert local_threads(LocalEngine()) == 1
    assert local_threads(LocalEngine(64)) == min(64, cores)
    assert local_threads(Elsewhere(64)) == cores
    assert local_threads(Elsewhere(1)) == cores


def test_an_engine_is_taken_as_it_is_and_none_is_this_machine():
    engine = Elsewhere(3)
    assert resolve_engine(engine, n_jobs=2) is engine
    local = resolve_engine(None, 2, threads=False)
    assert (local.n_workers, local.threads) == (2, False)


@pytest.mark.parametrize("n_workers", [0, -1, 2.0, True, None, "2"])
def test_workers_that_cannot_be_counted_are_refused(n_workers):
    with pytest.raises(SearchError, match=r"`n_workers` of the engine Elsewhere must be a whole"):
        resolve_engine(Elsewhere(n_workers))


_THREADS = """
import sys, time
from sklearn.utils._openmp_helpers import _openmp_effective_n_threads
from emsco.engine import LocalEngine

def count(chunk, shared):
    time.sleep(chunk)
    return _openmp_effective_n_threads()  # as boosted trees count them

before = _openmp_effective_n_threads()
engine = LocalEngine(int(sys.argv[1]), threads=False)
counted = engine.map(count, [0.3] * 8) + engine.map(count, [0.3])
counted += LocalEngine(2).map(count, [0.1] * 3)
print(before, *counted, _openmp_effective_n_threads())
"""


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_each_worker_has_one_thread_and_afterwards_there_are_as_many_as_before(n_jobs):
    """In this process and in others, also if OMP_NUM_THREADS says otherwise."""
    environment = {**os.environ, "OMP_NUM_THREADS": "3"}
    command = [sys.executable, "-c", _THREADS, str(n_jobs)]
    shown = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    assert shown.stdout.split() == ["3", *["1"] * 12, "3"]


def process_of(_, __):
    time.sleep(0.05)
    return os.getpid()


def test_processes_are_started_only_for_work_that_takes_longer_than_their_start():
    """So two workers are never slower than one, however short the search."""
    engine, own = LocalEngine(2, threads=False), os.getpid()
    assert set(engine.map(process_of, range(4))) == {own}
    found = engine.map(process_of, range(40))
    assert found[0] == own
    assert own not in found[20:]
    assert own not in engine.map(process_of, range(4))
