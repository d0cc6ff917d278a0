"""An engine gives the results of a pure function in the order of its chunks, however it runs."""

from __future__ import annotations

import time

import numpy as np
import pytest

from emsco.engine import LocalEngine


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
